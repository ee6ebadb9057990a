//! The fuzz target `gdeflate_decode`: `millstream_fuzz::tiles::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::tiles::decode(data));
