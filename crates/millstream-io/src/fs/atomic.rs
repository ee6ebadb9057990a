//! Atomic replacement of files.
//!
//! The new content goes to an unnamed file (`O_TMPFILE`) or, where the system or the file system
//! does not support it, to a temporary name in the target's folder (a rename cannot cross file
//! systems). An unnamed file that may not be linked is copied to a named one. The file is synced
//! and renamed to the target; then the folder is synced, without which a crash could restore the
//! old file. All calls use one open folder, so renaming the folder meanwhile does no harm. After
//! the rename, an error can only mean that the new content may not survive a crash.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::explain;
use super::names::folder_of;
use super::os::Folder;
use super::temporary::{TemporaryFile, check_final_name, remove_leftovers};
use crate::error::{Errno, IoError};

/// The new content of a file, which [`AtomicFile::commit`] puts in its place. If dropped before, it
/// leaves nothing behind. All calls block.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    folder: Arc<Folder>,
    /// The target's name in the folder.
    name: OsString,
    /// `None` while the file has no name.
    temporary: Option<TemporaryFile>,
    /// The mode that it was created with.
    mode: u32,
}

impl AtomicFile {
    /// All bits of the mode of the replaced file, for [`AtomicFile::commit`] on Linux.
    pub const KEEP_ALL: u32 = 0o7777;

    /// The permission bits only: set-user-ID and the like apply to the old content.
    pub const KEEP_PERMISSIONS: u32 = 0o777;

    /// Creates an empty file that will replace the file that `path` leads to, through symbolic
    /// links, or become it. If it replaces a file, on Linux only its owner may open it until
    /// [`AtomicFile::commit`]. Removes leftovers of killed processes from the folder.
    ///
    /// # Errors
    /// `path` is a dangling symbolic link, a mount, or names something that is not a regular file;
    /// the folder is missing, full, or not writable.
    pub fn create(path: &Path) -> Result<AtomicFile, IoError> {
        let path = resolve(path)?;
        let folder = folder_of(&path);
        remove_leftovers(folder);
        AtomicFile::create_as(system::open_folder(folder)?, &path, false)
    }

    /// As [`AtomicFile::create`], but under a temporary name, which is returned so that the file
    /// can be opened again by it. The folder must be readable, so that it can be synced.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn create_named(path: &Path) -> Result<(AtomicFile, PathBuf), IoError> {
        let path = resolve(path)?;
        let folder = folder_of(&path);
        remove_leftovers(folder);
        let file = AtomicFile::create_as(Folder::open(folder)?, &path, true)?;
        let named = file.temporary.as_ref().map(TemporaryFile::name);
        let name = folder.join(named.expect("it was made with a name"));
        Ok((file, name))
    }

    fn create_as(folder: Folder, path: &Path, named: bool) -> Result<AtomicFile, IoError> {
        let name = path.file_name().ok_or_else(|| {
            IoError::because("replace", Errno::IS_FOLDER, "the path names a folder")
        })?;
        check_final_name(name)?;
        let replaces = folder.old_file(name)?.is_some();
        if replaces {
            system::check_replaceable(&folder, name)?;
        }
        // Only Linux's `complete` gives the file its final permissions.
        let private = replaces && cfg!(target_os = "linux");
        let mode = if private { 0o600 } else { 0o666 };
        let folder = Arc::new(folder);
        // An error may be one of the folder: creating a named file reports it.
        let unnamed = (!named).then(|| system::unnamed_in(&folder, mode).ok());
        let (file, temporary) = match unnamed.flatten() {
            Some(file) => (file, None),
            None => TemporaryFile::create(&folder, mode).map(|(file, name)| (file, Some(name)))?,
        };
        let name = name.to_owned();
        Ok(AtomicFile {
            file,
            folder,
            name,
            temporary,
            mode,
        })
    }

    /// Returns the file to write, open for reading as well.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `content`, then commits as [`AtomicFile::commit`].
    ///
    /// # Errors
    /// As [`AtomicFile::commit`]; or the bytes cannot be written.
    pub fn write_and_commit(self, content: &[u8], mode_mask: u32) -> Result<(), IoError> {
        let written = self.file().write_all(content);
        written.map_err(|error| explain("write", &error))?;
        self.commit(mode_mask)
    }

    /// Makes the file durable and renames it. It gets the permissions of the file that it replaces:
    /// on Linux the owner, group, access control list and `mode_mask` bits of the mode, on Windows
    /// all (`ReplaceFile`), on macOS none. Where the mode cannot be changed, fewer people may have
    /// access to the new file.
    ///
    /// # Errors
    /// The mode cannot be changed, and more people would have access to the new file.
    /// The system cannot store the data or cannot rename: the target is unchanged. Or the folder
    /// cannot be synced: the new content is in place, but may not survive a crash.
    pub fn commit(mut self, mode_mask: u32) -> Result<(), IoError> {
        system::complete(&self.folder, &self.file, &self.name, mode_mask)?;
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => match system::link(&self.file, &self.folder) {
                Ok(temporary) => temporary,
                // By a sandbox (seccomp, Landlock).
                Err(error) if is_refused(error.errno) => self.copy(mode_mask)?,
                Err(error) => return Err(error),
            },
        };
        // Some file systems on Windows do not rename an open file. Elsewhere the file is locked as
        // long as it is open.
        let _locked = (!cfg!(windows)).then_some(self.file);
        temporary.rename(&self.folder, &self.name)?;
        self.folder.sync_names()
    }

    /// Replaces the unnamed file by a copy under a temporary name.
    fn copy(&mut self, mode_mask: u32) -> Result<TemporaryFile, IoError> {
        let (file, temporary) = TemporaryFile::create(&self.folder, self.mode)?;
        let copied = self.file.rewind();
        let copied = copied.and_then(|()| io::copy(&mut self.file, &mut &file));
        copied.map_err(|error| explain("copy", &error))?;
        system::complete(&self.folder, &file, &self.name, mode_mask)?;
        self.file = file;
        Ok(temporary)
    }
}

