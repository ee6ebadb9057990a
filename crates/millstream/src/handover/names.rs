//! Paths on the caller's side: a path is hashed once, in [`Storage::open`](crate::Storage::open);
//! from then on a file is an id. Each open gives a new id; handles of one path are linked, newest
//! first. The lock is held for a table access only, never over a system call.
//!
//! A handle that [`Storage::read`](crate::Storage::read) reads again and again has a descriptor for
//! its callers, too, if one of the same file can be opened.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use millstream_io::{LocalFile, Opened};

use crate::caller::destination::FileOptions;
use crate::ids::{FileId, Id, StorageNumber};
use crate::limits::FILES_MAX;

/// A new handle.
pub(crate) struct NewFile {
    /// As the application named it.
    pub(crate) path: Arc<Path>,
    /// What it is opened by.
    pub(crate) place: Arc<Path>,
    pub(crate) options: FileOptions,
    /// Set if the file is open already.
    pub(crate) opened: Option<Opened>,
}

struct Named {
    place: Arc<Path>,
    generation: u32,
    is_open: bool,
    /// The neighbors among the open handles of the path.
    older: Option<u32>,
    newer: Option<u32>,
    local: Local,
}

/// How callers read a handle on their own threads.
#[derive(Clone)]
pub(crate) enum Local {
    /// No caller has read it so far.
    Unread,
    /// To be looked at, by the path that it was opened by.
    Unknown(Arc<Path>),
    /// Through this.
    Open(Arc<LocalFile>),
    /// Not at all.
    Never,
}

/// The names of a storage.
pub(crate) struct Names {
    storage: StorageNumber,
    /// The first generation of a new entry.
    first: u32,
    /// The newest open handle of each path.
    newest: HashMap<Arc<Path>, u32>,
    entries: Vec<Named>,
    free: Vec<u32>,
    /// Handles that callers read through a local file.
    local: Vec<u32>,
}

impl Names {
    pub(crate) fn new(storage: StorageNumber, first: u32) -> Names {
        Names {
            storage,
            first,
            newest: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            local: Vec::new(),
        }
    }

