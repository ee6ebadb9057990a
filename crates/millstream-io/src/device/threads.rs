//! A pool of threads in blocking calls: the device where io_uring is refused, as in many
//! containers, and for mounts where a read may hang.
//!
//! A 4 KiB read that hits the page cache takes about half a microsecond, so the handover to a
//! thread and back dominates. Everything moves in arrays: `submit` adds all operations under one
//! lock and wakes at most one thread of the [crew](crate::crew); a thread takes a share, runs it
//! and publishes its completions; `reap` takes all of them.
//!
//! # Safety
//! By the contract of [`Device::push`] memory and segment lists are valid and not used otherwise
//! until the completion is reaped, and the completion is published after the call has returned.
#![expect(
    unsafe_code,
    reason = "reads and writes memory lent as raw segments; the trait's contract lends it"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{
    Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, poll_until, reap_until, system,
};
use crate::crew::{Crew, CrewOptions, Work};
use crate::error::{Errno, IoError};
use crate::limits::{
    IO_THREADS_DEFAULT, THREADS_BATCH_BYTES_MAX, THREADS_BATCH_MAX, THREADS_FAST_NS,
    THREADS_HOLD_NS_MAX, THREADS_HOLD_RATIO, THREADS_HOLD_RATIO_FAST, THREADS_MAX,
};
use crate::thread::available_cores;

/// Options of a [`Threads`].
#[derive(Debug, Clone)]
pub struct ThreadsOptions {
    /// Maximum number of threads, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Maximum number of operations pushed and not yet reaped, at least 1.
    pub depth: usize,
    /// The bell of another device: for a pool beside it, whose owner sleeps in that device and
    /// reaps both. (`wait` of the pool itself then polls.)
    pub doorbell: Option<Doorbell>,
    /// A thread takes one operation at a time: for a mount where each may hang, which must not
    /// delay the operations behind it.
    pub single: bool,
}

impl Default for ThreadsOptions {
    fn default() -> ThreadsOptions {
        ThreadsOptions {
            threads: IO_THREADS_DEFAULT,
            depth: 128,
            doorbell: None,
            single: false,
        }
    }
}

/// Operations that wait for a thread, in the order of their pushes.
#[derive(Default)]
struct Waiting {
    operations: VecDeque<Operation>,
    /// None was taken since operations were last added.
    is_untouched: bool,
    /// As before, when these were added: the threads are blocked, fast or not.
    are_stuck: bool,
}

/// What the threads do.
struct Transfers {
    done: Outbox<Completion>,
    bell: Doorbell,
    /// The bell belongs to this pool.
    own_bell: bool,
    single: bool,
    cores: usize,
    /// The last share did not wait for a disk.
    is_fast: AtomicBool,
}

impl Transfers {
    fn is_fast(&self) -> bool {
        self.is_fast.load(Ordering::Relaxed)
    }
}

impl Work for Transfers {
    type List = Waiting;
    type Task = Operation;
    type Done = Completion;
    type Local = ();

    fn begin(&self, _: usize) {}

    fn waiting(list: &Waiting) -> usize {
        list.operations.len()
    }

    /// Several operations while they are fast, else one.
    fn take(&self, list: &mut Waiting, _: usize, share: &mut Vec<Operation>) {
        let fair = list.operations.len().div_ceil(self.cores);
        let count = if self.is_fast() { fair } else { 1 };
        let mut bytes = 0;
        while share.len() < count.min(THREADS_BATCH_MAX) && bytes < THREADS_BATCH_BYTES_MAX {
            let Some(operation) = list.operations.pop_front() else {
                break;
            };
            bytes += operation.segments.bytes();
            share.push(operation);
        }
        (list.is_untouched, list.are_stuck) = (false, false);
    }

    fn id(operation: &Operation) -> u64 {
        operation.id
    }

    fn run(&self, (): &mut (), share: &mut Vec<Operation>, done: &mut Vec<Completion>) {
        let (count, began) = (share.len() as u32, Instant::now());
        // The owner retries an interrupted call, as with any device.
        done.extend(share.drain(..).map(|operation| {
            // SAFETY: pushed and not yet completed (module's Safety).
            let moved = unsafe { system::transfer(&operation) };
            Completion::new(operation.id, moved)
        }));
        let is_fast = began.elapsed() < Duration::from_nanos(THREADS_FAST_NS) * count;
        self.is_fast
            .store(is_fast && !self.single, Ordering::Relaxed);
    }

    /// Fast operations use only the processor, so for them no more threads than cores help.
    fn wants_more(&self, list: &Waiting, awake: usize) -> bool {
        list.are_stuck || !self.is_fast() || awake < self.cores
    }

    fn publish(&self, done: &mut Vec<Completion>) {
        self.done.put(done);
    }

    fn is_ring_due(&self, waiting: usize, _: bool) -> bool {
        let ratio = match self.is_fast() {
            true => THREADS_HOLD_RATIO_FAST,
            false => THREADS_HOLD_RATIO,
        };
        let done = self.done.count();
        done > 0 && (!self.own_bell || done * ratio >= waiting)
    }

