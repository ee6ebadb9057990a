//! Fences: monotonic numbers that queues raise and any thread can wait for.
//!
//! ```
//! let fence = millstream::Fence::new(0);
//! fence.signal(3);
//! assert!(fence.has_reached(2));
//! assert!(!fence.has_reached(4));
//! ```

use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use millstream_io::{BorrowedEvent, EventFd};

use crate::error::Error;
use crate::handover::waiters::{Condition, Reached, Waiters, wake_all};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence, lock};

/// Notified when a fence is signaled: an engine whose requests are gated by it.
pub(crate) trait Watcher: Send + Sync {
    fn fence_signaled(&self);
}

struct Inner {
    value: AtomicU64,
    waiters: Waiters,
    eventfd: OnceLock<EventFd>,
    watched: AtomicBool,
    /// At most one entry for each living storage.
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

impl Condition for Inner {
    fn is_met(&self, value: u64) -> bool {
        self.value.load(Ordering::SeqCst) >= value
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// A monotonic `u64`. A clone is another handle to the same fence; all methods may be called from
/// any thread. While no thread waits, signaling costs one atomic operation and a fence.
#[derive(Clone)]
pub struct Fence(Arc<Inner>);

impl Fence {
    /// Creates a fence at `value`.
    #[must_use]
    pub fn new(value: u64) -> Fence {
        Fence(Arc::new(Inner {
            value: AtomicU64::new(value),
            waiters: Waiters::default(),
            eventfd: OnceLock::new(),
            watched: AtomicBool::new(false),
            watchers: Mutex::default(),
        }))
    }

    /// Returns its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value.load(Ordering::Acquire)
    }

    /// Returns whether it has reached `value`.
    #[must_use]
    pub fn has_reached(&self, value: u64) -> bool {
        self.value() >= value
    }

    /// Raises it to `value` and wakes its waiters. A value not above the present one changes
    /// nothing.
    pub fn signal(&self, value: u64) {
        let mut wakers = Vec::new();
        self.raise(value, &mut wakers);
        wake_all(&mut wakers);
    }

    /// Raises it, leaving the wakers to the caller.
    pub(crate) fn raise(&self, value: u64, wakers: &mut Vec<Waker>) {
        if self.0.value.fetch_max(value, Ordering::SeqCst) >= value {
            return;
        }
        self.0.waiters.take(wakers);
        if let Some(eventfd) = self.0.eventfd.get() {
            eventfd.signal();
        }
        if self.0.watched.load(Ordering::SeqCst) {
            for watcher in lock(&self.0.watchers).iter().filter_map(Weak::upgrade) {
                watcher.fence_signaled();
            }
        }
    }

    /// Blocks until it has reached `value`, at most `timeout`; returns whether it has. For a
    /// storage without threads use [`Storage::wait`](crate::Storage::wait), which pumps.
    ///
    /// # Errors
    /// `OnStorageThread`.
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<bool, Error> {
        if self.has_reached(value) {
            return Ok(true);
        }
        self.at(value).wait(timeout)
    }

    /// Returns a future that completes once the fence has reached `value`.
    pub fn at(&self, value: u64) -> Reached {
        Reached::new(self.0.clone(), value)
    }

    /// Returns an eventfd for the fence, created by the first call: readable after every signal
    /// that raises the fence from then on, and at once if the fence is above 0. Reading it resets
    /// it; the value itself is [`Fence::value`]. On Windows an event object, set until it is reset.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn eventfd(&self) -> Result<BorrowedEvent<'_>, Error> {
        if let Some(eventfd) = self.0.eventfd.get() {
            return Ok(eventfd.event());
        }
        let created = EventFd::new()?;
        let eventfd = self.0.eventfd.get_or_init(|| created);
        // A signal before the eventfd is published does not see it. The SeqCst fences here and in
        // `Waiters::take` order the two: the signal raised the value before this load, or sees the
        // eventfd after it. One signal too many is allowed.
        fence(Ordering::SeqCst);
        if self.0.value.load(Ordering::SeqCst) > 0 {
            eventfd.signal();
        }
        Ok(eventfd.event())
    }

    /// Has a storage notified of every signal from now on. The caller must check the value
    /// afterwards.
    pub(crate) fn watch(&self, watcher: &Weak<dyn Watcher>) {
        let mut watchers = lock(&self.0.watchers);
        watchers.retain(|known| known.strong_count() > 0);
        if !watchers.iter().any(|known| known.ptr_eq(watcher)) {
            watchers.push(watcher.clone());
        }
        self.0.watched.store(true, Ordering::SeqCst);
        drop(watchers);
        // Pairs with the fence in `Waiters::take`, between a signal's store and load of `watched`.
        fence(Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fence").field(&self.value()).finish()
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn the_waker_of_an_abandoned_future_is_removed() {
        let fence = Fence::new(0);
        let mut reached = fence.at(1);
        for _ in 0..3 {
            assert!(reached.poll_reached(Waker::noop()).is_pending());
        }
        assert_eq!(fence.0.waiters.len(), 1);
        drop(reached);
        assert_eq!(fence.0.waiters.len(), 0);
    }

    #[test]
    fn no_signal_is_lost_while_the_eventfd_is_created() {
        for _ in 0..2_000 {
            let fence = Fence::new(0);
            let other = fence.clone();
            let thread = std::thread::spawn(move || other.signal(1));
            fence.eventfd().expect("an eventfd");
            thread.join().expect("the signaler returns");
            let eventfd = fence.0.eventfd.get().expect("created above");
            assert!(eventfd.clear(), "the signal shows");
        }
    }
}
