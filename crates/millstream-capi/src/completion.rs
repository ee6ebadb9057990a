//! Groups, fences and status arrays: completion of many requests at once.

use std::ffi::c_int;

use millstream::{Fence, Group, StatusArray};
use millstream_io::eventfd::number_of;

use crate::desc::{Descriptor, at, border, border_to, fill_sized, limit, out};
use crate::error::{Failure, MST_ERROR_NOT_READY, invalid, mst_result};
use crate::handle::{free, owned};
use crate::storage::{NOT_READY, mst_storage};

/// Requests that belong together.
pub struct mst_group(pub(crate) Group);

/// A number that only grows, raised by queues or the application, and waited for by anyone.
pub struct mst_fence(pub(crate) Fence);

/// Slots that status entries fill.
pub struct mst_status_array(pub(crate) StatusArray);

/// Counts of a group.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_group_counts {
    /// `sizeof(mst_group_counts)`.
    pub size: usize,
    /// Requests that have not completed.
    pub remaining: u64,
    /// Requests that succeeded.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were canceled.
    pub canceled: u64,
    /// Raw bytes of the requests that succeeded.
    pub bytes: u64,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_group_counts {}

/// Creates an empty group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_group_create(group: *mut *mut mst_group) -> mst_result {
    // SAFETY: pointers are as the header asks, here and in all calls.
    unsafe { border_to(group, || Ok(owned(mst_group(Group::new())))) }
}

/// Frees a group; its requests go on. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_group_free(group: *mut mst_group) {
    // SAFETY: see `mst_group_create`.
    unsafe { free(group) }
}

/// Fills `counts`, whose size must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_group_count(
    group: *const mst_group,
    counts: *mut mst_group_counts,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let group = &unsafe { at(group)? }.0;
        let filled = mst_group_counts {
            size: size_of::<mst_group_counts>(),
            remaining: group.remaining(),
            done: group.done(),
            failed: group.failed(),
            canceled: group.canceled(),
            bytes: group.bytes(),
        };
        // SAFETY: as above.
        unsafe { fill_sized(counts, &filled) }
    })
}

/// Waits until all requests of a group have completed; `MST_ERROR_NOT_READY` if the time passes
/// before, `MST_ERROR_CLOSED` if the storage is closed and some have not completed. The storage is
/// pumped if it has no threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_group_wait(
    storage: *mut mst_storage,
    group: *const mst_group,
    timeout_ns: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let (storage, group) = unsafe { (at(storage)?, at(group)?) };
        let reached = storage.storage.wait(&group.0, limit(timeout_ns))?;
        reached.ok_or(NOT_READY)
    })
}

/// Creates a fence at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_create(value: u64, fence: *mut *mut mst_fence) -> mst_result {
    // SAFETY: see `mst_group_create`.
    unsafe { border_to(fence, || Ok(owned(mst_fence(Fence::new(value))))) }
}

/// Frees a fence. Requests that it holds back wait for ever, or until they are canceled. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_free(fence: *mut mst_fence) {
    // SAFETY: see `mst_group_create`.
    unsafe { free(fence) }
}

/// The fence's value; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_value(fence: *const mst_fence) -> u64 {
    // SAFETY: see `mst_group_create`.
    unsafe { fence.as_ref() }.map_or(0, |fence| fence.0.value())
}

/// Raises a fence to `value`. A value that is not above the present one changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_signal(fence: *mut mst_fence, value: u64) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        unsafe { at(fence)? }.0.signal(value);
        Ok(())
    })
}

/// Waits until a fence has reached `value`; `MST_ERROR_NOT_READY` if the time passes before.
/// `storage` may be NULL if it has threads. Otherwise it is pumped if it has none, and
/// `MST_ERROR_CLOSED` says that it is closed and the fence has not reached the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_wait(
    storage: *mut mst_storage,
    fence: *const mst_fence,
    value: u64,
    timeout_ns: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let (storage, fence) = unsafe { (storage.as_ref(), at(fence)?) };
        let limit = limit(timeout_ns);
        let reached = match storage {
            Some(storage) => storage.storage.wait(fence.0.at(value), limit)?.is_some(),
            None => fence.0.wait(value, limit)?,
        };
        reached.then_some(()).ok_or(NOT_READY)
    })
}

/// An eventfd that is readable after every signal that raised the fence; reading it resets it. It
/// belongs to the fence, and must not be closed. On Windows the handle of an event object, which
/// stays set until it is reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_fence_eventfd(fence: *mut mst_fence, fd: *mut c_int) -> mst_result {
    // SAFETY: see `mst_group_create`.
    unsafe { border_to(fd, || Ok(number_of(at(fence)?.0.eventfd()?))) }
}

impl mst_status_array {
    pub(crate) fn check(&self, index: usize) -> Result<(), Failure> {
        let known = index < self.0.len();
        known
            .then_some(())
            .ok_or(invalid(c"the status array has no such slot"))
    }
}

/// Creates an array of `count` pending slots, at most 2^24.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_status_array_create(
    count: usize,
    statuses: *mut *mut mst_status_array,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let result = unsafe { out(statuses)? };
        if count > 1 << 24 {
            return Err(invalid(c"a status array has at most 2^24 slots"));
        }
        result.write(owned(mst_status_array(StatusArray::new(count))));
        Ok(())
    })
}

/// Frees a status array. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_status_array_free(statuses: *mut mst_status_array) {
    // SAFETY: see `mst_group_create`.
    unsafe { free(statuses) }
}

/// What a slot says: `MST_ERROR_NOT_READY` while it is pending, `MST_OK` if everything succeeded
/// (canceled requests count as success), or the first failure in the order of submission.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_status_array_get(
    statuses: *const mst_status_array,
    index: usize,
    status: *mut mst_result,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let (statuses, status) = unsafe { (at(statuses)?, out(status)?) };
        statuses.check(index)?;
        let result = statuses.0.result(index);
        status.write(result.map_or(MST_ERROR_NOT_READY, |number| number as mst_result));
        Ok(())
    })
}

/// Makes a slot pending again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_status_array_reset(
    statuses: *mut mst_status_array,
    index: usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_group_create`.
        let statuses = unsafe { at(statuses)? };
        statuses.check(index)?;
        statuses.0.reset(index);
        Ok(())
    })
}
