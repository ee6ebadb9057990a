//! Sources: named entries to load, wherever they are.
//!
//! A loader of scenes or streams needs the bytes of a name, whether they are a loose file of a
//! [`Folder`] or blocks of a package. It asks a [`Source`] where the name is, and makes requests
//! for what it found. Finding and loading are two steps, so that a loader can plan all its reads
//! before it makes the first.
//!
//! Names are bytes, separated by `/`, and case-sensitive except in sources that fold case. Empty
//! parts and `.` are removed; `..` and absolute names are refused, so that a name never leaves its
//! source.
//!
//! ```
//! use millstream::{QueueOptions, Storage, StorageOptions};
//! use millstream_source::{Folder, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let root = std::env::temp_dir().join(format!("millstream-source-{}", std::process::id()));
//! # std::fs::create_dir_all(root.join("sounds"))?;
//! # std::fs::write(root.join("sounds/a.ogg"), b"OggS and so on")?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let source: Box<dyn Source> = Box::new(Folder::new(&storage, &root)?);
//! let sound = source.find(b"sounds/a.ogg")?.ok_or("no such sound")?;
//! let mut head = queue.submit(source.request_range(&sound, 0, 4)?)?;
//! let mut all = queue.submit(source.request(&sound)?)?;
//! assert_eq!(&head.wait()?[..], b"OggS");
//! assert_eq!(all.wait()?.len() as u64, sound.raw_bytes());
//! # std::fs::remove_dir_all(&root)?;
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use millstream::{Error, ErrorKind, FileId, FileOptions, Queue, QueueOptions, Read, Storage};
use millstream_io::MountKind;
use millstream_io::fs::file::{self, About};
use millstream_io::fs::{names, probe};

#[cfg(test)]
millstream_testing::watch!();

/// Where a source has an entry. Plain data, valid only for the source that returned it. Once a
/// lookup notices that a loose file changed, requests for what was found before it fail with
/// `StaleFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Located {
    raw_bytes: u64,
    place: [u64; 2],
}

impl Located {
    /// For implementors of [`Source`]: makes a location from the entry's raw size in bytes and two
    /// words by which the source identifies the entry.
    #[must_use]
    pub fn new(raw_bytes: u64, place: [u64; 2]) -> Located {
        Located { raw_bytes, place }
    }

    /// Returns the entry's size in bytes once it is loaded.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// For implementors: returns the words that [`Located::new`] was given.
    #[must_use]
    pub fn place(&self) -> [u64; 2] {
        self.place
    }
}

/// Named entries that can be loaded. All methods may be called from any thread.
///
/// The caller may set destination, priority, deadline, tag, group and fences of a request that a
/// source makes. It must leave codec, blocks and raw size as they are.
pub trait Source: Send + Sync {
    /// Looks a name up; returns `None` if there is no such entry. Folders make a system call for
    /// each name; packages search in memory, except where a part of their tables is first touched.
    ///
    /// # Errors
    /// No source may have the name, or the lookup itself fails (I/O, corrupt tables).
    fn find(&self, name: &[u8]) -> Result<Option<Located>, Error>;

    /// Returns a request for all raw bytes of an entry; see [`Source::request_range`].
    ///
    /// # Errors
    /// The entry does not (or no longer) belong to this source, or the source's tables are corrupt.
    fn request(&self, entry: &Located) -> Result<Read, Error> {
        self.request_range(entry, 0, entry.raw_bytes())
    }

    /// Returns a request for `len` raw bytes from `offset` on, of which only the blocks that hold
    /// them are read and decoded. Does no I/O, except where a package first touches a table.
    ///
    /// # Errors
    /// As [`Source::request`], and `PastEnd` for a range that reaches past the end.
    fn request_range(&self, entry: &Located, offset: u64, len: u64) -> Result<Read, Error>;

    /// Returns whether a range of an entry costs as much as all of it, because its bytes are
    /// decoded from the start on. By default false.
    fn is_read_whole(&self, entry: &Located) -> bool {
        let _ = entry;
        false
    }

    /// Returns the metadata record of an entry, if the source has one. Its layout is the source's;
    /// the crate `millstream-pak` decodes that of packages. May read from the disk.
    ///
    /// # Errors
    /// The metadata cannot be read or is corrupt.
    fn metadata(&self, entry: &Located) -> Result<Option<&[u8]>, Error>;

