//! Interruption: Ctrl-C, SIGTERM and a lost terminal end the program without a partial file.
//!
//! A thread of its own waits for the signals. It does not ask the working threads to stop, since
//! those may hang in a read that never returns: it removes every unfinished output (no output can
//! be begun or finished from then on) and ends the process with status 1. A command that has
//! something to say about an interruption (`load` counts what was cancelled) sets a canceller for a
//! while, and then has [`INTERRUPT_GRACE`] to end by itself.
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
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::{self, STATUS_FAILED};
use crate::limits::INTERRUPT_GRACE;
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
                interrupt(signal, &mut signals);
            }
        })?;
    Ok(())
}

/// What an interruption calls first, on the signal thread.
type Canceller = Box<dyn Fn() + Send>;

static CANCELLER: Mutex<Option<Canceller>> = Mutex::new(None);

/// From now on an interruption calls `cancel` and gives the command time to end by itself; with
/// `None` it ends the program at once again.
pub(crate) fn set_canceller(cancel: Option<Canceller>) {
    *CANCELLER.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
}

fn interrupt(signal: i32, signals: &mut Signals) {
    output::abandon_all();
    progress::clear();
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    failure::tell(&format!("interrupted by {name}"));
    let canceller = CANCELLER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(cancel) = canceller {
        cancel();
        wait_for_another(signals);
    }
    std::process::exit(i32::from(STATUS_FAILED));
}

/// Waits until the grace is over or another signal comes. The command ends the process long
/// before, usually.
fn wait_for_another(signals: &mut Signals) {
    let begun = Instant::now();
    while begun.elapsed() < INTERRUPT_GRACE && signals.pending().next().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
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
