//! The files of macOS: `F_NOCACHE` in place of direct I/O, which asks for no alignment, and no way
//! to learn what is cached.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

pub use super::unix::Folder;
use super::unix::{self, borrow, refuse_type};
pub(super) use super::unix::{explain, explain_io, is_in_use, refuse};
use super::{DirectAlignment, FileSystem, Identity, MountKind, OpenMode, Opened};
use crate::device::Descriptor;
use crate::error::IoError;
use crate::limits::MEMORY_ALIGNMENT;

/// The flag of a mount that no server is behind (`MNT_LOCAL`).
const MOUNT_LOCAL: u32 = 0x1000;

/// The operating system's files.
#[derive(Debug, Default)]
pub struct OsFileSystem(());

impl OsFileSystem {
    /// The file system.
    #[must_use]
    pub fn new() -> OsFileSystem {
        OsFileSystem::default()
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        mode.check()?;
        let file =
            unix::open(path, mode, OFlags::empty()).map_err(|errno| explain("open", errno))?;
        describe(file, mode)
    }

    fn close(&self, descriptor: Descriptor) -> Result<(), IoError> {
        unix::close(descriptor)
    }

    fn cached(&self, _: Descriptor, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        len_of(borrow(&descriptor).map_err(|errno| explain("fstat", errno))?)
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        unix::read_at(descriptor, offset, into)
    }

    fn read_cached(&self, _: Descriptor, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        unix::write_at(descriptor, offset, bytes)
    }

    fn sync(&self, descriptor: Descriptor, _data_only: bool) -> Result<(), IoError> {
        let file = borrow(&descriptor).map_err(|errno| explain("F_FULLFSYNC", errno))?;
        rustix::fs::fcntl_fullfsync(file).map_err(|errno| explain("F_FULLFSYNC", errno))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        unix::rename(from, to)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        super::atomic::replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        unix::remove(path)
    }
}

/// The properties of a file just opened.
fn describe(file: OwnedFd, mode: OpenMode) -> Result<Opened, IoError> {
    let about = rustix::fs::fstat(&file).map_err(|errno| explain("fstat", errno))?;
    match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => {}
        other => return Err(refuse_type(other)),
    }
    let mount = rustix::fs::fstatfs(&file).map_err(|errno| explain("fstatfs", errno))?;
    let local = mount.f_flags & MOUNT_LOCAL != 0;
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(|errno| explain("fcntl", errno))?;
    if mode.direct {
        rustix::fs::fcntl_nocache(&file, true).map_err(|errno| explain("F_NOCACHE", errno))?;
    }
    let page = MEMORY_ALIGNMENT as u32;
    let device = about.st_dev as u64;
    Ok(Opened {
        len: u64::try_from(about.st_size).unwrap_or(0),
        identity: Identity {
            device,
            inode: about.st_ino,
            modified_ns: i128::from(about.st_mtime) * 1_000_000_000
                + i128::from(about.st_mtime_nsec),
        },
        mount: device.max(1),
        mount_kind: if local {
            MountKind::Local
        } else {
            MountKind::Slow
        },
        // Aligned transfers bypass the cache as a whole.
        direct: local.then_some(DirectAlignment {
            memory: page,
            offset: page,
        }),
        rotating: false,
        position: None,
        descriptor: Descriptor::of(file.into_raw_fd()),
    })
}

/// Current length of an open file.
pub(crate) fn len_of(file: BorrowedFd<'_>) -> Result<u64, IoError> {
    let about = rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno))?;
    Ok(u64::try_from(about.st_size).unwrap_or(0))
}

/// Bytes of a whole file that are in the page cache: macOS does not report them.
///
/// # Errors
/// Never.
pub fn cached_bytes(_: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Removes a file from the page cache: macOS cannot.
///
/// # Errors
/// Always.
pub fn evict(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
