//! Queues, batches and completion queues.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use millstream::{Batch, Completion, FileId, Priority, Queue, QueueOptions};
use millstream_io::eventfd::number_of;

use crate::completion::{mst_fence, mst_group, mst_status_array};
use crate::desc::{
    Descriptor, at, at_mut, border, border_to, deadline_of, desc_at, limit, name, out,
    read_desc_or_default, set,
};
use crate::error::{Failure, invalid, mst_error, mst_result, owned_error};
use crate::handle::{free, owned};
use crate::number::{mst_file, mst_priority, mst_ticket, priority_of};
use crate::request::{
    Entry, Target, mst_operation_desc, mst_read_desc, mst_write_desc, operate, read, write,
};
use crate::storage::{NOT_READY, check_flags, mst_storage};
use crate::ticket::mst_completion;

/// A queue of requests with its own priority, capacity and completion queue.
pub struct mst_queue(Queue);

/// Entries on their way into a queue, in order. Used by one thread at a time. Adding takes no lock
/// and, once the batch has grown, allocates nothing.
pub struct mst_batch(Batch);

/// Bit of `mst_queue_desc.flags`: a batch does not submit by itself when it holds half of the
/// capacity.
pub const MST_QUEUE_NO_AUTO_SUBMIT: u32 = 1;

/// How a queue behaves.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_queue_desc {
    /// `sizeof(mst_queue_desc)`.
    pub size: usize,
    /// For messages and traces. NULL: none. Copied.
    pub name: *const c_char,
    /// Requests that have not completed, to 524,288. 0: 8192.
    pub capacity: u32,
    /// Completed requests that were not claimed. 0: 65,536.
    pub unclaimed: u32,
    /// Destination bytes of requests that have not completed. 0: no limit.
    pub bytes: u64,
    /// Bytes per second that its requests may move. 0: no limit.
    pub bandwidth: u64,
    /// Priority of requests that have none of their own.
    pub priority: mst_priority,
    /// `MST_QUEUE_` bits.
    pub flags: u32,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_queue_desc {}

/// Creates a queue. `desc` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_create(
    storage: *mut mst_storage,
    desc: *const mst_queue_desc,
    queue: *mut *mut mst_queue,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and in all calls.
        let (storage, desc) = unsafe { (at(storage)?, read_desc_or_default(desc)?) };
        // SAFETY: as above.
        let result = unsafe { out(queue)? };
        check_flags(desc.flags, MST_QUEUE_NO_AUTO_SUBMIT)?;
        let mut options = QueueOptions::default();
        if !desc.name.is_null() {
            // SAFETY: as above.
            options.name = unsafe { name(desc.name) };
        }
        set(&mut options.capacity, desc.capacity);
        set(&mut options.unclaimed, desc.unclaimed);
        options.bytes = (desc.bytes > 0).then_some(desc.bytes);
        options.bandwidth = (desc.bandwidth > 0).then_some(desc.bandwidth);
        options.priority = priority_of(desc.priority)?.unwrap_or(Priority::Normal);
        options.auto_submit = desc.flags & MST_QUEUE_NO_AUTO_SUBMIT == 0;
        result.write(owned(mst_queue(storage.storage.queue(options)?)));
        Ok(())
    })
}

/// Frees a queue; what a fence holds back is canceled, everything else goes on. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_free(queue: *mut mst_queue) {
    // SAFETY: see `mst_queue_create`.
    unsafe { free(queue) }
}

impl mst_queue {
    /// # Safety
    /// As the header asks of pointers.
    unsafe fn target<'a>(queue: *mut mst_queue) -> Result<Target<'a>, Failure> {
        // SAFETY: the caller's promise.
        unsafe { at(queue) }.map(|queue| Target::Queue(&queue.0))
    }
}

impl mst_batch {
    /// # Safety
    /// As the header asks of pointers.
    unsafe fn target<'a>(batch: *mut mst_batch) -> Result<Target<'a>, Failure> {
        // SAFETY: the caller's promise.
        unsafe { at_mut(batch) }.map(|batch| Target::Batch(&mut batch.0))
    }
}

/// Hands the request of a descriptor to a target, by the function that builds it.
macro_rules! enter {
    ($target:expr, $build:ident($desc:ident, $ticket:ident)) => {
        border(|| {
            // SAFETY: see `mst_queue_create`.
            unsafe {
                let mut room = MaybeUninit::uninit();
                let (desc, checked) = desc_at($desc, &mut room)?;
                let target = checked.and_then(|()| $target);
                $build(desc, Entry::new(target, $ticket, &desc.options))
            }
        })
    };
}

