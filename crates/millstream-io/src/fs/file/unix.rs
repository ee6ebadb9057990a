//! Calls on files on Unix.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use super::{About, Kind};
use crate::error::{Errno, IoError};
use crate::fs::Identity;

/// Reads at an offset, and returns the number of bytes read; 0 at the end of the file. Blocks.
///
/// # Errors
/// The system's error.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

/// Writes at an offset, and returns the number of bytes written. Blocks.
///
/// # Errors
/// The system's error.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

/// Returns what a path leads to, following links. Blocks.
///
/// # Errors
/// The system's error.
pub fn about(path: &Path) -> Result<About, IoError> {
    // A name that the standard library rejects has no error number of the system.
    let about = std::fs::metadata(path).map_err(|error| {
        IoError::new("stat", error.raw_os_error().map_or(Errno::INVALID, Errno))
    })?;
    let modified_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
    Ok(About {
        is_file: about.is_file(),
        len: about.len(),
        identity: Identity {
            device: about.dev(),
            inode: about.ino(),
            modified_ns,
        },
    })
}

/// Returns the type of a directory entry from its metadata.
#[must_use]
pub fn kind(about: &Metadata) -> Kind {
    let kind = about.file_type();
    match () {
        () if kind.is_file() => Kind::File,
        () if kind.is_dir() => Kind::Folder,
        () if kind.is_symlink() => Kind::Link,
        () if kind.is_fifo() => Kind::Fifo,
        () if kind.is_socket() => Kind::Socket,
        () if kind.is_block_device() || kind.is_char_device() => Kind::Device,
        () => Kind::Other,
    }
}

/// Whether two open files are the same storage: one regular file, or one block device.
#[must_use]
pub fn are_same(one: &File, other: &File) -> bool {
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    let stored = one.is_file() || one.file_type().is_block_device();
    stored && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Checks that this user may write a file, by its permissions.
///
/// # Errors
/// It may not, or the system's error.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Opens a file for reading; never waits on a FIFO.
///
/// # Errors
/// The system's error.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

/// Opens a file for reading that must not be a symbolic link; never waits on a FIFO.
///
/// # Errors
/// It is a symbolic link, or the system's error.
pub fn open_plain(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("flags of open fit");
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
