//! Renames that last, and files replaced as a whole.
//!
//! The new content goes to a file of its own in the same folder (a rename cannot cross file
//! systems), is synced, and takes the old one's name; then the folder is synced, without which a
//! crash could bring the old name back. All through one descriptor of the folder, so that a folder
//! renamed meanwhile does no harm. Before the rename every error removes the new file again; after
//! it the new content is in place, and an error can only say that it may not outlive a crash.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use super::cause::{explain, refuse};
use super::refuse_type;
use crate::error::IoError;
use crate::fs::Beside;
use crate::limits::REPLACE_NAMES_MAX;

/// Makes names of this process differ; it means nothing else.
static NAME_COUNT: AtomicU64 = AtomicU64::new(0);

/// The attribute with a file's access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Longest value of an attribute (`XATTR_SIZE_MAX`).
const ACCESS_LIST_BYTES_MAX: usize = 64 << 10;

/// Renames, and syncs the folder of the new name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    // Opened first: after the rename an error would deny that it happened.
    let folder = open_folder(folder_of(to))?;
    retry_on_intr(|| rustix::fs::rename(from, to)).map_err(|errno| explain("rename", errno))?;
    sync_folder(folder.as_fd())
}

/// Replaces the content of `path` as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let path = resolve(path)?;
    let name = name_of(&path)?;
    let folder = open_folder(folder_of(&path))?;
    let old = old_file(folder.as_fd(), name)?;
    let mut fresh = Fresh::create(folder.as_fd(), old.is_some())?;
    write_all(&fresh.file, content)?;
    put_in_place(folder.as_fd(), &fresh.file, &fresh.name, name)?;
    fresh.keep = true;
    sync_folder(folder.as_fd())
}

/// Creates the new file of a replacement in several steps, empty.
pub(super) fn beside(path: &Path) -> Result<Beside, IoError> {
    let path = resolve(path)?;
    let name = name_of(&path)?;
    let folder = open_folder(folder_of(&path))?;
    let old = old_file(folder.as_fd(), name)?;
    let mut made = Fresh::create(folder.as_fd(), old.is_some())?;
    made.keep = true;
    let fresh = folder_of(&path).join(&made.name);
    drop(made);
    Ok(Beside { path, fresh })
}

/// The last step of a replacement whose content was written to `fresh` before.
pub(super) fn take_place(fresh: &Path, path: &Path) -> Result<(), IoError> {
    let (name, fresh_name) = (name_of(path)?, name_of(fresh)?);
    if folder_of(path) != folder_of(fresh) {
        let cause = "a file takes the place of one in its own folder only";
        return Err(refuse("rename", Errno::XDEV, cause));
    }
    let folder = open_folder(folder_of(path))?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = retry_on_intr(|| rustix::fs::openat(&folder, fresh_name, flags, Mode::empty()))
        .map_err(|errno| explain("open", errno))?;
    put_in_place(folder.as_fd(), &file, fresh_name, name)?;
    sync_folder(folder.as_fd())
}

/// Gives the new file the permissions of the one that it replaces, makes its bytes durable, and
/// renames it.
fn put_in_place(
    folder: BorrowedFd<'_>,
    file: &OwnedFd,
    fresh_name: &OsStr,
    name: &OsStr,
) -> Result<(), IoError> {
    // Looked at again: it may have become more private while the new one was written.
    if let Some(old) = old_file(folder, name)? {
        keep_permissions(file, &old, folder, name)?;
    }
    retry_on_intr(|| rustix::fs::fsync(file)).map_err(|errno| explain("fsync", errno))?;
    retry_on_intr(|| rustix::fs::renameat(folder, fresh_name, folder, name))
        .map_err(|errno| explain("rename", errno))
}

fn name_of(path: &Path) -> Result<&OsStr, IoError> {
    path.file_name()
        .ok_or_else(|| refuse("replace", Errno::ISDIR, "the path names a folder"))
}

/// The file that is to be replaced, if there is one.
fn old_file(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Option<Stat>, IoError> {
    let old = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) => old,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(explain("stat", errno)),
    };
    let kind = FileType::from_raw_mode(old.st_mode);
    if kind != FileType::RegularFile {
        return Err(refuse_type(kind));
    }
    Ok(Some(old))
}

