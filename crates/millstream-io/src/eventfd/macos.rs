//! An event as a pipe, which is readable from a signal until it is cleared.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::pipe;

use crate::error::IoError;

/// An event, set by a signal until it is cleared.
#[derive(Debug)]
pub struct EventFd {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl EventFd {
    /// Makes an event that is not set.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> Result<EventFd, IoError> {
        let made = || {
            let (reader, writer) = pipe()?;
            for end in [&reader, &writer] {
                fcntl_setfl(end, OFlags::NONBLOCK)?;
                rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
            }
            Ok(EventFd { reader, writer })
        };
        made().map_err(|errno: rustix::io::Errno| IoError::new("pipe", errno))
    }

    /// Sets the event. Never blocks; may be called from any thread.
    pub fn signal(&self) {
        // A full pipe is readable anyway.
        let _ = rustix::io::write(&self.writer, &[1]);
    }

    /// Resets the event, and returns whether it was signaled. Never blocks.
    pub fn clear(&self) -> bool {
        let mut any = false;
        while rustix::io::read(&self.reader, &mut [0; 64]).is_ok_and(|bytes| bytes > 0) {
            any = true;
        }
        any
    }

    /// Returns the event for other event loops.
    #[must_use]
    pub fn event(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
