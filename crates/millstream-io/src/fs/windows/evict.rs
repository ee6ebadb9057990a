//! The cache of the system, whose content Windows does not report.

use std::fs::File;
use std::io;

use windows_sys::Win32::Foundation::GENERIC_READ;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_NO_BUFFERING;

use super::calls;

/// Bytes of a whole file that are in the page cache: Windows does not report them.
///
/// # Errors
/// Never.
pub fn cached_bytes(_: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Asks the system to drop a file from its cache: opening a file without buffering does so while no
/// other program has it open. Whether it happened cannot be known. May block.
///
/// # Errors
/// The file cannot be opened.
pub fn evict(file: &File) -> io::Result<()> {
    let again = calls::open_again(file, GENERIC_READ, calls::ALL, FILE_FLAG_NO_BUFFERING);
    again
        .map(drop)
        .map_err(|errno| io::Error::from_raw_os_error(errno.0))
}
