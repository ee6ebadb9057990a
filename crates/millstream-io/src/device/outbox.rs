//! Finished items of threads, collected by the owner.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A list that threads append to and the owner takes as a whole.
pub(super) struct Outbox<T> {
    items: Mutex<Vec<T>>,
    /// Number of items, readable without the lock.
    count: AtomicUsize,
}

impl<T> Outbox<T> {
    pub(super) fn new(capacity: usize) -> Outbox<T> {
        Outbox {
            items: Mutex::new(Vec::with_capacity(capacity)),
            count: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn has_any(&self) -> bool {
        self.count() > 0
    }

    /// Called by threads: hands over all of `done`.
    pub(super) fn put(&self, done: &mut Vec<T>) {
        let mut items = self.lock();
        items.append(done);
        self.count.store(items.len(), Ordering::SeqCst);
    }

    /// Called by the owner: takes all items, and returns their number.
    pub(super) fn take(&self, into: &mut Vec<T>) -> usize {
        if !self.has_any() {
            return 0;
        }
        let mut items = self.lock();
        self.count.store(0, Ordering::SeqCst);
        let count = items.len();
        into.append(&mut items);
        count
    }
}
