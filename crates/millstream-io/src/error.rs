//! Errors of the operating system, as values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number of the system: `errno`, or on Windows that of `GetLastError`. Kept as a number
/// so that a completion carries it without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Constants with the system's own numbers: `errno` on Unix, those of `GetLastError` on Windows.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $unix:ident, $windows:ident;)*) => {
        impl Errno {$(
            $(#[$doc])*
            #[cfg(unix)]
            pub const $name: Errno = Errno(libc::$unix);
            $(#[$doc])*
            #[cfg(windows)]
            pub const $name: Errno = Errno(windows_sys::Win32::Foundation::$windows as i32);
        )*}
    };
}

numbers! {
    /// The call was interrupted and may be retried (`EINTR`).
    INTERRUPTED = EINTR, ERROR_RETRY;
    /// A resource is temporarily unavailable; the call may be retried (`EAGAIN`).
    AGAIN = EAGAIN, ERROR_NO_SYSTEM_RESOURCES;
    /// The device failed (`EIO`).
    IO = EIO, ERROR_IO_DEVICE;
    /// An argument is invalid: usually a misaligned direct read (`EINVAL`).
    INVALID = EINVAL, ERROR_INVALID_PARAMETER;
    /// The path is a FIFO, a socket, a terminal or another device (`ENXIO`).
    NOT_A_FILE = ENXIO, ERROR_BAD_FILE_TYPE;
    /// The name now refers to another file (`ESTALE`).
    STALE = ESTALE, ERROR_FILE_INVALID;
    /// The operation was not started, because its device was shut down or could start no thread for
    /// it (`ECANCELED`).
    CANCELED = ECANCELED, ERROR_OPERATION_ABORTED;
    /// There is not enough memory or address space (`ENOMEM`).
    NO_MEMORY = ENOMEM, ERROR_NOT_ENOUGH_MEMORY;
    /// The disk is full (`ENOSPC`).
    NO_SPACE = ENOSPC, ERROR_DISK_FULL;
    /// The file does not exist (`ENOENT`).
    NOT_FOUND = ENOENT, ERROR_FILE_NOT_FOUND;
    /// The name is not valid on this system (`EINVAL`).
    BAD_NAME = EINVAL, ERROR_INVALID_NAME;
    /// The file exists already (`EEXIST`).
    EXISTS = EEXIST, ERROR_FILE_EXISTS;
    /// The path is a folder (`EISDIR`).
    IS_FOLDER = EISDIR, ERROR_DIRECTORY_NOT_SUPPORTED;
    /// The symbolic links of the path form a loop (`ELOOP`).
    LINK_CIRCLE = ELOOP, ERROR_CANT_RESOLVE_FILENAME;
    /// The descriptor refers to no open file, or the file was not opened for this use (`EBADF`).
    BAD_DESCRIPTOR = EBADF, ERROR_INVALID_HANDLE;
    /// The file is, or would become, too long (`EFBIG`).
    TOO_LARGE = EFBIG, ERROR_FILE_TOO_LARGE;
    /// The system does not support the operation (`ENOSYS`).
    UNSUPPORTED = ENOSYS, ERROR_NOT_SUPPORTED;
}

impl Errno {
    /// Returns the calling thread's last error.
    #[must_use]
    pub fn last() -> Errno {
        Errno::from(&std::io::Error::last_os_error())
    }
}

/// Takes the system's number from an error; [`Errno::IO`] if it has none.
impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Errno {
        error.raw_os_error().map_or(Errno::IO, Errno)
    }
}

#[cfg(unix)]
impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An error of a call of this crate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IoError {
    /// The call or operation that failed, as a phrase: `"open"`, `"io_uring_setup"`.
    pub call: &'static str,
    /// The system's error number.
    pub errno: Errno,
    /// The likely cause in words, empty where the error number suffices.
    pub cause: &'static str,
}

impl IoError {
    /// Returns an error of `call` without a cause.
    #[must_use]
    pub fn new(call: &'static str, errno: impl Into<Errno>) -> IoError {
        IoError::because(call, errno, "")
    }

    /// Returns an error of `call` with its likely cause.
    #[must_use]
    pub fn because(call: &'static str, errno: impl Into<Errno>, cause: &'static str) -> IoError {
        let errno = errno.into();
        IoError { call, errno, cause }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.errno)?;
        if !self.cause.is_empty() {
            write!(f, "; likely cause: {}", self.cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for IoError {}

impl From<IoError> for std::io::Error {
    fn from(error: IoError) -> std::io::Error {
        std::io::Error::from_raw_os_error(error.errno.0)
    }
}

/// Calls application code and returns its result; `None` if it panicked, after its panic hook ran.
pub fn guard<T>(run: impl FnOnce() -> T) -> Option<T> {
    let mut panicked = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => return Some(value),
        Err(payload) => payload,
    };
    // Dropping the payload may panic as well, with another payload.
    for _ in 0..4 {
        match catch_unwind(AssertUnwindSafe(|| drop(panicked))) {
            Ok(()) => return None,
            Err(payload) => panicked = payload,
        }
    }
    std::mem::forget(panicked);
    None
}

#[cfg(test)]
mod tests {
    use super::guard;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("a second panic on purpose");
        }
    }

    #[test]
    fn a_panic_and_the_drop_of_its_payload_are_contained() {
        assert_eq!(guard(|| 7), Some(7));
        let run = || -> u32 { std::panic::panic_any(PanicsWhenDropped) };
        assert_eq!(guard(run), None);
    }
}
