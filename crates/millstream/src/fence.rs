//! Fences: monotonic numbers that queues raise and anyone can wait for.
//!
//! The value only grows (`fetch_max`). Signalling costs one atomic when nobody waits. A fence can
//! be exported as an eventfd, which becomes readable at every signal after that.
//!
//! ```
//! let fence = millstream::Fence::new(0);
//! fence.signal(3);
//! assert!(fence.reached(2));
//! assert!(!fence.reached(4));
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::park;
use crate::waiters::{Waiters, lock};

/// Told when a fence was signalled: an engine with requests gated by it.
pub(crate) trait Watcher: Send + Sync {
    fn fence_signalled(&self);
}

struct Inner {
    value: AtomicU64,
    waiters: Waiters,
    eventfd: OnceLock<OwnedFd>,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
    watched: std::sync::atomic::AtomicBool,
}

/// A monotonic u64. Cloning gives another handle to the same fence; all methods may be called from
/// any thread.
#[derive(Clone)]
pub struct Fence(Arc<Inner>);

impl Fence {
    /// A fence that stands at `value`.
    #[must_use]
    pub fn new(value: u64) -> Fence {
        Fence(Arc::new(Inner {
            value: AtomicU64::new(value),
            waiters: Waiters::default(),
            eventfd: OnceLock::new(),
            watchers: Mutex::default(),
            watched: std::sync::atomic::AtomicBool::new(false),
        }))
    }

    /// Where it stands.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value.load(Ordering::Acquire)
    }

    /// Whether it stands at `value` or beyond.
    #[must_use]
    pub fn reached(&self, value: u64) -> bool {
        self.value() >= value
    }

    /// Raises it to `value` (a lower value changes nothing), and wakes who waits.
    pub fn signal(&self, value: u64) {
        let mut wakers = Vec::new();
        self.raise(value, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Raises, leaving the wakers to the caller.
    pub(crate) fn raise(&self, value: u64, wakers: &mut Vec<Waker>) {
        let before = self.0.value.fetch_max(value, Ordering::SeqCst);
        if before >= value {
            return;
        }
        self.0.waiters.take(wakers);
        if let Some(eventfd) = self.0.eventfd.get() {
            // An eventfd at its maximum is readable already: the one error that can happen.
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
        if self.0.watched.load(Ordering::SeqCst) {
            for watcher in lock(&self.0.watchers).iter().filter_map(Weak::upgrade) {
                watcher.fence_signalled();
            }
        }
    }

    /// Blocks until it stands at `value`.
    pub fn wait(&self, value: u64) {
        park::block_on(None, |waker| self.poll_reached(value, waker));
    }

    /// Blocks at most `timeout`; whether it stands at `value`.
    #[must_use]
    pub fn wait_timeout(&self, value: u64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        park::block_on(Some(deadline), |waker| self.poll_reached(value, waker)).is_some()
    }

    /// A future that ends once it stands at `value`.
    pub fn reach(&self, value: u64) -> impl Future<Output = ()> + Send + 'static {
        let fence = self.clone();
        std::future::poll_fn(move |context| fence.poll_reached(value, context.waker()))
    }

    fn poll_reached(&self, value: u64, waker: &Waker) -> Poll<()> {
        if self.reached(value) {
            return Poll::Ready(());
        }
        self.0.waiters.add(waker);
        if self.reached(value) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// The fence as an eventfd, made on the first call: readable after every signal that raised the
    /// fence since (and from the start if it had been raised before). Reading it resets it; the
    /// value itself is [`Fence::value`].
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn eventfd(&self) -> std::io::Result<BorrowedFd<'_>> {
        if self.0.eventfd.get().is_none() {
            let start = u32::from(self.value() > 0);
            let flags =
                rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
            let made = rustix::event::eventfd(start, flags)?;
            // Another thread may have been faster: then its eventfd stands and ours is closed.
            let _ = self.0.eventfd.set(made);
        }
        match self.0.eventfd.get() {
            Some(fd) => Ok(fd.as_fd()),
            None => Err(std::io::Error::other("eventfd vanished")),
        }
    }

    pub(crate) fn watch(&self, watcher: &Arc<dyn Watcher>) {
        let mut watchers = lock(&self.0.watchers);
        watchers.retain(|known| known.strong_count() > 0);
        if !watchers
            .iter()
            .any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(watcher)))
        {
            watchers.push(Arc::downgrade(watcher));
        }
        self.0.watched.store(true, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fence").field(&self.value()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_only_grows() {
        let fence = Fence::new(5);
        fence.signal(3);
        assert_eq!(fence.value(), 5);
        fence.signal(7);
        assert_eq!(fence.value(), 7);
    }

    #[test]
    fn a_wait_ends_with_a_signal_of_another_thread_and_a_timed_wait_ends_without() {
        let fence = Fence::new(0);
        assert!(!fence.wait_timeout(1, Duration::from_millis(5)));
        let other = fence.clone();
        let thread = std::thread::spawn(move || other.signal(2));
        fence.wait(2);
        thread.join().expect("the signaller ends");
    }

    #[test]
    fn an_exported_fence_is_readable_after_a_signal() {
        let fence = Fence::new(0);
        let fd = fence.eventfd().expect("an eventfd");
        let mut bytes = [0u8; 8];
        assert!(
            rustix::io::read(fd, &mut bytes).is_err(),
            "nothing signalled yet"
        );
        fence.signal(9);
        assert_eq!(
            rustix::io::read(fence.eventfd().expect("the same"), &mut bytes),
            Ok(8)
        );
    }
}
