//! File ids: names on the caller's side of the engine.
//!
//! A path is looked at once, in [`Storage::open`](crate::Storage::open); from then on a file is a
//! small id, checked by its generation. Opening here makes no system call: the engine has the file
//! opened by a worker, ahead of its first read.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream_io::Identity;

use crate::error::Error;
use crate::storage::Shared;
use crate::waiters::{Waiters, lock};

/// A file of a storage. Plain data: it may be copied, kept and sent; a stale one is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Whether reads go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Decided per block: cached ranges from the cache, large cold ones past it, small cold ones
    /// through it.
    #[default]
    Auto,
    /// Always past the cache; reads fail with `NoDirectIo` where the file system cannot.
    Direct,
    /// Always through the cache.
    Buffered,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileOptions {
    /// For writing as well.
    pub write: bool,
    /// Make it if it does not exist.
    pub create: bool,
    /// With `create`: fail if the name exists, be it only as a link.
    pub exclusive: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// How reads go; `None` for the storage's way.
    pub access: Option<Access>,
    /// Many small reads at depth are expected (a package): cold small reads go past the cache, too.
    pub package: bool,
}

/// What is known of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Bytes.
    pub len: u64,
    /// Which file it is.
    pub identity: Identity,
    /// Whether direct I/O is possible.
    pub direct: bool,
}

/// Where the engine tells how an open ended.
#[derive(Default)]
pub(crate) struct OpenOutcome {
    result: Mutex<Option<Result<FileInfo, Error>>>,
    waiters: Waiters,
}

impl OpenOutcome {
    pub(crate) fn resolve(&self, result: Result<FileInfo, Error>, wakers: &mut Vec<Waker>) {
        *lock(&self.result) = Some(result);
        self.waiters.take(wakers);
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<FileInfo, Error>> {
        let look = || lock(&self.result).clone();
        if let Some(result) = look() {
            return Poll::Ready(result);
        }
        self.waiters.add(waker);
        look().map_or(Poll::Pending, Poll::Ready)
    }
}

/// The completion of an open: size and identity, or why not. Cloning gives another handle.
#[derive(Clone)]
pub struct Opening {
    outcome: Arc<OpenOutcome>,
    storage: Arc<Shared>,
}

impl Opening {
    pub(crate) fn new(outcome: Arc<OpenOutcome>, storage: Arc<Shared>) -> Opening {
        Opening { outcome, storage }
    }

    /// The result, if there is one yet.
    #[must_use]
    pub fn try_get(&self) -> Option<Result<FileInfo, Error>> {
        lock(&self.outcome.result).clone()
    }

    /// Blocks until the file is open. Pumps a storage that has no threads.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn wait(&self) -> Result<FileInfo, Error> {
        match self.block_on(None) {
            Some(result) => result,
            None => unreachable!("a wait without a deadline ends with a result"),
        }
    }

    /// Blocks at most `timeout`.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<FileInfo, Error>> {
        self.block_on(Some(Instant::now() + timeout))
    }

    fn block_on(&self, deadline: Option<Instant>) -> Option<Result<FileInfo, Error>> {
        let storage = Arc::clone(&self.storage);
        storage.block_on(deadline, |waker| self.outcome.poll(waker))
    }

    /// A future of the result.
    pub fn opened(&self) -> impl Future<Output = Result<FileInfo, Error>> + Send + 'static {
        let outcome = Arc::clone(&self.outcome);
        std::future::poll_fn(move |context| outcome.poll(context.waker()))
    }
}

struct Named {
    key: (Arc<Path>, FileOptions),
    generation: u32,
    opens: u32,
}

/// The names of a storage. Its lock is held for a table access only, never over a system call.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<(Arc<Path>, FileOptions), u32, Hasher>,
    entries: Vec<Named>,
    free: Vec<u32>,
}

type Hasher = std::hash::RandomState;

pub(crate) enum NameOpened {
    /// Known and open already.
    Known(FileId),
    /// To be told to the engine.
    New(FileId, Arc<Path>),
}

