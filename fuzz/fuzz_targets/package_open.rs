//! The fuzz target `package_open`: `millstream_fuzz::package::verify`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::package::verify(data));
