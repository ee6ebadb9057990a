//! Status arrays: one slot per status entry, read without a lock.
//!
//! A status entry takes effect once everything before it in its queue has completed, and writes the
//! result of the requests since the previous status entry of that queue.
//!
//! ```
//! let statuses = millstream::StatusArray::new(2);
//! assert!(!statuses.is_complete(0));
//! assert_eq!(statuses.result(0), None);
//! ```

use std::sync::Arc;

use crate::error::ErrorKind;
use crate::sync::{AtomicU32, Ordering};

const PENDING: u32 = u32::MAX;

/// Slots that status entries fill. A clone is another handle; all methods may be called
/// from any thread.
#[derive(Clone)]
pub struct StatusArray(Arc<[AtomicU32]>);

impl StatusArray {
    /// Creates an array of `count` pending slots.
    #[must_use]
    pub fn new(count: usize) -> StatusArray {
        StatusArray((0..count).map(|_| AtomicU32::new(PENDING)).collect())
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether slot `index` was written.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn is_complete(&self, index: usize) -> bool {
        self.0[index].load(Ordering::Acquire) != PENDING
    }

    /// Returns the result in slot `index`: `None` while pending, else 0 if everything succeeded
    /// (canceled requests count as success), or the number of the [`ErrorKind`] of the first
    /// failure in submission order.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn result(&self, index: usize) -> Option<u32> {
        match self.0[index].load(Ordering::Acquire) {
            PENDING => None,
            code => Some(code),
        }
    }

    /// Makes slot `index` pending again.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn reset(&self, index: usize) {
        self.0[index].store(PENDING, Ordering::Release);
    }

    pub(crate) fn write(&self, index: usize, failure: Option<ErrorKind>) {
        if let Some(slot) = self.0.get(index) {
            slot.store(failure.map_or(0, |kind| kind as u32), Ordering::Release);
        }
    }
}
