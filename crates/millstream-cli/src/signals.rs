//! Interruption: Ctrl-C, SIGTERM and a lost terminal end the program without a partial file.
//!
//! A thread of its own waits for the signals. It does not ask the working threads to stop, since
//! those may hang in a read that never returns: it removes every unfinished output (no output can
//! be begun or finished from then on) and ends the process with status 1.
//!
//! Signals that the parent had ignored stay ignored: `nohup` and a shell's background jobs rely
//! on it. SIGXFSZ is caught so that `ulimit -f` is an error of the write, which is cleaned up, and
//! not the end of the process, which would not be. SIGPIPE is ignored by Rust's runtime already.
//!
//! # Safety
//! One call of `sigaction` that only asks.
#![expect(
    unsafe_code,
    reason = "asking how a signal is handled has no safe binding"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::{self, STATUS_FAILED};
use crate::{output, progress};

/// Starts to watch for signals. Called once, before anything else of the program.
///
/// # Errors
/// The system refuses a handler or a thread.
pub(crate) fn watch() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let wanted: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|&signal| !is_ignored(signal))
        .collect();
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new()
        .name(String::from("signals"))
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                interrupt(signal);
            }
        })?;
    Ok(())
}

fn interrupt(signal: i32) {
    output::abandon_all();
    progress::clear();
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    failure::tell(&format!("interrupted by {name}"));
    std::process::exit(i32::from(STATUS_FAILED));
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call changes nothing and only writes `action`, which is
    // zeroed memory of the right type made above, so it is initialised whatever the call returns.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
