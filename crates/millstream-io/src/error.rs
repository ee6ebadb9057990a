//! Errors of the operating system, as values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number of the system: `errno`, or on Windows what `GetLastError` returns. Kept as a
/// number so that it travels in a completion without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Constants with the system's own numbers: an `errno` of Unix, and what `GetLastError` returns on
/// Windows.
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
    /// The call was interrupted and may be made again (`EINTR`).
    INTERRUPTED = EINTR, ERROR_RETRY;
    /// The system is short of something for the moment; the call may be made again (`EAGAIN`).
    AGAIN = EAGAIN, ERROR_NO_SYSTEM_RESOURCES;
    /// The device failed (`EIO`).
    IO = EIO, ERROR_IO_DEVICE;
    /// An argument is invalid: usually a misaligned direct read (`EINVAL`).
    INVALID = EINVAL, ERROR_INVALID_PARAMETER;
    /// The path is a FIFO, a socket, a terminal or another device (`ENXIO`).
    NOT_A_FILE = ENXIO, ERROR_BAD_FILE_TYPE;
    /// The name now means another file (`ESTALE`).
    STALE = ESTALE, ERROR_FILE_INVALID;
    /// Never begun, because its device was shut down (`ECANCELED`).
    CANCELED = ECANCELED, ERROR_OPERATION_ABORTED;
    /// There is no memory or address space (`ENOMEM`).
    NO_MEMORY = ENOMEM, ERROR_NOT_ENOUGH_MEMORY;
    /// The disk is full (`ENOSPC`).
    NO_SPACE = ENOSPC, ERROR_DISK_FULL;
    /// No file has the name (`ENOENT`).
    NOT_FOUND = ENOENT, ERROR_FILE_NOT_FOUND;
    /// The system takes no such name (`EINVAL`).
    BAD_NAME = EINVAL, ERROR_INVALID_NAME;
    /// A file has the name already (`EEXIST`).
    EXISTS = EEXIST, ERROR_FILE_EXISTS;
    /// The path is a folder (`EISDIR`).
    IS_FOLDER = EISDIR, ERROR_DIRECTORY_NOT_SUPPORTED;
    /// Symbolic links lead to each other (`ELOOP`).
    LINK_CIRCLE = ELOOP, ERROR_CANT_RESOLVE_FILENAME;
    /// The descriptor is of no open file, or was not opened for this (`EBADF`).
    BAD_DESCRIPTOR = EBADF, ERROR_INVALID_HANDLE;
    /// The file is, or would become, too long (`EFBIG`).
    TOO_LARGE = EFBIG, ERROR_FILE_TOO_LARGE;
    /// The system cannot do this (`ENOSYS`).
    UNSUPPORTED = ENOSYS, ERROR_NOT_SUPPORTED;
}

impl Errno {
    /// The calling thread's last error.
    #[must_use]
    pub fn last() -> Errno {
        Errno::from(&std::io::Error::last_os_error())
    }
}

/// The system's number in an error; [`Errno::IO`] if it has none.
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
        write!(
            f,
            "{} (errno {})",
            std::io::Error::from_raw_os_error(self.0),
            self.0
        )
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a call of this crate can fail with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IoError {
    /// What was attempted, as a phrase: `"open"`, `"io_uring_setup"`.
    pub call: &'static str,
    /// The system's answer.
    pub errno: Errno,
    /// The likely cause in words, empty where the errno says it all.
    pub cause: &'static str,
}

impl IoError {
    /// An error of `call` without further words.
    #[must_use]
    pub fn new(call: &'static str, errno: impl Into<Errno>) -> IoError {
        IoError::because(call, errno, "")
    }

    /// The same with the likely cause.
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

/// Runs code of the application; `None` if it panicked, which its panic hook has reported.
pub fn guard<T>(run: impl FnOnce() -> T) -> Option<T> {
    let mut panicked = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => return Some(value),
        Err(payload) => payload,
    };
    // The drop of its payload may panic as well, with another one.
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
