//! One thread: take a batch, run it, hand it back.
//!
//! # Safety
//! The only unsafe thing here is handing lent memory to `preadv` and `pwritev`. By the contract of
//! [`Device::push`](crate::Device::push) it is valid, and nobody else's, until the completion is
//! reaped, and the completion is published after the call has returned.

#![expect(
    unsafe_code,
    reason = "reads and writes into memory lent as raw segments"
)]

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use super::queue::{Group, Queue};
use crate::device::{Completion, Operation, Segment, Segments, Verb};
use crate::error::Errno;
use crate::limits::{OPERATION_BYTES_MAX, THREADS_BATCH_MAX, THREADS_FAST_NS};

/// The life of thread `number`.
pub(super) fn run(shared: &Shared, number: usize, group: Group) {
    let mut batch: Vec<Operation> = Vec::with_capacity(THREADS_BATCH_MAX);
    let mut finished: Vec<Completion> = Vec::with_capacity(THREADS_BATCH_MAX);
    let mut queue = shared.queue();
    queue.thread_arrives(group);
    while let Some(taken) = next(shared, queue, number, group, &mut batch) {
        if taken.wake_next {
            shared.idle.notify_one();
        }
        let (mount, count) = (batch[0].mount, batch.len() as u32);
        let began = Instant::now();
        finished.extend(batch.drain(..).map(execute));
        let fast = began.elapsed() < Duration::from_nanos(THREADS_FAST_NS) * count;
        publish(shared, number, &taken, &mut finished);
        queue = shared.queue();
        match group {
            Group::Local => queue.fast = fast,
            Group::Slow => queue.leave_mount(mount),
        }
    }
}

/// What a thread has taken out of the queue.
struct Taken {
    /// The batch's number.
    batch: u64,
    /// Another thread is to be woken.
    wake_next: bool,
    /// The owner may sleep until this many completions are there.
    hold: usize,
}

/// Fills `batch`, sleeping until there is work; `None` at the end.
fn next<'a>(
    shared: &'a Shared,
    mut queue: MutexGuard<'a, Queue>,
    number: usize,
    group: Group,
    batch: &mut Vec<Operation>,
) -> Option<Taken> {
    loop {
        if queue.ended {
            return None;
        }
        let mut wake_next = false;
        match group {
            Group::Local => wake_next = queue.take_local(batch),
            Group::Slow => queue.take_slow(batch),
        }
        if !batch.is_empty() {
            return Some(Taken {
                batch: queue.holds(number, batch),
                wake_next,
                hold: queue.hold(),
            });
        }
        if shared.has_done() {
            // What was held back, by this thread or another, is held back no longer.
            shared.wake_owner();
        }
        if queue.stopping && group == Group::Local {
            return None;
        }
        queue.thread_sleeps(group);
        let condvar = match group {
            Group::Local => &shared.idle,
            Group::Slow => &shared.idle_slow,
        };
        queue = condvar.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.thread_arrives(group);
    }
}

/// Hands the finished operations to the owner, and wakes it unless it can sleep on.
fn publish(shared: &Shared, number: usize, taken: &Taken, finished: &mut Vec<Completion>) {
    let done_count = {
        let mut done = shared.done();
        done.published[number] = taken.batch;
        if done.closed {
            // The owner has reported these as abandoned and their memory is never used again, so
            // nothing is lost with them but the list of segments.
            finished.clear();
            return;
        }
        done.completions.append(finished);
        shared
            .done_count
            .store(done.completions.len(), Ordering::SeqCst);
        done.completions.len()
    };
    if !shared.own_bell || done_count >= taken.hold {
        shared.wake_owner();
    }
}

/// Runs one operation. An interrupted call is the owner's to repeat, as with any device.
fn execute(operation: Operation) -> Completion {
    let file = operation.file.0;
    let result = match libc::off64_t::try_from(operation.offset) {
        Err(_) => Err(Errno::INVALID),
        Ok(offset) => match &operation.segments {
            Segments::One(segment) => one(operation.verb, file, offset, segment),
            Segments::Many(segments) => many(operation.verb, file, offset, segments),
        },
    };
    Completion {
        id: operation.id,
        result,
        segments: operation.segments,
    }
}

fn one(verb: Verb, file: i32, offset: libc::off64_t, segment: &Segment) -> Result<usize, Errno> {
    let pointer = segment.pointer().cast::<libc::c_void>();
    let len = segment.len().min(OPERATION_BYTES_MAX);
    let moved = match verb {
        // SAFETY: who pushed the operation lends `len` writable bytes at `pointer` until it is
        // reaped.
        Verb::Read => unsafe { libc::pread64(file, pointer, len, offset) },
        // SAFETY: as above, readable bytes.
        Verb::Write => unsafe { libc::pwrite64(file, pointer, len, offset) },
    };
    usize::try_from(moved).map_err(|_| Errno::last())
}

fn many(verb: Verb, file: i32, offset: libc::off64_t, all: &[Segment]) -> Result<usize, Errno> {
    // A Segment is an iovec in layout; more of them than an int counts are refused by the kernel.
    let (vectors, count) = (
        all.as_ptr().cast::<libc::iovec>(),
        all.len().min(i32::MAX as usize),
    );
    let moved = match verb {
        // SAFETY: `vectors` are `count` initialized iovecs owned by the operation; who pushed it
        // lends the writable memory that they describe until it is reaped.
        Verb::Read => unsafe { libc::preadv64(file, vectors, count as i32, offset) },
        // SAFETY: as above, readable bytes.
        Verb::Write => unsafe { libc::pwritev64(file, vectors, count as i32, offset) },
    };
    usize::try_from(moved).map_err(|_| Errno::last())
}
