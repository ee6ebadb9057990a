//! Operations that wait for a thread: plain data under one lock; no I/O, no waiting.

use std::collections::VecDeque;

use crate::device::{Operation, OperationId};
use crate::limits::{
    THREADS_BATCH_BYTES_MAX, THREADS_BATCH_MAX, THREADS_HOLD_RATIO, THREADS_HOLD_RATIO_FAST,
};
use crate::thread::available_cores;

/// The batch of one thread: held while `batch` is above the thread's published batches.
#[derive(Default)]
pub(super) struct Running {
    pub(super) batch: u64,
    pub(super) ids: Vec<OperationId>,
}

/// The queue, in order of arrival, and the state of its threads.
pub(super) struct Queue {
    waiting: VecDeque<Operation>,
    started: usize,
    started_max: usize,
    sleeping: usize,
    /// Threads woken or started that will lock the queue but have not yet.
    coming: usize,
    cores: usize,
    /// The last batch did not wait for a disk.
    pub(super) fast: bool,
    /// Number of batches taken, now and when operations were last added.
    takes: u64,
    takes_seen: u64,
    pub(super) running: Vec<Running>,
    /// Nothing will be added; a thread without work ends.
    pub(super) stopping: bool,
    /// A thread takes nothing more.
    pub(super) ended: bool,
}

impl Queue {
    pub(super) fn new(threads_max: usize, depth: usize) -> Queue {
        let mut running = Vec::new();
        running.resize_with(threads_max, || Running {
            batch: 0,
            ids: Vec::with_capacity(THREADS_BATCH_MAX),
        });
        Queue {
            waiting: VecDeque::with_capacity(depth),
            started: 0,
            started_max: threads_max,
            sleeping: 0,
            coming: 0,
            cores: available_cores(),
            fast: false,
            takes: 0,
            takes_seen: 0,
            running,
            stopping: false,
            ended: false,
        }
    }

    /// Takes all of `operations`, in order. Returns whether to wake a thread, how many to start.
    pub(super) fn add(&mut self, operations: &mut Vec<Operation>) -> (bool, usize) {
        self.waiting.extend(operations.drain(..));
        // If nothing was taken since the last call, the threads are blocked, fast or not.
        let stuck = self.takes == self.takes_seen;
        self.takes_seen = self.takes;
        if !stuck && !self.more_threads_help() {
            return (false, 0);
        }
        let wake = self.wake_next();
        // One for each operation that no sleeping or coming thread will take.
        let idle = self.sleeping + self.coming;
        let start = self.waiting.len().saturating_sub(idle);
        (wake, start.min(self.started_max - self.started))
    }

    /// Returns whether one more thread is to be woken; if so it counts as coming.
    fn wake_next(&mut self) -> bool {
        let wake = self.sleeping > 0 && self.coming == 0;
        if wake {
            self.sleeping -= 1;
            self.coming += 1;
        }
        wake
    }

    pub(super) fn thread_starts(&mut self) {
        self.started += 1;
        self.coming += 1;
    }

    /// Undoes `thread_starts`. A thread that slept may have been counted as arriving in its place.
    pub(super) fn thread_did_not_start(&mut self) {
        self.thread_arrives();
        self.started -= 1;
    }

    /// Counts a thread that found no work and sleeps.
    pub(super) fn thread_sleeps(&mut self) {
        self.sleeping += 1;
    }

    /// Counts a started or sleeping thread as running. After a spurious wake it was not counted as
    /// coming; the sum of both counts is right in any case.
    pub(super) fn thread_arrives(&mut self) {
        if self.coming > 0 {
            self.coming -= 1;
        } else {
            self.sleeping -= 1;
        }
    }

    /// Moves work for one thread into `batch`: several operations while they are fast, else one.
    /// Returns whether another thread is to be woken.
    pub(super) fn take(&mut self, batch: &mut Vec<Operation>) -> bool {
        let count_max = if self.fast {
            self.waiting
                .len()
                .div_ceil(self.cores)
                .min(THREADS_BATCH_MAX)
        } else {
            1
        };
        let mut bytes = 0;
        while batch.len() < count_max && bytes < THREADS_BATCH_BYTES_MAX {
            let Some(operation) = self.waiting.pop_front() else {
                break;
            };
            bytes += operation.segments.bytes();
            batch.push(operation);
        }
        self.takes += 1;
        !self.waiting.is_empty() && self.more_threads_help() && self.wake_next()
    }

    /// Whether another thread would help. Fast operations use only the processor, so for them no
    /// more threads than cores help.
    fn more_threads_help(&self) -> bool {
        !self.fast || self.started - self.sleeping < self.cores
    }

    /// Returns how many completions may be held back, given what waits now.
    pub(super) fn hold(&self) -> usize {
        let ratio = if self.fast {
            THREADS_HOLD_RATIO_FAST
        } else {
            THREADS_HOLD_RATIO
        };
        self.waiting.len() / ratio
    }

    /// Records what thread `number` holds from now on; returns the batch's number.
    pub(super) fn holds(&mut self, number: usize, batch: &[Operation]) -> u64 {
        let running = &mut self.running[number];
        running.ids.clear();
        running
            .ids
            .extend(batch.iter().map(|operation| operation.id));
        running.batch += 1;
        running.batch
    }

    /// Takes all operations that no thread holds.
    pub(super) fn take_all(&mut self) -> Vec<Operation> {
        self.waiting.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_races_with_a_thread_that_wakes() {
        let mut queue = Queue::new(4, 4);
        queue.thread_starts();
        queue.thread_arrives();
        queue.thread_sleeps();
        queue.thread_starts();
        // The first wakes spuriously, and counts as the one coming.
        queue.thread_arrives();
        queue.thread_did_not_start();
        let counts = (queue.started, queue.sleeping, queue.coming);
        assert_eq!(counts, (1, 0, 0));
    }
}
