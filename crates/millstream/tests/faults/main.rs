//! Real faults and bad input: every request ends exactly once with the right outcome, over both
//! backends, nothing leaks and no thread stays.
//!
//! The faults are made by the kernel: file systems that fail, disks that are full or cut, limits
//! and filters on the process. Each test runs over each backend in a child of its own, which must
//! hold what it held before when the storage is gone.

#![cfg(target_os = "linux")]

mod caller;
mod close;
mod limits;
mod read;
mod rig;
mod write;
