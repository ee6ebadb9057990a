//! A thread of the pool: takes a batch, runs it, publishes the completions.
//!
//! # Safety
//! The only unsafe code passes lent memory to the system. By the contract of
//! [`Device::push`](crate::Device::push) memory and segment lists are valid and not used otherwise
//! until the completion is reaped, and the completion is published after the call has returned.

#![expect(
    unsafe_code,
    reason = "reads and writes into memory lent as raw segments"
)]

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use super::queue::Queue;
use crate::device::{Completion, Operation, system};
use crate::limits::{THREADS_BATCH_MAX, THREADS_FAST_NS};

/// Runs thread `number` until the pool ends.
pub(super) fn run(shared: &Shared, number: usize) {
    let mut batch: Vec<Operation> = Vec::with_capacity(THREADS_BATCH_MAX);
    let mut finished: Vec<Completion> = Vec::with_capacity(THREADS_BATCH_MAX);
    let mut queue = shared.queue();
    queue.thread_arrives();
    while let Some(taken) = next(shared, queue, number, &mut batch) {
        if taken.wake_next {
            shared.idle.notify_one();
        }
        let count = batch.len() as u32;
        let began = Instant::now();
        finished.extend(batch.drain(..).map(execute));
        let fast = began.elapsed() < Duration::from_nanos(THREADS_FAST_NS) * count;
        publish(shared, number, &taken, &mut finished);
        queue = shared.queue();
        queue.fast = fast && !shared.single;
    }
}

/// A batch taken from the queue.
struct Taken {
    /// The batch's number.
    batch: u64,
    /// Another thread is to be woken.
    wake_next: bool,
    /// The owner may sleep until this many completions are published.
    hold: usize,
}

/// Fills `batch`, sleeping until there is work; returns `None` when the pool ends.
fn next<'a>(
    shared: &'a Shared,
    mut queue: MutexGuard<'a, Queue>,
    number: usize,
    batch: &mut Vec<Operation>,
) -> Option<Taken> {
    loop {
        if queue.ended {
            return None;
        }
        let wake_next = queue.take(batch);
        if !batch.is_empty() {
            return Some(Taken {
                batch: queue.holds(number, batch),
                wake_next,
                hold: queue.hold(),
            });
        }
        if shared.done.has_any() {
            // No operation waits: completions held back by any thread are released.
            shared.wake_owner();
        }
        if queue.stopping {
            return None;
        }
        queue.thread_sleeps();
        let woken = shared.idle.wait(queue);
        queue = woken.unwrap_or_else(PoisonError::into_inner);
        queue.thread_arrives();
    }
}

/// Publishes the completions, and wakes the owner unless it may keep sleeping.
fn publish(shared: &Shared, number: usize, taken: &Taken, finished: &mut Vec<Completion>) {
    let done_count = shared.done.put(|done| {
        done.append(finished);
        shared.published[number].store(taken.batch, Ordering::SeqCst);
    });
    let Some(done_count) = done_count else {
        // The shutdown has reported these as abandoned.
        finished.clear();
        return;
    };
    if !shared.own_bell || done_count >= taken.hold {
        shared.wake_owner();
    }
}

/// Runs one operation. The owner retries an interrupted call, as with any device.
fn execute(operation: Operation) -> Completion {
    // SAFETY: pushed and not yet completed (module's Safety).
    let moved = unsafe { system::transfer(&operation) };
    Completion::new(operation.id, moved)
}
