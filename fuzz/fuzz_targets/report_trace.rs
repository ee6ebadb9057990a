//! The fuzz target `report_trace`: `millstream_fuzz::report::trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::report::trace(data));
