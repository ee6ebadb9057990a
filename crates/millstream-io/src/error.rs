//! Errors of the operating system, as values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A raw `errno`. Kept as a number so that it travels in a completion without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// `EINTR`: the call was interrupted and may be made again.
    pub const INTERRUPTED: Errno = Errno(libc::EINTR);
    /// `EAGAIN`: the call may be made again.
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    /// `EIO`: the device failed.
    pub const IO: Errno = Errno(libc::EIO);
    /// `EINVAL`: usually a misaligned direct read.
    pub const INVALID: Errno = Errno(libc::EINVAL);

    /// `ENXIO`: the path is a FIFO, a socket or a terminal.
    pub const NOT_A_FILE: Errno = Errno(libc::ENXIO);
    /// `ESTALE`: the name now means another file.
    pub const STALE: Errno = Errno(libc::ESTALE);
    /// `ECANCELED`: never begun, because its device was shut down.
    pub const CANCELED: Errno = Errno(libc::ECANCELED);

    /// The calling thread's last error.
    #[must_use]
    pub fn last() -> Errno {
        Errno(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
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
