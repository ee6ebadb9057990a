//! The fuzz target `gdeflate_roundtrip`: `millstream_fuzz::tiles::round_trip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::tiles::round_trip(data));
