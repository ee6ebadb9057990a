//! The log: lines of text for whoever runs a program, in the file that the environment variable
//! `MILLSTREAM_DSTORAGE_LOG` names, and errors for a debugger if `SetDebugFlags` asks for them.
#![expect(unsafe_code, reason = "calls the debugger's functions of Windows")]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use windows_sys::Win32::System::Diagnostics::Debug::{
    DebugBreak, IsDebuggerPresent, OutputDebugStringW,
};

use crate::abi::{DSTORAGE_DEBUG_BREAK_ON_ERROR, DSTORAGE_DEBUG_SHOW_ERRORS};

/// The environment variable that names the file.
const VARIABLE: &str = "MILLSTREAM_DSTORAGE_LOG";

static FLAGS: AtomicU32 = AtomicU32::new(0);

static LOG: LazyLock<Option<Log>> = LazyLock::new(|| {
    let path = std::env::var_os(VARIABLE)?;
    // Appended to, as each process that a launcher starts has the same variable.
    let file = File::options().create(true).append(true).open(path).ok()?;
    Some(Log {
        file: Mutex::new(file),
        started: Instant::now(),
    })
});

struct Log {
    file: Mutex<File>,
    started: Instant,
}

/// Sets the flags of `SetDebugFlags`.
pub(crate) fn set_flags(flags: u32) {
    FLAGS.store(flags, Ordering::Relaxed);
}

/// Returns whether a flag is set.
pub(crate) fn has_flag(flag: u32) -> bool {
    FLAGS.load(Ordering::Relaxed) & flag != 0
}

/// Writes a line if there is a log. A line that cannot be written is lost.
pub(crate) fn line(text: impl FnOnce() -> String) {
    let Some(log) = LOG.as_ref() else { return };
    let milliseconds = log.started.elapsed().as_secs_f64() * 1e3;
    let process = std::process::id();
    // One write, so that lines of several processes do not mix.
    let line = format!("[{process} {milliseconds:.3}] {}\n", text());
    let mut file = log.file.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = file.write_all(line.as_bytes());
}

/// Writes an error, to a debugger as well if the program asked for it.
pub(crate) fn error(text: impl Fn() -> String) {
    line(&text);
    if has_flag(DSTORAGE_DEBUG_SHOW_ERRORS) {
        let text = format!("DirectStorage: {}\n\0", text());
        let wide: Vec<u16> = text.encode_utf16().collect();
        // SAFETY: ends with a NUL.
        unsafe { OutputDebugStringW(wide.as_ptr()) };
    }
    // SAFETY: without arguments. Without a debugger a break would end the process.
    unsafe {
        if has_flag(DSTORAGE_DEBUG_BREAK_ON_ERROR) && IsDebuggerPresent() != 0 {
            DebugBreak();
        }
    }
}
