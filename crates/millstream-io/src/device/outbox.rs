//! Finished items of threads, collected by the owner.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct State<T> {
    items: Vec<T>,
    closed: bool,
}

/// A list that threads append to and the owner takes as a whole.
pub(super) struct Outbox<T> {
    state: Mutex<State<T>>,
    /// Number of items, readable without the lock.
    count: AtomicUsize,
}

impl<T> Outbox<T> {
    pub(super) fn new(capacity: usize) -> Outbox<T> {
        let items = Vec::with_capacity(capacity);
        Outbox {
            state: Mutex::new(State {
                items,
                closed: false,
            }),
            count: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn has_any(&self) -> bool {
        self.count() > 0
    }

    /// Called by threads: has `add` append items under the lock, and returns their number then.
    /// `None`, without calling `add`, once the owner has closed the outbox.
    pub(super) fn put(&self, add: impl FnOnce(&mut Vec<T>)) -> Option<usize> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        add(&mut state.items);
        self.count.store(state.items.len(), Ordering::SeqCst);
        Some(state.items.len())
    }

    /// Called by the owner: takes all items, and returns their number.
    pub(super) fn take(&self, into: &mut Vec<T>) -> usize {
        if !self.has_any() {
            return 0;
        }
        self.take_locked(&mut self.lock(), into)
    }

    fn take_locked(&self, state: &mut State<T>, into: &mut Vec<T>) -> usize {
        self.count.store(0, Ordering::SeqCst);
        let count = state.items.len();
        into.append(&mut state.items);
        count
    }

    /// Called by the owner: takes all items for the last time, and returns their number.
    pub(super) fn close(&self, into: &mut Vec<T>) -> usize {
        let mut state = self.lock();
        state.closed = true;
        self.take_locked(&mut state, into)
    }
}