impl Names {
    pub(crate) fn open(&mut self, path: &Path, options: FileOptions) -> NameOpened {
        let path: Arc<Path> = match cleaned(path) {
            Some(clean) => Arc::from(clean),
            None => Arc::from(path),
        };
        let key = (path, options);
        if let Some(&index) = self.ids.get(&key) {
            let entry = &mut self.entries[index as usize];
            entry.opens += 1;
            return NameOpened::Known(FileId {
                index,
                generation: entry.generation,
            });
        }
        let path = Arc::clone(&key.0);
        let file = self.entry(key.clone());
        self.ids.insert(key, file.index);
        NameOpened::New(file, path)
    }

    /// An id for a file that is open already. Its name does not lead to it: others that open the
    /// name get what it means then.
    pub(crate) fn adopt(&mut self, path: Arc<Path>, options: FileOptions) -> FileId {
        self.entry((path, options))
    }

    fn entry(&mut self, key: (Arc<Path>, FileOptions)) -> FileId {
        let index = match self.free.pop() {
            Some(index) => {
                let entry = &mut self.entries[index as usize];
                entry.key = key;
                entry.opens = 1;
                index
            }
            None => {
                let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 files");
                self.entries.push(Named {
                    key,
                    generation: 0,
                    opens: 1,
                });
                index
            }
        };
        let generation = self.entries[index as usize].generation;
        FileId { index, generation }
    }

    /// One `open` less. Whether it was the last: the name then means nothing any more.
    pub(crate) fn close(&mut self, file: FileId) -> bool {
        let Some(entry) = self.entries.get_mut(file.index as usize) else {
            return false;
        };
        if entry.generation != file.generation || entry.opens == 0 {
            return false;
        }
        entry.opens -= 1;
        if entry.opens > 0 {
            return false;
        }
        if self.ids.get(&entry.key) == Some(&file.index) {
            self.ids.remove(&entry.key);
        }
        true
    }

    /// The engine is done with a file whose last `close` was enqueued.
    pub(crate) fn retire(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }
}

/// `path` without `.` and empty parts, if it has any. `..` stays: only the system knows what it
/// means behind a link.
fn cleaned(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let odd = bytes.starts_with(b"./")
        || bytes.windows(2).any(|pair| pair == b"//")
        || bytes.windows(3).any(|three| three == b"/./");
    if !odd {
        return None;
    }
    let mut clean: Vec<u8> = Vec::with_capacity(bytes.len());
    if bytes.starts_with(b"/") {
        clean.push(b'/');
    }
    for part in bytes.split(|&byte| byte == b'/') {
        if part.is_empty() || part == b"." {
            continue;
        }
        if !clean.is_empty() && !clean.ends_with(b"/") {
            clean.push(b'/');
        }
        clean.extend_from_slice(part);
    }
    if clean.is_empty() {
        clean.push(b'.');
    }
    Some(PathBuf::from(OsString::from_vec(clean)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(names: &mut Names, path: &str) -> FileId {
        match names.open(Path::new(path), FileOptions::default()) {
            NameOpened::Known(id) | NameOpened::New(id, _) => id,
        }
    }

    #[test]
    fn one_path_is_one_id_whatever_its_dots() {
        let mut names = Names::default();
        let id = open(&mut names, "a/b");
        assert_eq!(open(&mut names, "./a//b"), id);
        assert_eq!(open(&mut names, "a/./b"), id);
        assert_ne!(
            open(&mut names, "a/../a/b"),
            id,
            "only the system knows where .. leads"
        );
        assert_ne!(open(&mut names, "A/b"), id, "case matters");
    }

    #[test]
    fn an_id_goes_stale_with_its_last_close() {
        let mut names = Names::default();
        let id = open(&mut names, "x");
        open(&mut names, "x");
        assert!(!names.close(id));
        assert!(names.close(id));
        assert!(!names.close(id), "closed already");
        let second = open(&mut names, "x");
        assert_ne!(second, id, "another id while the engine may hold the first");
        names.retire(id.index);
        assert_ne!(
            open(&mut names, "y"),
            id,
            "a reused entry has a new generation"
        );
    }
}
