//! Wakers that wait for a change of an atomic value.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

/// A set of wakers with a flag that makes "nobody waits" cost one load.
///
/// Who changes the value: change it, then `take`. Who waits: `add`, then look at the value again.
/// The fences on both sides make sure that one of the two sees the other.
#[derive(Default)]
pub(crate) struct Waiters {
    any: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Adds a waker (once). The caller must look at the value again afterwards.
    pub(crate) fn add(&self, waker: &Waker) {
        let mut wakers = lock(&self.wakers);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.any.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Moves the wakers to `into`, to be woken outside of all locks.
    pub(crate) fn take(&self, into: &mut Vec<Waker>) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::SeqCst) {
            let mut wakers = lock(&self.wakers);
            self.any.store(false, Ordering::SeqCst);
            into.append(&mut wakers);
        }
    }

    /// Wakes everybody now.
    pub(crate) fn wake(&self) {
        let mut wakers = Vec::new();
        self.take(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Locks; a panic of another thread inside such a lock leaves the data sound (no code of the
/// application runs in there), so poisoning is passed over.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
