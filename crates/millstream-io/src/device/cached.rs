//! Reads that are likely in the page cache, copied by several cores.
//!
//! A ring serves a buffered read whose bytes are cached inside the call that submits it: on one
//! core, the owner's. This device instead copies with reads that never wait for a disk
//! ([`FileSystem::read_cached`]): a small share in each `reap`, and the rest on helper threads,
//! which are woken if the waiting copies take longer than the wake.
//!
//! Differences from other devices:
//! - A result is the number of bytes that were in the cache. Short or 0 does *not* mean the end of
//!   the file: the owner reads the rest through another device. `EINVAL`: the file system cannot
//!   read without waiting.
//! - Submitted operations are not with the system, so the owner must not sleep while
//!   [`Cached::waiting`] is not 0; it reaps. Completions of helpers ring the owner's bell.
//! - Operations are begun in the order of their pushes.
//!
//! Invariant: a copy waits for no disk and a share is bounded, so everything begun ends soon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, poll_until};
use crate::error::IoError;
use crate::fork::ForkGuard;
use crate::fs::FileSystem;
use crate::limits::COPY_OWNER_SPIN_NS;
use crate::thread::ThreadSettings;
use shared::Shared;

mod copy;
mod shared;

/// Options of a [`Cached`].
pub struct CachedOptions {
    /// The file system that reads the page cache.
    pub fs: Arc<dyn FileSystem>,
    /// The bell of the device that the owner sleeps in.
    pub bell: Doorbell,
    /// Maximum number of helper threads, at most
    /// [`COPY_HELPERS_MAX`](crate::limits::COPY_HELPERS_MAX); with 0 each `reap` copies all.
    pub threads: usize,
    /// Settings of the helper threads.
    pub settings: ThreadSettings,
    /// Maximum number of operations pushed and not yet reaped, at least 1.
    pub depth: usize,
}

/// The device. See the module.
pub struct Cached {
    shared: Arc<Shared>,
    depth: usize,
    in_flight: usize,
    /// Pushed, not yet submitted.
    pushed: Vec<Operation>,
    /// Reused by `reap`.
    share: Vec<Operation>,
    guard: ForkGuard,
}

impl Cached {
    /// Makes the device. Starts no thread yet.
    #[must_use]
    pub fn new(options: CachedOptions) -> Cached {
        let depth = options.depth.max(1);
        Cached {
            shared: Arc::new(Shared::new(options)),
            depth,
            in_flight: 0,
            pushed: Vec::new(),
            share: Vec::new(),
            guard: ForkGuard::new(),
        }
    }

    /// Number of submitted operations that no thread has begun. If not 0, the owner must reap.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }

    /// Whether helpers have completed something; checked before sleeping.
    #[must_use]
    pub fn has_done(&self) -> bool {
        self.shared.done.has_any()
    }

    /// Polls for a few microseconds until helper threads complete something or `awake` returns
    /// true; returns whether either happened. An owner that has nothing but copies in flight calls
    /// this before it sleeps, because being woken takes longer. Returns false at once if nothing is
    /// in flight.
    pub fn spin(&self, awake: &mut dyn FnMut() -> bool) -> bool {
        if self.in_flight == 0 {
            return false;
        }
        let started = Instant::now();
        let most = Duration::from_nanos(COPY_OWNER_SPIN_NS);
        loop {
            if self.waiting() > 0 || self.has_done() || awake() {
                return true;
            }
            if started.elapsed() >= most {
                return false;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    fn start_pushed(&mut self) {
        if !self.pushed.is_empty() {
            self.shared.add(&mut self.pushed);
            self.shared.call_helper();
        }
    }

    /// Copies a share, or everything if there are no helpers.
    fn copy_own_share(&mut self, completions: &mut Vec<Completion>) {
        loop {
            self.shared.take(&mut self.share);
            if self.share.is_empty() {
                return;
            }
            let fs = self.shared.fs.as_ref();
            completions.extend(self.share.drain(..).map(|taken| copy::execute(fs, &taken)));
            if self.shared.helpers_max() > 0 {
                self.shared.call_helper();
                return;
            }
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the trait's contract: the caller lends the memory"
)]
impl Device for Cached {
    pushes!(DeviceKind::Cached, pushed);

    fn submit(&mut self) -> Result<(), IoError> {
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        if self.in_flight == self.pushed.len() {
            return 0;
        }
        let before = completions.len();
        self.copy_own_share(completions);
        self.shared.done.take(completions);
        let count = completions.len() - before;
        self.in_flight -= count;
        count
    }

    /// See [`Device::wait`]. Correct, but not meant for sleeping: it polls.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.start_pushed();
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        poll_until(until, || self.waiting() > 0 || self.has_done() || awake());
        Ok(())
    }

    fn doorbell(&self) -> Doorbell {
        self.shared.bell.clone()
    }

    /// See [`Device::shutdown`]. Operations that no thread has begun complete with `ECANCELED`.
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        if self.guard.is_child() {
            return Abandoned::default();
        }
        let mut untouched = self.shared.take_all();
        untouched.append(&mut self.pushed);
        let before = completions.len();
        completions.extend(untouched.iter().map(Completion::canceled));
        self.in_flight -= completions.len() - before;
        poll_until(Some(deadline), || {
            self.in_flight -= self.shared.done.take(completions);
            self.in_flight == 0
        });
        let (operations, late) = self.shared.close(completions);
        self.in_flight -= late;
        debug_assert_eq!(self.in_flight, operations.len(), "an operation is lost");
        self.in_flight = 0;
        Abandoned { operations }
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        // In a forked child the helpers do not exist, and one of them may hold a lock.
        if !self.guard.is_child() {
            drop(self.shared.take_all());
            self.shared.close(&mut Vec::new());
        }
    }
}

#[cfg(test)]
mod tests;
