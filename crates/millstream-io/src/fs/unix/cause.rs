//! Errors of the system, with their likely cause in words.

use rustix::io::Errno as SystemErrno;

use crate::error::{Errno, IoError};

/// The error of `call`, with what usually is behind it.
pub(crate) fn explain(call: &'static str, errno: impl Into<Errno>) -> IoError {
    let errno = errno.into();
    IoError::because(call, errno, likely(errno))
}

/// The error of a call of the standard library.
pub(in crate::fs) fn explain_io(call: &'static str, error: &std::io::Error) -> IoError {
    explain(call, error.raw_os_error().map_or(Errno::IO, Errno))
}

/// An error in other words than the errno's usual ones.
pub(crate) fn refuse(call: &'static str, errno: impl Into<Errno>, cause: &'static str) -> IoError {
    IoError::because(call, errno.into(), cause)
}

fn likely(errno: Errno) -> &'static str {
    match SystemErrno::from_raw_os_error(errno.0) {
        SystemErrno::MFILE => {
            "this process has as many open files as it may (ulimit -n, RLIMIT_NOFILE)"
        }
        SystemErrno::NFILE => "the system has as many open files as it may (sysctl fs.file-max)",
        SystemErrno::ACCESS => {
            "the permissions of the file, or of a folder on the path to it, do not allow this user"
        }
        SystemErrno::PERM => {
            "the file is immutable or append-only, or a security policy forbids it"
        }
        SystemErrno::NOENT => "no such name, or a dangling symbolic link",
        SystemErrno::LOOP => "symbolic links on the path form a loop, or are too many",
        SystemErrno::NOTDIR => "a part of the path before the last is a file, not a folder",
        SystemErrno::ISDIR => "it is a folder, not a file",
        SystemErrno::NAMETOOLONG => "the path or a part of it is longer than the file system takes",
        SystemErrno::ROFS => "the file system is mounted read-only",
        SystemErrno::NOSPC => "the file system is full",
        SystemErrno::DQUOT => "the user's disk quota is used up",
        SystemErrno::FBIG => "the file would be larger than the file system or ulimit -f allows",
        SystemErrno::TXTBSY => "the file is a program that is running",
        SystemErrno::BUSY => "the device or folder is in use, or is a mount point",
        SystemErrno::XDEV => "the two names are on different file systems",
        SystemErrno::NOMEM => "the kernel is out of memory",
        SystemErrno::IO => "the device failed; see the kernel's log",
        SystemErrno::STALE => "the file's server no longer knows it; open it again",
        SystemErrno::TIMEDOUT => "the file's server did not answer",
        SystemErrno::BADF => "the file was closed, or is not open for this",
        _ => "",
    }
}
