//! The tests of the crate, in one program; `tidy` is another, as it needs nothing of the crate.

#![cfg(target_os = "linux")]

mod calls;
mod fuse;
mod loopdev;
mod process;
mod watchdog;

millstream_testing::watch!();
