//! The fuzz target `weights_gguf`: `millstream_fuzz::weights::gguf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::weights::gguf(data));
