//! Wakers that wait for a change of an atomic value.
//!
//! The thread that changes the value changes it, then calls [`Waiters::take`]; a thread that waits
//! calls [`Waiters::register`], then checks the value again. The fences on both sides make sure
//! that one of the two sees the other. A registration has a key and is removed when its future is
//! dropped, so the list is bounded by the futures that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use millstream_io::error::guard;

use crate::error::Error;
use crate::handover::park;
use crate::sync::{AtomicBool, Mutex, Ordering, fence, lock};

/// A set of wakers with a flag, so that taking from an empty one costs a fence and a load.
#[derive(Default)]
pub(crate) struct Waiters {
    any: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    wakers: Vec<(u64, Waker)>,
    next_key: u64,
}

/// The key of a registration; none before the first one.
#[derive(Default)]
pub(crate) struct Key(Option<u64>);

impl Waiters {
    /// Registers a waker, or replaces the one registered under `key`. The caller must check the
    /// value again afterwards.
    pub(crate) fn register(&self, key: &mut Key, waker: &Waker) {
        // Clones and drops of wakers are code of an executor: outside the lock.
        let waker = waker.clone();
        let mut list = lock(&self.list);
        let own = key.0;
        let known = own.and_then(|own| list.wakers.iter_mut().find(|(key, _)| *key == own));
        let before = match known {
            Some((_, known)) => Some(std::mem::replace(known, waker)),
            None => {
                let number = list.next_key;
                list.next_key += 1;
                list.wakers.push((number, waker));
                key.0 = Some(number);
                None
            }
        };
        self.any.store(true, Ordering::SeqCst);
        drop(list);
        fence(Ordering::SeqCst);
        drop(before);
    }

    /// Polls `look`, and again once `waker` is registered; its changes wake the registered wakers.
    pub(crate) fn poll<T>(
        &self,
        key: &mut Key,
        waker: &Waker,
        look: impl Fn() -> Poll<T>,
    ) -> Poll<T> {
        match look() {
            Poll::Pending => {
                self.register(key, waker);
                look()
            }
            ready => ready,
        }
    }

    pub(crate) fn remove(&self, key: &mut Key) {
        if let Some(number) = key.0.take() {
            let mut list = lock(&self.list);
            let place = list.wakers.iter().position(|(key, _)| *key == number);
            let removed = place.map(|place| list.wakers.remove(place));
            drop(list);
            drop(removed);
        }
    }

    /// Moves the wakers to `into`, to be woken outside all locks.
    #[inline]
    pub(crate) fn take(&self, into: &mut Vec<Waker>) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::SeqCst) {
            let mut list = lock(&self.list);
            self.any.store(false, Ordering::SeqCst);
            into.extend(list.wakers.drain(..).map(|(_, waker)| waker));
        }
    }

    /// Wakes all registered wakers.
    pub(crate) fn wake(&self) {
        let mut wakers = Vec::new();
        self.take(&mut wakers);
        wake_all(&mut wakers);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.list).wakers.len()
    }
}

/// Wakes all and returns how many wakers panicked: a waker is code of the application's executor,
/// whose panic must not reach the caller.
pub(crate) fn wake_all(wakers: &mut Vec<Waker>) -> usize {
    let mut panicked = 0;
    for waker in wakers.drain(..) {
        panicked += usize::from(guard(|| waker.wake()).is_none());
    }
    panicked
}

pub(crate) fn ready_if(done: bool) -> Poll<()> {
    match done {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

/// A condition on a value, whose waiters are woken when it becomes true.
pub(crate) trait Condition: Send + Sync {
    fn is_met(&self, value: u64) -> bool;
    fn waiters(&self) -> &Waiters;
}

/// A future that completes once a fence has reached a value, or a group's requests have completed.
/// Dropping it removes its waker.
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    condition: Arc<dyn Condition>,
    value: u64,
    key: Key,
}

impl Reached {
    pub(crate) fn new(condition: Arc<dyn Condition>, value: u64) -> Reached {
        Reached {
            condition,
            value,
            key: Key::default(),
        }
    }

    pub(crate) fn poll_reached(&mut self, waker: &Waker) -> Poll<()> {
        let waiters = self.condition.waiters();
        waiters.poll(&mut self.key, waker, || {
            ready_if(self.condition.is_met(self.value))
        })
    }

    /// Blocks until it is ready, at most `timeout`; returns whether it is.
    pub(crate) fn wait(mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        park::may_block()?;
        let deadline = park::deadline(timeout);
        Ok(park::block_on(deadline, |waker| self.poll_reached(waker)).is_some())
    }
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_reached(context.waker())
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        self.condition.waiters().remove(&mut self.key);
    }
}
