//! Calls on the files of Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

use super::{About, Kind};
use crate::error::IoError;
use crate::fs::os;

/// Reads at an offset; 0 at the end of the file. Blocks. Moves the file's own position.
///
/// # Errors
/// What the system says.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(into, offset)
}

/// Writes at an offset; the number of bytes that were written. Blocks. Moves the file's own
/// position.
///
/// # Errors
/// What the system says.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// Writes two pieces behind each other, in one call where the system has one; the number of bytes
/// that were written. Blocks.
///
/// # Errors
/// What the system says.
pub fn write_both_at(file: &File, first: &[u8], second: &[u8], offset: u64) -> io::Result<usize> {
    write_at(file, if first.is_empty() { second } else { first }, offset)
}

/// What a path leads to, through links. Blocks.
///
/// # Errors
/// What the system says.
pub fn about(path: &Path) -> Result<About, IoError> {
    os::about(path)
}

/// What stands behind the name whose metadata this is.
#[must_use]
pub fn kind(about: &Metadata) -> Kind {
    match () {
        () if about.is_file() => Kind::File,
        () if about.is_dir() => Kind::Folder,
        () if about.is_symlink() => Kind::Link,
        () => Kind::Other,
    }
}

/// Whether two open files are the same stored bytes.
#[must_use]
pub fn are_same(one: &File, other: &File) -> bool {
    os::are_same(one, other)
}

/// Whether this user may write a file, by its attributes.
///
/// # Errors
/// It is read-only, or what the system says.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.permissions().readonly() {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    }
}

/// Whether a folder is one of procfs: Windows has none.
#[must_use]
pub fn is_of_procfs(_: &Path) -> bool {
    false
}

/// Opens a file to read.
///
/// # Errors
/// What the system says.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file to read that must not be a link.
///
/// # Errors
/// It is a link, or what the system says.
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

/// Does nothing: Windows takes the hint that a file will be read in order only when it is opened.
pub fn expect_sequential(_: &File) {}

/// Whether reads and writes of an open file go past the page cache: not of one that the standard
/// library opened.
///
/// # Errors
/// Never.
pub fn is_direct(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Has reads and writes of an open file go past the page cache, or through it again.
///
/// # Errors
/// Always: Windows decides when a file is opened.
pub fn set_direct(_: &File, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