    /// Returns what holds an entry: a number that identifies it within this source, and its size in
    /// bytes as stored. By default, each entry is a file of its own.
    fn stored_in(&self, entry: &Located) -> (u64, u64) {
        (entry.place()[0], entry.raw_bytes())
    }
}

/// The loose files below a folder, as a [`Source`]. Symbolic links are followed.
///
/// The next lookup of a file notices that it was replaced, or that its size or time changed (on
/// mounts that can hang, its size or time alone). From then on its new content is read, and
/// requests for what was found before fail with `StaleFile`.
pub struct Folder {
    storage: Storage,
    root: PathBuf,
    /// Closes files that have changed.
    queue: Queue,
    known: Mutex<HashMap<Box<[u8]>, Known>>,
    /// If case is ignored, the paths of names that were found in another case.
    folded: Option<Mutex<HashMap<Box<[u8]>, PathBuf>>>,
    /// Whether a file system can hang, by device number.
    slow: Mutex<HashMap<u64, bool>>,
}

/// A loose file as it was when it was found.
#[derive(Clone, Copy)]
struct Known {
    file: FileId,
    state: About,
}

impl Folder {
    /// Creates a source whose files are read by `storage`. Nothing is read before the first lookup.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn new(storage: &Storage, root: impl Into<PathBuf>) -> Result<Folder, Error> {
        let mut options = QueueOptions::default();
        options.name = String::from("folder");
        options.capacity = 1;
        Ok(Folder {
            storage: storage.clone(),
            root: root.into(),
            queue: storage.queue(options)?,
            known: Mutex::default(),
            folded: None,
            slow: Mutex::default(),
        })
    }

    /// Makes lookups ignore ASCII case. Of several files whose names differ in case only, a lookup
    /// finds that in the case asked for, else the first in byte order. A name that is found in
    /// another case is remembered; one that is not found costs a listing of each of its folders.
    #[must_use]
    pub fn fold_case(mut self) -> Folder {
        self.folded = Some(Mutex::default());
        self
    }

    /// Returns the path of what has a relative path below the folder, in another case if there is
    /// none in this one and case is ignored.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        let exact = self.root.join(path);
        if self.folded.is_none() || exact.exists() {
            return exact;
        }
        names::find_ignoring_case(self.root.clone(), path).unwrap_or(exact)
    }

    /// Finds a file in another case, if case is ignored.
    fn find_folded(&self, name: &[u8], path: &Path) -> Result<Option<(PathBuf, About)>, Error> {
        let Some(folded) = &self.folded else {
            return Ok(None);
        };
        let lock = || folded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(name).cloned();
        if let Some(path) = known
            && let Some(state) = look(&path)?
        {
            return Ok(Some((path, state)));
        }
        let path = self.resolve(path);
        let Some(state) = look(&path)? else {
            return Ok(None);
        };
        lock().insert(Box::from(name), path.clone());
        Ok(Some((path, state)))
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the file of an entry that was found, for requests that the caller makes itself.
    #[must_use]
    pub fn file(&self, entry: &Located) -> FileId {
        let [bits, _] = entry.place();
        FileId::from_bits(bits)
    }

    /// Whether a file is what it was. Mounts that can hang often number inodes anew.
    fn is_same(&self, path: &Path, before: &About, now: &About) -> bool {
        let state = |of: &About| (of.identity.device, of.len, of.identity.modified_ns);
        before == now
            || state(before) == state(now) && {
                let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
                let kind = || probe::place(path).map(|place| place.mount_kind);
                let slow = slow.entry(now.identity.device);
                *slow.or_insert_with(|| kind().is_ok_and(|kind| kind == MountKind::Slow))
            }
    }

    fn located(known: &Known) -> Located {
        Located::new(known.state.len, [known.file.to_bits(), 0])
    }
}

impl Source for Folder {
    fn find(&self, name: &[u8]) -> Result<Option<Located>, Error> {
        let name = clean_name(name)?;
        let path = names::path(&name).map_err(|error| wrong_name(&name, error.cause))?;
        let exact = self.root.join(path);
        let found = match look(&exact)? {
            Some(state) => Some((exact, state)),
            None => self.find_folded(&name, path)?,
        };
        let Some((path, state)) = found else {
            return Ok(None);
        };
        let mut files = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = files.get(&name[..]) {
            if self.is_same(&path, &found.state, &state) {
                return Ok(Some(Folder::located(found)));
            }
            match self.queue.batch().close(found.file) {
                // The storage had too many open files, so this one was never opened.
                Err(error) if error.kind() == ErrorKind::StaleFile => {}
                closed => drop(closed?),
            }
        }
        let file = self.storage.open(&path, FileOptions::default());
        let found = Known { file, state };
        files.insert(name.into_boxed_slice(), found);
        Ok(Some(Folder::located(&found)))
    }

