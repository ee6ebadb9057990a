//! Primitives of the concurrent parts, from the standard library or from a model checker, so that
//! models run the code that ships: loom (`RUSTFLAGS="--cfg model --cfg loom"`), or shuttle.

#[cfg(loom)]
pub(crate) use loom::{future::block_on, sync as primitives, thread};
#[cfg(shuttle)]
pub(crate) use shuttle::{future::block_on, sync as primitives, thread};
#[cfg(not(model))]
use std::sync as primitives;

pub(crate) use primitives::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use primitives::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks. A panic of another thread inside such a lock leaves the data sound (no code of the
/// application runs in there), so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Data whose owner changes by a protocol on atomics. `get` is an access in loom's eyes, so a model
/// finds two owners at a time.
#[derive(Default)]
pub(crate) struct SharedCell<T>(
    #[cfg(not(loom))] std::cell::UnsafeCell<T>,
    #[cfg(loom)] loom::cell::UnsafeCell<T>,
);

impl<T> SharedCell<T> {
    #[cfg(model)]
    pub(crate) fn new(value: T) -> SharedCell<T> {
        #[cfg(loom)]
        return SharedCell(loom::cell::UnsafeCell::new(value));
        #[cfg(shuttle)]
        return SharedCell(std::cell::UnsafeCell::new(value));
    }

    /// The address; only the present owner may use it.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        #[cfg(not(loom))]
        return self.0.get();
        #[cfg(loom)]
        return self.0.with_mut(|pointer| pointer);
    }
}
