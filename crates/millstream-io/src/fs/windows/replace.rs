//! Folders, and renames that last.
//!
//! A file that exists is replaced by `ReplaceFile`, which keeps its permissions and lets others
//! have the old file open; where that fails, as on file systems without it, by a rename.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem as system;

use super::{calls, name};
use crate::error::{Errno, IoError};
use crate::fs::{explain, temporary};

/// A folder that is held open, so that it is not renamed or removed meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _handle: OwnedHandle,
}

impl Folder {
    /// Opens the folder `path`.
    ///
    /// # Errors
    /// What the system says.
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

    /// Opens a folder in this one, which is made if it is missing; never through a link.
    ///
    /// # Errors
    /// A link or a file stands there; else what the system says.
    pub fn enter(&self, part: &OsStr) -> Result<Folder, IoError> {
        let path = self.path.join(name::part(part)?);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(explain("open the folder", &error));
            }
            _ => {}
        }
        // The link itself is opened, if it is one, and then held while it is looked at.
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

    /// Does nothing: on Windows a temporary file is flushed before its rename. No call makes the
    /// names of a folder durable: `MoveFileEx` writes a name through, `ReplaceFile` does not.
    ///
    /// # Errors
    /// Never.
    pub fn sync_files(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Does nothing, as [`Folder::sync_files`].
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "another system's may fail"
    )]
    pub(in crate::fs) fn sync_names(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// What stands under a name, if anything does: not a folder.
    pub(in crate::fs) fn old_file(&self, name: &OsStr) -> Result<Option<Metadata>, IoError> {
        let old = fs::symlink_metadata(self.path.join(name)).ok();
        if old.as_ref().is_some_and(Metadata::is_dir) {
            let cause = "it is a folder, not a file";
            return Err(IoError::because("replace", Errno::IS_FOLDER, cause));
        }
        Ok(old)
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

    /// Gives a file of this folder a name in another of the same volume, its bytes first made
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

    /// Removes a file's name, if it can be.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

/// Puts a file in the place of another, or where none is.
fn put(from: &Path, to: &Path) -> Result<(), IoError> {
    let (old, new) = (name::wide(to)?, name::wide(from)?);
    let replaced = calls::attributes(&old).is_ok() && replace(from, to)?;
    if replaced || calls::rename(&new, &old).is_ok() {
        return Ok(());
    }
    // Replaces also what others have open, where the system and the file system are recent.
    fs::rename(from, to).map_err(|error| explain("MoveFileEx", &error))
}

/// Replaces a file by another, which gets its permissions; whether it is done. If not, both files
/// have their names still: the call has a backup, without which a failure halfway would leave
/// neither (the last steps are a rename of the old file, and one of the new).
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
    // The second replaces also what others have open, where system and file system are recent; the
    // third everywhere, but the file gets the permissions of the old one.
    calls::rename(&new, &old).or_else(|errno| {
        let renamed = fs::rename(&from, &to).is_ok() || replace(&from, &to)?;
        renamed
            .then_some(())
            .ok_or_else(|| explain("MoveFileEx", errno))
    })
}
