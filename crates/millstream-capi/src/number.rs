//! Numbers: files, tickets, priorities, what requests wait for.

use std::ffi::{CString, c_char};
use std::iter::once;
use std::sync::LazyLock;

use millstream::{Priority, WaitsFor};

use crate::error::{Failure, invalid};

/// A file of a storage: a number, to be copied and kept at will. 0 is no file.
pub type mst_file = u64;

/// The completion of one request, to come. 0 is no ticket.
pub type mst_ticket = u64;

/// Importance of a request.
pub type mst_priority = i32;
/// Of a request: the queue's; of a queue: normal.
pub const MST_PRIORITY_DEFAULT: mst_priority = 0;
/// Background.
pub const MST_PRIORITY_LOW: mst_priority = 1;
/// Between low and high.
pub const MST_PRIORITY_NORMAL: mst_priority = 2;
/// Before normal.
pub const MST_PRIORITY_HIGH: mst_priority = 3;
/// Before everything else; bulk in flight is kept small while such requests arrive.
pub const MST_PRIORITY_REALTIME: mst_priority = 4;

/// `None` for the default.
pub(crate) fn priority_of(number: mst_priority) -> Result<Option<Priority>, Failure> {
    match number {
        MST_PRIORITY_DEFAULT => Ok(None),
        MST_PRIORITY_LOW..=MST_PRIORITY_REALTIME => {
            Ok(Some(Priority::ALL[(number - MST_PRIORITY_LOW) as usize]))
        }
        _ => Err(invalid(c"unknown priority")),
    }
}
const _: () = assert!(Priority::ALL.len() as mst_priority == MST_PRIORITY_REALTIME);

pub(crate) fn number_of(priority: Priority) -> mst_priority {
    priority as mst_priority + MST_PRIORITY_LOW
}

/// What a request waits for. Later versions may add values.
pub type mst_waits_for = i32;
/// Nothing: it has completed, or never completes, because its storage was closed or forked.
pub const MST_WAITS_FOR_NOTHING: mst_waits_for = 0;
/// The engine, which has not taken it in yet.
pub const MST_WAITS_FOR_ENGINE: mst_waits_for = 1;
/// Earlier entries: those of its queue, for calls on names; earlier writes of its file, for syncs;
/// the append before it, for appends.
pub const MST_WAITS_FOR_EARLIER: mst_waits_for = 2;
/// The open of its file, or a call on it.
pub const MST_WAITS_FOR_FILE: mst_waits_for = 3;
/// A free descriptor to open its file with.
pub const MST_WAITS_FOR_DESCRIPTOR: mst_waits_for = 4;
/// An operation on a mount that can hang, or room for one more.
pub const MST_WAITS_FOR_MOUNT: mst_waits_for = 5;
/// Its fence.
pub const MST_WAITS_FOR_FENCE: mst_waits_for = 6;
/// Its queue, which is paused.
pub const MST_WAITS_FOR_PAUSE: mst_waits_for = 7;
/// The bandwidth of its queue.
pub const MST_WAITS_FOR_BANDWIDTH: mst_waits_for = 8;
/// Staging memory, which other requests use and will give back.
pub const MST_WAITS_FOR_STAGING: mst_waits_for = 9;
/// The device: its turn there, or its operations in flight.
pub const MST_WAITS_FOR_DEVICE: mst_waits_for = 10;
/// A decode job of the library.
pub const MST_WAITS_FOR_JOB: mst_waits_for = 11;
/// The application: a job of its job system, a codec that keeps its job, a supplier of memory; or
/// staging memory that only requests waiting for these use.
pub const MST_WAITS_FOR_APPLICATION: mst_waits_for = 12;
/// The submission of its batch.
pub const MST_WAITS_FOR_SUBMISSION: mst_waits_for = 13;

static NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
    let names = WaitsFor::ALL.iter().map(|cause| cause.name());
    let names = once("nothing").chain(names).map(CString::new);
    names.collect::<Result<_, _>>().expect("names have no NUL")
});

/// The name of what a request waits for, such as "fence"; "unknown" for another number. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn mst_waits_for_name(waits_for: mst_waits_for) -> *const c_char {
    let name = usize::try_from(waits_for).ok().and_then(|at| NAMES.get(at));
    name.map_or(c"unknown", |name| name).as_ptr()
}

pub(crate) fn number_of_cause(waits_for: Option<WaitsFor>) -> mst_waits_for {
    waits_for.map_or(MST_WAITS_FOR_NOTHING, |cause| {
        cause as mst_waits_for + MST_WAITS_FOR_ENGINE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_numbers_and_names() {
        let last = number_of_cause(WaitsFor::ALL.last().copied());
        assert_eq!(last, MST_WAITS_FOR_SUBMISSION, "each cause has a number");
        let numbers = [
            (MST_WAITS_FOR_NOTHING, c"nothing"),
            (MST_WAITS_FOR_FENCE, c"fence"),
            (MST_WAITS_FOR_SUBMISSION, c"submission"),
            (MST_WAITS_FOR_SUBMISSION + 1, c"unknown"),
            (-1, c"unknown"),
            (i32::MAX, c"unknown"),
        ];
        for (number, expected) in numbers {
            // SAFETY: names are texts that live as long as the program.
            let name = unsafe { std::ffi::CStr::from_ptr(mst_waits_for_name(number)) };
            assert_eq!(name, expected, "{number}");
        }
    }
}
