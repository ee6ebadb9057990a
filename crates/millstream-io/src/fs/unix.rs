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

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::{Errno, retry_on_intr};

use crate::device::Descriptor;
use crate::error::IoError;
pub(crate) use cause::{explain, refuse};

mod cause;

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

/// Reads at an offset, blocking; short at the end of the file only.
pub(super) fn read_at(
    descriptor: Descriptor,
    offset: u64,
    into: &mut [u8],
) -> Result<usize, IoError> {
    let file = borrow(&descriptor).map_err(|errno| explain("read", errno))?;
    let mut done = 0;
    while done < into.len() {
        let at = offset
            .checked_add(done as u64)
            .ok_or_else(|| refuse("read", Errno::OVERFLOW, "the range ends beyond any file"))?;
        match retry_on_intr(|| rustix::io::pread(file, &mut into[done..], at)) {
            Ok(0) => break,
            Ok(read) => done += read,
            // A direct read that reached the end of the file stops at an offset where no direct
            // read may start.
            Err(Errno::INVAL) if done > 0 => break,
            Err(Errno::INVAL) => {
                let cause = "an offset beyond any file, or a direct read that is not aligned";
                return Err(refuse("read", Errno::INVAL, cause));
            }
            Err(errno) => return Err(explain("read", errno)),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at an offset, blocking.
pub(super) fn write_at(descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
    let file = borrow(&descriptor).map_err(|errno| explain("write", errno))?;
    let mut done = 0;
    while done < bytes.len() {
        let at = offset
            .checked_add(done as u64)
            .ok_or_else(|| refuse("write", Errno::OVERFLOW, "the range ends beyond any file"))?;
        match retry_on_intr(|| rustix::io::pwrite(file, &bytes[done..], at)) {
            Ok(0) => return Err(refuse("write", Errno::IO, "the file system took no bytes")),
            Ok(written) => done += written,
            Err(errno) => return Err(explain("write", errno)),
        }
    }
    Ok(())
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
