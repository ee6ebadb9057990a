//! Reading hostile packages: entries that are given have the length that the package says.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "each target uses one function of it")]
mod package;

fuzz_target!(|data: &[u8]| package::read(data));
