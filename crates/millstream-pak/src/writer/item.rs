//! Inputs of a package, and the file that becomes one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Metadata;
use crate::names;

/// An input of a package.
#[derive(Debug, Clone)]
pub struct Item {
    pub(super) name: Vec<u8>,
    pub(super) len: u64,
    pub(super) content: Content,
    /// Boxed: most items have none, and there may be millions.
    pub(super) metadata: Option<Box<Metadata>>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A file below a folder, of the item's name.
    Below(Arc<Path>),
    /// A file.
    File(Arc<Path>),
    /// A range of a file that is open.
    Range(Arc<File>, u64),
    /// Bytes.
    Memory(Arc<[u8]>),
}

impl Item {
    /// Bytes under a name.
    #[must_use]
    pub fn from_bytes(name: impl Into<Vec<u8>>, bytes: impl Into<Arc<[u8]>>) -> Item {
        let bytes = bytes.into();
        Item {
            name: name.into(),
            len: bytes.len() as u64,
            content: Content::Memory(bytes),
            metadata: None,
        }
    }

    /// A regular file under a name. Links are not followed.
    ///
    /// # Errors
    /// There is no such file, or it is no regular one.
    pub fn from_file(name: impl Into<Vec<u8>>, path: impl AsRef<Path>) -> Result<Item> {
        let (name, path) = (name.into(), path.as_ref());
        let about = fs::symlink_metadata(path).map_err(|error| Error::io(path, "find", error))?;
        check_kind(path, &about)?;
        Ok(Item {
            name,
            len: about.len(),
            content: Content::File(Arc::from(path)),
            metadata: None,
        })
    }

    /// The same item with its metadata given, not made by describers.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Item {
        self.metadata = Some(Box::new(metadata));
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its raw bytes.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.len
    }

    fn path(&self) -> PathBuf {
        match &self.content {
            Content::Below(root) => root.join(std::ffi::OsStr::from_bytes(&self.name)),
            Content::File(path) => path.to_path_buf(),
            Content::Range(..) | Content::Memory(_) => PathBuf::new(),
        }
    }

    /// The same bytes where they lie, if that is in memory.
    pub(super) fn in_memory(&self, offset: u64, len: usize) -> Option<&[u8]> {
        match &self.content {
            Content::Memory(bytes) => bytes.get(offset as usize..)?.get(..len),
            _ => None,
        }
    }

    /// Appends `len` bytes from `offset` on; all of them, or it is an error.
    pub(super) fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        match &self.content {
            Content::Memory(bytes) => {
                let from = offset as usize;
                into.extend_from_slice(&bytes[from..from + len]);
                Ok(())
            }
            Content::Range(file, at) => {
                into.resize(start + len, 0);
                let read = file.read_exact_at(&mut into[start..], at + offset);
                read.map_err(|error| Error::io(Path::new(""), "read the spool", error))
            }
            Content::Below(_) | Content::File(_) => {
                let path = self.path();
                let failed = |error| Error::io(&path, "read", error).entry(&self.name);
                let file = open_plain(&path).map_err(failed)?;
                let about = file.metadata().map_err(failed)?;
                if about.len() != self.len || !about.is_file() {
                    return Err(self.changed(&path));
                }
                into.resize(start + len, 0);
                match file.read_exact_at(&mut into[start..], offset) {
                    Ok(()) => Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Err(self.changed(&path))
                    }
                    Err(error) => Err(failed(error)),
                }
            }
        }
    }

    /// Looks whether a file that says it has no bytes has none; nobody else reads it.
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
            let error = Error::new(ErrorKind::Changed, cause);
            return Err(error.of(&path).entry(&self.name));
        }
        Ok(())
    }

    pub(super) fn changed(&self, path: &Path) -> Error {
        let cause = "the file changed while it was packed";
        let path = if path.as_os_str().is_empty() {
            &self.path()
        } else {
            path
        };
        Error::new(ErrorKind::Changed, cause)
            .of(path)
            .entry(&self.name)
    }
}

/// Opens a file that must not be a link, and never waits on a FIFO.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("flags of open fit");
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn check_kind(path: &Path, about: &fs::Metadata) -> Result<()> {
    let kind = about.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let cause = if kind.is_symlink() {
        "a link: packages hold files, and would hold what it leads to"
    } else {
        "no regular file: only files are packed"
    };
    Err(Error::new(ErrorKind::NotAFile, cause).of(path))
}

/// All files below a folder, in the byte order of their names; and what cannot be packed (links,
/// devices, folders that cannot be read, names that no package may have).
#[must_use]
pub fn walk(root: &Path) -> (Vec<Item>, Vec<Error>) {
    let shared: Arc<Path> = Arc::from(root);
    let (mut items, mut errors) = (Vec::new(), Vec::new());
    let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(std::ffi::OsStr::from_bytes(&folder));
        let listed = fs::read_dir(&path).and_then(|list| list.collect::<io::Result<Vec<_>>>());
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                errors.push(Error::io(&path, "read the folder", error));
                continue;
            }
        };
        for entry in listed {
            let mut name = folder.clone();
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend_from_slice(entry.file_name().as_bytes());
            let about = match fs::symlink_metadata(entry.path()) {
                Ok(about) => about,
                Err(error) => {
                    errors.push(Error::io(&entry.path(), "find", error));
                    continue;
                }
            };
            if about.is_dir() {
                folders.push(name);
                continue;
            }
            let checked = check_kind(&entry.path(), &about);
            match checked.and_then(|()| names::check(&name)) {
                Ok(()) => items.push(Item {
                    name,
                    len: about.len(),
                    content: Content::Below(Arc::clone(&shared)),
                    metadata: None,
                }),
                Err(error) => errors.push(error.of(&entry.path())),
            }
        }
    }
    items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    errors.sort_by(|a, b| a.path().cmp(&b.path()));
    (items, errors)
}

/// Has `write` fill a file beside `path`, syncs it, and renames it onto `path`.
pub(crate) fn beside<T>(path: &Path, write: impl FnOnce(&File) -> Result<T>) -> Result<T> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |error| Error::io(path, "write", error);
    let (file, beside) = create_beside(folder).map_err(failed)?;
    let result = write(&file)
        .map_err(|error| error.of(path))
        .and_then(|made| {
            let done = file.sync_all().and_then(|()| fs::rename(&beside, path));
            done.map_err(failed)?;
            Ok(made)
        });
    match result {
        Ok(made) => {
            // A folder that may be written and not read cannot be synced; the bytes are safe.
            if let Ok(folder) = File::open(folder) {
                let _ = folder.sync_all();
            }
            Ok(made)
        }
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(error)
        }
    }
}

fn create_beside(folder: &Path) -> io::Result<(File, PathBuf)> {
    const NAMES_MAX: u32 = 1000;
    let process = std::process::id();
    for attempt in 0..NAMES_MAX {
        let path = folder.join(format!(".mpak-{process}-{attempt}.tmp"));
        match OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
        {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "the folder is full of unfinished files .mpak-*.tmp",
    ))
}
