//! Reads that are likely in the page cache, copied by several cores.
//!
//! A ring serves a buffered read whose bytes are cached inside the call that submits it: on one
//! core, the owner's. This device instead copies with reads that never wait for a disk
//! ([`FileSystem::read_cached`]): a small share in each `reap`, and the rest on helper threads
//! (a [crew](crate::crew)), which are woken if the waiting copies take longer than the wake, and
//! poll a little longer before they sleep.
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
//!
//! # Safety
//! By the contract of [`Device::push`] the memory of an operation is valid and not used otherwise
//! until its completion is reaped; each operation is executed once, before that.
#![expect(
    unsafe_code,
    reason = "copies into memory lent as raw segments; the trait's contract lends it"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, Verb, poll_until};
use crate::crew::{Crew, CrewOptions, Work};
use crate::error::{Errno, IoError, guard};
use crate::fs::FileSystem;
use crate::limits::{
    COPY_BYTES_PER_NS, COPY_CALL_COST_NS, COPY_CALL_NS, COPY_HELP_BYTES_MAX,
    COPY_HELP_OPERATIONS_MAX, COPY_HELP_SPIN_NS, COPY_HELPERS_MAX, COPY_OWN_BYTES_MAX,
    COPY_OWN_OPERATIONS_MAX, COPY_OWNER_SPIN_NS,
};
use crate::thread::ThreadSettings;

/// Options of a [`Cached`].
pub struct CachedOptions {
    /// The file system that reads the page cache.
    pub fs: Arc<dyn FileSystem>,
    /// The bell of the device that the owner sleeps in.
    pub bell: Doorbell,
    /// Maximum number of helper threads, at most
    /// [`COPY_HELPERS_MAX`]; with 0 each `reap` copies all.
    pub threads: usize,
    /// Settings of the helper threads.
    pub settings: ThreadSettings,
    /// Maximum number of operations pushed and not yet reaped, at least 1.
    pub depth: usize,
}

/// Copies that no thread has begun, in the order of their pushes.
#[derive(Default)]
struct Waiting {
    operations: VecDeque<Operation>,
    /// Estimated time to copy them.
    ns: u64,
}

impl Waiting {
    /// Takes a thread's fair share, if `threads` share in the work, and at most so many operations
    /// and bytes; at least one operation, if there is any.
    fn take(&mut self, threads: usize, most: (usize, usize), into: &mut Vec<Operation>) {
        let (operations_max, bytes_max) = most;
        let fair = self.operations.len().div_ceil(threads);
        let mut bytes = 0;
        while into.len() < fair.min(operations_max) && bytes < bytes_max {
            let Some(operation) = self.operations.pop_front() else {
                break;
            };
            self.ns -= cost_ns(&operation);
            bytes += operation.segments.bytes();
            into.push(operation);
        }
    }
}

/// What the helpers do.
struct Copies {
    fs: Arc<dyn FileSystem>,
    bell: Doorbell,
    settings: ThreadSettings,
    done: Outbox<Completion>,
}

impl Work for Copies {
    type List = Waiting;
    type Task = Operation;
    type Done = Completion;
    type Local = ();

    fn begin(&self, number: usize) {
        self.settings.apply(number);
    }

    fn waiting(list: &Waiting) -> usize {
        list.operations.len()
    }

    fn take(&self, list: &mut Waiting, awake: usize, share: &mut Vec<Operation>) {
        let most = (COPY_HELP_OPERATIONS_MAX, COPY_HELP_BYTES_MAX);
        list.take(awake + 1, most, share);
    }

    fn id(operation: &Operation) -> u64 {
        operation.id
    }

    fn run(&self, (): &mut (), share: &mut Vec<Operation>, done: &mut Vec<Completion>) {
        done.extend(share.drain(..).map(|one| execute(self.fs.as_ref(), &one)));
    }

    /// Another helper must save more time than its wake takes.
    fn wants_more(&self, list: &Waiting, awake: usize) -> bool {
        list.ns / (awake as u64 + 1) >= COPY_CALL_NS
    }

    fn publish(&self, done: &mut Vec<Completion>) {
        self.done.put(done);
    }

    fn is_ring_due(&self, _: usize, _: bool) -> bool {
        self.done.has_any()
    }

    /// The owner of another device's bell checks only between sleeps: the ring must be kept.
    fn ring(&self) {
        self.bell.ring();
    }
}

/// The device. See the module.
pub struct Cached {
    crew: Crew<Copies>,
    has_helpers: bool,
    depth: usize,
    in_flight: usize,
    /// Pushed, not yet submitted.
    pushed: Vec<Operation>,
    /// Reused by `reap`.
    share: Vec<Operation>,
}

