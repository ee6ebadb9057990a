//! Files that are replaced as a whole, and renames that last.
//!
//! The new content goes under a temporary name to the target's folder, and is flushed before it
//! takes the target's name. A target that exists is replaced by `ReplaceFile`, which keeps its
//! permissions and lets others have the old file open; where that fails, as on file systems without
//! it, by a rename.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::OwnedHandle;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windows_sys::Win32::Storage::FileSystem as system;

use super::cause::{explain, explain_io, refuse};
use super::{calls, name};
use crate::error::{Errno, IoError};
use crate::fs::temporary::{TemporaryFile, remove_leftovers};

/// A folder that is held open, so that nobody renames or removes it meanwhile.
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
        let path = self.path.join(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(explain_io("open the folder", &error));
            }
            _ => {}
        }
        // The link itself is opened, if it is one, and then held while it is looked at.
        let folder = Folder::open_as(path, system::FILE_FLAG_OPEN_REPARSE_POINT)?;
        let about = fs::symlink_metadata(&folder.path);
        let about = about.map_err(|error| explain_io("open the folder", &error))?;
        if !about.is_dir() {
            let cause = "a link or a file stands where a folder of the name would be";
            return Err(refuse("open the folder", Errno::NOT_A_FILE, cause));
        }
        Ok(folder)
    }

    /// Makes the bytes of temporary files durable: on Windows their rename does.
    ///
    /// # Errors
    /// Never.
    pub fn sync_files(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Makes the names in the folder durable: on Windows renames do.
    ///
    /// # Errors
    /// Never.
    pub fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Creates an empty file, which must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, _mode: u32) -> Result<File, IoError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options
            .open(self.path.join(name))
            .map_err(|error| uncreated(&error))
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
        flushed.map_err(|error| explain_io("FlushFileBuffers", &error))?;
        put(&own, &to.path.join(new))
    }

    /// Removes a file's name, if it can be.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

/// Puts a file in the place of another, or where none is.
fn put(from: &Path, to: &Path) -> Result<(), IoError> {
    let (old, new) = (name::wide(to)?, name::wide(from)?);
    let replaced = match calls::attributes(&old) {
        Ok(_) => calls::replace(&old, &new).is_ok(),
        Err(_) => false,
    };
    if replaced || calls::rename(&new, &old).is_ok() {
        return Ok(());
    }
    // Replaces also what others have open, where the system and the file system are recent.
    fs::rename(from, to).map_err(|error| explain_io("MoveFileEx", &error))
}

/// Whether the process of a temporary file lives.
pub(in crate::fs) fn is_in_use(_path: &Path, process: &str) -> bool {
    process.parse().is_ok_and(calls::is_process_alive)
}

/// The new content of a file, which [`AtomicFile::commit`] puts in its place. Dropped without
/// that, it leaves nothing behind. All calls block.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    folder: Arc<Folder>,
    /// The target's name in the folder.
    name: OsString,
    temporary: TemporaryFile,
}

impl AtomicFile {
    /// For [`AtomicFile::commit`]; Windows keeps the permissions of a replaced file in any case.
    pub const KEEP_ALL: u32 = 0o7777;

    /// As [`AtomicFile::KEEP_ALL`].
    pub const KEEP_PERMISSIONS: u32 = 0o777;

    /// Creates an empty file that will replace what `path` leads to, through symbolic links, or
    /// become it. Removes what killed processes left in the folder.
    ///
    /// # Errors
    /// `path` is a dangling symbolic link, or names something that is not a regular file; the
    /// folder is missing, full, or may not be written.
    pub fn create(path: &Path) -> Result<AtomicFile, IoError> {
        let path = resolve(path)?;
        remove_leftovers(folder_of(&path));
        AtomicFile::create_as(&path)
    }

    /// As [`AtomicFile::create`], and returns the temporary name: for a file that is opened by it
    /// again.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn create_named(path: &Path) -> Result<(AtomicFile, PathBuf), IoError> {
        let file = AtomicFile::create(path)?;
        let name = folder_of(&resolve(path)?).join(file.temporary.name());
        Ok((file, name))
    }

    fn create_as(path: &Path) -> Result<AtomicFile, IoError> {
        let name = path
            .file_name()
            .ok_or_else(|| refuse("replace", Errno::IS_FOLDER, "the path names a folder"))?;
        if path.is_dir() {
            return Err(refuse(
                "replace",
                Errno::IS_FOLDER,
                "it is a folder, not a file",
            ));
        }
        let folder = Arc::new(Folder::open(folder_of(path))?);
        let (file, temporary) = TemporaryFile::create(&folder, 0o666)?;
        Ok(AtomicFile {
            file,
            folder,
            name: name.to_owned(),
            temporary,
        })
    }

    /// The file to write, open for reading as well.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `content`, then [`AtomicFile::commit`].
    ///
    /// # Errors
    /// As [`AtomicFile::commit`]; the bytes cannot be written.
    pub fn write_and_commit(self, content: &[u8], mode_mask: u32) -> Result<(), IoError> {
        let written = self.file().write_all(content);
        written.map_err(|error| explain_io("write", &error))?;
        self.commit(mode_mask)
    }

    /// Makes the file durable and renames it.
    ///
    /// # Errors
    /// The system cannot store the bytes after all, or not rename: the target is unchanged.
    pub fn commit(self, _mode_mask: u32) -> Result<(), IoError> {
        // Not every file system renames a file that is open.
        drop(self.file);
        self.temporary.rename(&self.folder, &self.name)
    }
}

/// Creates an empty file in `folder`, open for reading and writing, that the system removes when it
/// is closed.
///
/// # Errors
/// The folder is missing, full, or may not be written.
pub fn create_unnamed(folder: &Path) -> Result<File, IoError> {
    let folder = Arc::new(Folder::open(folder)?);
    let (file, _) = TemporaryFile::named(&folder, |name| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(system::FILE_FLAG_DELETE_ON_CLOSE)
            .open(folder.path.join(name));
        file.map_err(|error| uncreated(&error))
    })?;
    Ok(file)
}

/// The error of a file that could not be created.
fn uncreated(error: &io::Error) -> IoError {
    match error.kind() {
        io::ErrorKind::AlreadyExists => IoError::new("create", Errno::EXISTS),
        _ => explain_io("create", error),
    }
}

/// Renames durably.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    let (from, to) = (name::verbatim(from)?, name::verbatim(to)?);
    let moved = calls::rename(&name::wide(&from)?, &name::wide(&to)?);
    moved.or_else(|errno| fs::rename(from, to).map_err(|_| explain("MoveFileEx", errno)))
}

/// Replaces the content of `path` as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let new = AtomicFile::create_as(&resolve(path)?)?;
    new.write_and_commit(content, AtomicFile::KEEP_ALL)
}

/// The file that a name stands for, through symbolic links: the link stays, what it names is
/// replaced.
fn resolve(path: &Path) -> Result<PathBuf, IoError> {
    let path = name::verbatim(path)?;
    if !path.is_symlink() {
        return Ok(path);
    }
    fs::canonicalize(path).map_err(|error| explain_io("resolve", &error))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
