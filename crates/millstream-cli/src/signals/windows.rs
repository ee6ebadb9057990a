//! Interruptions on Windows: Ctrl-C, Ctrl-Break, a closed console, and the end of the session. The
//! system calls a function for them on a thread that it starts, and ends the process when it
//! returns from a closed console: so outputs are removed before it returns, which the handlers of
//! general crates do not wait for.
#![expect(unsafe_code, reason = "installs a function that the system calls")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::Foundation::STATUS_CONTROL_C_EXIT;
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};

use crate::failure::STATUS_FAILED;

/// The events that end the program, with their names.
const ENDING: [(u32, &str); 5] = [
    (CTRL_C_EVENT, "Ctrl-C"),
    (CTRL_BREAK_EVENT, "Ctrl-Break"),
    (CTRL_CLOSE_EVENT, "the end of the console"),
    (CTRL_LOGOFF_EVENT, "the end of the session"),
    (CTRL_SHUTDOWN_EVENT, "the end of the system"),
];

/// Registers [`interrupted`] with the system, and runs the command.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    // SAFETY: the function has the signature that the system calls, and lives as long as the
    // process.
    match unsafe { SetConsoleCtrlHandler(Some(interrupted), 1) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(work()),
    }
}

/// The console handler; the system calls it on a new thread each time.
unsafe extern "system" fn interrupted(event: u32) -> i32 {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    let Some((_, name)) = ENDING.iter().find(|(number, _)| *number == event) else {
        return 0;
    };
    if BEGUN.swap(true, Ordering::AcqRel) {
        end_by(STATUS_CONTROL_C_EXIT);
    }
    super::interrupt(STATUS_CONTROL_C_EXIT, name)
}

/// Nothing to do: each interruption is handled on a thread of its own.
pub(super) fn end_by_next() {}

/// Ends the process as after a closed pipe, for which Windows has no status.
pub(crate) fn end_by_closed_pipe() -> ! {
    end_by(0)
}

/// Ends the process with a system status; 0 stands for [`STATUS_FAILED`].
pub(super) fn end_by(status: i32) -> ! {
    match status {
        0 => std::process::exit(i32::from(STATUS_FAILED)),
        status => std::process::exit(status),
    }
}
