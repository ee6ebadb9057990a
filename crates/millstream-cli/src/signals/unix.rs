//! Signals of Unix: Ctrl-C, Ctrl-\, SIGTERM and a lost terminal.
//!
//! The signals are blocked in every thread and awaited by a dedicated one. A handler would not do:
//! the kernel may choose the main thread for it, and if that hangs in a read of a network or FUSE
//! file system, the handler runs only when the read returns, if ever.
//!
//! Signals that the parent ignored stay ignored: `nohup` and a shell's background jobs rely on it.
//! SIGXFSZ is ignored so that exceeding `ulimit -f` is a write error, which is cleaned up after,
//! and does not kill the process. SIGPIPE is already ignored by Rust's runtime.
//!
//! # Safety
//! Calls the C library with signal sets and actions that live on this file's stack frames.
#![expect(
    unsafe_code,
    reason = "blocking, awaiting, ignoring and raising signals have no safe binding"
)]

use std::io;
use std::mem::MaybeUninit;

use crate::failure::STATUS_FAILED;

/// The signals that end the program, with their names.
const ENDING: [(libc::c_int, &str); 4] = [
    (libc::SIGINT, "SIGINT"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGQUIT, "SIGQUIT"),
];

/// Starts the thread that waits for the signals; call it before any other thread starts.
pub(super) fn watch() -> io::Result<()> {
    // SAFETY: SIGXFSZ is a signal, and to ignore it installs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let watched = block();
    std::thread::Builder::new()
        .name(String::from("signals"))
        .spawn(move || {
            let signal = next(&watched);
            let known = ENDING.iter().find(|(number, _)| *number == signal);
            let (_, name) = known.expect("one of those that are waited for");
            super::interrupt(signal, name);
        })?;
    Ok(())
}

/// Blocks the ending signals that are not ignored, in this thread and the threads it will start.
fn block() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initializes the set (whose memory is zeroed and of the right type, so
    // that it is initialized whatever the call returns); the other calls get the initialized set
    // and signal numbers, and a null pointer where an old set could be stored.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for (signal, _) in ENDING {
            if !is_ignored(signal) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        set.assume_init()
    }
}

/// Waits for one of the signals.
fn next(watched: &libc::sigset_t) -> libc::c_int {
    let mut signal = 0;
    loop {
        // SAFETY: the set is initialized; the call writes one number.
        if unsafe { libc::sigwait(watched, &raw mut signal) } == 0 {
            return signal;
        }
    }
}

/// Lets the next ending signal end the process, whatever its threads wait for.
pub(super) fn end_by_next() {
    for (signal, _) in ENDING {
        unblock(signal);
    }
}

/// Unblocks a signal in this thread.
fn unblock(signal: libc::c_int) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initializes the set before it is used (see `block`).
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Ends the process as if by a closed pipe: with SIGPIPE.
pub(crate) fn end_by_closed_pipe() -> ! {
    end_by(libc::SIGPIPE)
}

/// Ends the process by the default action of a signal.
pub(super) fn end_by(signal: libc::c_int) -> ! {
    // SAFETY: the default action installs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    unblock(signal);
    // SAFETY: raise sends to this thread alone, which has just unblocked the signal.
    unsafe { libc::raise(signal) };
    // The signal was 0, or the process is PID 1 of its namespace, which signals do not end.
    std::process::exit(i32::from(STATUS_FAILED));
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call changes nothing and only writes `action`, which is
    // zeroed memory of the right type made above, so it is initialized whatever the call returns.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
