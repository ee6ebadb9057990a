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
//! A test waits through [`wait_for`], and its program is aborted if it hangs ([`watch!`]).
//!
//! The faults are those of Linux; the waits and [`random`] are for every system.

use std::sync::atomic::{AtomicU64, Ordering};

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
pub mod watchdog;

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

/// Aborts the test program, with the stacks of all its threads, if no test ends for 120 s, or for
/// `MILLSTREAM_HANG_SECONDS`. Belongs at the root of every test program. Does nothing on systems
/// other than Linux.
#[macro_export]
macro_rules! watch {
    () => {
        #[cfg(target_os = "linux")]
        const _: () = {
            // SAFETY: functions of this section are called before `main`; this one needs nothing
            // that the start of `main` sets up.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static START: extern "C" fn() = $crate::watchdog::start;
        };
    };
}

/// Calls of [`alive`].
static ALIVE: AtomicU64 = AtomicU64::new(0);

/// Counts as the end of a test for [`watch!`]: for the rounds of a test whose number is a setting.
pub fn alive() {
    ALIVE.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod watched {
    #![expect(unsafe_code, reason = "a function that the loader calls")]
    crate::watch!();
}
