//! The memory budget of one scene, charged on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::{Buffer, BufferPool};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// The memory limit of a scene, and the bytes taken.
#[derive(Debug)]
pub(super) struct Budget {
    max: AtomicU64,
    /// The limit is that of the stored bytes, which are counted as files are found.
    of_stored: Option<AtomicU64>,
    taken: AtomicU64,
}

impl Budget {
    /// A limit of the application's, or that of the stored bytes of the scene's files.
    pub(super) fn new(max: Option<u64>) -> Budget {
        Budget {
            max: AtomicU64::new(max.unwrap_or(0)),
            of_stored: max.is_none().then(AtomicU64::default),
            taken: AtomicU64::new(0),
        }
    }

    /// Whether the limit grows with the scene's files.
    pub(super) fn grows(&self) -> bool {
        self.of_stored.is_some()
    }

    /// Counts another file of the scene.
    pub(super) fn add_file(&self, bytes: u64) {
        let Some(stored) = &self.of_stored else {
            return;
        };
        let before = stored.load(Ordering::Relaxed);
        // Files are found by one thread.
        let all = before.saturating_add(bytes);
        stored.store(all, Ordering::Relaxed);
        self.max.store(limits::scene_memory(all), Ordering::Relaxed);
    }

    /// Takes `bytes`, if there is room for them.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let add = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// The error of `bytes` for which there was no room.
    pub(super) fn no_room(&self, place: &str, file: &str, bytes: u64) -> Error {
        let max = self.max.load(Ordering::Relaxed);
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
        let max = self.max.load(Ordering::Relaxed);
        max.saturating_sub(self.taken.load(Ordering::Relaxed))
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
