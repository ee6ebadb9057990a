//! Signals of Unix: Ctrl-C, Ctrl-\, SIGTERM and a lost terminal.
//!
//! The main thread waits for them while the command runs on another one. The kernel prefers the
//! main thread for a handler, and if that hung in a read of a network or FUSE file system, the
//! handler would run only when the read returns, if ever.
//!
//! Signals that the parent ignored stay ignored: `nohup` and a shell's background jobs rely on it.
//! SIGXFSZ has a handler so that exceeding `ulimit -f` is a write error, which is cleaned up after,
//! and does not kill the process. SIGPIPE is already ignored by Rust's runtime.

use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::failure::STATUS_FAILED;

/// Stack of the command's thread: that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// Whether an ending signal ends the process at once, whatever its threads wait for.
static AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Runs the command, and handles the ending signals that are not ignored. Call once, on the main
/// thread.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    flag::register(SIGXFSZ, Arc::default())?;
    let mut watched = vec![SIGINT, SIGTERM, SIGHUP, SIGQUIT];
    watched.retain(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(&watched)?;
    for signal in watched {
        flag::register_conditional_default(signal, Arc::clone(&AT_ONCE))?;
    }
    let handle = signals.handle();
    let command = std::thread::Builder::new()
        .name(String::from("command"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            if super::is_interrupted() {
                super::end_by_last();
            }
            handle.close();
            done
        })?;
    if let Some(signal) = signals.forever().next() {
        super::interrupt(signal, signal_name(signal).unwrap_or("a signal"));
    }
    let done = command.join().and_then(|done| done);
    Ok(done.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Lets the next ending signal end the process at once.
pub(super) fn end_by_next() {
    AT_ONCE.store(true, Ordering::Release);
}

/// Ends the process as if by a closed pipe: with SIGPIPE.
pub(crate) fn end_by_closed_pipe() -> ! {
    end_by(SIGPIPE)
}

/// Ends the process by the default action of a signal; 0 stands for none.
pub(super) fn end_by(signal: i32) -> ! {
    // Signals do not end PID 1 of a namespace.
    if signal != 0 && std::process::id() != 1 {
        let _ = emulate_default_handler(signal);
    }
    std::process::exit(i32::from(STATUS_FAILED));
}

#[expect(unsafe_code, reason = "reading a signal's action has no safe binding")]
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call changes nothing and only writes `action`, which is
    // zeroed memory of the right type made above, so it is initialized whatever the call returns.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
