//! The memory of one scene: counted when it is taken, on whatever thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream::destination::Supply;
use millstream::{BufferPool, Landing};

/// What a scene may take, and has taken.
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

    /// Gives back what came to nothing.
    pub(super) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What is left.
    pub(super) fn left(&self) -> u64 {
        self.max.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Memory for an image, from the storage's pool, once its size is known; `supplied` says
    /// afterwards how much that was.
    pub(super) fn supply(
        self: &Arc<Self>,
        pool: Arc<BufferPool>,
        supplied: Arc<Supplied>,
    ) -> Supply {
        let budget = Arc::clone(self);
        Box::new(move |len| {
            if !budget.take(len as u64) {
                supplied.refused.store(true, Ordering::Release);
                return None;
            }
            match pool.take(len) {
                Ok(buffer) => {
                    supplied.bytes.fetch_add(len as u64, Ordering::AcqRel);
                    Some(Box::new(buffer) as Box<dyn Landing>)
                }
                Err(_) => {
                    budget.give_back(len as u64);
                    None
                }
            }
        })
    }
}

/// What an item's requests took of the budget once sizes were known, on whatever thread.
#[derive(Debug, Default)]
pub(super) struct Supplied {
    refused: AtomicBool,
    bytes: AtomicU64,
}

impl Supplied {
    /// Whether there was no room.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// The bytes taken, which the caller gives back now.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::AcqRel)
    }
}
