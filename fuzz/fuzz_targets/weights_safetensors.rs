//! The fuzz target `weights_safetensors`: `millstream_fuzz::weights::safetensors`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::weights::safetensors(data));