    /// The owner of another device's bell does not check this pool after arming, so the ring must
    /// be remembered.
    fn ring(&self) {
        match self.own_bell {
            true => self.bell.wake_if_sleeping(),
            false => self.bell.ring(),
        }
    }
}

/// A [`Device`] over threads that make blocking calls.
///
/// - While operations are fast (page-cache hits), a thread takes several at a time, and no more
///   threads than cores are awake. When operations block, a thread takes one at a time and wakes
///   the next, until all are in the disk's queue.
/// - Completions are held back while [`THREADS_HOLD_RATIO`] times as many operations wait for a
///   thread, so that the owner wakes for several at once. This adds at most one part in that many
///   to an operation's time in the queue. (Direct 4 KiB reads at depth 128: a wake for each
///   completion cost half as much CPU as the reads.) With another device's bell nothing is held.
///
/// `submit` and `wait` never fail.
///
/// # Fork
/// Threads do not exist in a forked child. The child may only drop or shut down the device, which
/// does nothing there; what was in flight never completes there.
pub struct Threads {
    crew: Crew<Transfers>,
    depth: usize,
    in_flight: usize,
    /// Pushed, not yet submitted.
    pushed: Vec<Operation>,
}

impl Threads {
    /// Makes the device and starts its first thread.
    ///
    /// # Errors
    /// No thread at all can be started.
    pub fn new(options: ThreadsOptions) -> Result<Threads, IoError> {
        let threads = options.threads.clamp(1, THREADS_MAX);
        let depth = options.depth.max(1);
        let crew = CrewOptions {
            name: "ms-io-",
            base: threads,
            most: threads,
            ..CrewOptions::default()
        };
        let work = Transfers {
            done: Outbox::new(depth),
            own_bell: options.doorbell.is_none(),
            bell: options.doorbell.unwrap_or_else(Doorbell::condvar),
            single: options.single,
            cores: available_cores(),
            is_fast: AtomicBool::new(false),
        };
        let device = Threads {
            crew: Crew::new(&crew, work),
            depth,
            in_flight: 0,
            pushed: Vec::with_capacity(depth),
        };
        device.crew.start().map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::AGAIN, Errno);
            let cause = "no thread can be started (RLIMIT_NPROC, or the pids limit of a cgroup)";
            IoError::because("start an I/O thread", errno, cause)
        })?;
        Ok(device)
    }

    /// Returns the number of threads started so far.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.crew.threads()
    }

    /// Whether completions can be reaped.
    pub(super) fn has_done(&self) -> bool {
        self.crew.work().done.has_any()
    }

    fn start_pushed(&mut self) {
        if self.pushed.is_empty() {
            return;
        }
        let pushed = &mut self.pushed;
        self.crew.add(|list| {
            list.operations.extend(pushed.drain(..));
            list.are_stuck = std::mem::replace(&mut list.is_untouched, true);
        });
    }

    fn sleep_until_done(&self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool) {
        if self.has_done() || timeout == Some(Duration::ZERO) {
            return;
        }
        let work = self.crew.work();
        if !work.own_bell {
            // Arming another device's bell would swallow a ring meant for its owner.
            let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            return poll_until(until, || self.has_done() || awake());
        }
        if !work.bell.arm() {
            return;
        }
        if !self.has_done() && !awake() {
            self.sleep(timeout);
        }
        work.bell.disarm();
    }

    /// Sleeps with the bell armed. Threads may hold completions back and then all block, so the
    /// owner checks every [`THREADS_HOLD_NS_MAX`].
    fn sleep(&self, timeout: Option<Duration>) {
        let bell = &self.crew.work().bell;
        if self.in_flight <= THREADS_HOLD_RATIO_FAST {
            bell.sleep(timeout);
            return;
        }
        let look = Duration::from_nanos(THREADS_HOLD_NS_MAX);
        let mut left = timeout.unwrap_or(Duration::MAX);
        while !left.is_zero() && !bell.is_rung() && !self.has_done() {
            bell.sleep(Some(left.min(look)));
            left = left.saturating_sub(look);
        }
    }
}

impl Device for Threads {
    pushes!(DeviceKind::Threads, pushed);

    fn submit(&mut self) -> Result<(), IoError> {
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let count = self.crew.work().done.take(completions);
        self.in_flight -= count;
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.start_pushed();
        self.sleep_until_done(timeout, awake);
        Ok(())
    }

    fn doorbell(&self) -> Doorbell {
        self.crew.work().bell.clone()
    }

    /// See [`Device::shutdown`]. Operations that no thread has begun by the deadline complete with
    /// `ECANCELED`. A hung thread is detached and its operations are reported; it ends by itself if
    /// its call ever returns.
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        if self.crew.is_child() {
            return Abandoned::default();
        }
        self.in_flight -= self.pushed.len();
        completions.extend(self.pushed.drain(..).map(|one| Completion::canceled(&one)));
        self.crew.stop();
        reap_until(self.as_mut(), deadline, completions);
        let (untouched, operations) = self.crew.end(|list| std::mem::take(&mut list.operations));
        completions.extend(untouched.iter().map(Completion::canceled));
        self.in_flight -= untouched.len();
        self.reap(completions);
        debug_assert_eq!(self.in_flight, operations.len(), "an operation is lost");
        Abandoned { operations }
    }
}
