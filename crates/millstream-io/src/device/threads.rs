//! A pool of threads in blocking calls: the device where io_uring is refused, as in many
//! containers, and for mounts where a read may hang.
//!
//! A 4 KiB read that hits the page cache takes about half a microsecond, so the handover to a
//! thread and back dominates. Everything moves in arrays: `submit` adds all operations under one
//! lock and wakes at most one thread; a thread takes a batch (`threads/queue.rs`), runs it
//! (`threads/worker.rs`) and publishes its completions under a second lock; `reap` takes the whole
//! array. A thread that leaves work behind wakes the next, so only as many threads run as are
//! useful. Threads are started when there is work for them, and stay.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{
    Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, OperationId, poll_until,
    reap_until,
};
use crate::error::{Errno, IoError};
use crate::fork::ForkGuard;
use crate::limits::{
    IO_THREADS_DEFAULT, THREADS_HOLD_NS_MAX, THREADS_HOLD_RATIO_FAST, THREADS_MAX,
};

mod queue;
mod worker;

use queue::Queue;

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

/// State shared by the owner and the threads. A hung thread keeps it alive.
struct Shared {
    queue: Mutex<Queue>,
    /// Idle threads sleep here.
    idle: Condvar,
    done: Outbox<Completion>,
    /// Per thread: number of batches it has published. Written under the lock of `done`.
    published: Vec<AtomicU64>,
    bell: Doorbell,
    /// The bell belongs to this pool.
    own_bell: bool,
    single: bool,
}

impl Shared {
    /// Wakes the owner to reap. The owner of another device's bell does not check this pool after
    /// arming, so the ring must be remembered.
    fn wake_owner(&self) {
        if self.own_bell {
            self.bell.wake_if_sleeping();
        } else {
            self.bell.ring();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns, per thread, whether it holds a batch that it has not published.
    fn busy(&self, queue: &Queue) -> Vec<bool> {
        let threads = queue.running.iter().zip(&self.published);
        threads
            .map(|(running, published)| running.batch > published.load(Ordering::SeqCst))
            .collect()
    }
}

/// A [`Device`] over threads that make blocking calls.
///
/// - While operations are fast (page-cache hits), a thread takes several at a time, and no more
///   threads than cores are awake. When operations block, a thread takes one at a time and wakes
///   the next, until all are in the disk's queue.
/// - Completions are held back while
///   [`THREADS_HOLD_RATIO`](crate::limits::THREADS_HOLD_RATIO) times as many operations wait for a
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
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    depth: usize,
    in_flight: usize,
    /// Pushed, not yet submitted.
    pushed: Vec<Operation>,
    guard: ForkGuard,
}

impl Threads {
    /// Makes the device and starts its first thread.
    ///
    /// # Errors
    /// No thread at all can be started.
    pub fn new(options: ThreadsOptions) -> Result<Threads, IoError> {
        let threads_max = options.threads.clamp(1, THREADS_MAX);
        let depth = options.depth.max(1);
        let mut device = Threads {
            shared: Arc::new(Shared {
                queue: Mutex::new(Queue::new(threads_max, depth)),
                idle: Condvar::new(),
                done: Outbox::new(depth),
                published: (0..threads_max).map(|_| AtomicU64::new(0)).collect(),
                own_bell: options.doorbell.is_none(),
                single: options.single,
                bell: options.doorbell.unwrap_or_else(Doorbell::condvar),
            }),
            handles: Vec::new(),
            depth,
            in_flight: 0,
            pushed: Vec::with_capacity(depth),
            guard: ForkGuard::new(),
        };
        device.start_thread().map_err(|errno| {
            let cause = "no thread can be started (RLIMIT_NPROC, or the pids limit of a cgroup)";
            IoError::because("start an I/O thread", errno, cause)
        })?;
        Ok(device)
    }

    /// Returns the number of threads started so far.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.handles.len()
    }

    /// Whether completions can be reaped.
    #[cfg(windows)]
    pub(super) fn has_done(&self) -> bool {
        self.shared.done.has_any()
    }

    fn start_thread(&mut self) -> Result<(), Errno> {
        let number = self.handles.len();
        let shared = Arc::clone(&self.shared);
        self.shared.queue().thread_starts();
        let started = std::thread::Builder::new()
            .name(format!("ms-io-{number}"))
            .spawn(move || worker::run(&shared, number));
        match started {
            Ok(handle) => {
                self.handles.push(handle);
                Ok(())
            }
            Err(error) => {
                self.shared.queue().thread_did_not_start();
                Err(error.raw_os_error().map_or(Errno::AGAIN, Errno))
            }
        }
    }

