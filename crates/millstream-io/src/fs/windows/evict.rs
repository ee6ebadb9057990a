//! The cache of the system, which Windows lets nobody look into.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;

use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_NO_BUFFERING;

use super::{calls, name};

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
    let path = name::of_open(file)?;
    OpenOptions::new()
        .read(true)
        .share_mode(calls::ALL)
        .custom_flags(FILE_FLAG_NO_BUFFERING)
        .open(path)?;
    Ok(())
}
