//! Real faults for the tests of Millstream: nothing here is a mock.
//!
//! A read fails because a file system fails it ([`fuse`]), a disk is full because it is small
//! ([`loopdev`]), io_uring is refused by a seccomp filter ([`seccomp`]), the process becomes an
//! ordinary user's ([`user`]), a tracer kills a program between two of its system calls
//! ([`calls`]). Each part needs something (root, `/dev/fuse`, `mkfs.ext4`); if that is missing it
//! returns [`Unavailable`] and the test prints `SKIP: reason` through [`or_skip!`].
//!
//! What must not happen to the test process itself (a filter, another user, a low limit) happens in
//! a [`child`]: the same test, run again in a separate process.
//!
//! Linux only; on other systems the crate is empty.

#![cfg(target_os = "linux")]

pub mod calls;
pub mod canary;
pub mod child;
pub mod fork;
pub mod fuse;
pub mod loopdev;
pub mod power;
pub mod rss;
pub mod seccomp;
pub mod trace;
pub mod user;

mod unavailable;

pub use canary::Canary;
pub use child::{Child, ChildOutcome};
pub use fork::forked;
pub use fuse::{Call, Effect, FaultFs, Rule};
pub use loopdev::{LoopDevice, LoopExt4, Tmpfs};
pub use rss::Resources;
pub use seccomp::Refusal;
pub use trace::without_file_calls;
pub use unavailable::Unavailable;
