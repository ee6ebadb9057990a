//! Folders, and durable renames.
//!
//! An existing file is replaced by `ReplaceFile`, which keeps its permissions and lets others have
//! the old file open; where that fails, as on file systems without it, by a rename.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem as system;

use super::{calls, name};
use crate::error::{Errno, IoError};
use crate::fs::{explain, temporary};

/// A folder that is held open, so that it cannot be renamed or removed.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _handle: OwnedHandle,
}

impl Folder {
    /// Opens the folder `path`.
    pub fn open(path: &Path) -> Result<Folder, IoError> {
        Folder::open_as(name::verbatim(path)?, 0)
    }

    fn open_as(path: PathBuf, flags: u32) -> Result<Folder, IoError> {
        let handle = calls::open_as(
            &name::wide(&path)?,
            system::FILE_LIST_DIRECTORY,
            system::FILE_SHARE_READ | system::FILE_SHARE_WRITE,
            system::OPEN_EXISTING,
            system::FILE_FLAG_BACKUP_SEMANTICS | flags,
        );
        let handle = handle.map_err(|errno| explain("open the folder", errno))?;
        Ok(Folder {
            path,
            _handle: handle,
        })
    }

    /// Opens a subfolder, which is created if it is missing; never through a symbolic link.
    ///
    /// # Errors
    /// The name is that of a link or a file; else the system's error.
    pub fn enter(&self, part: &OsStr) -> Result<Folder, IoError> {
        let path = self.path.join(name::part(part)?);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(explain("open the folder", &error));
            }
            _ => {}
        }
        // If it is a link, the link itself is opened, and held open while it is examined.
        let folder = Folder::open_as(path, system::FILE_FLAG_OPEN_REPARSE_POINT)?;
        let about = fs::symlink_metadata(&folder.path);
        let about = about.map_err(|error| explain("open the folder", &error))?;
        if !about.is_dir() {
            let cause = "a link or a file stands where a folder of the name would be";
            return Err(IoError::because(
                "open the folder",
                Errno::NOT_A_FILE,
                cause,
            ));
        }
        Ok(folder)
    }

    /// Has no effect: on Windows a temporary file is flushed before its rename. No call makes the
    /// names of a folder durable: `MoveFileEx` writes a name through, `ReplaceFile` does not.
    pub fn sync_files(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Has no effect, as [`Folder::sync_files`].
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "another system's may fail"
    )]
    pub(in crate::fs) fn sync_names(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Returns the metadata of what has this name, if anything; an error if that is a folder.
    pub(in crate::fs) fn old_file(&self, name: &OsStr) -> Result<Option<Metadata>, IoError> {
        let old = fs::symlink_metadata(self.path.join(name)).ok();
        if old.as_ref().is_some_and(Metadata::is_dir) {
            let cause = "it is a folder, not a file";
            return Err(IoError::because("replace", Errno::IS_FOLDER, cause));
        }
        Ok(old)
    }

    /// Returns the volume and the number of the file that a name leads to; `None` if the name is
    /// free or cannot be looked up.
    #[must_use]
    pub fn identity(&self, name: &OsStr) -> Option<(u64, u64)> {
        let found = super::about(&self.path.join(name)).ok()?.identity;
        Some((found.device, found.inode))
    }

    /// Creates an empty file, which must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, _mode: u32) -> Result<File, IoError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let created = options.open(self.path.join(name));
        created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => IoError::new("create", Errno::EXISTS),
            _ => explain("create", &error),
        })
    }

    /// Renames a file of this folder into another on the same volume, after making its data
    /// durable.
    pub(in crate::fs) fn rename(
        &self,
        name: &str,
        to: &Folder,
        new: &OsStr,
    ) -> Result<(), IoError> {
        let own = self.path.join(name);
        let file = OpenOptions::new().write(true).open(&own);
        let flushed = file.and_then(|file| file.sync_all());
        flushed.map_err(|error| explain("FlushFileBuffers", &error))?;
        put(&own, &to.path.join(name::part(new)?))
    }

    /// Removes a file's name, if possible.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

/// Renames a file, replacing one that has the name.
fn put(from: &Path, to: &Path) -> Result<(), IoError> {
    let (old, new) = (name::wide(to)?, name::wide(from)?);
    let replaced = calls::attributes(&old).is_ok() && replace(from, to)?;
    if replaced || calls::rename(&new, &old).is_ok() {
        return Ok(());
    }
    // Also replaces a file that others have open, if the system and the file system are recent.
    fs::rename(from, to).map_err(|error| explain("MoveFileEx", &error))
}

/// Replaces a file by another, which gets its permissions; returns whether it did. If not, both
/// files still have their names: the call keeps a backup, without which a failure halfway would
/// leave neither (its last steps rename the old file, then the new).
fn replace(from: &Path, to: &Path) -> Result<bool, IoError> {
    let backup = to.with_file_name(temporary::backup_name());
    let names = (name::wide(to)?, name::wide(from)?, name::wide(&backup)?);
    if calls::replace(&names.0, &names.1, &names.2).is_ok() {
        let _ = fs::remove_file(&backup);
        return Ok(true);
    }
    if calls::attributes(&names.0).is_err() && calls::attributes(&names.2).is_ok() {
        calls::rename(&names.2, &names.0).map_err(|errno| explain("ReplaceFile", errno))?;
    }
    Ok(false)
}

/// Whether the process of a temporary file lives.
pub(in crate::fs) fn is_in_use(_path: &Path, process: &str) -> bool {
    process.parse().is_ok_and(calls::is_process_alive)
}

/// Renames durably.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    let (from, to) = (name::verbatim(from)?, name::verbatim(to)?);
    let (old, new) = (name::wide(&to)?, name::wide(&from)?);
    // The second call also replaces a file that others have open, if system and file system are
    // recent; the third does so everywhere, but the file gets the permissions of the old one.
    calls::rename(&new, &old).or_else(|errno| {
        let renamed = fs::rename(&from, &to).is_ok() || replace(&from, &to)?;
        renamed
            .then_some(())
            .ok_or_else(|| explain("MoveFileEx", errno))
    })
}
