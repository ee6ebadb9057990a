//! Lookups in hostile packages: by name, by hash, of everything.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "each target uses one function of it")]
mod package;

fuzz_target!(|data: &[u8]| package::look_up(data));
