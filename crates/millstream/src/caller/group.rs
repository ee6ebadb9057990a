//! Groups: completion of many requests at once.
//!
//! ```
//! let group = millstream::Group::new();
//! assert_eq!(group.remaining(), 0);
//! assert!(group.wait(None).is_ok_and(|complete| complete)); // nothing to wait for
//! ```

use std::future::IntoFuture;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::handover::waiters::{Condition, Reached, Waiters};
use crate::sync::{AtomicU64, Ordering};

#[derive(Default)]
struct Inner {
    remaining: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    canceled: AtomicU64,
    bytes: AtomicU64,
    waiters: Waiters,
}

impl Condition for Inner {
    fn is_met(&self, _: u64) -> bool {
        self.remaining.load(Ordering::SeqCst) == 0
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// A group of requests, each counted from the call that accepts it until it completes. A clone is
/// another handle; all methods may be called from any thread. Canceled as a whole by
/// [`Queue::cancel_group`](crate::Queue::cancel_group). `&Group` is awaitable.
#[derive(Clone, Default)]
pub struct Group(Arc<Inner>);

impl Group {
    /// Creates an empty group.
    #[must_use]
    pub fn new() -> Group {
        Group::default()
    }

    /// Returns the number of requests that have not completed.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.remaining.load(Ordering::SeqCst)
    }

    /// Returns the number of requests that succeeded.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Acquire)
    }

    /// Returns the number of requests that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Acquire)
    }

    /// Returns the number of requests that were canceled.
    #[must_use]
    pub fn canceled(&self) -> u64 {
        self.0.canceled.load(Ordering::Acquire)
    }

    /// Returns the number of raw bytes of the requests that succeeded.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Acquire)
    }

    /// Blocks until all its requests have completed, at most `timeout`; returns whether they have.
    /// Requests in an unsubmitted batch do not complete, nor do those whose memory the system held
    /// when their storage was closed: [`Storage::wait`](crate::Storage::wait) returns when its
    /// storage is closed, and pumps a storage without threads.
    ///
    /// # Errors
    /// `OnStorageThread`.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        if self.remaining() == 0 {
            return Ok(true);
        }
        self.into_future().wait(timeout)
    }

    pub(crate) fn add(&self) {
        self.0.remaining.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts the completion of one of its requests.
    pub(crate) fn completed(
        &self,
        failure: Option<ErrorKind>,
        bytes: u64,
        wakers: &mut Vec<Waker>,
    ) {
        let count = match failure {
            None => &self.0.done,
            Some(ErrorKind::Canceled) => &self.0.canceled,
            Some(_) => &self.0.failed,
        };
        if failure.is_none() {
            self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        count.fetch_add(1, Ordering::Release);
        // SeqCst: a waiter registers, then loads the count; one of the two sees the other.
        let before = self.0.remaining.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a group counts each request once");
        if before == 1 {
            self.0.waiters.take(wakers);
        }
    }

    pub(crate) fn is_same(&self, other: &Group) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl IntoFuture for &Group {
    type Output = ();
    type IntoFuture = Reached;

    fn into_future(self) -> Reached {
        Reached::new(self.0.clone(), 0)
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
