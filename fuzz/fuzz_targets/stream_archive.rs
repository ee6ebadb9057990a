//! The fuzz target `stream_archive`: `millstream_fuzz::archive::read`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::archive::read(data));
