//! An event object that stays set until it is reset.
#![expect(unsafe_code, reason = "calls the system with the handle of an event")]

use std::os::windows::io::{
    AsHandle as _, AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle,
};
use std::ptr::null;

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Threading::{
    CreateEventW, ResetEvent, SetEvent, WaitForSingleObject,
};

use crate::error::{Errno, IoError};

/// An event, set by a signal until it is cleared.
#[derive(Debug)]
pub struct EventFd(OwnedHandle);

/// A borrowed event: a handle.
pub type BorrowedEvent<'a> = BorrowedHandle<'a>;

/// Returns the number of an event, for C: handles have 32 significant bits.
#[must_use]
pub fn number_of(event: BorrowedEvent<'_>) -> i32 {
    event.as_raw_handle().addr() as i32
}

impl EventFd {
    /// Makes an event that is not set.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> Result<EventFd, IoError> {
        // SAFETY: makes an unnamed manual-reset event.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(IoError::new("CreateEvent", Errno::last()));
        }
        // SAFETY: a handle just made, which nothing else owns.
        Ok(EventFd(unsafe { OwnedHandle::from_raw_handle(event) }))
    }

    /// Sets the event. Never blocks; may be called from any thread.
    pub fn signal(&self) {
        // SAFETY: an open handle of an event.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }

    /// Resets the event, and returns whether it was signaled. Never blocks.
    pub fn clear(&self) -> bool {
        // SAFETY: an open handle of an event.
        let set = unsafe { WaitForSingleObject(self.0.as_raw_handle(), 0) } == WAIT_OBJECT_0;
        if set {
            // SAFETY: as above.
            unsafe { ResetEvent(self.0.as_raw_handle()) };
        }
        set
    }

    /// Returns the event for other event loops.
    #[must_use]
    pub fn event(&self) -> BorrowedEvent<'_> {
        self.0.as_handle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_until_it_is_cleared() {
        let event = EventFd::new().unwrap();
        assert!(!event.clear());
        event.signal();
        event.signal();
        assert!(event.clear() && !event.clear());
    }
}
