//! The files of macOS: `F_NOCACHE` in place of direct I/O, which asks for no alignment, and no way
//! to learn what is cached.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno as SystemErrno, retry_on_intr};

pub use super::atomic::{AtomicFile, create_unnamed};
use super::unix::{self, borrow, explain, refuse, refuse_type};
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
        if mode.truncate && !mode.write {
            let cause = "a file can only be truncated if it is opened for writing";
            return Err(refuse("open", SystemErrno::INVAL, cause));
        }
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
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
        let file = retry_on_intr(|| rustix::fs::open(path, flags, creation_mode))
            .map_err(|errno| explain("open", errno))?;
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
        fs::rename(from, to).map_err(|error| explain_io("rename", &error))?;
        let to = absolute(to)?;
        Folder::open(to.parent().unwrap_or(&to))?.sync_files()
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

/// A folder that is open: what becomes of its path does no harm to what is done in it.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder `path`.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        folder
            .map(Folder)
            .map_err(|errno| explain("open the folder", errno))
    }

    /// Opens a folder in this one, which is made if it is missing; never through a link.
    ///
    /// # Errors
    /// A link or a file stands there; else what the system says.
    pub fn enter(&self, part: &OsStr) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::mkdirat(&self.0, part, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(SystemErrno::EXIST) => {}
            Err(errno) => return Err(explain("open the folder", errno)),
        }
        let folder = rustix::fs::openat(&self.0, part, flags, Mode::empty());
        folder
            .map(Folder)
            .map_err(|errno| explain("open the folder", errno))
    }

    /// Makes the names in the folder durable; a temporary file's bytes are before its rename.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync_files(&self) -> Result<(), IoError> {
        rustix::fs::fsync(self.0.as_fd()).map_err(|errno| explain("sync the folder", errno))
    }

    /// Creates an empty file, which must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, mode: u32) -> Result<File, IoError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as u16);
        let file = rustix::fs::openat(&self.0, name, flags, mode);
        file.map(File::from)
            .map_err(|errno| explain("create", errno))
    }

    /// Gives a file of this folder a name in another of the same volume, its bytes first made
    /// durable.
    pub(in crate::fs) fn rename(
        &self,
        name: &str,
        to: &Folder,
        new: &OsStr,
    ) -> Result<(), IoError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty());
        file.and_then(rustix::fs::fcntl_fullfsync)
            .and_then(|()| rustix::fs::renameat(&self.0, name, &to.0, new))
            .map_err(|errno| explain("rename", errno))
    }

    /// Removes a file's name, if it can be.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.0, name, rustix::fs::AtFlags::empty());
    }
}

/// Whether the process of a temporary file lives, or may.
pub(in crate::fs) fn is_in_use(_: &Path, process: &str) -> bool {
    let process = process
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let known = process.map(rustix::process::test_kill_process);
    known.is_some_and(|known| known != Err(SystemErrno::SRCH))
}

/// The name from the root on.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, IoError> {
    std::path::absolute(path).map_err(|error| explain_io("resolve", &error))
}

/// The error of a call of the standard library.
pub(super) fn explain_io(call: &'static str, error: &io::Error) -> IoError {
    explain(
        call,
        SystemErrno::from_io_error(error).unwrap_or(SystemErrno::IO),
    )
}