    /// Hands what was pushed to the threads, and starts more of them. Failing to start one is not
    /// an error: at least one runs.
    fn start_pushed(&mut self) {
        if self.pushed.is_empty() {
            return;
        }
        let (wake, start) = self.shared.queue().add(&mut self.pushed);
        if wake {
            self.shared.idle.notify_one();
        }
        for _ in 0..start {
            if self.start_thread().is_err() {
                return;
            }
        }
    }

    fn sleep_until_done(&self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool) {
        let shared = &self.shared;
        if shared.done.has_any() || timeout == Some(Duration::ZERO) {
            return;
        }
        if !shared.own_bell {
            // Arming another device's bell would swallow a ring meant for its owner.
            let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            return poll_until(until, || shared.done.has_any() || awake());
        }
        if !shared.bell.arm() {
            return;
        }
        if !shared.done.has_any() && !awake() {
            self.sleep(timeout);
        }
        shared.bell.disarm();
    }

    /// Sleeps with the bell armed. Threads may hold completions back and then all block, so the
    /// owner checks every [`THREADS_HOLD_NS_MAX`].
    fn sleep(&self, timeout: Option<Duration>) {
        let bell = &self.shared.bell;
        if self.in_flight <= THREADS_HOLD_RATIO_FAST {
            bell.sleep(timeout);
            return;
        }
        let look = Duration::from_nanos(THREADS_HOLD_NS_MAX);
        let mut left = timeout.unwrap_or(Duration::MAX);
        while !left.is_zero() && !bell.is_rung() && !self.shared.done.has_any() {
            bell.sleep(Some(left.min(look)));
            left = left.saturating_sub(look);
        }
    }

    /// Reaps for the last time: a thread drops what it completes after this.
    fn collect_abandoned(&mut self, completions: &mut Vec<Completion>) -> Abandoned {
        let queue = self.shared.queue();
        self.in_flight -= self.shared.done.close(completions);
        let busy = self.shared.busy(&queue);
        let operations: Vec<OperationId> = queue
            .running
            .iter()
            .zip(busy)
            .filter(|(_, busy)| *busy)
            .flat_map(|(running, _)| running.ids.iter().copied())
            .collect();
        debug_assert_eq!(
            self.in_flight,
            operations.len(),
            "every operation is accounted for"
        );
        self.in_flight = operations.len();
        Abandoned { operations }
    }

    /// Joins the threads that hold nothing, which end at once, or `all`; the others are detached.
    fn join_all(&mut self, all: bool) {
        let busy = self.shared.busy(&self.shared.queue());
        for (handle, busy) in self.handles.drain(..).zip(busy) {
            if all || !busy {
                // Nothing else would report a panic of such a thread.
                handle.join().expect("an I/O thread panicked");
            }
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the trait's contract: the caller lends the memory"
)]
impl Device for Threads {
    pushes!(DeviceKind::Threads, pushed);

    fn submit(&mut self) -> Result<(), IoError> {
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let count = self.shared.done.take(completions);
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
        self.shared.bell.clone()
    }

    /// See [`Device::shutdown`]. Operations that no thread has begun by the deadline complete with
    /// `ECANCELED`. A hung thread is detached and its operations are reported; it ends by itself if
    /// its call ever returns.
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        if self.guard.is_child() {
            return Abandoned::default();
        }
        self.in_flight -= self.pushed.len();
        completions.extend(self.pushed.drain(..).map(|one| Completion::canceled(&one)));
        self.shared.queue().stopping = true;
        self.shared.idle.notify_all();
        reap_until(self.as_mut(), deadline, completions);
        let untouched = {
            let mut queue = self.shared.queue();
            queue.ended = true;
            queue.take_all()
        };
        self.shared.idle.notify_all();
        self.in_flight -= untouched.len();
        completions.extend(untouched.iter().map(Completion::canceled));
        let abandoned = self.collect_abandoned(completions);
        self.join_all(abandoned.operations.is_empty());
        abandoned
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if self.guard.is_child() {
            // A forked child: a thread of the parent may hold any of the locks.
            self.handles.drain(..).for_each(std::mem::forget);
            return;
        }
        // After a shutdown there are no handles. Otherwise, do not wait: what has not begun is
        // dropped, and a thread in an operation ends after it. The memory is lent until the
        // completion, so an owner that drops without a shutdown must keep it.
        if !self.handles.is_empty() {
            self.pushed.clear();
            {
                let mut queue = self.shared.queue();
                queue.stopping = true;
                queue.ended = true;
            }
            self.shared.done.close(&mut Vec::new());
            self.shared.idle.notify_all();
        }
    }
}
