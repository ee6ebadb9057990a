//! The window between the threads that encode and the thread that writes.
//!
//! Threads take the next number, and put what they made under it; the writing thread gets what
//! comes next, in order, which moves the window by one. A thread that is too far ahead waits, so
//! that memory is bounded. No thread is woken that could not go on: the writing thread only for the
//! number that it waits for, and one thread for each place that becomes free. A wake-up too many
//! costs a switch on the cores that encode.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// See the module.
pub(super) struct Window<T> {
    state: Mutex<State<T>>,
    /// There is room for one more, or it is over.
    room: Condvar,
    /// What the writing thread waits for is there.
    ready: Condvar,
    /// Numbers that are taken, less those written, are never more.
    ahead: usize,
    count: usize,
}

struct State<T> {
    /// The next number to be taken.
    next: usize,
    /// The next number to be written.
    write: usize,
    done: BTreeMap<usize, Result<T>>,
    stop: bool,
}

impl<T> Window<T> {
    /// For the numbers `0..count`.
    pub(super) fn new(count: usize, ahead: usize) -> Window<T> {
        Window {
            state: Mutex::new(State {
                next: 0,
                write: 0,
                done: BTreeMap::new(),
                stop: false,
            }),
            room: Condvar::new(),
            ready: Condvar::new(),
            ahead: ahead.max(1),
            count,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next number, once it is in the window; `None` when there are no more.
    pub(super) fn take(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stop || state.next >= self.count {
                return None;
            }
            if state.next < state.write + self.ahead {
                state.next += 1;
                return Some(state.next - 1);
            }
            let waited = self.room.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts what was made for a number that was taken.
    pub(super) fn put(&self, nth: usize, done: Result<T>) {
        let mut state = self.lock();
        state.done.insert(nth, done);
        let awaited = nth == state.write;
        drop(state);
        if awaited {
            self.ready.notify_one();
        }
    }

    /// Waits for a number, and moves the window past it. For one thread, in rising order.
    pub(super) fn get(&self, nth: usize) -> Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(done) = state.done.remove(&nth) {
                state.write = nth + 1;
                // At the end there is no more room to wait for: every thread must see it.
                let over = state.next >= self.count;
                drop(state);
                if over {
                    self.room.notify_all();
                } else {
                    self.room.notify_one();
                }
                return done;
            }
            let waited = self.ready.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A guard that ends the taking when it is dropped.
    pub(super) fn stop_at_end(&self) -> StopAtEnd<'_, T> {
        StopAtEnd(self)
    }
}

/// Ends the threads when the writing ends, however it does.
pub(super) struct StopAtEnd<'a, T>(&'a Window<T>);

impl<T> Drop for StopAtEnd<'_, T> {
    fn drop(&mut self) {
        self.0.lock().stop = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicIsize, Ordering};

    use super::*;

    #[test]
    fn results_come_in_order_and_never_more_than_the_window() {
        for (count, ahead, threads) in [(0, 4, 2), (1, 1, 3), (500, 1, 4), (500, 7, 3)] {
            let window = Window::new(count, ahead);
            let held = AtomicIsize::new(0);
            std::thread::scope(|scope| {
                let _stop = window.stop_at_end();
                for _ in 0..threads {
                    scope.spawn(|| {
                        while let Some(nth) = window.take() {
                            assert!(held.fetch_add(1, Ordering::SeqCst) < ahead as isize);
                            window.put(nth, Ok(nth * 3));
                        }
                    });
                }
                for nth in 0..count {
                    // Before the window moves: a thread that it admits counts after this.
                    held.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(window.get(nth).unwrap(), nth * 3);
                }
            });
        }
    }

    #[test]
    fn the_end_of_writing_ends_all_waiting_threads() {
        let window: Window<()> = Window::new(1000, 2);
        let taken = std::thread::scope(|scope| {
            let stop = window.stop_at_end();
            let serve = || {
                let mut taken = 0;
                while let Some(nth) = window.take() {
                    window.put(nth, Ok(()));
                    taken += 1;
                }
                taken
            };
            let threads = [scope.spawn(serve), scope.spawn(serve)];
            window.get(0).unwrap();
            drop(stop);
            threads
                .map(|thread| thread.join().unwrap())
                .iter()
                .sum::<usize>()
        });
        assert!((1..=3).contains(&taken), "{taken}");
    }
}
