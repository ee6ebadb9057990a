//! A forked child of a test, for the effects of a fork on threads, locks and memory. (To restrict a
//! process, see [`child`](crate::child).)
#![expect(unsafe_code, reason = "forks, and waits for the child")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Maximum run time of a forked child: one that waits for a lock or a thread of its parent never
/// ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `child` in a forked process; returns what it returns (0 to 255), or 100 if it panics. No
/// other code of the process runs in the child, and nothing is dropped.
///
/// # Panics
/// If the child is ended by a signal, or does not end in time.
pub fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs the body of a test and leaves by `_exit`. It may allocate: glibc and
    // musl reset the locks of their allocators in a child.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "no process can be made");
    if id == 0 {
        let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(100);
        // SAFETY: ends the child.
        unsafe { libc::_exit(status) }
    }
    let until = Instant::now() + PATIENCE;
    let mut status = 0;
    // SAFETY: waits for the child made above, and writes one number.
    while unsafe { libc::waitpid(id, &raw mut status, libc::WNOHANG) } != id {
        if Instant::now() > until {
            // SAFETY: ends and reaps the child.
            unsafe {
                libc::kill(id, libc::SIGKILL);
                libc::waitpid(id, &raw mut status, 0);
            }
            panic!("the forked child waits for ever");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(
        libc::WIFEXITED(status),
        "the forked child was ended by a signal: {status:#x}"
    );
    libc::WEXITSTATUS(status)
}
