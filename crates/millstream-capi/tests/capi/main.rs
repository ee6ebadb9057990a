//! The header, the binary interface, and programs in C and C++ that use them. Those for Windows are
//! built and run by `.ci/run windows`.

#![cfg(target_os = "linux")]

mod header;
mod programs;
mod support;

millstream_testing::watch!();
