//! Tickets and completions.
//!
//! A ticket is a number that is claimed once. It is used by one thread at a time, except that any
//! thread may ask whether it is complete and what it waits for, cancel it or change its priority
//! while another one waits.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use millstream::{Buffer, Completion, Error, FileId, FileInfo, Outcome, Priority, Ticket};

use crate::desc::{
    at, at_mut, border, border_to, check_sized, deadline_of, fill_sized, limit, out,
};
use crate::error::{
    Failure, MST_ERROR_STALE_TICKET, MST_ERROR_STILL_HELD, MST_OK, invalid, mst_error, mst_result,
    owned_error, result_of,
};
use crate::handle::{owned, take, unharmed};
use crate::hooks::User;
use crate::number::{
    mst_file, mst_priority, mst_ticket, mst_waits_for, number_of_cause, priority_of,
};
use crate::storage::{NOT_READY, mst_buffer, mst_file_info, mst_storage};

/// How a request completed. To be freed by `mst_completion_free`.
#[repr(C)]
pub struct mst_completion {
    /// Raw bytes that landed, or were written.
    pub bytes: u64,
    /// The request's user data.
    pub user_data: u64,
    /// The memory of a request that landed in a buffer, or wrote one; NULL if there is none. After
    /// a failure its content is unspecified.
    pub buffer: *mut mst_buffer,
    /// Of a completion that was drained and failed: the details. NULL otherwise (a call that claims
    /// a ticket keeps them for `mst_last_error`).
    pub error: *mut mst_error,
    /// `MST_OK`, or why it failed.
    pub result: mst_result,
    /// 0.
    pub reserved: u32,
}

impl mst_completion {
    fn new(ended: &Result<u64, Error>, user_data: u64, buffer: Option<Buffer>) -> mst_completion {
        let (result, bytes) = match ended {
            Ok(bytes) => (MST_OK, *bytes),
            Err(error) => (result_of(error.kind()), 0),
        };
        let buffer = buffer.map(|buffer| owned(mst_buffer(buffer)));
        mst_completion {
            bytes,
            user_data,
            buffer: buffer.unwrap_or(std::ptr::null_mut()),
            error: std::ptr::null_mut(),
            result,
            reserved: 0,
        }
    }

    pub(crate) fn of_posted(mut posted: Completion) -> mst_completion {
        let buffer = posted.take_memory::<Buffer>();
        let mut made = mst_completion::new(&posted.result, posted.user_data, buffer);
        if let Err(error) = posted.result {
            made.error = owned_error(error);
        }
        made
    }
}

/// Tells tickets from files, whose numbers are made the same way.
const TICKET: u64 = 1 << 63;

/// The number of a ticket, for C.
pub(crate) fn number_of_ticket<T: 'static>(ticket: Ticket<T>) -> mst_ticket {
    ticket.into_bits() ^ TICKET
}

const STALE: Failure = Failure::Known(
    MST_ERROR_STALE_TICKET,
    c"the ticket was claimed or freed before, or belongs to another storage",
);

const STILL_HELD: Failure = Failure::Known(
    MST_ERROR_STILL_HELD,
    c"the storage was closed before the system let go of the request's memory",
);

/// Whether the request of a ticket has completed.
fn is_complete(storage: &mst_storage, ticket: mst_ticket) -> Result<bool, Failure> {
    let known = storage.storage.is_ticket_complete(ticket ^ TICKET);
    known.ok_or(STALE)
}

/// Claims a ticket, waiting so long at most. A ticket that is not complete then stays.
pub(crate) fn claim<T: 'static>(
    storage: &mst_storage,
    ticket: mst_ticket,
    timeout_ns: u64,
) -> Result<Outcome<T>, Failure> {
    let mut taken = storage.storage.ticket::<T>(ticket ^ TICKET).ok_or(STALE)?;
    if let Some(outcome) = taken.try_take() {
        return Ok(outcome);
    }
    let waited = match timeout_ns {
        0 if taken.is_still_held() => Err(STILL_HELD),
        0 => Ok(None),
        _ => {
            let limit = limit(timeout_ns).unwrap_or(Duration::MAX);
            taken.wait_timeout(limit).map_err(Failure::from)
        }
    };
    match waited {
        Ok(Some(outcome)) => Ok(outcome),
        other => {
            let _ = taken.into_bits();
            Err(other.err().unwrap_or(NOT_READY))
        }
    }
}

