//! The fuzz target `package_read`: `millstream_fuzz::package::read`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::package::read(data));
