//! A source whose entries come when the test says so.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use millstream::{Error, Fence, FileId, FileOptions, Read, Storage};
use millstream_source::{Located, Source};

struct Entry {
    name: Vec<u8>,
    bytes: Arc<[u8]>,
    record: Option<Vec<u8>>,
}

/// Entries in memory. Each range that is asked for waits until it is opened.
pub(crate) struct Gated {
    entries: Vec<Entry>,
    fences: Mutex<HashMap<(usize, u64), Fence>>,
    /// A range that cannot be read: an entry and where in it.
    broken: Option<(usize, u64)>,
    missing: PathBuf,
    requests: AtomicU64,
}

impl Gated {
    pub(crate) fn new() -> Gated {
        Gated {
            entries: Vec::new(),
            fences: Mutex::default(),
            broken: None,
            missing: PathBuf::from("/nonexistent/millstream"),
            requests: AtomicU64::new(0),
        }
    }

    pub(crate) fn with(mut self, name: &str, bytes: &[u8], record: Option<Vec<u8>>) -> Gated {
        self.entries.push(Entry {
            name: name.as_bytes().to_vec(),
            bytes: Arc::from(bytes),
            record,
        });
        self
    }

    /// Makes reading an entry from this offset on fail.
    pub(crate) fn broken(mut self, name: &str, offset: u64) -> Gated {
        self.broken = Some((self.index(name), offset));
        self
    }

    fn index(&self, name: &str) -> usize {
        let found = |entry: &Entry| entry.name == name.as_bytes();
        self.entries.iter().position(found).expect("an entry")
    }

    fn fence(&self, index: usize, offset: u64) -> Fence {
        let mut fences = self.fences.lock().expect("no panic");
        let fence = fences.entry((index, offset));
        fence.or_insert_with(|| Fence::new(0)).clone()
    }

    /// Lets the ranges of an entry that begin at `offset` come.
    pub(crate) fn open(&self, name: &str, offset: u64) {
        self.fence(self.index(name), offset).signal(1);
    }

    /// The same, and waits until as many requests have ended as were opened; nobody may be polling.
    pub(crate) fn land(&self, storage: &Storage, name: &str, offset: u64) {
        let ended = || {
            let stats = storage.stats();
            stats.done + stats.failed + stats.canceled
        };
        let before = ended();
        self.open(name, offset);
        let has_ended = millstream_testing::wait_for(|| ended() != before);
        assert!(has_ended, "no request ends");
    }

    /// Whether a range was asked for; before it is opened.
    pub(crate) fn is_requested(&self, name: &str, offset: u64) -> bool {
        let fences = self.fences.lock().expect("no panic");
        fences.contains_key(&(self.index(name), offset))
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// For a failing read, a source needs a file of the storage.
pub(crate) struct OnStorage<'s>(pub(crate) &'s Storage, pub(crate) Arc<Gated>);

impl OnStorage<'_> {
    pub(crate) fn source(&self) -> Arc<dyn Source> {
        let missing = self.0.open(&self.1.missing, FileOptions::default());
        Arc::new(Opened(Arc::clone(&self.1), missing))
    }
}

struct Opened(Arc<Gated>, FileId);

impl Source for Opened {
    fn find(&self, name: &[u8]) -> Result<Option<Located>, Error> {
        let found = self.0.entries.iter().position(|entry| entry.name == name);
        Ok(found.map(|index| {
            let len = self.0.entries[index].bytes.len() as u64;
            Located::new(len, [index as u64, 0])
        }))
    }

    fn request_range(&self, entry: &Located, offset: u64, len: u64) -> Result<Read, Error> {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        let index = entry.place()[0] as usize;
        let start = offset as usize;
        let bytes = &self.0.entries[index].bytes[start..start + len as usize];
        let request = match self.0.broken == Some((index, offset)) {
            true => Read::range(self.1, offset, len),
            false => Read::memory(Arc::from(bytes)),
        };
        Ok(request.after(&self.0.fence(index, offset), 1))
    }

    fn metadata(&self, entry: &Located) -> Result<Option<&[u8]>, Error> {
        Ok(self.0.entries[entry.place()[0] as usize].record.as_deref())
    }

    /// As if they were packed, and well.
    fn stored_in(&self, entry: &Located) -> (u64, u64) {
        (entry.place()[0], entry.raw_bytes() / 1000)
    }
}