/// Waits until the request has completed, and claims its ticket. Returns how the request ended; if
/// it failed, the ticket is claimed as well, and `mst_last_error` has the details. The ticket stays
/// valid for `MST_ERROR_NOT_READY` (the time passed), `MST_ERROR_NOT_SUBMITTED`,
/// `MST_ERROR_ON_STORAGE_THREAD` and, if the storage was closed while the system held the memory,
/// `MST_ERROR_STILL_HELD`. `completion` is filled if the ticket was claimed, zeroed otherwise; NULL
/// drops the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_wait(
    storage: *mut mst_storage,
    ticket: mst_ticket,
    timeout_ns: u64,
    completion: *mut mst_completion,
) -> mst_result {
    border(|| {
        let fill = |filled| {
            if !completion.is_null() {
                // SAFETY: pointers are as the header asks, here and in all calls.
                unsafe { completion.write(filled) };
            }
        };
        fill(mst_completion::new(&Ok(0), 0, None));
        // SAFETY: as above.
        let storage = unsafe { at(storage)? };
        let outcome = claim::<Buffer>(storage, ticket, timeout_ns)?;
        let buffer = outcome.memory.filter(|_| !completion.is_null());
        fill(mst_completion::new(
            &outcome.result,
            outcome.user_data,
            buffer,
        ));
        Ok(outcome.result.map(drop)?)
    })
}

/// Whether the request has completed: `MST_OK`, or `MST_ERROR_NOT_READY`. Does not wait. (Of a
/// request that will never complete, because its storage was closed while the system held the
/// memory, `mst_ticket_wait` tells, also with a limit of 0.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_poll(
    storage: *const mst_storage,
    ticket: mst_ticket,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let complete = is_complete(unsafe { at(storage)? }, ticket)?;
        complete.then_some(()).ok_or(NOT_READY)
    })
}

/// Fills `waits_for` with what the request waits for now, which may have changed when the call
/// returns. Costs a few loads, and does not wait for the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_waits_for(
    storage: *const mst_storage,
    ticket: mst_ticket,
    waits_for: *mut mst_waits_for,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let (storage, result) = unsafe { (at(storage)?, out(waits_for)?) };
        let cause = storage.storage.ticket_waits_for(ticket ^ TICKET);
        result.write(number_of_cause(cause.ok_or(STALE)?));
        Ok(())
    })
}

/// Asks for cancellation. The request completes as canceled, unless it completes otherwise before;
/// a read that the kernel has begun completes when the kernel lets go. Does not wait, and does not
/// claim the ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_cancel(
    storage: *mut mst_storage,
    ticket: mst_ticket,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let storage = unsafe { at(storage)? };
        is_complete(storage, ticket)?;
        storage.storage.cancel_ticket(ticket ^ TICKET);
        Ok(())
    })
}

/// Changes priority (the default is normal) and deadline (from now on; 0: none) of a request, if it
/// was not served yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_reprioritize(
    storage: *mut mst_storage,
    ticket: mst_ticket,
    priority: mst_priority,
    deadline_ns: u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let storage = unsafe { at(storage)? };
        let priority = priority_of(priority)?.unwrap_or(Priority::Normal);
        let deadline = deadline_of(deadline_ns);
        is_complete(storage, ticket)?;
        let storage = &storage.storage;
        storage.reprioritize_ticket(ticket ^ TICKET, priority, deadline);
        Ok(())
    })
}

/// Learns that a request has completed. Runs once, on a thread of the library, or inside a call of
/// the application that registers it, frees the ticket, submits to a closed storage, or pumps; must
/// not wait, and must not take locks that are held over such calls.
pub type mst_notify_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

