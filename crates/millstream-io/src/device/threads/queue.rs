//! Operations that wait for a thread: plain data under one lock; no I/O, no waiting.
//!
//! Local operations are one queue in order of arrival. Each slow mount has a queue of its own and
//! a count of the threads in it; an empty mount without threads is removed, so the list is no
//! longer than the operations in flight.

use std::collections::VecDeque;

use crate::device::{Operation, OperationId};
use crate::limits::{
    SLOW_MOUNT_THREADS_MAX, SLOW_THREADS_MAX, THREADS_BATCH_BYTES_MAX, THREADS_BATCH_MAX,
    THREADS_HOLD_RATIO, THREADS_HOLD_RATIO_FAST,
};
use crate::thread::available_cores;

/// Which operations a thread takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Those without a mount number.
    Local,
    /// Those on slow mounts.
    Slow,
}

/// Threads of one group.
#[derive(Default)]
struct Crew {
    started: usize,
    started_max: usize,
    sleeping: usize,
    /// Threads woken or started that have not locked the queue yet, but will.
    coming: usize,
}

/// What one thread holds: still held while `batch` is above the thread's published batches.
#[derive(Default)]
pub(super) struct Running {
    pub(super) batch: u64,
    pub(super) ids: Vec<OperationId>,
}

struct Mount {
    number: u64,
    waiting: VecDeque<Operation>,
    threads: usize,
}

/// What to do outside the lock after operations were added.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// Wake a thread for local operations.
    pub(super) local: bool,
    /// Threads to wake for slow mounts.
    pub(super) slow: usize,
    /// Threads to start.
    pub(super) start_local: usize,
    /// Threads to start.
    pub(super) start_slow: usize,
}

/// The queue and the state of its threads. See the module.
pub(super) struct Queue {
    local: VecDeque<Operation>,
    mounts: Vec<Mount>,
    /// Where the search for a mount begins: mounts are served round-robin.
    mount_next: usize,
    local_crew: Crew,
    slow_crew: Crew,
    cores: usize,
    /// The last batch of local operations did not wait for a disk.
    pub(super) fast: bool,
    /// Batches taken, now and when operations were last added.
    takes: u64,
    takes_seen: u64,
    pub(super) running: Vec<Running>,
    /// Nothing will be added; a thread that finds nothing to do ends.
    pub(super) stopping: bool,
    /// A thread takes nothing more.
    pub(super) ended: bool,
}

impl Queue {
    pub(super) fn new(threads_max: usize, depth: usize) -> Queue {
        let crew = |started_max| Crew {
            started_max,
            ..Crew::default()
        };
        let mut running = Vec::new();
        running.resize_with(threads_max + SLOW_THREADS_MAX, || Running {
            batch: 0,
            ids: Vec::with_capacity(THREADS_BATCH_MAX),
        });
        Queue {
            local: VecDeque::with_capacity(depth),
            mounts: Vec::new(),
            mount_next: 0,
            local_crew: crew(threads_max),
            slow_crew: crew(SLOW_THREADS_MAX),
            cores: available_cores(),
            fast: false,
            takes: 0,
            takes_seen: 0,
            running,
            stopping: false,
            ended: false,
        }
    }

    /// Takes all of `operations`, in order.
    pub(super) fn add(&mut self, operations: &mut Vec<Operation>) -> Wake {
        for operation in operations.drain(..) {
            if operation.mount == 0 {
                self.local.push_back(operation);
            } else {
                self.mount(operation.mount).waiting.push_back(operation);
            }
        }
        let mut wake = Wake::default();
        if !self.local.is_empty() {
            // If nothing was taken since the last call the threads are blocked, fast or not.
            let stuck = self.takes == self.takes_seen;
            self.takes_seen = self.takes;
            if stuck || self.more_threads_help() {
                wake.local = self.wake_next(Group::Local);
                wake.start_local = self.local_crew.to_start(self.local.len());
            }
        }
        if !self.mounts.is_empty() {
            let runnable = self.slow_runnable();
            let missing = runnable.saturating_sub(self.slow_crew.coming);
            wake.slow = missing.min(self.slow_crew.sleeping);
            self.slow_crew.sleeping -= wake.slow;
            self.slow_crew.coming += wake.slow;
            wake.start_slow = self.slow_crew.to_start(runnable);
        }
        wake
    }

    fn mount(&mut self, number: u64) -> &mut Mount {
        let at = self.mounts.iter().position(|mount| mount.number == number);
        let at = at.unwrap_or_else(|| {
            self.mounts.push(Mount {
                number,
                waiting: VecDeque::new(),
                threads: 0,
            });
            self.mounts.len() - 1
        });
        &mut self.mounts[at]
    }

    /// Operations on slow mounts that could begin now.
    fn slow_runnable(&self) -> usize {
        let free = |mount: &Mount| SLOW_MOUNT_THREADS_MAX - mount.threads;
        self.mounts
            .iter()
            .map(|mount| free(mount).min(mount.waiting.len()))
            .sum()
    }

    /// Whether one more thread of the group is to be woken; if so it counts as coming.
    fn wake_next(&mut self, group: Group) -> bool {
        let crew = self.crew(group);
        let wake = crew.sleeping > 0 && crew.coming == 0;
        if wake {
            crew.sleeping -= 1;
            crew.coming += 1;
        }
        wake
    }

