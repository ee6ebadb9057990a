//! An eventfd.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::error::IoError;

/// A non-blocking, close-on-exec eventfd, readable after a signal until it is cleared.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Makes an eventfd with a count of 0.
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` if no descriptor is left; else the system's error.
    pub fn new() -> Result<EventFd, IoError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags)
            .map(EventFd)
            .map_err(|error| IoError::new("eventfd", error))
    }

    /// Makes the descriptor readable. Never blocks; may be called from any thread.
    pub fn signal(&self) {
        // Fails only with EAGAIN at a count of 2⁶⁴ − 2, when the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Resets the event, and returns whether it was signaled. Never blocks.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }

    /// Returns the event for other event loops.
    #[must_use]
    pub fn event(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn is_readable(event: &EventFd) -> bool {
        let mut polled = [PollFd::new(event, PollFlags::IN)];
        let none = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&none)).unwrap() == 1
    }

    #[test]
    fn a_signal_is_readable_until_it_is_cleared() {
        let event = EventFd::new().unwrap();
        assert!(!is_readable(&event) && !event.clear());
        event.signal();
        event.signal();
        assert!(is_readable(&event));
        assert!(event.clear());
        assert!(!is_readable(&event) && !event.clear());
    }

    #[test]
    fn it_neither_blocks_nor_survives_exec() {
        let event = EventFd::new().unwrap();
        let status = rustix::fs::fcntl_getfl(&event).unwrap();
        assert!(status.contains(rustix::fs::OFlags::NONBLOCK));
        let flags = rustix::io::fcntl_getfd(&event).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}
