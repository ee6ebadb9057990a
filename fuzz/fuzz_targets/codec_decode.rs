//! The fuzz target `codec_decode`: `millstream_fuzz::codec::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::codec::decode(data));