    fn crew(&mut self, group: Group) -> &mut Crew {
        match group {
            Group::Local => &mut self.local_crew,
            Group::Slow => &mut self.slow_crew,
        }
    }

    pub(super) fn thread_starts(&mut self, group: Group) {
        let crew = self.crew(group);
        crew.started += 1;
        crew.coming += 1;
    }

    /// One that slept may have arrived in its place.
    pub(super) fn thread_did_not_start(&mut self, group: Group) {
        self.thread_arrives(group);
        self.crew(group).started -= 1;
    }

    /// A thread found no work and sleeps now.
    pub(super) fn thread_sleeps(&mut self, group: Group) {
        self.crew(group).sleeping += 1;
    }

    /// A started or sleeping thread runs. After a spurious wake it was not counted as coming; the
    /// sum of both counts is right in any case.
    pub(super) fn thread_arrives(&mut self, group: Group) {
        let crew = self.crew(group);
        if crew.coming > 0 {
            crew.coming -= 1;
        } else {
            crew.sleeping -= 1;
        }
    }

    /// Moves work for one thread into `batch`: several operations while they are fast, else one.
    /// Whether a further thread is to be woken.
    pub(super) fn take_local(&mut self, batch: &mut Vec<Operation>) -> bool {
        let count_max = if self.fast {
            self.local.len().div_ceil(self.cores).min(THREADS_BATCH_MAX)
        } else {
            1
        };
        let mut bytes = 0;
        while batch.len() < count_max && bytes < THREADS_BATCH_BYTES_MAX {
            let Some(operation) = self.local.pop_front() else {
                break;
            };
            bytes += operation.segments.bytes();
            batch.push(operation);
        }
        self.takes += 1;
        !self.local.is_empty() && self.more_threads_help() && self.wake_next(Group::Local)
    }

    /// Whether another thread would help. Fast operations use only the processor, so then no more
    /// threads than cores help.
    fn more_threads_help(&self) -> bool {
        let crew = &self.local_crew;
        !self.fast || crew.started - crew.sleeping < self.cores
    }

    /// How many completions may be held back, given what waits now.
    pub(super) fn hold(&self) -> usize {
        let ratio = if self.fast {
            THREADS_HOLD_RATIO_FAST
        } else {
            THREADS_HOLD_RATIO
        };
        self.local.len() / ratio
    }

    /// Moves one operation of a mount below its thread limit into `batch`.
    pub(super) fn take_slow(&mut self, batch: &mut Vec<Operation>) {
        let count = self.mounts.len();
        for step in 0..count {
            let at = (self.mount_next + step) % count;
            let mount = &mut self.mounts[at];
            if mount.threads < SLOW_MOUNT_THREADS_MAX
                && let Some(operation) = mount.waiting.pop_front()
            {
                mount.threads += 1;
                self.mount_next = at + 1;
                batch.push(operation);
                return;
            }
        }
    }

    /// A thread has left a mount.
    pub(super) fn leave_mount(&mut self, number: u64) {
        let Some(at) = self.mounts.iter().position(|mount| mount.number == number) else {
            unreachable!("a mount with a thread in it stays in the list");
        };
        self.mounts[at].threads -= 1;
        if self.mounts[at].threads == 0 && self.mounts[at].waiting.is_empty() {
            self.mounts.swap_remove(at);
        }
    }

    /// Records what thread `number` holds from now on; the batch's number.
    pub(super) fn holds(&mut self, number: usize, batch: &[Operation]) -> u64 {
        let running = &mut self.running[number];
        running.ids.clear();
        running
            .ids
            .extend(batch.iter().map(|operation| operation.id));
        running.batch += 1;
        running.batch
    }

    /// Takes the operations on slow mounts if no thread exists that could run them.
    pub(super) fn take_stranded(&mut self) -> Vec<Operation> {
        if self.slow_crew.started > 0 {
            return Vec::new();
        }
        self.mounts
            .drain(..)
            .flat_map(|mount| mount.waiting)
            .collect()
    }

    /// Takes everything that no thread holds.
    pub(super) fn take_all(&mut self) -> Vec<Operation> {
        let mut all: Vec<Operation> = self.local.drain(..).collect();
        for mount in &mut self.mounts {
            all.extend(mount.waiting.drain(..));
        }
        all
    }
}

impl Crew {
    /// How many threads to start for `work` waiting operations: one for each that no sleeping or
    /// coming thread will take, up to the maximum.
    fn to_start(&self, work: usize) -> usize {
        let idle = self.sleeping + self.coming;
        work.saturating_sub(idle)
            .min(self.started_max - self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_races_with_a_thread_that_wakes() {
        let mut queue = Queue::new(4, 4);
        queue.thread_starts(Group::Local);
        queue.thread_arrives(Group::Local);
        queue.thread_sleeps(Group::Local);
        queue.thread_starts(Group::Local);
        // The first wakes spuriously, and counts as the one that comes.
        queue.thread_arrives(Group::Local);
        queue.thread_did_not_start(Group::Local);
        let crew = &queue.local_crew;
        assert_eq!((crew.started, crew.sleeping, crew.coming), (1, 0, 0));
    }
}
