//! Groups and counters: completion of many requests at once.
//!
//! A [`Counter`] goes up when a request that names it is enqueued, and down when it ends; a
//! [`Group`] also knows how its requests ended, and can be cancelled as a whole
//! ([`Queue::cancel_group`](crate::Queue::cancel_group)).
//!
//! ```
//! let group = millstream::Group::new();
//! assert_eq!(group.progress().remaining, 0);
//! group.wait(); // nothing to wait for
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::park;
use crate::waiters::Waiters;

#[derive(Default)]
struct CounterInner {
    remaining: AtomicU64,
    waiters: Waiters,
}

/// Counts requests that have not ended. Cloning gives another handle; any thread may call.
#[derive(Clone, Default)]
pub struct Counter(Arc<CounterInner>);

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub fn new() -> Counter {
        Counter::default()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.remaining.load(Ordering::Acquire)
    }

    /// Blocks until it stands at zero. Requests must have been submitted for that ever to be.
    pub fn wait(&self) {
        park::block_on(None, |waker| self.poll_zero(waker));
    }

    /// Blocks at most `timeout`; whether it stands at zero.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        park::block_on(Some(Instant::now() + timeout), |waker| {
            self.poll_zero(waker)
        })
        .is_some()
    }

    /// A future that ends once it stands at zero.
    pub fn zero(&self) -> impl Future<Output = ()> + Send + 'static {
        let counter = self.clone();
        std::future::poll_fn(move |context| counter.poll_zero(context.waker()))
    }

    fn poll_zero(&self, waker: &Waker) -> Poll<()> {
        if self.remaining() == 0 {
            return Poll::Ready(());
        }
        self.0.waiters.add(waker);
        if self.remaining() == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    pub(crate) fn add(&self) {
        self.0.remaining.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn ended(&self, wakers: &mut Vec<Waker>) {
        if self.0.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.waiters.take(wakers);
        }
    }
}

/// How far a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Requests that have not ended.
    pub remaining: u64,
    /// Requests that ended well.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Raw bytes of those that ended well.
    pub bytes: u64,
}

#[derive(Default)]
struct GroupInner {
    counter: Counter,
    done: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    bytes: AtomicU64,
}

/// How a request ended, for its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Done,
    Failed,
    Cancelled,
}

/// Requests that belong together. Cloning gives another handle; any thread may call.
#[derive(Clone, Default)]
pub struct Group(Arc<GroupInner>);

impl Group {
    /// An empty group.
    #[must_use]
    pub fn new() -> Group {
        Group::default()
    }

    /// How far it is. The numbers are read one after the other.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            remaining: self.0.counter.remaining(),
            done: self.0.done.load(Ordering::Acquire),
            failed: self.0.failed.load(Ordering::Acquire),
            cancelled: self.0.cancelled.load(Ordering::Acquire),
            bytes: self.0.bytes.load(Ordering::Acquire),
        }
    }

    /// Blocks until all its requests have ended. They must have been submitted.
    pub fn wait(&self) {
        self.0.counter.wait();
    }

    /// Blocks at most `timeout`; whether all have ended.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.0.counter.wait_timeout(timeout)
    }

    /// A future that ends once all have ended.
    pub fn finished(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.counter.zero()
    }

    pub(crate) fn add(&self) {
        self.0.counter.add();
    }

    pub(crate) fn ended(&self, ending: Ending, bytes: u64, wakers: &mut Vec<Waker>) {
        let count = match ending {
            Ending::Done => &self.0.done,
            Ending::Failed => &self.0.failed,
            Ending::Cancelled => &self.0.cancelled,
        };
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        count.fetch_add(1, Ordering::Release);
        self.0.counter.ended(wakers);
    }

    pub(crate) fn same(&self, other: &Group) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
