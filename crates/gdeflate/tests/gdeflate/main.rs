//! The tests of the crate, in one program.

mod hostile;
mod roundtrip;
mod support;
mod vectors;

millstream_testing::watch!();
