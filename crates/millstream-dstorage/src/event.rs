//! Event objects of Windows, closed when they are dropped.
#![expect(unsafe_code, reason = "calls functions of Windows on handles")]

use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use windows_sys::Win32::Foundation::{GetLastError, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CreateEventW, ResetEvent, SetEvent, WaitForSingleObject,
};

use crate::abi::{E_HANDLE, HANDLE, HRESULT, S_OK, hresult_from_win32};

/// An event object, or another handle to one of the program.
pub(crate) struct Event(OwnedHandle);

impl Event {
    /// Creates an event that stays set until it is reset.
    pub(crate) fn new() -> Result<Event, HRESULT> {
        // SAFETY: no attributes and no name; a handle that was made is owned.
        unsafe {
            let handle = CreateEventW(std::ptr::null(), 1, 0, std::ptr::null());
            match handle.is_null() {
                true => Err(last_error()),
                false => Ok(Event(OwnedHandle::from_raw_handle(handle))),
            }
        }
    }

    /// Returns another handle to the program's event, which stays valid if the program closes its
    /// own.
    pub(crate) fn duplicate(handle: HANDLE) -> Result<Event, HRESULT> {
        // Pseudo handles (-1 to -6: this process, this thread) name no event.
        if handle.is_null() || handle as isize >= -16 && (handle as isize) < 0 {
            return Err(E_HANDLE);
        }
        // SAFETY: the system checks the handle.
        let own = unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned();
        own.map(Event).map_err(|_| last_error())
    }

    pub(crate) fn handle(&self) -> HANDLE {
        self.0.as_raw_handle()
    }

    /// Sets it; fails for another kind of handle.
    pub(crate) fn set(&self) -> HRESULT {
        // SAFETY: an open handle.
        match unsafe { SetEvent(self.handle()) } {
            0 => last_error(),
            _ => S_OK,
        }
    }

    /// Waits until it is set, at most so long; returns whether it is.
    pub(crate) fn is_set_within(&self, time: Duration) -> bool {
        // SAFETY: an open handle of an event.
        unsafe { WaitForSingleObject(self.handle(), time.as_millis() as u32) == WAIT_OBJECT_0 }
    }

    pub(crate) fn reset(&self) {
        // SAFETY: an open handle of an event.
        unsafe { ResetEvent(self.handle()) };
    }
}

/// Returns the `HRESULT` of the calling thread's last error.
pub(crate) fn last_error() -> HRESULT {
    // SAFETY: without arguments.
    match hresult_from_win32(unsafe { GetLastError() }) {
        S_OK => crate::abi::E_FAIL,
        error => error,
    }
}
