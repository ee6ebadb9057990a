//! Interruption (Ctrl-C, termination, a lost terminal) ends the program and leaves no partial file.
//!
//! The thread that handles an interruption runs no part of the command. It does not ask the
//! command's threads to stop, since those may hang in a read that never returns: it removes every
//! unfinished output (from then on none can be created or finished) and ends the process as
//! interrupted, so a shell ends its script, too. A command that reports about an interruption
//! (`load` counts canceled files) sets a canceler while it works, and then has [`INTERRUPT_GRACE`]
//! to end by itself.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use millstream_io::fs::abandon_temporary_files;

use crate::failure;
use crate::limits::INTERRUPT_GRACE;
use crate::progress;

#[cfg_attr(unix, path = "signals/unix.rs")]
#[cfg_attr(windows, path = "signals/windows.rs")]
mod system;

pub(crate) use system::{end_by_closed_pipe, run};

/// Called on an interruption, on the thread that handles it.
type Canceler = Box<dyn Fn() + Send>;

static CANCELER: Mutex<Option<Canceler>> = Mutex::new(None);

/// Sets what an interruption calls before it gives the command time to end by itself; with `None`
/// an interruption ends the program at once.
pub(crate) fn set_canceler(cancel: Option<Canceler>) {
    *CANCELER.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
}

/// The signal that interrupted the program; 0 for none.
static LAST: AtomicI32 = AtomicI32::new(0);

/// Ends the program, interrupted by the signal of this number and name.
fn interrupt(signal: i32, name: &str) -> ! {
    LAST.store(signal, Ordering::Release);
    abandon_temporary_files();
    // What follows may block: a full pipe without a reader.
    system::end_by_next();
    progress::silence();
    failure::tell(&format!("interrupted by {name}"));
    let canceler = CANCELER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(cancel) = canceler {
        cancel();
        // Usually the command ends the process long before; a second signal does, too.
        std::thread::sleep(INTERRUPT_GRACE);
    }
    system::end_by(signal);
}

#[cfg(unix)]
fn is_interrupted() -> bool {
    LAST.load(Ordering::Acquire) != 0
}

/// Ends the process by the signal that interrupted it.
pub(crate) fn end_by_last() -> ! {
    system::end_by(LAST.load(Ordering::Acquire))
}
