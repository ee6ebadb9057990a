//! Folders, and renames that last.
//!
//! A process has at least one file with a temporary name locked (`flock`) as long as it lives.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::refuse_type;
use crate::error::IoError;
use crate::fs::explain;

/// A folder that is open: what becomes of its path does no harm to what is done in it.
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
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            .map(Folder)
            .map_err(|errno| explain("open the folder", errno))
    }

    /// Opens a folder in this one, which is made if it is missing; never through a link.
    ///
    /// # Errors
    /// A link or a file stands there; else what the system says.
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

    /// Makes the bytes and names of all files on the folder's file system durable. On macOS the
    /// names in the folder alone: a file's bytes are before its rename.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync_files(&self) -> Result<(), IoError> {
        #[cfg(target_os = "linux")]
        return rustix::fs::syncfs(self).map_err(|errno| explain("syncfs", errno));
        #[cfg(not(target_os = "linux"))]
        self.sync_names()
    }

    /// Makes the names in the folder durable. File systems that cannot sync a folder (some of the
    /// network and FUSE) say `EINVAL`, and the system says `EBADF` of a folder that is not open
    /// for reading; there is nothing more to be done there.
    pub(in crate::fs) fn sync_names(&self) -> Result<(), IoError> {
        match retry_on_intr(|| rustix::fs::fsync(self)) {
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => Ok(()),
            Err(errno) => Err(explain("sync the folder", errno)),
        }
    }

    /// Creates an empty file, locked until the last copy of its descriptor is closed, with these
    /// permissions less the process's mask. It must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, mode: u32) -> Result<File, IoError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as RawMode);
        let created = || {
            let file = retry_on_intr(|| rustix::fs::openat(self, name, flags, mode))?;
            // Where there are no locks, nothing is removed either. Before this one was taken,
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

    /// Gives a file of this folder a name in another of the same file system. On macOS its bytes
    /// are made durable before.
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

    /// Removes a file's name, if it can be.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
    }

    /// The regular file of a name, if there is one.
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
