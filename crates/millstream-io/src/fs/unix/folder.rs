//! Folders, and durable renames.
//!
//! A process with temporary files in a folder keeps at least one of them open and locked (`flock`).

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::refuse_type;
use crate::error::IoError;
use crate::fs::explain;

/// An open folder: renaming its path does not affect calls on it.
#[derive(Debug)]
pub struct Folder(pub(in crate::fs) OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Folder {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Folder {
    /// Opens the folder `path`.
    pub fn open(path: &Path) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            .map(Folder)
            .map_err(|errno| explain("open the folder", errno))
    }

    /// Opens a subfolder, which is created if it is missing; never through a symbolic link.
    ///
    /// # Errors
    /// The name is that of a link or a file; else the system's error.
    pub fn enter(&self, part: &OsStr) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || retry_on_intr(|| rustix::fs::openat(self, part, flags, Mode::empty()));
        let opened = open().or_else(|errno| {
            if errno != Errno::NOENT {
                return Err(errno);
            }
            match rustix::fs::mkdirat(self, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        });
        opened.map(Folder).map_err(|errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                let cause = "a link or a file stands where a folder of the name would be";
                IoError::because("open the folder", errno, cause)
            }
            errno => explain("open the folder", errno),
        })
    }

    /// Makes the data and names of all files on the folder's file system durable. On macOS, only
    /// the names in the folder: a file's data is made durable before its rename.
    pub fn sync_files(&self) -> Result<(), IoError> {
        #[cfg(target_os = "linux")]
        return rustix::fs::syncfs(self).map_err(|errno| explain("syncfs", errno));
        #[cfg(not(target_os = "linux"))]
        self.sync_names()
    }

    /// Makes the names in the folder durable. File systems that cannot sync a folder (some network
    /// and FUSE ones) return `EINVAL`, and the system returns `EBADF` for a folder that is not open
    /// for reading; these are ignored, since nothing more can be done there.
    pub(in crate::fs) fn sync_names(&self) -> Result<(), IoError> {
        match retry_on_intr(|| rustix::fs::fsync(self)) {
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => Ok(()),
            Err(errno) => Err(explain("sync the folder", errno)),
        }
    }

    /// Creates an empty file, locked until the last copy of its descriptor is closed, with these
    /// permissions less the process's umask. It must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, mode: u32) -> Result<File, IoError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as RawMode);
        let created = || {
            let file = retry_on_intr(|| rustix::fs::openat(self, name, flags, mode))?;
            // Where there are no locks, nothing is removed either. Before the lock was taken,
            // another process may have removed the file.
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let removed = rustix::fs::fstat(&file)?.st_nlink == 0;
            if removed || locked == Err(Errno::WOULDBLOCK) {
                self.remove(name);
                return Err(Errno::EXIST);
            }
            Ok(File::from(file))
        };
        created().map_err(|errno| explain("create", errno))
    }

    /// Renames a file of this folder into another on the same file system. On macOS its data is
    /// made durable first.
    pub(in crate::fs) fn rename(
        &self,
        name: &str,
        to: &Folder,
        new: &OsStr,
    ) -> Result<(), IoError> {
        #[cfg(target_os = "macos")]
        {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(self, name, flags, Mode::empty());
            file.and_then(rustix::fs::fcntl_fullfsync)
                .map_err(|errno| explain("F_FULLFSYNC", errno))?;
        }
        retry_on_intr(|| rustix::fs::renameat(self, name, to, new))
            .map_err(|errno| explain("rename", errno))
    }

    /// Removes a file's name, if possible.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
    }

    /// Returns the device and the inode number of what has this name, not following a link; `None`
    /// if the name is free or cannot be looked up.
    #[must_use]
    pub fn identity(&self, name: &OsStr) -> Option<(u64, u64)> {
        let found = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((found.st_dev as u64, found.st_ino))
    }

    /// Returns the status of the regular file of this name, if there is one.
    pub(in crate::fs) fn old_file(&self, name: &OsStr) -> Result<Option<Stat>, IoError> {
        let old = match rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => old,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(explain("stat", errno)),
        };
        match FileType::from_raw_mode(old.st_mode) {
            FileType::RegularFile => Ok(Some(old)),
            other => Err(refuse_type(other)),
        }
    }
}

/// Whether a process holds a temporary file's lock, or may hold it.
pub(in crate::fs) fn is_in_use(path: &Path, _process: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let locked = rustix::fs::open(path, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive));
    locked.is_err_and(|errno| errno != Errno::NOENT)
}
