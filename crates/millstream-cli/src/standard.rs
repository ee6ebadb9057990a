//! Standard input and output as files.
//!
//! They bypass the standard library's buffers. Rust's runtime opens the null device in place of
//! closed streams, so writes to a closed stream would be lost and reads would find an empty input;
//! a closed stream is an error here.

use std::fs::File;
use std::io::{self, IsTerminal as _};
#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;

use millstream_io::Errno;

use crate::progress;

#[cfg_attr(unix, path = "standard/unix.rs")]
#[cfg_attr(windows, path = "standard/windows.rs")]
mod system;

/// Refuses standard input (0) or output (1) that was closed when the program started.
pub(crate) fn check(stream: usize) -> io::Result<()> {
    match system::is_closed(stream) {
        true => Err(io::Error::from_raw_os_error(Errno::BAD_DESCRIPTOR.0)),
        false => Ok(()),
    }
}

/// Standard input.
pub(crate) fn input() -> io::Result<File> {
    check(0)?;
    let stream = io::stdin();
    #[cfg(unix)]
    let owned = stream.as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let owned = stream.as_handle().try_clone_to_owned()?;
    Ok(File::from(owned))
}

/// Returns standard output; if it is a terminal, no progress bar is shown from now on.
pub(crate) fn output() -> io::Result<File> {
    check(1)?;
    let stream = io::stdout();
    if stream.is_terminal() {
        progress::silence();
        system::prepare_terminal();
    }
    #[cfg(unix)]
    let owned = stream.as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let owned = stream.as_handle().try_clone_to_owned()?;
    Ok(File::from(owned))
}
