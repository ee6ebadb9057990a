//! Paths on the caller's side: a path is hashed once, in [`Storage::open`](crate::Storage::open);
//! from then on a file is an id. The lock is held for a table access only, never over a system
//! call.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::destination::FileOptions;
use crate::ids::{FileId, Id, StorageNumber};
use crate::limits::FILES_MAX;

struct Named {
    key: (Arc<Path>, FileOptions),
    generation: u32,
    opens: u32,
}

/// The names of a storage.
pub(crate) struct Names {
    storage: StorageNumber,
    /// The first generation of a new entry.
    first: u32,
    ids: HashMap<(Arc<Path>, FileOptions), u32>,
    entries: Vec<Named>,
    free: Vec<u32>,
}

impl Names {
    pub(crate) fn new(storage: StorageNumber, first: u32) -> Names {
        Names {
            storage,
            first,
            ids: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the id of a file; with its path, if it is new and to be handed to the engine.
    /// `None`: the storage has as many files as it may.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        options: FileOptions,
    ) -> Option<(FileId, Option<Arc<Path>>)> {
        let path: Arc<Path> = match cleaned(path) {
            Some(clean) => Arc::from(clean),
            None => Arc::from(path),
        };
        // What an open does to the file, each open does.
        let shared = !options.changes();
        let key = (path, options);
        if let Some(&index) = self.ids.get(&key).filter(|_| shared) {
            self.entries[index as usize].opens += 1;
            return Some((self.id(index), None));
        }
        let path = Arc::clone(&key.0);
        let file = self.entry(key.clone())?;
        if shared {
            self.ids.insert(key, file.0.index());
        }
        Some((file, Some(path)))
    }

    /// Later opens of the path of a file get another id: it was closed, or could not be opened.
    pub(crate) fn forget(&mut self, index: u32) {
        let key = &self.entries[index as usize].key;
        if self.ids.get(key) == Some(&index) {
            self.ids.remove(key);
        }
    }

    /// Returns an id for a file that is open already. Its path does not lead to the id: others that
    /// open the path get what it names then.
    pub(crate) fn adopt(&mut self, path: Arc<Path>, options: FileOptions) -> Option<FileId> {
        self.entry((path, options))
    }

    fn id(&self, index: u32) -> FileId {
        let generation = self.entries[index as usize].generation;
        FileId(Id::new(self.storage, index, generation))
    }

    fn entry(&mut self, key: (Arc<Path>, FileOptions)) -> Option<FileId> {
        let mut entry = Named {
            key,
            generation: self.first,
            opens: 1,
        };
        if let Some(index) = self.free.pop() {
            let place = &mut self.entries[index as usize];
            entry.generation = place.generation;
            *place = entry;
            return Some(self.id(index));
        }
        if self.entries.len() == FILES_MAX {
            return None;
        }
        self.entries.push(entry);
        Some(self.id(self.entries.len() as u32 - 1))
    }

    /// A generation above all that were given.
    pub(crate) fn next_generation(&self) -> u32 {
        let given = self.entries.iter().map(|entry| entry.generation).max();
        given.map_or(self.first, |last| last.wrapping_add(1))
    }

    /// Undoes one `open`; returns whether it was the last, which frees the path. `None`: the id is
    /// stale, or of another storage.
    pub(crate) fn close(&mut self, file: FileId) -> Option<bool> {
        let entry = self.entries.get_mut(file.0.index() as usize)?;
        let own = file.0.storage() == self.storage && entry.generation == file.0.generation();
        if !own || entry.opens == 0 {
            return None;
        }
        entry.opens -= 1;
        if entry.opens > 0 {
            return Some(false);
        }
        self.forget(file.0.index());
        Some(true)
    }

    /// Frees the id of a file whose last close has taken effect.
    pub(crate) fn retire(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        assert_eq!(entry.opens, 0, "a retired file was closed");
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }
}

/// `path` without `.` and empty parts, if it has any. `..` stays: only the system knows what it
/// means behind a symbolic link.
fn cleaned(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let odd = bytes.starts_with(b"./")
        || bytes.windows(2).any(|pair| pair == b"//")
        || bytes.windows(3).any(|three| three == b"/./");
    if !odd {
        return None;
    }
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let clean: PathBuf = parts.collect();
    match clean.as_os_str().is_empty() {
        true => Some(PathBuf::from(".")),
        false => Some(clean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let (storage, first) = StorageNumber::take().expect("a number");
        Names::new(storage, first)
    }

    fn open(names: &mut Names, path: &str) -> FileId {
        let opened = names.open(Path::new(path), FileOptions::default());
        opened.expect("a few names fit").0
    }

    #[test]
    fn opens_that_change_the_file_and_those_after_a_failure_have_ids_of_their_own() {
        let mut names = names();
        for create in [false, true] {
            let options = FileOptions {
                write: true,
                create,
                truncate: !create,
                ..FileOptions::default()
            };
            let mut open = || {
                names
                    .open(Path::new("a"), options)
                    .expect("a few names fit")
            };
            assert_ne!(open().0, open().0);
        }
        let first = open(&mut names, "b");
        names.forget(first.0.index());
        let second = open(&mut names, "b");
        assert_ne!(first, second);
        assert_eq!(open(&mut names, "b"), second);
        assert_eq!(names.close(first), Some(true));
        assert_eq!(open(&mut names, "b"), second, "the other keeps the name");
    }

    #[test]
    fn one_path_is_one_id_whatever_its_dots() {
        let mut names = names();
        let id = open(&mut names, "a/b");
        assert_eq!(open(&mut names, "./a//b"), id);
        assert_eq!(open(&mut names, "a/./b"), id);
        let dots = open(&mut names, "a/../a/b");
        assert_ne!(dots, id, "only the system knows where .. leads");
        assert_ne!(open(&mut names, "A/b"), id, "case matters");
    }
}
