//! Standard streams of Windows.
#![expect(unsafe_code, reason = "sets the console's encoding")]

use std::io;
use std::os::windows::io::AsRawHandle as _;

use windows_sys::Win32::Globalization::CP_UTF8;
use windows_sys::Win32::System::Console::SetConsoleOutputCP;

/// Returns whether standard input (0) or output (1) is closed, as for a program without a console.
pub(super) fn is_closed(stream: usize) -> bool {
    match stream {
        0 => io::stdin().as_raw_handle().is_null(),
        _ => io::stdout().as_raw_handle().is_null(),
    }
}

/// Sets the console to UTF-8, which is what this program writes.
pub(super) fn prepare_terminal() {
    // SAFETY: passes a number. If the console refuses, non-ASCII text is shown wrong.
    unsafe { SetConsoleOutputCP(CP_UTF8) };
}
