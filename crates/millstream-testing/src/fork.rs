//! A forked child of a test, for the effects of a fork on threads, locks and memory. (To restrict a
//! process, see [`child`](crate::child).)
#![expect(unsafe_code, reason = "forks, and waits for the child")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{PATIENCE, wait_for_end};

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
    let process = rustix::process::Pid::from_raw(id).expect("a child has a number");
    let has_ended = wait_for_end(process, PATIENCE);
    let mut status = 0;
    // SAFETY: ends and reaps the child made above, and writes one number.
    unsafe {
        libc::kill(id, libc::SIGKILL);
        libc::waitpid(id, &raw mut status, 0);
    }
    assert!(has_ended, "the forked child waits for ever");
    assert!(
        libc::WIFEXITED(status),
        "the forked child was ended by a signal: {status:#x}"
    );
    libc::WEXITSTATUS(status)
}
