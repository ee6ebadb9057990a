//! Blocking: a thread polls with a waker that unparks it.
//!
//! Sleeping and being woken costs 10 to 50 µs where the core goes idle meanwhile, more than a small
//! request whose bytes are in memory. So a thread spins on its waker's flag for a short time before
//! it parks, as long as that pays: after each time it did not, the next waits (1, 3, 7, … up to
//! [`SPIN_SKIPS_MAX`](limits::SPIN_SKIPS_MAX)) park at once.

#![cfg_attr(model, expect(dead_code, reason = "threads of models block in it"))]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::limits;

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

thread_local! {
    /// Taken while the thread waits: a wait inside a poll has its own.
    static UNPARK: Cell<Option<Arc<Unpark>>> = const { Cell::new(None) };
    static STORAGE_DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Waits to come that park at once, and how many those were after the last fruitless spin.
    static SKIPS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Marks the calling thread as one of a storage while this value lives: on the engine thread, on
/// worker threads, and while a storage is pumped.
pub(crate) struct StorageThread(());

impl StorageThread {
    pub(crate) fn enter() -> StorageThread {
        STORAGE_DEPTH.set(STORAGE_DEPTH.get() + 1);
        StorageThread(())
    }
}

impl Drop for StorageThread {
    fn drop(&mut self) {
        STORAGE_DEPTH.set(STORAGE_DEPTH.get() - 1);
    }
}

/// Whether the calling thread may block on a storage.
///
/// # Errors
/// `OnStorageThread`.
pub(crate) fn may_block() -> Result<(), Error> {
    match STORAGE_DEPTH.get() {
        0 => Ok(()),
        _ => Err(Error::new(
            ErrorKind::OnStorageThread,
            "callbacks, codecs and wakers must not wait for the storage that runs them",
        )),
    }
}

/// Spins on the waker's flag for a short time, if that paid lately; returns whether it was set.
fn spin(unpark: &Unpark) -> bool {
    let (left, last) = SKIPS.get();
    if left > 0 {
        SKIPS.set((left - 1, last));
        return false;
    }
    let started = Instant::now();
    let longest = Duration::from_nanos(limits::WAIT_SPIN_NS);
    while !unpark.woken.load(Ordering::Acquire) {
        if started.elapsed() >= longest {
            let skips = (2 * last + 1).min(limits::SPIN_SKIPS_MAX);
            SKIPS.set((skips, skips));
            return false;
        }
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
    SKIPS.set((0, 0));
    true
}

/// The deadline that lies `timeout` from now; none if there is no timeout or it overflows.
pub(crate) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// As below, on a thread of a model. It has no clock.
#[cfg(model)]
pub(crate) fn block_on<T>(
    _: Option<Instant>,
    mut poll: impl FnMut(&Waker) -> Poll<T>,
) -> Option<T> {
    let polled = std::future::poll_fn(|context| poll(context.waker()));
    Some(crate::sync::block_on(polled))
}

/// Polls until ready; `None` once `deadline` has passed.
#[cfg(not(model))]
pub(crate) fn block_on<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&Waker) -> Poll<T>,
) -> Option<T> {
    // A thread may wait while its thread-locals are dropped, when this one is gone.
    let kept = UNPARK.try_with(Cell::take).ok().flatten();
    let unpark = kept.unwrap_or_else(|| {
        Arc::new(Unpark {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
        })
    });
    let polled = park_until(deadline, &unpark, &mut poll);
    let _ = UNPARK.try_with(|kept| kept.set(Some(unpark)));
    polled
}

#[cfg(not(model))]
fn park_until<T>(
    deadline: Option<Instant>,
    unpark: &Arc<Unpark>,
    poll: &mut dyn FnMut(&Waker) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::clone(unpark));
    let mut spun = false;
    loop {
        unpark.woken.store(false, Ordering::Relaxed);
        if let Poll::Ready(value) = poll(&waker) {
            return Some(value);
        }
        if !spun {
            spun = true;
            if spin(unpark) {
                continue;
            }
        }
        if unpark.woken.load(Ordering::Acquire) {
            // The future polled may have parked, too, and taken the token.
            continue;
        }
        match deadline {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}
