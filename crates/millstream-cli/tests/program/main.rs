//! The tests of the program, of Unix.

#![cfg(unix)]

mod archives;
#[cfg(target_os = "linux")]
mod bounds;
mod codecs;
mod common;
mod decode;
#[cfg(target_os = "linux")]
mod disks;
mod faults;
mod info;
mod load;
mod outputs;
mod packages;
mod progress;
mod report;
mod scene;
mod weights;
mod windows;
mod words;
#[cfg(target_os = "linux")]
mod writes;
#[path = "../../../millstream-pak/tests/pak/support/zip.rs"]
mod zip;

millstream_testing::watch!();
