//! Events: manual-reset flags that a queue sets in its place.
//!
//! ```
//! let event = millstream::Event::new();
//! assert!(!event.is_set());
//! event.set();
//! event.wait();
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::park;
use crate::waiters::Waiters;

#[derive(Default)]
struct Inner {
    set: AtomicBool,
    waiters: Waiters,
}

/// A flag that stays set until it is reset. Cloning gives another handle to the same event; any
/// thread may call.
#[derive(Clone, Default)]
pub struct Event(Arc<Inner>);

impl Event {
    /// An event that is not set.
    #[must_use]
    pub fn new() -> Event {
        Event::default()
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Sets it and wakes who waits.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        self.0.waiters.wake();
    }

    pub(crate) fn raise(&self, wakers: &mut Vec<Waker>) {
        self.0.set.store(true, Ordering::SeqCst);
        self.0.waiters.take(wakers);
    }

    /// Makes it not set.
    pub fn reset(&self) {
        self.0.set.store(false, Ordering::SeqCst);
    }

    /// Blocks until it is set.
    pub fn wait(&self) {
        park::block_on(None, |waker| self.poll_set(waker));
    }

    /// Blocks at most `timeout`; whether it is set.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        park::block_on(Some(Instant::now() + timeout), |waker| self.poll_set(waker)).is_some()
    }

    /// A future that ends once it is set.
    pub fn signalled(&self) -> impl Future<Output = ()> + Send + 'static {
        let event = self.clone();
        std::future::poll_fn(move |context| event.poll_set(context.waker()))
    }

    pub(crate) fn poll_set(&self, waker: &Waker) -> Poll<()> {
        if self.is_set() {
            return Poll::Ready(());
        }
        self.0.waiters.add(waker);
        if self.is_set() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stays_set_until_reset() {
        let event = Event::new();
        assert!(!event.wait_timeout(Duration::from_millis(1)));
        event.set();
        event.wait();
        assert!(event.is_set());
        event.reset();
        assert!(!event.is_set());
    }
}
