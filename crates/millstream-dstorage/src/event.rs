//! Event objects of Windows, closed when they are dropped.
#![expect(unsafe_code, reason = "calls functions of Windows on handles")]

use windows_sys::Win32::Foundation::{
    CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, GetLastError, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Threading::{
    CreateEventW, GetCurrentProcess, ResetEvent, SetEvent, WaitForSingleObject,
};

use crate::abi::{E_HANDLE, HANDLE, HRESULT, S_OK, hresult_from_win32};

/// An event object, or another handle to one of the program.
pub(crate) struct Event(HANDLE);

// SAFETY: a handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the calls are atomic.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that stays set until it is reset.
    pub(crate) fn new() -> Result<Event, HRESULT> {
        // SAFETY: no attributes and no name.
        let handle = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        match handle.is_null() {
            true => Err(last_error()),
            false => Ok(Event(handle)),
        }
    }

    /// Returns another handle to the program's event, which stays valid if the program closes its
    /// own.
    pub(crate) fn duplicate(handle: HANDLE) -> Result<Event, HRESULT> {
        // Pseudo handles (-1 to -6: this process, this thread) name no event.
        if handle.is_null() || handle as isize >= -16 && (handle as isize) < 0 {
            return Err(E_HANDLE);
        }
        let mut own = std::ptr::null_mut();
        // SAFETY: the system checks the handle; `own` receives another.
        let duplicated = unsafe {
            let (process, same) = (GetCurrentProcess(), DUPLICATE_SAME_ACCESS);
            DuplicateHandle(process, handle, process, &mut own, 0, 0, same)
        };
        match duplicated {
            0 => Err(last_error()),
            _ => Ok(Event(own)),
        }
    }

    pub(crate) fn handle(&self) -> HANDLE {
        self.0
    }

    /// Sets it; fails for another kind of handle.
    pub(crate) fn set(&self) -> HRESULT {
        // SAFETY: an open handle.
        match unsafe { SetEvent(self.0) } {
            0 => last_error(),
            _ => S_OK,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        // SAFETY: an open handle of an event.
        unsafe { WaitForSingleObject(self.0, 0) == WAIT_OBJECT_0 }
    }

    pub(crate) fn reset(&self) {
        // SAFETY: an open handle of an event.
        unsafe { ResetEvent(self.0) };
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: an open handle that nothing uses any more.
        unsafe { CloseHandle(self.0) };
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
