//! An event that other event loops can wait for: a non-blocking eventfd, and on Windows an event
//! object.
//!
//! Used to export completions to `poll`, `epoll` or a ring of the application. (The engine's own
//! doorbell has a blocking eventfd, because a ring reads it; see `device/doorbell.rs`.)

#[cfg_attr(target_os = "linux", path = "eventfd/linux.rs")]
#[cfg_attr(target_os = "macos", path = "eventfd/macos.rs")]
#[cfg_attr(windows, path = "eventfd/windows.rs")]
mod system;

pub use system::{BorrowedEvent, EventFd, number_of};