impl Cached {
    /// Makes the device. Starts no thread yet.
    #[must_use]
    pub fn new(options: CachedOptions) -> Cached {
        let helpers = options.threads.min(COPY_HELPERS_MAX);
        let crew = CrewOptions {
            name: "ms-copy-",
            base: helpers,
            most: helpers,
            spin: Duration::from_nanos(COPY_HELP_SPIN_NS),
            ..CrewOptions::default()
        };
        let work = Copies {
            fs: options.fs,
            bell: options.bell,
            settings: options.settings,
            done: Outbox::new(0),
        };
        Cached {
            crew: Crew::new(&crew, work),
            has_helpers: helpers > 0,
            depth: options.depth.max(1),
            in_flight: 0,
            pushed: Vec::new(),
            share: Vec::new(),
        }
    }

    /// Number of submitted operations that no thread has begun. If not 0, the owner must reap.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.crew.waiting()
    }

    /// Whether helpers have completed something; checked before sleeping.
    #[must_use]
    pub fn has_done(&self) -> bool {
        self.crew.work().done.has_any()
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
        if self.pushed.is_empty() {
            return;
        }
        let pushed = &mut self.pushed;
        self.crew.add(|list| {
            list.ns += pushed.iter().map(cost_ns).sum::<u64>();
            list.operations.extend(pushed.drain(..));
        });
    }

    /// Copies a share, or everything if there are no helpers.
    fn copy_own_share(&mut self, completions: &mut Vec<Completion>) {
        while self.waiting() > 0 {
            let share = &mut self.share;
            let most = (COPY_OWN_OPERATIONS_MAX, COPY_OWN_BYTES_MAX);
            self.crew
                .with(|list, awake| list.take(awake + 1, most, share));
            let fs = self.crew.work().fs.as_ref();
            completions.extend(share.drain(..).map(|one| execute(fs, &one)));
            if self.has_helpers {
                if self.waiting() > 0 {
                    // For helpers that would not have helped before, or have gone to sleep since.
                    self.crew.add(|_| ());
                }
                return;
            }
        }
    }
}

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
        self.crew.work().done.take(completions);
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
        self.crew.work().bell.clone()
    }

    /// See [`Device::shutdown`]. Operations that no thread has begun complete with `ECANCELED`.
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        if self.crew.is_child() {
            return Abandoned::default();
        }
        let mut untouched = self.crew.with(|list, _| std::mem::take(list).operations);
        untouched.extend(self.pushed.drain(..));
        completions.extend(untouched.iter().map(Completion::canceled));
        self.in_flight -= untouched.len();
        poll_until(Some(deadline), || {
            self.in_flight -= self.crew.work().done.take(completions);
            self.in_flight == 0
        });
        let ((), operations) = self.crew.end(|_| ());
        self.in_flight -= self.crew.work().done.take(completions);
        debug_assert_eq!(self.in_flight, operations.len(), "an operation is lost");
        Abandoned { operations }
    }
}

/// Returns about how long an operation takes.
fn cost_ns(operation: &Operation) -> u64 {
    COPY_CALL_COST_NS + operation.segments.bytes() as u64 / COPY_BYTES_PER_NS
}

/// Copies the cached part of an operation's bytes. A panic of the file system is an `EIO`.
fn execute(fs: &dyn FileSystem, operation: &Operation) -> Completion {
    let copied = guard(|| copy(fs, operation)).unwrap_or(Err(Errno::IO));
    Completion::new(operation.id, copied)
}

fn copy(fs: &dyn FileSystem, operation: &Operation) -> Result<usize, Errno> {
    if operation.verb != Verb::Read {
        return Err(Errno::INVALID);
    }
    // SAFETY: the operation was pushed and has not completed.
    let segments = unsafe { operation.segments.as_slice() };
    let (mut copied, mut asked) = (0, 0);
    for segment in segments.iter().filter(|segment| !segment.is_empty()) {
        asked += segment.len();
        let at = operation.offset.saturating_add(copied as u64);
        // SAFETY: the caller of push lends these bytes (module's Safety).
        let into = unsafe { std::slice::from_raw_parts_mut(segment.pointer(), segment.len()) };
        match fs.read_cached(operation.file, at, into) {
            Some(count) => copied += count.min(segment.len()),
            None if copied == 0 => return Err(Errno::INVALID),
            None => {}
        }
        if copied < asked {
            break;
        }
    }
    Ok(copied)
}

#[cfg(test)]
mod tests;
