//! State shared by the owner and the helper threads (waiting operations, and completions), and the
//! helpers' loop: a helper copies while operations wait, polls a little longer, and sleeps.
//!
//! Lock order: `queue`, then that of `done` where both are needed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{CachedOptions, copy};
use crate::device::outbox::Outbox;
use crate::device::{Completion, Doorbell, Operation, OperationId};
use crate::fs::FileSystem;
use crate::limits::{
    COPY_CALL_NS, COPY_HELP_BYTES_MAX, COPY_HELP_OPERATIONS_MAX, COPY_HELP_SPIN_NS,
    COPY_HELPERS_MAX, COPY_OWN_BYTES_MAX, COPY_OWN_OPERATIONS_MAX,
};
use crate::thread::ThreadSettings;

/// The maximum that a thread takes at a time.
#[derive(Debug, Clone, Copy)]
struct Share {
    operations: usize,
    bytes: usize,
}

/// What the owner copies in one reap.
const OWN_SHARE: Share = Share {
    operations: COPY_OWN_OPERATIONS_MAX,
    bytes: COPY_OWN_BYTES_MAX,
};

/// What a helper copies before it hands over its completions.
const HELP_SHARE: Share = Share {
    operations: COPY_HELP_OPERATIONS_MAX,
    bytes: COPY_HELP_BYTES_MAX,
};

/// The waiting operations, and the state of the helpers.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Operation>,
    /// Estimated time to copy the waiting operations.
    waiting_ns: u64,
    /// Helpers that were called and have not gone back to sleep.
    active: usize,
    /// Helpers called that have not begun.
    called: usize,
    /// Per helper thread: the operations it holds.
    running: Vec<Vec<OperationId>>,
    threads: Vec<Option<JoinHandle<()>>>,
    stopping: bool,
}

/// See the module. A helper that hangs in a custom file system keeps it alive.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) bell: Doorbell,
    settings: ThreadSettings,
    helpers_max: AtomicUsize,
    queue: Mutex<Queue>,
    /// Helpers sleep here.
    idle: Condvar,
    waiting: AtomicUsize,
    pub(super) done: Outbox<Completion>,
}