    /// Returns a new handle of a path. `None`: the storage has as many files as it may.
    pub(crate) fn open(&mut self, place: &Arc<Path>) -> Option<FileId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() == FILES_MAX => return None,
            None => {
                self.entries.push(Named {
                    place: Arc::clone(place),
                    generation: self.first,
                    is_open: true,
                    older: None,
                    newer: None,
                    local: Local::Unread,
                });
                self.entries.len() as u32 - 1
            }
        };
        let older = self.newest.insert(Arc::clone(place), index);
        if let Some(older) = older {
            self.entries[older as usize].newer = Some(index);
        }
        let entry = &mut self.entries[index as usize];
        entry.place = Arc::clone(place);
        (entry.is_open, entry.older, entry.local) = (true, older, Local::Unread);
        Some(self.id(index))
    }

    /// The newest open handle of a path.
    pub(crate) fn find(&self, place: &Path) -> Option<FileId> {
        self.newest.get(place).map(|index| self.id(*index))
    }

    fn id(&self, index: u32) -> FileId {
        let generation = self.entries[index as usize].generation;
        FileId(Id::new(self.storage, index, generation))
    }

    /// A generation above all that were given.
    pub(crate) fn next_generation(&self) -> u32 {
        let given = self.entries.iter().map(|entry| entry.generation).max();
        given.map_or(self.first, |last| last.wrapping_add(1))
    }

    /// The entry of a handle that is open.
    fn open_entry(&mut self, file: FileId) -> Option<&mut Named> {
        let entry = self.entries.get_mut(file.0.index() as usize)?;
        let is_own = file.0.storage() == self.storage && entry.generation == file.0.generation();
        (is_own && entry.is_open).then_some(entry)
    }

    /// How a caller reads a handle on its own thread. Its first call returns `Unread`, the second
    /// `Unknown` unless `most` others are read so, later ones `Never` until [`Names::lend`].
    pub(crate) fn local(&mut self, file: FileId, most: usize) -> Local {
        let is_full = self.local.len() >= most;
        let Some(entry) = self.open_entry(file) else {
            return Local::Never;
        };
        match &entry.local {
            Local::Unread => {
                entry.local = Local::Unknown(Arc::clone(&entry.place));
                Local::Unread
            }
            Local::Unknown(_) if is_full => Local::Never,
            Local::Unknown(_) => std::mem::replace(&mut entry.local, Local::Never),
            known => known.clone(),
        }
    }

    /// Has callers read a handle through a local file from now on; unless it is closed, or `most`
    /// others are read so by now.
    pub(crate) fn lend(&mut self, file: FileId, local: &Arc<LocalFile>, most: usize) {
        let is_full = self.local.len() >= most;
        let Some(entry) = self.open_entry(file) else {
            return;
        };
        if is_full {
            entry.local = Local::Unread;
            return;
        }
        entry.local = Local::Open(Arc::clone(local));
        self.local.push(file.0.index());
    }

    /// Takes all local files, to be closed without the lock.
    pub(crate) fn take_local(&mut self) -> Vec<Local> {
        let entries = &mut self.entries;
        let take = |index| std::mem::replace(&mut entries[index as usize].local, Local::Never);
        self.local.drain(..).map(take).collect()
    }

    /// Closes a handle; `None`: it is stale, or of another storage. Its local file is to be closed
    /// without the lock.
    pub(crate) fn close(&mut self, file: FileId) -> Option<Local> {
        let index = file.0.index();
        let entry = self.open_entry(file)?;
        entry.is_open = false;
        let local = std::mem::replace(&mut entry.local, Local::Never);
        let (older, newer) = (entry.older.take(), entry.newer.take());
        let place = Arc::clone(&entry.place);
        if let Some(older) = older {
            self.entries[older as usize].newer = newer;
        }
        match (newer, older) {
            (Some(newer), _) => self.entries[newer as usize].older = older,
            (None, Some(older)) => {
                self.newest.insert(place, older);
            }
            (None, None) => {
                self.newest.remove(&place);
            }
        }
        if matches!(local, Local::Open(_)) {
            self.local.retain(|other| *other != index);
        }
        Some(local)
    }

    /// Frees the id of a file whose close has taken effect.
    pub(crate) fn retire(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        assert!(!entry.is_open, "a retired file was closed");
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }
}

/// `path` without `.` and empty parts. `..` stays: only the system knows what it means behind a
/// symbolic link.
pub(crate) fn cleaned(path: &Path) -> Arc<Path> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let odd = bytes.starts_with(b"./")
        || bytes.windows(2).any(|pair| pair == b"//")
        || bytes.windows(3).any(|three| three == b"/./");
    if !odd {
        return Arc::from(path);
    }
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let clean: PathBuf = parts.collect();
    match clean.as_os_str().is_empty() {
        true => Arc::from(Path::new(".")),
        false => Arc::from(clean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_has_its_own_id_and_the_newest_open_one_is_found() {
        let (storage, first) = StorageNumber::take().expect("a number");
        let mut names = Names::new(storage, first);
        let path: Arc<Path> = Arc::from(Path::new("a"));
        let mut random = fastrand::Rng::with_seed(7);
        let mut open: Vec<FileId> = Vec::new();
        for _ in 0..2000 {
            match random.bool() || open.is_empty() {
                true => {
                    let file = names.open(&path).expect("a few names fit");
                    assert!(!open.contains(&file));
                    open.push(file);
                }
                false => {
                    let file = open.remove(random.usize(..open.len()));
                    assert!(names.close(file).is_some());
                    assert!(names.close(file).is_none(), "it is closed once");
                    names.retire(file.0.index());
                }
            }
            assert_eq!(names.find(&path), open.last().copied());
        }
        assert!(names.find(Path::new("b")).is_none());
    }

    #[test]
    fn one_path_has_one_spelling_whatever_its_dots() {
        let clean = |path: &str| cleaned(Path::new(path));
        for spelling in ["./a//b", "a/./b", "a//b", "a/b"] {
            assert_eq!(&*clean(spelling), Path::new("a/b"));
        }
        let dots = clean("./a/../a/b");
        assert_eq!(
            &*dots,
            Path::new("a/../a/b"),
            "only the system knows where .. leads"
        );
    }
}
