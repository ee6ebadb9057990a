#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::package::verify(data));
