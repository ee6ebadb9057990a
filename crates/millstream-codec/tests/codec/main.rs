//! The tests of the crate, in one program.

mod common;
mod hostile;
mod round_trip;
mod splits;
mod tools;
mod transfer;
mod units;

millstream_testing::watch!();
