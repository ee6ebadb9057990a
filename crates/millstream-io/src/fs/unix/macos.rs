//! The files of macOS: `F_NOCACHE` instead of direct I/O, which requires no alignment, and no way
//! to query what is cached.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags, Stat, StatFs};
use rustix::io::Errno;

use super::refuse_type;
use crate::error::IoError;
use crate::fs::{self, DirectAlignment, Identity, MountKind, Numbering, OpenMode, Opened, explain};
use crate::limits::MEMORY_ALIGNMENT;

/// The flag of a mount without a server (`MNT_LOCAL`).
const MOUNT_LOCAL: u32 = 0x1000;

/// Nothing is cached.
#[derive(Debug, Default)]
pub(super) struct Known;

impl Known {
    pub(super) fn cached(&self, _: BorrowedFd<'_>, _: u64, _: u64) -> Option<u64> {
        None
    }

    /// See [`FileSystem::known`](crate::FileSystem::known).
    pub(super) fn known(&self, file: BorrowedFd<'_>) -> Result<fs::Known, Errno> {
        let mount = rustix::fs::fstatfs(file)?;
        Ok(known_by(&rustix::fs::fstat(file)?, numbering(&mount)))
    }

    /// Returns the properties of a file that has just been opened, with its descriptor.
    pub(super) fn describe(&self, file: OwnedFd, mode: OpenMode) -> Result<Opened, IoError> {
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
        let known = known_by(&about, numbering(&mount));
        Ok(Opened {
            len: known.len,
            identity: known.identity,
            numbering: known.numbering,
            birth_ns: known.birth_ns,
            mount: known.identity.device.max(1),
            mount_kind: if local {
                MountKind::Local
            } else {
                MountKind::Slow
            },
            // Aligned transfers bypass the cache entirely.
            direct: local.then_some(DirectAlignment::both(MEMORY_ALIGNMENT as u32)),
            rotating: false,
            position: None,
            descriptor: file.into(),
        })
    }
}

/// See [`FileSystem::known_at`](crate::FileSystem::known_at).
pub(super) fn known_at(path: &Path) -> Result<fs::Known, Errno> {
    Ok(known_by(&rustix::fs::stat(path)?, Numbering::Other))
}

/// APFS never uses a number again.
fn numbering(mount: &StatFs) -> Numbering {
    let name = mount.f_fstypename.iter().map(|unit| *unit as u8);
    match name.take_while(|unit| *unit != 0).eq(*b"apfs") {
        true => Numbering::Stable,
        false => Numbering::Other,
    }
}

fn known_by(about: &Stat, numbering: Numbering) -> fs::Known {
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    fs::Known {
        identity: Identity {
            device: about.st_dev as u64,
            inode: about.st_ino,
            modified_ns: nanoseconds(about.st_mtime, about.st_mtime_nsec),
        },
        numbering,
        len: u64::try_from(about.st_size).unwrap_or(0),
        birth_ns: Some(nanoseconds(about.st_birthtime, about.st_birthtime_nsec)),
        generation: None,
    }
}

pub(super) fn direct_flag(_: OpenMode) -> OFlags {
    OFlags::empty()
}

/// Returns the error of a failed `open`.
pub(super) fn explain_open(_: &Path, _: OpenMode, errno: Errno) -> IoError {
    explain("open", errno)
}

pub(super) fn read_cached(_: BorrowedFd<'_>, _: u64, _: &mut [u8]) -> Option<usize> {
    None
}

/// Makes the data of a file durable.
pub(super) fn sync(file: BorrowedFd<'_>, _data_only: bool) -> Result<(), IoError> {
    rustix::fs::fcntl_fullfsync(file).map_err(|errno| explain("F_FULLFSYNC", errno))
}

/// Returns the current length of an open file.
pub(in crate::fs) fn len_of(file: BorrowedFd<'_>) -> Result<u64, IoError> {
    let about = rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno))?;
    Ok(u64::try_from(about.st_size).unwrap_or(0))
}

/// Returns the number of bytes of a file in the page cache: `None`, macOS does not report it.
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
