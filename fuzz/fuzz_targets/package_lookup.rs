//! The fuzz target `package_lookup`: `millstream_fuzz::package::look_up`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::package::look_up(data));