/// The new file until it has its final name: removed when dropped before.
struct Fresh<'folder> {
    folder: BorrowedFd<'folder>,
    name: OsString,
    file: OwnedFd,
    /// It has its final name, or its owner removes it.
    keep: bool,
}

impl<'folder> Fresh<'folder> {
    /// A file with a new name. If it is to replace one, only its owner may open it until it has
    /// that one's permissions, when it is complete.
    fn create(folder: BorrowedFd<'folder>, replaces: bool) -> Result<Fresh<'folder>, IoError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if replaces { 0o600 } else { 0o666 });
        for _ in 0..REPLACE_NAMES_MAX {
            let name = fresh_name();
            match retry_on_intr(|| rustix::fs::openat(folder, &name, flags, mode)) {
                Ok(file) => {
                    return Ok(Fresh {
                        folder,
                        name,
                        file,
                        keep: false,
                    });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(explain("create", errno)),
            }
        }
        let cause = "every name tried is taken; another program seems to make them on purpose";
        Err(refuse("create", Errno::EXIST, cause))
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // The error that led here is the one to report; one of the removal would only hide it.
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn fresh_name() -> OsString {
    let count = NAME_COUNT.fetch_add(1, Relaxed);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let time_ns = time.map_or(0, |time| time.as_nanos());
    let process = std::process::id();
    format!(".millstream-{process:x}-{time_ns:x}-{count:x}.tmp").into()
}

/// Gives the new file the owner, group, mode and access control list of the old one, as far as this
/// user may. Never more permissions: where the group or the list differ, the new file's group gets
/// none, and others only what the old one's group had too.
fn keep_permissions(
    file: &OwnedFd,
    old: &Stat,
    folder: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), IoError> {
    let ids = |of: &Stat| (of.st_uid, of.st_gid);
    let status = || rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno));
    let mut new = status()?;
    if ids(&new) != ids(old) {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // Only root may give a file away; a user may give it to a group that he is in.
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
        new = status()?;
    }
    let bits = if new.st_gid != old.st_gid || !keep_access_list(file, folder, name) {
        old.st_mode & 0o700 | old.st_mode & old.st_mode >> 3 & 0o7
    } else if new.st_uid != old.st_uid {
        old.st_mode & 0o777
    } else {
        old.st_mode & 0o7777
    };
    rustix::fs::fchmod(file, Mode::from_raw_mode(bits)).map_err(|errno| explain("chmod", errno))
}

/// Gives the new file the access control list of the old one, or none if that has none (a folder
/// may give its files one); whether that succeeded.
fn keep_access_list(file: &OwnedFd, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    let mut list = vec![0; ACCESS_LIST_BYTES_MAX];
    let none = [Errno::NODATA, Errno::OPNOTSUPP];
    match rustix::fs::lgetxattr(path.join(name), ACCESS_LIST, &mut list[..]) {
        Ok(bytes) => {
            let flags = XattrFlags::empty();
            rustix::fs::fsetxattr(file, ACCESS_LIST, &list[..bytes], flags).is_ok()
        }
        Err(errno) if none.contains(&errno) => {
            let removed = rustix::fs::fremovexattr(file, ACCESS_LIST);
            removed.map_or_else(|errno| none.contains(&errno), |()| true)
        }
        Err(_) => false,
    }
}

fn write_all(file: &OwnedFd, content: &[u8]) -> Result<(), IoError> {
    let mut rest = content;
    while !rest.is_empty() {
        match retry_on_intr(|| rustix::io::write(file, rest)) {
            Ok(0) => return Err(refuse("write", Errno::IO, "the file system took no bytes")),
            Ok(written) => rest = &rest[written..],
            Err(errno) => return Err(explain("write", errno)),
        }
    }
    Ok(())
}

/// The file that a name stands for, through symbolic links: the link stays, what it names is
/// replaced.
fn resolve(path: &Path) -> Result<PathBuf, IoError> {
    let is_link = rustix::fs::lstat(path)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink);
    if !is_link {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        explain("resolve", errno)
    })
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str() != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, IoError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map_err(|errno| explain("open the folder", errno))
}

/// Makes the names in a folder durable. File systems that cannot sync a folder (some of the network
/// and FUSE) say `EINVAL`; there is nothing more to be done there.
fn sync_folder(folder: BorrowedFd<'_>) -> Result<(), IoError> {
    match retry_on_intr(|| rustix::fs::fsync(folder)) {
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(explain("sync the folder", errno)),
    }
}
