//! Renames that last, and files replaced as a whole.
//!
//! The new content goes to a file of its own in the same folder (a rename cannot cross file
//! systems), is synced, and takes the old one's name; then the folder is synced, without which a
//! crash could bring the old name back. All through one descriptor of the folder, so that a folder
//! renamed meanwhile does no harm. Before the rename every error removes the new file again; after
//! it the new content is in place, and an error can only say that it may not outlive a crash.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::cause::{explain, refuse};
use super::refuse_type;
use crate::error::IoError;
use crate::fs::Beside;
use crate::limits::REPLACE_NAMES_MAX;

/// Makes names of this process differ; it means nothing else.
static NAME_COUNT: AtomicU64 = AtomicU64::new(0);

/// Bits of a mode that may outlive a change of owner: no set-user-id, no set-group-id, no sticky
/// bit.
const PERMISSION_BITS: u32 = 0o777;

/// Renames, and syncs the folder of the new name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    retry_on_intr(|| rustix::fs::rename(from, to)).map_err(|errno| explain("rename", errno))?;
    let folder = open_folder(folder_of(to))?;
    sync_folder(folder.as_fd())
}

/// Replaces the content of `path` as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let path = resolve(path)?;
    let name = name_of(&path)?;
    let folder = open_folder(folder_of(&path))?;
    let old = old_file(folder.as_fd(), name)?;
    let mut fresh = Fresh::create(folder.as_fd(), old.is_some())?;
    if let Some(old) = &old {
        keep_mode(&fresh.file, old)?;
    }
    write_all(&fresh.file, content)?;
    retry_on_intr(|| rustix::fs::fsync(&fresh.file)).map_err(|errno| explain("fsync", errno))?;
    retry_on_intr(|| rustix::fs::renameat(&folder, &fresh.name, &folder, name))
        .map_err(|errno| explain("rename", errno))?;
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
    let old = old_file(folder.as_fd(), name)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = retry_on_intr(|| rustix::fs::openat(&folder, fresh_name, flags, Mode::empty()))
        .map_err(|errno| explain("open", errno))?;
    if let Some(old) = &old {
        keep_mode(&file, old)?;
    }
    retry_on_intr(|| rustix::fs::fsync(&file)).map_err(|errno| explain("fsync", errno))?;
    retry_on_intr(|| rustix::fs::renameat(&folder, fresh_name, &folder, name))
        .map_err(|errno| explain("rename", errno))?;
    sync_folder(folder.as_fd())
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
    /// A file with a name that nobody had. If it is to replace one, nobody else may open it until
    /// it has that one's permissions.
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

/// Gives the new file the permissions of the old one.
fn keep_mode(file: &OwnedFd, old: &Stat) -> Result<(), IoError> {
    let new = rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno))?;
    let same_owner = (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid);
    let bits = if same_owner {
        old.st_mode & 0o7777
    } else {
        old.st_mode & PERMISSION_BITS
    };
    rustix::fs::fchmod(file, Mode::from_raw_mode(bits)).map_err(|errno| explain("chmod", errno))
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
