//! The memory budget of one scene, charged on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream::{Buffer, BufferPool};

/// The memory limit of a scene, and the bytes taken.
#[derive(Debug)]
pub(super) struct Budget {
    max: u64,
    taken: AtomicU64,
}

impl Budget {
    pub(super) fn new(max: u64) -> Budget {
        Budget {
            max,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes `bytes`, if there is room for them.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let add = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= self.max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// Returns bytes.
    pub(super) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes left.
    pub(super) fn left(&self) -> u64 {
        self.max.saturating_sub(self.taken.load(Ordering::Relaxed))
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
                supplied.refused.store(true, Ordering::Release);
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
    refused: AtomicBool,
    bytes: AtomicU64,
}

impl Supplied {
    /// Whether the budget did not suffice.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Takes the count of bytes, which the caller returns to the budget.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::AcqRel)
    }
}
