//! An event that other event loops can wait for: a non-blocking eventfd on Linux, a pipe on macOS,
//! an event object on Windows.
//!
//! Exports completions to `poll`, `epoll` or a ring of the application. (The engine's own doorbell
//! has a blocking eventfd, because a ring reads it; see `device/doorbell.rs`.)

#[cfg_attr(target_os = "linux", path = "eventfd/linux.rs")]
#[cfg_attr(target_os = "macos", path = "eventfd/macos.rs")]
#[cfg_attr(windows, path = "eventfd/windows.rs")]
mod system;

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
