//! What the files of every Unix have in common.
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
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{OpenMode, transfer};
use crate::device::Descriptor;
use crate::error::IoError;
pub(super) use cause::explain_io;
pub(crate) use cause::{explain, refuse};
pub use folder::Folder;
pub(super) use folder::{is_in_use, rename};

mod cause;
mod folder;

/// Borrows a descriptor for safe bindings; `EBADF` if no file can have it.
pub(crate) fn borrow(descriptor: &Descriptor) -> Result<BorrowedFd<'_>, Errno> {
    let fd = descriptor.fd();
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: open by the contract of Descriptor (see Safety), and not -1.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Closes. The descriptor is closed even if an error is returned.
pub(super) fn close(descriptor: Descriptor) -> Result<(), IoError> {
    // SAFETY: a number is passed; the caller gives the descriptor up.
    if unsafe { libc::close(descriptor.fd()) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
        // The descriptor is released even then; a second close could hit another thread's file.
        Errno::INTR => Ok(()),
        errno => Err(explain("close", errno)),
    }
}

/// Opens a file; never waits on a FIFO.
pub(super) fn open(path: &Path, mode: OpenMode, more: OFlags) -> Result<OwnedFd, Errno> {
    let mut flags = more | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
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

/// Reads at an offset, blocking; short at the end of the file only.
pub(super) fn read_at(
    descriptor: Descriptor,
    offset: u64,
    into: &mut [u8],
) -> Result<usize, IoError> {
    let file = borrow(&descriptor).map_err(|errno| explain("read", errno))?;
    transfer::read(offset, into, |into, at| {
        Ok(retry_on_intr(|| rustix::io::pread(file, &mut *into, at))?)
    })
}

/// Writes all of `bytes` at an offset, blocking.
pub(super) fn write_at(descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
    let file = borrow(&descriptor).map_err(|errno| explain("write", errno))?;
    transfer::write(offset, bytes, |bytes, at| {
        Ok(retry_on_intr(|| rustix::io::pwrite(file, bytes, at))?)
    })
}

/// Removes a file's name.
pub(super) fn remove(path: &Path) -> Result<(), IoError> {
    retry_on_intr(|| rustix::fs::unlink(path)).map_err(|errno| explain("unlink", errno))
}

/// The error of opening what is not a file.
pub(super) fn refuse_type(found: FileType) -> IoError {
    match found {
        FileType::Directory => refuse("open", Errno::ISDIR, "it is a folder, not a file"),
        FileType::Fifo => refuse("open", Errno::NXIO, "it is a FIFO (named pipe), not a file"),
        FileType::Socket => refuse("open", Errno::NXIO, "it is a socket, not a file"),
        FileType::CharacterDevice => {
            let cause = "it is a character device (a terminal, /dev/null), not a file";
            refuse("open", Errno::NXIO, cause)
        }
        _ => refuse(
            "open",
            Errno::NXIO,
            "it is neither a file nor a block device",
        ),
    }
}
