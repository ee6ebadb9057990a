//! The tests of the crate, in one program.

mod common;
mod differential;
#[cfg(feature = "engine")]
mod engine;
mod formats;
mod kernels;

millstream_testing::watch!();
