//! The memory budget of one scene. Any thread may charge it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::{Buffer, BufferPool};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// The memory limit of a scene, and the bytes taken.
#[derive(Debug)]
pub(super) struct Budget {
    /// The application's limit; `None`: the default for the stored bytes.
    set: Option<u64>,
    /// Stored bytes of the files found so far.
    stored: AtomicU64,
    taken: AtomicU64,
}

impl Budget {
    /// Creates a budget with the application's limit, or the default for the scene's files.
    pub(super) fn new(set: Option<u64>) -> Budget {
        let (stored, taken) = Default::default();
        Budget { set, stored, taken }
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

    /// Takes `bytes`, if there is room for them; returns whether it did.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let max = self.max();
        let add = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// Takes `bytes` for an item, or records their refusal; returns whether there was room.
    pub(super) fn charge(&self, charged: &Charged, bytes: u64) -> bool {
        let fits = self.take(bytes);
        if fits {
            charged.bytes.fetch_add(bytes, Ordering::AcqRel);
        } else {
            charged.refused.store(bytes, Ordering::Release);
        }
        fits
    }

    /// Gives back what an item has taken beyond `bytes`.
    pub(super) fn keep(&self, charged: &Charged, bytes: u64) {
        let before = charged.bytes.fetch_min(bytes, Ordering::AcqRel);
        self.give_back(before.saturating_sub(bytes));
    }

    /// Returns the error of `bytes` for which there was no room.
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

    /// Gives bytes back.
    pub(super) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes left.
    pub(super) fn left(&self) -> u64 {
        self.max()
            .saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Returns a function that supplies memory for an image from the storage's pool, once its size
    /// is known; it counts the bytes in `charged`.
    pub(super) fn supply(
        self: &Arc<Self>,
        pool: Arc<BufferPool>,
        charged: Arc<Charged>,
    ) -> impl FnOnce(usize) -> Option<Buffer> + Send + 'static {
        let budget = Arc::clone(self);
        move |len| {
            let fits = budget.charge(&charged, len as u64);
            fits.then(|| pool.take(len).ok()).flatten()
        }
    }
}

/// What an item has taken of the budget.
#[derive(Debug, Default)]
pub(super) struct Charged {
    /// Bytes that were refused last; 0 if none were.
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl Charged {
    /// Returns the bytes for which the budget did not suffice.
    pub(super) fn refused(&self) -> Option<u64> {
        Some(self.refused.load(Ordering::Acquire)).filter(|&bytes| bytes > 0)
    }

    /// Returns the bytes taken.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }
}