struct Notify {
    notify: unsafe extern "C" fn(*mut c_void),
    user: User,
    state: AtomicU8,
}

/// The request has completed.
const WOKEN: u8 = 1;
/// The ticket is to be had by its number again.
const KEPT: u8 = 2;

impl Notify {
    /// One of the two has come; with the second one the application is called.
    fn mark(&self, bit: u8) {
        let before = self.state.fetch_or(bit, Ordering::AcqRel);
        if before & bit == 0 && before | bit == WOKEN | KEPT {
            // SAFETY: a function of the application, with its own pointer.
            unsafe { (self.notify)(self.user.0) }
        }
    }
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        self.mark(WOKEN);
    }
}

/// Has `notify` called once when the request completes (or will never complete, because its storage
/// was closed: `MST_ERROR_STILL_HELD`), in place of an earlier notification; at once if that is so
/// already. The ticket is to be claimed all the same. A call that waits for the ticket takes the
/// place of the notification; one that has not come when the ticket is claimed may come later, or
/// never. If the ticket is freed before, it still comes once the request completes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_notify(
    storage: *mut mst_storage,
    ticket: mst_ticket,
    notify: mst_notify_fn,
    user: *mut c_void,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let storage = &unsafe { at(storage)? }.storage;
        let notify = notify.ok_or(invalid(c"a function is NULL"))?;
        let taken = storage.ticket::<Buffer>(ticket ^ TICKET).ok_or(STALE)?;
        let notify = Arc::new(Notify {
            notify,
            user: User(user),
            state: AtomicU8::new(0),
        });
        let complete = taken.wake_when_complete(&Waker::from(Arc::clone(&notify)));
        if complete || taken.is_still_held() {
            notify.mark(WOKEN);
        }
        let _ = taken.into_bits();
        notify.mark(KEPT);
        Ok(())
    })
}

/// Frees a ticket without claiming it: its request goes on, and its outcome is dropped. (Memory
/// that was lent must stay valid until it has completed: a group or a fence tells.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_ticket_free(
    storage: *mut mst_storage,
    ticket: mst_ticket,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_ticket_wait`.
        let storage = &unsafe { at(storage)? }.storage;
        storage
            .ticket::<Buffer>(ticket ^ TICKET)
            .map(drop)
            .ok_or(STALE)
    })
}

/// Frees the buffer and the error of a completion, and sets them to NULL. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_completion_free(completion: *mut mst_completion) {
    unharmed((), || {
        // SAFETY: see `mst_ticket_wait`.
        unsafe {
            if let Ok(completion) = at_mut(completion) {
                drop(take(std::mem::take(&mut completion.buffer)));
                drop(take(std::mem::take(&mut completion.error)));
            }
        }
    });
}

/// A ticket that completes once the file is open, for `mst_file_info_wait` later; see there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_file_opened(
    storage: *mut mst_storage,
    file: mst_file,
    ticket: *mut mst_ticket,
) -> mst_result {
    let file = FileId::from_bits(file);
    // SAFETY: see `mst_storage_create`.
    unsafe {
        border_to(ticket, || {
            Ok(number_of_ticket(at(storage)?.storage.opened(file)?))
        })
    }
}

/// Waits until the file of a ticket of `mst_file_opened` is open, and fills `info`, whose size must
/// be set. The ticket is claimed, but for `MST_ERROR_NOT_READY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_file_info_wait(
    storage: *mut mst_storage,
    ticket: mst_ticket,
    timeout_ns: u64,
    info: *mut mst_file_info,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let (storage, _) = unsafe { (at(storage)?, check_sized(info)?) };
        let outcome = claim::<FileInfo>(storage, ticket, timeout_ns)?;
        let known = outcome.into_result()?;
        let filled = mst_file_info {
            size: size_of::<mst_file_info>(),
            length: known.len,
            device: known.identity.device,
            inode: known.identity.inode,
            modified_ns: known.identity.modified_ns as i64,
            direct: u32::from(known.direct),
            reserved: 0,
        };
        // SAFETY: as above.
        unsafe { fill_sized(info, &filled) }
    })
}
