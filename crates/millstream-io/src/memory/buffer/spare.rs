//! Free regions, and the budget of the memory a pool keeps.
//!
//! Free regions are found by best fit: the smallest that is large enough and at most a quarter
//! larger, so that a small buffer never occupies a huge region. When the budget is full, the least
//! recently used regions are unmapped first, so memory of unused sizes is released. Slabs that
//! classes keep are claimed from the same budget, up to half of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::of_parent;
use super::touch::Toucher;
use crate::error::IoError;
use crate::fork::ForkGuard;
use crate::limits::HUGE_PAGE_BYTES;
use crate::memory::region::{Region, RegionAllocator};

/// Free regions of a pool.
pub(super) struct Spare {
    store: Mutex<Store>,
    retained_max: usize,
    /// Bytes of free slabs that classes may keep. It only grows, by `claim`, which checks the
    /// bound.
    claimed: AtomicUsize,
    claimed_max: usize,
    allocator: Option<Arc<dyn RegionAllocator>>,
    pub(super) toucher: Toucher,
    pub(super) fork: ForkGuard,
}

#[derive(Default)]
struct Store {
    /// By length, then by stamp.
    free: BTreeMap<(usize, u64), Arc<Region>>,
    free_bytes: usize,
    /// Counts the regions put in: the lowest stamp is the oldest.
    stamp: u64,
    closed: bool,
}

impl Spare {
    pub(super) fn new(retained_max: usize, allocator: Option<Arc<dyn RegionAllocator>>) -> Spare {
        Spare {
            store: Mutex::default(),
            retained_max,
            claimed: AtomicUsize::new(0),
            claimed_max: retained_max / 2,
            allocator,
            toucher: Toucher::default(),
            fork: ForkGuard::new(),
        }
    }

    /// Takes a region of at least `len` bytes; returns it and whether it was never used.
    pub(super) fn take(&self, len: usize) -> Result<(Arc<Region>, bool), IoError> {
        if self.fork.is_child() {
            return Err(of_parent());
        }
        let len = len.next_multiple_of(HUGE_PAGE_BYTES);
        let spare = self.lock().take(len);
        if let Some(region) = spare {
            return Ok((region, false));
        }
        Ok((Region::new(len, self.allocator.clone())?, true))
    }

    /// Takes back a free region: keeps it, unmapping older ones if need be, or unmaps it. In a
    /// forked child it is unmapped.
    pub(super) fn give(&self, region: Arc<Region>) {
        if self.fork.is_child() {
            return;
        }
        let mut unmapped = Vec::new(); // Allocates nothing until something is unmapped.
        let mut store = self.lock();
        let room = self.retained_max - self.claimed.load(Relaxed);
        if store.closed || region.len() > room {
            unmapped.push(region);
        } else {
            while store.free_bytes + region.len() > room {
                unmapped.push(store.remove_oldest());
            }
            store.put(region);
        }
        drop(store); // Unmapping takes its time, outside the lock.
    }

    /// Claims budget for a free slab that a class keeps from now on; returns whether it fits.
    pub(super) fn claim(&self, bytes: usize) -> bool {
        let mut store = self.lock();
        // All claims are made under the lock, so the sum cannot change meanwhile.
        let claimed = self.claimed.load(Relaxed) + bytes;
        if store.closed || claimed > self.claimed_max {
            return false;
        }
        self.claimed.fetch_add(bytes, Relaxed);
        let mut unmapped = Vec::new();
        while store.free_bytes + claimed > self.retained_max {
            unmapped.push(store.remove_oldest());
        }
        drop(store); // As above.
        true
    }

    /// Unmaps the free regions, and from now on every region given back.
    pub(super) fn close(&self) {
        let mut store = self.lock();
        store.closed = true;
        store.free_bytes = 0;
        let _free = std::mem::take(&mut store.free);
        drop(store); // As above.
        self.toucher.end();
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // A panic cannot leave the store half changed: only an allocation could fail, which aborts.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn take(&mut self, len: usize) -> Option<Arc<Region>> {
        let largest = len + len / 4;
        let (&key, _) = self.free.range((len, 0)..=(largest, u64::MAX)).next()?;
        self.remove(key)
    }

    fn put(&mut self, region: Arc<Region>) {
        self.stamp += 1;
        self.free_bytes += region.len();
        self.free.insert((region.len(), self.stamp), region);
    }

    fn remove(&mut self, key: (usize, u64)) -> Option<Arc<Region>> {
        let region = self.free.remove(&key)?;
        self.free_bytes -= region.len();
        Some(region)
    }

    /// Removes the oldest region. It scans all of them (at most one per 2 MiB of the budget), since
    /// unmapping, which follows, costs far more.
    fn remove_oldest(&mut self) -> Arc<Region> {
        let oldest = self.free.keys().min_by_key(|key| key.1).copied();
        oldest
            .and_then(|key| self.remove(key))
            .expect("free bytes are in regions")
    }
}
