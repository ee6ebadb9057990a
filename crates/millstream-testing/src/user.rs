//! Turns this process into an ordinary user's: for use in a [`child`](crate::child) only, since it
//! cannot be undone.
//!
//! # Safety
//! The calls below change the credentials of the calling process and touch no memory
//! but their arguments. glibc applies `setuid` and its kin to all threads of the process.

#![expect(
    unsafe_code,
    reason = "changes credentials through libc, for all threads"
)]

use std::io;

use crate::Unavailable;

/// The user and group `nobody` of every Linux distribution (the kernel's overflow id).
const NOBODY: u32 = 65534;

/// Drops the privileges of this process to those of the user `nobody`, without capabilities. Does
/// nothing if the user is not root.
///
/// # Errors
/// The system refuses, as it does for root inside some containers.
pub fn become_nobody() -> Result<(), Unavailable> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // SAFETY: an empty list of groups; the pointer is not read.
    let result = unsafe { libc::setgroups(0, std::ptr::null()) };
    checked(result, "setgroups")?;
    // SAFETY: takes numbers alone.
    let result = unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) };
    checked(result, "setresgid")?;
    // SAFETY: takes numbers alone.
    let result = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
    checked(result, "setresuid")?;
    // After a change of user a process may not read its own /proc entries unless it is marked
    // dumpable.
    // SAFETY: takes numbers alone.
    let result = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    checked(result, "prctl(PR_SET_DUMPABLE)")
}

fn checked(result: i32, what: &str) -> Result<(), Unavailable> {
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(Unavailable::because(format!("{what}: {error}")))
}

/// Returns whether this process is root's, and so may mount, set up loop devices and change users.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Checks that this process is root's; `what` needs it.
///
/// # Errors
/// The process belongs to an ordinary user.
pub fn need_root(what: &str) -> Result<(), Unavailable> {
    if is_root() {
        Ok(())
    } else {
        Err(Unavailable::because(format!("{what} needs root")))
    }
}
