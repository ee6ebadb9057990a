//! The tests of the crate, in one program.

mod devices;
#[cfg(target_os = "linux")]
mod files;
mod memory;

millstream_testing::watch!();
