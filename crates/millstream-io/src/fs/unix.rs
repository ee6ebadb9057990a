//! The files of the operating system, as far as all Unix systems agree.
//!
//! # Safety
//! A [`Descriptor`] is expected to be open: the caller of a [`FileSystem`](crate::FileSystem)
//! opened it and has not closed it. Otherwise a call fails with `EBADF` or reaches a file opened
//! since; memory safety does not depend on it.
#![expect(
    unsafe_code,
    reason = "calls by number; see the section Safety of this file"
)]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::names::{anchored, folder_of};
use super::{FileSystem, Known, OpenMode, Opened, explain};
use crate::device::{Descriptor, OwnedDescriptor};
use crate::error::IoError;
pub use folder::Folder;
pub(super) use folder::is_in_use;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;
pub(super) use system::len_of;
pub use system::{cached_bytes, evict};

mod folder;
#[cfg(target_os = "linux")]
pub(super) mod linux;
#[cfg(target_os = "macos")]
mod macos;

/// The operating system's files. Caches the properties of mounts.
#[derive(Debug, Default)]
pub struct OsFileSystem {
    known: system::Known,
}

impl OsFileSystem {
    /// Makes a file system with an empty cache of mounts.
    #[must_use]
    pub fn new() -> OsFileSystem {
        OsFileSystem::default()
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        mode.check()?;
        let file = open(path, mode).map_err(|errno| system::explain_open(path, mode, errno))?;
        self.known.describe(file, mode)
    }

    /// The descriptor is closed even if an error is returned.
    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        // SAFETY: a number is passed, of the descriptor that this call owns.
        if unsafe { libc::close(descriptor.fd()) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
            // The descriptor is released even then; a second close could close another file.
            Errno::INTR => Ok(()),
            errno => Err(explain("close", errno)),
        }
    }

    fn cached(&self, descriptor: Descriptor, offset: u64, len: u64) -> Option<u64> {
        self.known.cached(borrow(&descriptor).ok()?, offset, len)
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        len_of(borrow(&descriptor).map_err(|errno| explain("fstat", errno))?)
    }

    fn known(&self, descriptor: Descriptor) -> Result<Known, IoError> {
        let known = borrow(&descriptor).and_then(|file| self.known.known(file));
        known.map_err(|errno| explain("statx", errno))
    }

    fn known_at(&self, path: &Path) -> Result<Known, IoError> {
        system::known_at(path).map_err(|errno| explain("statx", errno))
    }

    fn anchored(&self, path: &Path) -> Option<PathBuf> {
        anchored(path)
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        let file = borrow(&descriptor).map_err(|errno| explain("read", errno))?;
        super::read_all_at(offset, into, |into, at| {
            Ok(retry_on_intr(|| rustix::io::pread(file, &mut *into, at))?)
        })
    }

    fn read_cached(&self, descriptor: Descriptor, offset: u64, into: &mut [u8]) -> Option<usize> {
        system::read_cached(borrow(&descriptor).ok()?, offset, into)
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let file = borrow(&descriptor).map_err(|errno| explain("write", errno))?;
        super::write_all_at(offset, bytes, |bytes, at| {
            Ok(retry_on_intr(|| rustix::io::pwrite(file, bytes, at))?)
        })
    }

    fn sync(&self, descriptor: Descriptor, data_only: bool) -> Result<(), IoError> {
        let file = borrow(&descriptor).map_err(|errno| explain("sync", errno))?;
        system::sync(file, data_only)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        // Opened first: an error after the rename would suggest that it did not happen.
        let folder = Folder::open(folder_of(to))?;
        retry_on_intr(|| rustix::fs::rename(from, to)).map_err(|errno| explain("rename", errno))?;
        folder.sync_names()
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        super::atomic::replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        retry_on_intr(|| rustix::fs::unlink(path)).map_err(|errno| explain("unlink", errno))
    }
}

/// Borrows a descriptor for safe bindings; `EBADF` if it is not a valid number.
pub(super) fn borrow(descriptor: &Descriptor) -> Result<BorrowedFd<'_>, Errno> {
    let fd = descriptor.fd();
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: open by the contract of Descriptor (see Safety), and not -1.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Opens a file; never waits on a FIFO.
fn open(path: &Path, mode: OpenMode) -> Result<OwnedFd, Errno> {
    let mut flags = system::direct_flag(mode) | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    flags |= if mode.write {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    flags.set(OFlags::CREATE, mode.create);
    flags.set(OFlags::TRUNC, mode.truncate);
    flags.set(
        OFlags::EXCL | OFlags::NOFOLLOW,
        mode.create && mode.exclusive,
    );
    let creation_mode = Mode::from_raw_mode(0o666);
    retry_on_intr(|| rustix::fs::open(path, flags, creation_mode))
}

/// Returns the error of opening something that is not a file.
fn refuse_type(found: FileType) -> IoError {
    match found {
        FileType::Directory => IoError::because("open", Errno::ISDIR, "it is a folder, not a file"),
        FileType::Fifo => {
            IoError::because("open", Errno::NXIO, "it is a FIFO (named pipe), not a file")
        }
        FileType::Socket => IoError::because("open", Errno::NXIO, "it is a socket, not a file"),
        FileType::CharacterDevice => {
            let cause = "it is a character device (a terminal, /dev/null), not a file";
            IoError::because("open", Errno::NXIO, cause)
        }
        _ => IoError::because(
            "open",
            Errno::NXIO,
            "it is neither a file nor a block device",
        ),
    }
}

/// Returns the usual cause of an error; empty where the error number suffices.
pub(super) fn likely(errno: crate::error::Errno) -> &'static str {
    match Errno::from_raw_os_error(errno.0) {
        Errno::MFILE => "this process has as many open files as it may (ulimit -n, RLIMIT_NOFILE)",
        Errno::NFILE => "the system has as many open files as it may (sysctl fs.file-max)",
        Errno::ACCESS => {
            "the permissions of the file, or of a folder on the path to it, do not allow this user"
        }
        Errno::PERM => {
            "the file is immutable, append-only or, in a sticky folder, another user's; or \
             a security policy forbids it"
        }
        Errno::NOENT => "no such name, or a dangling symbolic link",
        Errno::LOOP => "symbolic links on the path form a loop, or are too many",
        Errno::NOTDIR => "a part of the path before the last is a file, not a folder",
        Errno::ISDIR => "it is a folder, not a file",
        Errno::NAMETOOLONG => "the path or a part of it is longer than the file system takes",
        Errno::ROFS => "the file system is mounted read-only",
        Errno::NOSPC => "the file system is full",
        Errno::DQUOT => "the user's disk quota is used up",
        Errno::FBIG => "the file would be larger than the file system or ulimit -f allows",
        Errno::TXTBSY => "the file is a program that is running",
        Errno::BUSY => "the device or folder is in use, or is a mount point",
        Errno::XDEV => "the two names are on different file systems",
        Errno::NOMEM => "the kernel is out of memory",
        Errno::IO => "the device failed; see the kernel's log",
        Errno::STALE => "the file's server no longer knows it; open it again",
        Errno::TIMEDOUT => "the file's server did not answer",
        Errno::BADF => "the file was closed, or is not open for this",
        _ => "",
    }
}
