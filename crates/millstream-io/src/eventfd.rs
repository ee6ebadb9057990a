//! An event that other event loops can wait for: a non-blocking eventfd on Linux, a pipe on macOS,
//! an event object on Windows.
//!
//! Exports completions to `poll`, `epoll` or a ring of the application. (The engine's own doorbell
//! has a blocking eventfd, because a ring reads it; see `device/doorbell.rs`.)

pub use system::EventFd;
#[cfg(windows)]
pub use system::{BorrowedEvent, number_of};

/// A borrowed event: a file descriptor.
#[cfg(unix)]
pub type BorrowedEvent<'a> = std::os::fd::BorrowedFd<'a>;

/// Returns the number of an event, for C.
#[cfg(unix)]
#[must_use]
pub fn number_of(event: BorrowedEvent<'_>) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(&event)
}

/// An eventfd.
#[cfg(target_os = "linux")]
mod system {
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
}

/// An event as a pipe, which is readable from a signal until it is cleared.
#[cfg(target_os = "macos")]
mod system {
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
}

/// An event object that stays set until it is reset.
#[cfg(windows)]
#[expect(unsafe_code, reason = "calls the system with the handle of an event")]
mod system {
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
}
