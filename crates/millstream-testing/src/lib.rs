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
//! Any test waits through [`wait_for`].
//!
//! The faults are those of Linux; the waits and [`random`] are for every system.

#[cfg(target_os = "linux")]
pub mod calls;
#[cfg(target_os = "linux")]
pub mod child;
#[cfg(target_os = "linux")]
pub mod fork;
#[cfg(target_os = "linux")]
pub mod fuse;
#[cfg(target_os = "linux")]
pub mod loopdev;
#[cfg(target_os = "linux")]
pub mod rss;
#[cfg(target_os = "linux")]
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod trace;
#[cfg(target_os = "linux")]
pub mod user;

#[cfg(target_os = "linux")]
mod unavailable;
mod wait;

#[cfg(target_os = "linux")]
pub use self::{
    child::{Child, ChildOutcome},
    fork::forked,
    fuse::{Call, Effect, FaultFs, Rule},
    loopdev::{LoopDevice, LoopExt4, Tmpfs},
    rss::Resources,
    seccomp::Refusal,
    trace::without_file_calls,
    unavailable::Unavailable,
    wait::wait_for_end,
};

pub use wait::{PATIENCE, wait_at_most, wait_for};

/// Returns the generator of a test's random values: of seed 0, or of the seed in the environment
/// variable `MILLSTREAM_SEED`.
///
/// # Panics
/// If the variable is no number.
pub fn random() -> fastrand::Rng {
    let seed = match std::env::var("MILLSTREAM_SEED") {
        Ok(text) => text.parse().expect("MILLSTREAM_SEED must be a number"),
        Err(_) => 0,
    };
    fastrand::Rng::with_seed(seed)
}
