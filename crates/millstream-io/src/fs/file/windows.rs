//! Calls on files on Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

use super::Kind;
pub use crate::fs::os::{about, are_same};

/// Reads at an offset; returns 0 at the end of the file. Blocks. Moves the file's own position.
///
/// # Errors
/// The system's error.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(into, offset)
}

/// Writes at an offset, and returns the number of bytes written. Blocks. Moves the file's own
/// position.
///
/// # Errors
/// The system's error.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// Returns the type of a directory entry from its metadata.
#[must_use]
pub fn kind(about: &Metadata) -> Kind {
    match () {
        () if about.is_file() => Kind::File,
        () if about.is_dir() => Kind::Folder,
        () if about.is_symlink() => Kind::Link,
        () => Kind::Other,
    }
}

/// Checks that this user may write a file, by its attributes.
///
/// # Errors
/// It is read-only, or the system's error.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.permissions().readonly() {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    }
}

/// Opens a file for reading.
///
/// # Errors
/// The system's error.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file for reading that must not be a symbolic link.
///
/// # Errors
/// It is a symbolic link, or the system's error.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)?;
    match file.metadata()?.is_symlink() {
        true => Err(io::Error::other("it is a symbolic link")),
        false => Ok(file),
    }
}