impl Shared {
    pub(super) fn new(options: CachedOptions) -> Shared {
        Shared {
            fs: options.fs,
            bell: options.bell,
            settings: options.settings,
            helpers_max: AtomicUsize::new(options.threads.min(COPY_HELPERS_MAX)),
            queue: Mutex::default(),
            idle: Condvar::new(),
            waiting: AtomicUsize::new(0),
            done: Outbox::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum number of helpers: as requested, or fewer if one could not be started.
    pub(super) fn helpers_max(&self) -> usize {
        self.helpers_max.load(Ordering::Relaxed)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Called by the owner: takes all of `operations`, in order.
    pub(super) fn add(&self, operations: &mut Vec<Operation>) {
        let mut queue = self.queue();
        queue.waiting_ns += operations.iter().map(copy::cost_ns).sum::<u64>();
        queue.waiting.extend(operations.drain(..));
        self.note_waiting(&queue);
    }

    fn note_waiting(&self, queue: &Queue) {
        self.waiting.store(queue.waiting.len(), Ordering::Relaxed);
    }

    /// Called by the owner: takes its share into `into`.
    pub(super) fn take(&self, into: &mut Vec<Operation>) {
        if self.waiting() > 0 {
            let mut queue = self.queue();
            queue.take(OWN_SHARE, into);
            self.note_waiting(&queue);
        }
    }

    /// Called by the owner: takes all operations that no thread has begun.
    pub(super) fn take_all(&self) -> Vec<Operation> {
        let mut queue = self.queue();
        queue.waiting_ns = 0;
        let all = queue.waiting.drain(..).collect();
        self.note_waiting(&queue);
        all
    }

    /// Called by the owner: wakes or starts one helper if that takes less time than the copies.
    pub(super) fn call_helper(self: &Arc<Self>) {
        if self.helpers_max() == 0 || self.waiting() == 0 {
            return;
        }
        let mut queue = self.queue();
        let share_ns = queue.waiting_ns / (queue.active as u64 + 1);
        if queue.active >= self.helpers_max() || share_ns < COPY_CALL_NS {
            return;
        }
        queue.active += 1;
        queue.called += 1;
        if queue.active <= queue.threads.len() {
            drop(queue);
            self.idle.notify_one();
            return;
        }
        let number = queue.threads.len();
        queue.threads.push(None);
        queue.running.push(Vec::new());
        drop(queue);
        self.start(number);
    }

    /// Starts helper `number`. If the system refuses, the helpers that exist remain the maximum.
    fn start(self: &Arc<Self>, number: usize) {
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(format!("ms-copy-{number}"))
            .spawn(move || run(&shared, number));
        let mut queue = self.queue();
        match started {
            Ok(handle) => queue.threads[number] = Some(handle),
            Err(_) => {
                queue.not_started();
                self.helpers_max.store(number, Ordering::Relaxed);
            }
        }
    }

    /// Called by a helper: sleeps until it is called; returns false when the device ends.
    fn await_call(&self) -> bool {
        let mut queue = self.queue();
        loop {
            if queue.called > 0 {
                queue.called -= 1;
                return true;
            }
            if queue.stopping {
                return false;
            }
            queue = self
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called by helper `number`: hands over its completions and takes its next share.
    fn exchange(&self, number: usize, finished: &mut Vec<Completion>, into: &mut Vec<Operation>) {
        let any = !finished.is_empty();
        let mut queue = self.queue();
        if any && self.done.put(|done| done.append(finished)).is_none() {
            // The owner has reported these as abandoned.
            finished.clear();
        }
        queue.take(HELP_SHARE, into);
        self.note_waiting(&queue);
        let running = &mut queue.running[number];
        running.clear();
        running.extend(into.iter().map(|operation| operation.id));
        drop(queue);
        if any {
            // The owner of another device's bell checks only between sleeps: the ring must be kept.
            self.bell.ring();
        }
    }

    /// Called by a helper before it goes back to sleep.
    fn leave(&self) {
        self.queue().active -= 1;
    }

    /// Called by the owner: ends the helpers. Returns what they still hold, and how many
    /// completions were still reaped. Helpers that hold nothing are joined, others are detached.
    pub(super) fn close(&self, into: &mut Vec<Completion>) -> (Vec<OperationId>, usize) {
        let mut queue = self.queue();
        queue.stopping = true;
        let late = self.done.close(into);
        let threads = std::mem::take(&mut queue.threads);
        let busy: Vec<bool> = queue.running.iter().map(|ids| !ids.is_empty()).collect();
        let held = queue.running.iter().flatten().copied().collect();
        drop(queue);
        self.idle.notify_all();
        for (thread, busy) in threads.into_iter().zip(busy) {
            if let Some(thread) = thread.filter(|_| !busy) {
                // Nothing else would report a panic of such a thread.
                thread.join().expect("a copying thread panicked");
            }
        }
        (held, late)
    }
}

impl Queue {
    /// Undoes the last helper's call. Another may have taken the call, and is then active for it.
    fn not_started(&mut self) {
        self.threads.pop();
        self.running.pop();
        if self.called > 0 {
            self.called -= 1;
            self.active -= 1;
        }
    }

    /// Takes at most one thread's fair share, the owner and the active helpers being the threads;
    /// at least one operation, if there is any.
    fn take(&mut self, share: Share, into: &mut Vec<Operation>) {
        let fair = self.waiting.len().div_ceil(self.active + 1);
        let mut bytes = 0;
        while into.len() < fair.min(share.operations) && bytes < share.bytes {
            let Some(operation) = self.waiting.pop_front() else {
                break;
            };
            self.waiting_ns -= copy::cost_ns(&operation);
            bytes += operation.segments.bytes();
            into.push(operation);
        }
    }
}

/// Copies as helper `number` until the device ends.
fn run(shared: &Shared, number: usize) {
    shared.settings.apply(number);
    let mut taken: Vec<Operation> = Vec::with_capacity(HELP_SHARE.operations);
    let mut finished: Vec<Completion> = Vec::with_capacity(HELP_SHARE.operations);
    while shared.await_call() {
        help(shared, number, &mut taken, &mut finished);
        shared.leave();
    }
}

fn help(
    shared: &Shared,
    number: usize,
    taken: &mut Vec<Operation>,
    finished: &mut Vec<Completion>,
) {
    let spin = Duration::from_nanos(COPY_HELP_SPIN_NS);
    let mut idle_since: Option<Instant> = None;
    loop {
        if shared.waiting() > 0 || !finished.is_empty() {
            shared.exchange(number, finished, taken);
        }
        if !taken.is_empty() {
            idle_since = None;
            let fs = shared.fs.as_ref();
            finished.extend(taken.drain(..).map(|taken| copy::execute(fs, &taken)));
        } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= spin {
            return;
        } else {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_undoes_only_a_call_that_no_helper_took() {
        for taken in [false, true] {
            let mut queue = Queue {
                active: 2,
                called: usize::from(!taken),
                ..Queue::default()
            };
            queue.not_started();
            assert_eq!((queue.active, queue.called), (1 + usize::from(taken), 0));
        }
    }
}
