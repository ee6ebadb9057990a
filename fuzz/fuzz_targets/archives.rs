//! The fuzz target `archives`: `millstream_fuzz::zips::read`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::zips::read(data));