/// Submits a read. With `ticket` not NULL its completion is claimed by `mst_ticket_wait`; otherwise
/// it arrives in the completion queue (`mst_queue_drain`), unless the request is detached. Waits
/// while the queue is full, unless `MST_REQUEST_TRY` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_read(
    queue: *mut mst_queue,
    desc: *const mst_read_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_queue::target(queue), read(desc, ticket))
}

/// Submits a write, as `mst_queue_read` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_write(
    queue: *mut mst_queue,
    desc: *const mst_write_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_queue::target(queue), write(desc, ticket))
}

/// Submits an operation, as `mst_queue_read` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_operate(
    queue: *mut mst_queue,
    desc: *const mst_operation_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_queue::target(queue), operate(desc, ticket))
}

/// Closes a file once everything before in the queue has completed, also if the queue is full.
/// Requests after it fail with `MST_ERROR_STALE_FILE`. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_close_file(queue: *mut mst_queue, file: mst_file) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        Ok(unsafe { at(queue)? }.0.close(FileId::from_bits(file))?)
    })
}

/// Cancels the requests submitted before this call whose `tag & mask == value`. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_cancel_tagged(
    queue: *mut mst_queue,
    mask: u64,
    value: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        unsafe { at(queue)? }.0.cancel_tagged(mask, value);
        Ok(())
    })
}

/// Cancels the requests of this queue submitted before this call that belong to `group`. Does not
/// wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_cancel_group(
    queue: *mut mst_queue,
    group: *const mst_group,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        unsafe { at(queue)?.0.cancel_group(&at(group)?.0) };
        Ok(())
    })
}

/// Changes priority (the default is normal) and deadline (from now on; 0: none) of the requests
/// submitted before this call whose `tag & mask == value`, with a ticket or without; what is in
/// flight keeps its own. Of several changes of a request, also by `mst_ticket_reprioritize`, the
/// last call counts. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_reprioritize_tagged(
    queue: *mut mst_queue,
    mask: u64,
    value: u64,
    priority: mst_priority,
    deadline_ns: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let queue = &unsafe { at(queue)? }.0;
        let priority = priority_of(priority)?.unwrap_or(Priority::Normal);
        queue.reprioritize_tagged(mask, value, priority, deadline_of(deadline_ns));
        Ok(())
    })
}

/// Stops serving the queue (`paused` true), or resumes. Operations in flight complete, and staging
/// memory that is half filled is filled to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_pause(queue: *mut mst_queue, paused: bool) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let queue = &unsafe { at(queue)? }.0;
        match paused {
            true => queue.pause(),
            false => queue.resume(),
        }
        Ok(())
    })
}

/// Sets the bytes per second that the queue's requests may move; 0 for no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_set_bandwidth(
    queue: *mut mst_queue,
    bytes_per_second: u64,
) -> mst_result {
    border(|| {
        let rate = (bytes_per_second > 0).then_some(bytes_per_second);
        // SAFETY: see `mst_queue_create`.
        unsafe { at(queue)? }.0.set_bandwidth(rate);
        Ok(())
    })
}

/// Failures since the last call: how many, and the first in the order of submission, to be freed by
/// `mst_error_free`; NULL if there were none. `first` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_take_errors(
    queue: *mut mst_queue,
    count: *mut u64,
    first: *mut *mut mst_error,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let (queue, count, first) = unsafe { (at(queue)?, out(count)?, first.as_mut()) };
        let (failures, error) = queue.0.take_errors();
        count.write(failures);
        if let Some(first) = first {
            *first = error.map_or(std::ptr::null_mut(), owned_error);
        }
        Ok(())
    })
}

/// Entries accepted that have not completed; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_live(queue: *const mst_queue) -> u64 {
    // SAFETY: see `mst_queue_create`.
    unsafe { queue.as_ref() }.map_or(0, |queue| queue.0.live())
}

/// Waits until everything submitted so far has completed; `MST_ERROR_NOT_READY` if the time passes
/// before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_wait_idle(queue: *mut mst_queue, timeout_ns: u64) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let idle = unsafe { at(queue)? }.0.drain(limit(timeout_ns))?;
        idle.then_some(()).ok_or(NOT_READY)
    })
}

