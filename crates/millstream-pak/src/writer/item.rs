//! Inputs of a package, and the replacement of a package's file.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use millstream_io::IoError;
use millstream_io::fs::AtomicFile;
use millstream_io::fs::file::{open_plain, read_exact_at};

use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Metadata;
use crate::names;

/// An input of a package.
#[derive(Debug, Clone)]
pub struct Item {
    pub(super) name: Vec<u8>,
    pub(super) len: u64,
    pub(super) content: Content,
    /// When it was last modified, if it is a file that others may change.
    pub(super) modified: Option<Time>,
    pub(super) executable: bool,
    /// Boxed: most items have none, and there may be millions.
    pub(super) metadata: Option<Box<Metadata>>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// The file of the item's name below this folder.
    Below(Arc<Path>),
    File(Arc<Path>),
    /// A range of a file that is open.
    Range(Arc<File>, u64),
    /// Bytes in memory; the first has this offset in the item.
    Memory(Arc<[u8]>, u64),
}

impl Item {
    /// Creates an item of bytes in memory.
    #[must_use]
    pub fn from_bytes(name: impl Into<Vec<u8>>, bytes: impl Into<Arc<[u8]>>) -> Item {
        let bytes = bytes.into();
        Item {
            name: name.into(),
            len: bytes.len() as u64,
            content: Content::Memory(bytes, 0),
            modified: None,
            executable: false,
            metadata: None,
        }
    }

    /// Creates an item of a regular file, which is read when packed. Links are not followed.
    ///
    /// # Errors
    /// The file's metadata cannot be read, or it is not a regular file.
    pub fn from_file(name: impl Into<Vec<u8>>, path: impl AsRef<Path>) -> Result<Item> {
        let (name, path) = (name.into(), path.as_ref());
        let about = fs::symlink_metadata(path).map_err(|error| Error::io(path, "find", error))?;
        check_kind(path, &about)?;
        Ok(Item {
            name,
            len: about.len(),
            content: Content::File(Arc::from(path)),
            modified: Some(modified(&about)),
            executable: is_executable(&about),
            metadata: None,
        })
    }

    /// Returns the item with this metadata, instead of that which describers make.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Item {
        self.metadata = Some(Box::new(metadata));
        self
    }

    /// Sets whether the item is of a file that its owner may execute, which the package records.
    /// Items of files have the bit of their file; on Windows, which has none, it is not set.
    #[must_use]
    pub fn executable(mut self, executable: bool) -> Item {
        self.executable = executable;
        self
    }

    /// Returns the item's name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the item's size in raw bytes.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.len
    }

    pub(super) fn path(&self) -> PathBuf {
        match &self.content {
            Content::Below(root) => root.join(names::path(&self.name).expect("names of files are")),
            Content::File(path) => path.to_path_buf(),
            Content::Range(..) | Content::Memory(..) => PathBuf::new(),
        }
    }

    /// Returns a range of the item, if it is in memory.
    pub(super) fn in_memory(&self, offset: u64, len: usize) -> Option<&[u8]> {
        match &self.content {
            Content::Memory(bytes, first) => bytes.get((offset - first) as usize..)?.get(..len),
            _ => None,
        }
    }

    /// Appends `len` bytes from `offset` on to `into`; fewer are an error.
    pub(super) fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        match &self.content {
            Content::Memory(bytes, first) => {
                let from = (offset - first) as usize;
                into.extend_from_slice(&bytes[from..from + len]);
                Ok(())
            }
            Content::Range(file, at) => {
                into.resize(start + len, 0);
                let read = read_exact_at(file, &mut into[start..], at + offset);
                read.map_err(|error| {
                    Error::io(Path::new(""), "read the spool", error).entry(&self.name)
                })
            }
            Content::Below(_) | Content::File(_) => {
                let path = self.path();
                let failed = |error| Error::io(&path, "read", error).entry(&self.name);
                let file = open_plain(&path).map_err(failed)?;
                let about = file.metadata().map_err(failed)?;
                let same = about.len() == self.len && Some(modified(&about)) == self.modified;
                if !same || !about.is_file() {
                    return Err(self.changed());
                }
                into.resize(start + len, 0);
                match read_exact_at(&file, &mut into[start..], offset) {
                    Ok(()) => Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Err(self.ended_early(&file))
                    }
                    Err(error) => Err(failed(error)),
                }
            }
        }
    }

    /// Checks that a file whose length is 0 has no bytes, since no block of it is read.
    pub(super) fn check_empty(&self) -> Result<()> {
        let (Content::Below(_) | Content::File(_)) = &self.content else {
            return Ok(());
        };
        let path = self.path();
        let file = open_plain(&path);
        let mut bytes = Vec::new();
        let read = file.and_then(|file| file.take(1).read_to_end(&mut bytes));
        let read = read.map_err(|error| Error::io(&path, "read", error).entry(&self.name))?;
        if read > 0 {
            let cause = "the file says that it is empty, and is not: it grew, or is made while \
                         it is read, as those of procfs";
            return Err(self.unusable(cause));
        }
        Ok(())
    }

    /// Returns the error of a file that ends before its length.
    fn ended_early(&self, file: &File) -> Error {
        match file.metadata() {
            Ok(about) if about.len() == self.len => self.unusable(
                "the file has fewer bytes than its length says: it is made while it is read, as \
                 those of sysfs",
            ),
            _ => self.changed(),
        }
    }

    pub(super) fn changed(&self) -> Error {
        self.unusable("the file changed while it was packed")
    }

    fn unusable(&self, cause: &str) -> Error {
        let error = Error::new(ErrorKind::Changed, cause);
        error.of(&self.path()).entry(&self.name)
    }
}

/// Seconds since 1970, and nanoseconds; both are negative before 1970.
pub(super) type Time = (i64, i64);

/// Returns when a file was last modified.
pub(super) fn modified(about: &fs::Metadata) -> Time {
    let Ok(modified) = about.modified() else {
        return (0, 0);
    };
    let (sign, since) = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => (1, after),
        Err(before) => (-1, before.duration()),
    };
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    (sign * seconds, sign * i64::from(since.subsec_nanos()))
}

/// Returns whether the owner of a file may execute it.
pub(super) fn is_executable(about: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        about.permissions().mode() & 0o100 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        false
    }
}

/// Refuses all but regular files.
pub(super) fn check_kind(path: &Path, about: &fs::Metadata) -> Result<()> {
    let kind = about.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let cause = if kind.is_symlink() {
        "a symbolic link: packages hold files, and would hold what it leads to"
    } else {
        "not a regular file: only files are packed"
    };
    Err(Error::new(ErrorKind::NotAFile, cause).of(path))
}

/// Calls `write` to fill a file, which replaces `path` once it is complete and synced.
pub(crate) fn replace<T>(path: &Path, write: impl FnOnce(&File) -> Result<T>) -> Result<T> {
    let failed = |error: IoError| Error::io(path, "write", error.into());
    let file = AtomicFile::create(path).map_err(failed)?;
    let made = write(file.file()).map_err(|error| error.of(path))?;
    file.commit(AtomicFile::KEEP_PERMISSIONS).map_err(failed)?;
    Ok(made)
}
