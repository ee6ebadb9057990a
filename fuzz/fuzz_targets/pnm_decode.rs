//! The fuzz target `pnm_decode`: `millstream_fuzz::pnm::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::pnm::decode(data));
