//! The fuzz target `weights_checksums`: `millstream_fuzz::weights::checksums`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::weights::checksums(data));