/// Moves completions into an array, oldest first, and sets `count` to how many. Each is to be freed
/// by `mst_completion_free`. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_drain(
    queue: *mut mst_queue,
    completions: *mut mst_completion,
    capacity: usize,
    count: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let (queue, count) = unsafe { (at(queue)?, out(count)?) };
        count.write(0);
        if capacity > 0 && completions.is_null() {
            return Err(invalid(c"memory is NULL"));
        }
        for nth in 0..capacity {
            let mut one = [Completion::default()];
            if queue.0.drain_completions(&mut one) == 0 {
                break;
            }
            let [posted] = one;
            // SAFETY: the header asks for room for `capacity`.
            unsafe {
                completions
                    .add(nth)
                    .write(mst_completion::of_posted(posted))
            };
            count.write(nth + 1);
        }
        Ok(())
    })
}

/// Waits until there is a completion to drain; `MST_ERROR_NOT_READY` if the time passes before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_wait(queue: *mut mst_queue, timeout_ns: u64) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let any = unsafe { at(queue)? }
            .0
            .wait_completions(limit(timeout_ns))?;
        any.then_some(()).ok_or(NOT_READY)
    })
}

/// An eventfd that is readable whenever completions arrived since it was read last. It belongs to
/// the queue, and must not be closed. On Windows the handle of an event object, which stays set
/// until it is reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_queue_eventfd(queue: *mut mst_queue, fd: *mut c_int) -> mst_result {
    // SAFETY: see `mst_queue_create`.
    unsafe { border_to(fd, || Ok(number_of(at(queue)?.0.completion_eventfd()?))) }
}

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_create(
    queue: *mut mst_queue,
    batch: *mut *mut mst_batch,
) -> mst_result {
    // SAFETY: see `mst_queue_create`.
    unsafe { border_to(batch, || Ok(owned(mst_batch(at(queue)?.0.batch())))) }
}

/// Submits what the batch holds, and frees it. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_free(batch: *mut mst_batch) {
    // SAFETY: see `mst_queue_create`.
    unsafe { free(batch) }
}

/// Hands everything to the engine. The batch is empty then, and may be filled again. Does not wait,
/// and wakes the engine at most once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_submit(batch: *mut mst_batch) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        unsafe { at_mut(batch)? }.0.submit();
        Ok(())
    })
}

/// Adds a read; see `mst_queue_read`. A full queue submits what the batch holds before it waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_read(
    batch: *mut mst_batch,
    desc: *const mst_read_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_batch::target(batch), read(desc, ticket))
}

/// Adds a write; see `mst_batch_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_write(
    batch: *mut mst_batch,
    desc: *const mst_write_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_batch::target(batch), write(desc, ticket))
}

/// Adds an operation; see `mst_batch_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_operate(
    batch: *mut mst_batch,
    desc: *const mst_operation_desc,
    ticket: *mut mst_ticket,
) -> mst_result {
    enter!(mst_batch::target(batch), operate(desc, ticket))
}

/// Adds an entry that raises `fence` to `value` once everything before has completed. Waits while
/// the queue is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_signal(
    batch: *mut mst_batch,
    fence: *const mst_fence,
    value: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        unsafe { Ok(at_mut(batch)?.0.signal(&at(fence)?.0, value)?) }
    })
}

/// As `mst_batch_signal`, but fails with `MST_ERROR_QUEUE_FULL` instead of waiting for room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_try_signal(
    batch: *mut mst_batch,
    fence: *const mst_fence,
    value: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        unsafe { Ok(at_mut(batch)?.0.try_signal(&at(fence)?.0, value)?) }
    })
}

/// Adds an entry that writes slot `index` of `statuses` once everything before has completed: the
/// result of the requests since the last status entry. Waits while the queue is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_status(
    batch: *mut mst_batch,
    statuses: *const mst_status_array,
    index: usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let (batch, statuses) = unsafe { (at_mut(batch)?, at(statuses)?) };
        statuses.check(index)?;
        Ok(batch.0.status(&statuses.0, index)?)
    })
}

/// As `mst_batch_status`, but fails with `MST_ERROR_QUEUE_FULL` instead of waiting for room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_try_status(
    batch: *mut mst_batch,
    statuses: *const mst_status_array,
    index: usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        let (batch, statuses) = unsafe { (at_mut(batch)?, at(statuses)?) };
        statuses.check(index)?;
        Ok(batch.0.try_status(&statuses.0, index)?)
    })
}

/// Adds an entry that closes a file; see `mst_queue_close_file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_batch_close_file(batch: *mut mst_batch, file: mst_file) -> mst_result {
    border(|| {
        // SAFETY: see `mst_queue_create`.
        Ok(unsafe { at_mut(batch)? }.0.close(FileId::from_bits(file))?)
    })
}