/// Creates an empty file in `folder`, open for reading and writing, that the system removes when it
/// is closed.
///
/// # Errors
/// The folder is missing, full, or not writable.
pub fn create_unnamed(folder: &Path) -> Result<File, IoError> {
    let folder = Arc::new(system::open_folder(folder)?);
    // Where a name is needed, it is removed at once.
    system::unnamed_in(&folder, 0o600).or_else(|_| Ok(TemporaryFile::create(&folder, 0o600)?.0))
}

/// Whether a call failed because it is not allowed or not supported, so that others may succeed.
fn is_refused(errno: Errno) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, Unsupported};
    let kind = io::Error::from_raw_os_error(errno.0).kind();
    [CrossesDevices, PermissionDenied, Unsupported].contains(&kind)
}

/// Replaces the content of `path` atomically.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let path = resolve(path)?;
    let new = AtomicFile::create_as(Folder::open(folder_of(&path))?, &path, false)?;
    new.write_and_commit(content, AtomicFile::KEEP_ALL)
}

/// Resolves symbolic links: the link stays, the file that it names is replaced.
fn resolve(path: &Path) -> Result<PathBuf, IoError> {
    #[cfg(windows)]
    let path = &super::os::verbatim(path)?;
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| explain("resolve", &error))
}

#[cfg(target_os = "linux")]
#[path = "atomic/linux.rs"]
mod system;

/// Systems without unnamed files, where a rename gives the new file the permissions of the old one
/// (Windows) or none of them (macOS).
#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;

    use crate::error::{Errno, IoError};
    use crate::fs::os::Folder;
    use crate::fs::temporary::TemporaryFile;

    pub(super) fn open_folder(path: &Path) -> Result<Folder, IoError> {
        Folder::open(path)
    }

    pub(super) fn unnamed_in(_: &Folder, _mode: u32) -> Result<File, IoError> {
        Err(IoError::new("create", Errno::UNSUPPORTED))
    }

    pub(super) fn link(_: &File, _: &Arc<Folder>) -> Result<TemporaryFile, IoError> {
        Err(IoError::new("link", Errno::UNSUPPORTED))
    }

    #[expect(clippy::unnecessary_wraps, reason = "another system's may fail")]
    pub(super) fn check_replaceable(_: &Folder, _: &OsStr) -> Result<(), IoError> {
        Ok(())
    }

    /// The data is made durable by [`Folder::rename`].
    pub(super) fn complete(
        _: &Folder,
        _: &File,
        _: &OsStr,
        _mode_mask: u32,
    ) -> Result<(), IoError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_leaves_nothing_and_an_unnamed_one_has_no_name() {
        let path = tempfile::tempdir().expect("a temporary folder");
        let file = AtomicFile::create(&path.path().join("a")).expect("created");
        file.file().write_all(b"bytes").expect("written");
        drop(file);
        let file = create_unnamed(path.path()).expect("created");
        (&file).write_all(b"bytes").expect("written");
        // Windows may keep the name of a removed file until the file is closed.
        let _open = (!cfg!(windows)).then_some(file);
        assert_eq!(fs::read_dir(path.path()).expect("ours").count(), 0);
    }
}
