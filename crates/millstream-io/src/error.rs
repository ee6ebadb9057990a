//! Errors of the operating system, as values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number of the system: `errno`, or on Windows what `GetLastError` returns. Kept as a
/// number so that it travels in a completion without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// The system's own numbers: `errno` values of Unix.
#[cfg(unix)]
mod numbers {
    pub(super) use libc::{
        EAGAIN as AGAIN, EBADF as BAD_DESCRIPTOR, ECANCELED as CANCELED, EEXIST as EXISTS,
        EFBIG as TOO_LARGE, EINTR as INTERRUPTED, EINVAL as BAD_NAME, EINVAL as INVALID, EIO as IO,
        EISDIR as IS_FOLDER, ELOOP as LINK_CIRCLE, ENOENT as NOT_FOUND, ENOMEM as NO_MEMORY,
        ENOSPC as NO_SPACE, ENOSYS as UNSUPPORTED, ENXIO as NOT_A_FILE, ESTALE as STALE,
    };
}

/// The system's own numbers: what `GetLastError` returns on Windows.
#[cfg(windows)]
mod numbers {
    use windows_sys::Win32::Foundation as system;

    pub(super) const AGAIN: i32 = system::ERROR_NO_SYSTEM_RESOURCES as i32;
    pub(super) const BAD_DESCRIPTOR: i32 = system::ERROR_INVALID_HANDLE as i32;
    pub(super) const BAD_NAME: i32 = system::ERROR_INVALID_NAME as i32;
    pub(super) const CANCELED: i32 = system::ERROR_OPERATION_ABORTED as i32;
    pub(super) const EXISTS: i32 = system::ERROR_FILE_EXISTS as i32;
    pub(super) const INTERRUPTED: i32 = system::ERROR_RETRY as i32;
    pub(super) const INVALID: i32 = system::ERROR_INVALID_PARAMETER as i32;
    pub(super) const IO: i32 = system::ERROR_IO_DEVICE as i32;
    pub(super) const IS_FOLDER: i32 = system::ERROR_DIRECTORY_NOT_SUPPORTED as i32;
    pub(super) const LINK_CIRCLE: i32 = system::ERROR_CANT_RESOLVE_FILENAME as i32;
    pub(super) const NOT_A_FILE: i32 = system::ERROR_BAD_FILE_TYPE as i32;
    pub(super) const NOT_FOUND: i32 = system::ERROR_FILE_NOT_FOUND as i32;
    pub(super) const NO_MEMORY: i32 = system::ERROR_NOT_ENOUGH_MEMORY as i32;
    pub(super) const NO_SPACE: i32 = system::ERROR_DISK_FULL as i32;
    pub(super) const STALE: i32 = system::ERROR_FILE_INVALID as i32;
    pub(super) const TOO_LARGE: i32 = system::ERROR_FILE_TOO_LARGE as i32;
    pub(super) const UNSUPPORTED: i32 = system::ERROR_NOT_SUPPORTED as i32;
}

impl Errno {
    /// The call was interrupted and may be made again (`EINTR`).
    pub const INTERRUPTED: Errno = Errno(numbers::INTERRUPTED);
    /// The system is short of something for the moment; the call may be made again (`EAGAIN`).
    pub const AGAIN: Errno = Errno(numbers::AGAIN);
    /// The device failed (`EIO`).
    pub const IO: Errno = Errno(numbers::IO);
    /// An argument is invalid: usually a misaligned direct read (`EINVAL`).
    pub const INVALID: Errno = Errno(numbers::INVALID);
    /// The path is a FIFO, a socket, a terminal or another device (`ENXIO`).
    pub const NOT_A_FILE: Errno = Errno(numbers::NOT_A_FILE);
    /// The name now means another file (`ESTALE`).
    pub const STALE: Errno = Errno(numbers::STALE);
    /// Never begun, because its device was shut down (`ECANCELED`).
    pub const CANCELED: Errno = Errno(numbers::CANCELED);
    /// There is no memory or address space (`ENOMEM`).
    pub const NO_MEMORY: Errno = Errno(numbers::NO_MEMORY);
    /// The disk is full (`ENOSPC`).
    pub const NO_SPACE: Errno = Errno(numbers::NO_SPACE);
    /// No file has the name (`ENOENT`).
    pub const NOT_FOUND: Errno = Errno(numbers::NOT_FOUND);
    /// The system takes no such name (`EINVAL`).
    pub const BAD_NAME: Errno = Errno(numbers::BAD_NAME);
    /// A file has the name already (`EEXIST`).
    pub const EXISTS: Errno = Errno(numbers::EXISTS);
    /// The path is a folder (`EISDIR`).
    pub const IS_FOLDER: Errno = Errno(numbers::IS_FOLDER);
    /// Symbolic links lead to each other (`ELOOP`).
    pub const LINK_CIRCLE: Errno = Errno(numbers::LINK_CIRCLE);
    /// The descriptor is of no open file, or was not opened for this (`EBADF`).
    pub const BAD_DESCRIPTOR: Errno = Errno(numbers::BAD_DESCRIPTOR);
    /// The file is, or would become, too long (`EFBIG`).
    pub const TOO_LARGE: Errno = Errno(numbers::TOO_LARGE);
    /// The system cannot do this (`ENOSYS`).
    pub const UNSUPPORTED: Errno = Errno(numbers::UNSUPPORTED);

    /// The calling thread's last error.
    #[must_use]
    pub fn last() -> Errno {
        Errno(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(numbers::IO),
        )
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
    pub fn new(call: &'static str, errno: Errno) -> IoError {
        IoError {
            call,
            errno,
            cause: "",
        }
    }

    /// The same with the likely cause.
    #[must_use]
    pub fn because(call: &'static str, errno: Errno, cause: &'static str) -> IoError {
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
