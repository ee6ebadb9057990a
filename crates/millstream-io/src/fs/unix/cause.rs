//! The likely causes of the system's errors, in words.

use rustix::io::Errno as SystemErrno;

use crate::error::Errno;

/// Returns the usual cause of an error; empty where the error number suffices.
pub(in crate::fs) fn likely(errno: Errno) -> &'static str {
    match SystemErrno::from_raw_os_error(errno.0) {
        SystemErrno::MFILE => {
            "this process has as many open files as it may (ulimit -n, RLIMIT_NOFILE)"
        }
        SystemErrno::NFILE => "the system has as many open files as it may (sysctl fs.file-max)",
        SystemErrno::ACCESS => {
            "the permissions of the file, or of a folder on the path to it, do not allow this user"
        }
        SystemErrno::PERM => {
            "the file is immutable, append-only or, in a sticky folder, another user's; or a security \
             policy forbids it"
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
