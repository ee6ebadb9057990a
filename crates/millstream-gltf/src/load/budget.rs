//! The memory budget of one scene, charged on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::{Buffer, BufferPool};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// The memory limit of a scene, and the bytes taken.
#[derive(Debug)]
pub(super) struct Budget {
    /// The application's limit; `None`: that of the stored bytes.
    set: Option<u64>,
    /// Stored bytes of the files that were found so far.
    stored: AtomicU64,
    taken: AtomicU64,
}

impl Budget {
    /// A limit of the application's, or that of the stored bytes of the scene's files.
    pub(super) fn new(set: Option<u64>) -> Budget {
        Budget {
            set,
            stored: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn max(&self) -> u64 {
        let stored = self.stored.load(Ordering::Relaxed);
        self.set.unwrap_or(limits::scene_memory(stored))
    }

    /// Whether the limit grows with the scene's files.
    pub(super) fn grows(&self) -> bool {
        self.set.is_none()
    }

    /// Counts another file of the scene.
    pub(super) fn add_file(&self, bytes: u64) {
        // Files are found by one thread.
        let all = self.stored.load(Ordering::Relaxed).saturating_add(bytes);
        self.stored.store(all, Ordering::Relaxed);
    }

    /// Takes `bytes`, if there is room for them.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let max = self.max();
        let add = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// The error of `bytes` for which there was no room.
    pub(super) fn no_room(&self, place: &str, file: &str, bytes: u64) -> Error {
        let max = self.max();
        let whose = match self.grows() {
            true => "by default 32 MiB and 384 times the bytes of its files",
            false => "as it was set",
        };
        let cause = format!(
            "{bytes} bytes are more than is left of the {max} that the scene may take in memory, \
             {whose}: `memory_max` of `LoaderOptions`, or `scene --max-bytes`, allows more"
        );
        Error::new(ErrorKind::Limit, place, cause).in_file(file)
    }

    /// Returns bytes.
    pub(super) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes left.
    pub(super) fn left(&self) -> u64 {
        self.max()
            .saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Returns a function that supplies memory for an image from the storage's pool, once its size
    /// is known; it counts the bytes in `supplied`.
    pub(super) fn supply(
        self: &Arc<Self>,
        pool: Arc<BufferPool>,
        supplied: Arc<Supplied>,
    ) -> impl FnOnce(usize) -> Option<Buffer> + Send + 'static {
        let budget = Arc::clone(self);
        move |len| {
            if !budget.take(len as u64) {
                supplied.refused.store(len as u64, Ordering::Release);
                return None;
            }
            let buffer = pool.take(len).ok();
            match buffer {
                Some(_) => {
                    supplied.bytes.fetch_add(len as u64, Ordering::AcqRel);
                }
                None => budget.give_back(len as u64),
            }
            buffer
        }
    }
}

/// What an item's requests took of the budget once sizes were known.
#[derive(Debug, Default)]
pub(super) struct Supplied {
    /// 0: nothing was refused.
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl Supplied {
    /// Bytes for which the budget did not suffice.
    pub(super) fn refused(&self) -> Option<u64> {
        Some(self.refused.load(Ordering::Acquire)).filter(|&bytes| bytes > 0)
    }

    /// Takes up to `bytes` off the count, which the caller returns to the budget; how many.
    pub(super) fn take_some(&self, bytes: u64) -> u64 {
        let less = |count: u64| Some(count.saturating_sub(bytes));
        let before = self
            .bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.unwrap_or(0).min(bytes)
    }

    /// Takes the count of bytes, which the caller returns to the budget.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::AcqRel)
    }
}
