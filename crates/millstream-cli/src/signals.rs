//! Interruption: Ctrl-C, a request to end and a lost terminal end the program, and leave no partial
//! file.
//!
//! A thread of its own handles the interruption. It does not ask the working threads to stop, since
//! those may hang in a read that never returns: it removes every unfinished output (none can be
//! begun or finished from then on) and ends the process as interrupted, so that a shell ends the
//! script, too. A command that reports about an interruption (`load` counts what was canceled) sets
//! a canceler for a while, and then has [`INTERRUPT_GRACE`] to end by itself.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use millstream_io::fs::abandon_temporary_files;

use crate::failure;
use crate::limits::INTERRUPT_GRACE;
use crate::progress;

#[cfg_attr(unix, path = "signals/unix.rs")]
#[cfg_attr(windows, path = "signals/windows.rs")]
mod system;

pub(crate) use system::end_by_closed_pipe;

/// Starts to watch for interruptions. Called once, before anything else of the program: threads
/// inherit what is blocked.
///
/// # Errors
/// The system refuses.
pub(crate) fn watch() -> io::Result<()> {
    system::watch()
}

/// What an interruption calls first, on its thread.
type Canceler = Box<dyn Fn() + Send>;

static CANCELER: Mutex<Option<Canceler>> = Mutex::new(None);

/// From now on an interruption calls `cancel` and gives the command time to end by itself; with
/// `None` it ends the program at once again.
pub(crate) fn set_canceler(cancel: Option<Canceler>) {
    *CANCELER.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
}

/// The signal that interrupted the program; 0 for none.
static LAST: AtomicI32 = AtomicI32::new(0);

/// Ends the program, interrupted by a signal of this number and name.
fn interrupt(signal: i32, name: &str) -> ! {
    LAST.store(signal, Ordering::Release);
    abandon_temporary_files();
    // What follows may hang: a pipe that nobody reads takes no message.
    system::end_by_next();
    progress::silence();
    failure::tell(&format!("interrupted by {name}"));
    let canceler = CANCELER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(cancel) = canceler {
        cancel();
        // The command ends the process long before, usually; another signal does, too.
        std::thread::sleep(INTERRUPT_GRACE);
    }
    system::end_by(signal);
}

/// Ends the process by the signal that interrupted it.
pub(crate) fn end_by_last() -> ! {
    system::end_by(LAST.load(Ordering::Acquire))
}
