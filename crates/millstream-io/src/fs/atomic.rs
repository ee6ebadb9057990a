//! Files that are replaced as a whole, where the system has no files without a name: the new
//! content goes under a temporary name to the target's folder, and is made durable before it takes
//! the target's name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::os::{Folder, absolute, explain_io};
use super::temporary::{TemporaryFile, check_final_name, remove_leftovers};
use crate::error::{Errno, IoError};

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
    /// For [`AtomicFile::commit`]: `ReplaceFile` keeps the permissions of a file that is replaced,
    /// a rename in its place does not.
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
        let name = path.file_name().ok_or_else(|| {
            IoError::because("replace", Errno::IS_FOLDER, "the path names a folder")
        })?;
        check_final_name(name)?;
        if path.is_dir() {
            return Err(IoError::because(
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
    // The name goes at once.
    Ok(TemporaryFile::create(&folder, 0o600)?.0)
}

/// Replaces the content of `path` as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let new = AtomicFile::create_as(&resolve(path)?)?;
    new.write_and_commit(content, AtomicFile::KEEP_ALL)
}

/// The file that a name stands for, through symbolic links: the link stays, what it names is
/// replaced.
fn resolve(path: &Path) -> Result<PathBuf, IoError> {
    let path = absolute(path)?;
    if !path.is_symlink() {
        return Ok(path);
    }
    fs::canonicalize(path).map_err(|error| explain_io("resolve", &error))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
