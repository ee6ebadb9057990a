//! Opening hostile packages, and verifying those that open.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "each target uses one function of it")]
mod package;

fuzz_target!(|data: &[u8]| package::verify(data));