    fn request_range(&self, entry: &Located, offset: u64, len: u64) -> Result<Read, Error> {
        check_range(entry, offset, len)?;
        Ok(Read::range(self.file(entry), offset, len))
    }

    fn metadata(&self, _: &Located) -> Result<Option<&[u8]>, Error> {
        Ok(None)
    }
}

/// Returns the state of the file that a path leads to, if there is one.
fn look(path: &Path) -> Result<Option<About>, Error> {
    match file::about(path).map_err(Error::from) {
        Ok(about) => Ok(about.is_file.then_some(about)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.at(Some(Arc::from(path)), 0, u64::MAX)),
    }
}

/// Checks that a range lies inside an entry; for implementors of [`Source`].
///
/// # Errors
/// `PastEnd` if it does not.
pub fn check_range(entry: &Located, offset: u64, len: u64) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= entry.raw_bytes() => Ok(()),
        _ => {
            let cause = "the range reaches past the end of the entry";
            Err(Error::new(ErrorKind::PastEnd, cause).at(None, offset, len))
        }
    }
}

/// Returns a name without empty parts and `.`, the form in which sources compare names.
///
/// # Errors
/// `InvalidArgument`: the name is empty or absolute, has a part `..`, or holds a NUL.
pub fn clean_name(name: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = |cause| Err(wrong_name(name, cause));
    if name.starts_with(b"/") {
        return wrong("the name is absolute");
    }
    if name.contains(&0) {
        return wrong("the name holds a NUL");
    }
    let mut clean = Vec::with_capacity(name.len());
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => continue,
            b".." => return wrong("the name has a part `..`"),
            _ => {}
        }
        if !clean.is_empty() {
            clean.push(b'/');
        }
        clean.extend_from_slice(part);
    }
    if clean.is_empty() {
        return wrong("the name is empty");
    }
    Ok(clean)
}

fn wrong_name(name: &[u8], cause: &'static str) -> Error {
    let shown = String::from_utf8_lossy(name);
    Error::new(ErrorKind::InvalidArgument, cause).named(Some(Arc::from(&*shown)))
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("root", &self.root).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::StorageOptions;
    use millstream_io::FileSystem as _;
    use millstream_io::fs::OsFileSystem;

    fn load(queue: &Queue, request: Read) -> Result<Vec<u8>, ErrorKind> {
        let mut ticket = queue.submit(request).expect("room");
        let bytes = ticket.wait().map_err(|error| error.kind())?;
        Ok(bytes.to_vec())
    }

    #[test]
    fn names_never_leave_their_source() {
        for name in ["", ".", "/etc/passwd", "../x", "a/../../x", "a\0b"] {
            assert!(clean_name(name.as_bytes()).is_err(), "{name:?}");
        }
        assert_eq!(clean_name(b"./a//b/.").ok(), Some(b"a/b".to_vec()));
    }

    #[test]
    fn a_changed_loose_file_is_read_anew_once_it_is_looked_up() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("a");
        std::fs::write(&path, b"before").expect("written");
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let folder = Folder::new(&storage, root.path()).expect("a folder");
        let old = folder.find(b"a").expect("found").expect("there");
        let read = load(&queue, folder.request(&old).expect("a request"));
        assert_eq!(read, Ok(b"before".to_vec()));

        let beside = root.path().join("b");
        std::fs::write(&beside, b"afterwards").expect("written");
        // On older Windows, the standard library's `rename` does not replace an open file.
        OsFileSystem::new().rename(&beside, &path).expect("renamed");
        let new = folder.find(b"./a").expect("found").expect("there");
        let read = load(&queue, folder.request(&new).expect("a request"));
        assert_eq!(read, Ok(b"afterwards".to_vec()));
        let stale = load(&queue, folder.request(&old).expect("a request"));
        assert_eq!(stale, Err(ErrorKind::StaleFile));

        assert_eq!(folder.find(b"none").expect("asked"), None);
        let past = folder.request_range(&new, 9, 2).map(|_| ());
        assert_eq!(past.map_err(|error| error.kind()), Err(ErrorKind::PastEnd));
    }
}
