//! Numbers: files, tickets, priorities.

use millstream::Priority;

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
    Ok(match number {
        MST_PRIORITY_DEFAULT => None,
        MST_PRIORITY_LOW => Some(Priority::Low),
        MST_PRIORITY_NORMAL => Some(Priority::Normal),
        MST_PRIORITY_HIGH => Some(Priority::High),
        MST_PRIORITY_REALTIME => Some(Priority::Realtime),
        _ => return Err(invalid(c"unknown priority")),
    })
}

pub(crate) fn number_of(priority: Priority) -> mst_priority {
    priority as mst_priority + MST_PRIORITY_LOW
}
