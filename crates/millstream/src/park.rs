//! Blocking on something that can be polled with a waker.
//!
//! Everything that can be waited for (tickets, groups, fences, events) has one mechanism, a poll
//! with a `Waker`. A blocking wait is that poll with a waker which unparks the thread, so there is
//! no second path to get wrong.
//!
//! To sleep and be woken costs 10 to 50 µs where the core goes idle meanwhile, more than a small
//! request whose bytes are in memory. So a thread looks for its waker's mark for a short time
//! before it parks, as long as that pays: each time it was in vain, the next waits (1, 3, 7, … up
//! to [`SKIPS_MAX`](limits::SPIN_SKIPS_MAX)) park at once.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

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
    static UNPARK: Arc<Unpark> = Arc::new(Unpark {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
    static ROLE: RefCell<Role> = const { RefCell::new(Role::Application) };
    static SPINNING: Cell<Spinning> = const { Cell::new(Spinning { skips: 0, penalty: 0 }) };
}

/// Whether looking before parking pays on this thread.
#[derive(Clone, Copy)]
struct Spinning {
    /// Waits that park at once.
    skips: u32,
    /// Skips after the last time in vain.
    penalty: u32,
}

/// Looks for the waker's mark for a short time, if that paid lately; whether it came.
fn spin(unpark: &Unpark) -> bool {
    let Spinning { skips, penalty } = SPINNING.get();
    if skips > 0 {
        let skips = skips - 1;
        SPINNING.set(Spinning { skips, penalty });
        return false;
    }
    let started = Instant::now();
    let longest = Duration::from_nanos(limits::WAIT_SPIN_NS);
    while !unpark.woken.load(Ordering::Acquire) {
        if started.elapsed() >= longest {
            let skips = (2 * penalty + 1).min(limits::SPIN_SKIPS_MAX);
            let penalty = skips;
            SPINNING.set(Spinning { skips, penalty });
            return false;
        }
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
    SPINNING.set(Spinning {
        skips: 0,
        penalty: 0,
    });
    true
}

/// What the current thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A thread of the application.
    Application,
    /// The engine or a worker of some storage: must never block on one.
    Storage,
}

pub(crate) fn set_role(role: Role) -> Role {
    ROLE.with(|cell| cell.replace(role))
}

pub(crate) fn role() -> Role {
    ROLE.with(|cell| *cell.borrow())
}

/// Polls until ready; `None` once `deadline` has passed.
pub(crate) fn block_on<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&Waker) -> Poll<T>,
) -> Option<T> {
    let unpark = UNPARK.with(Arc::clone);
    let waker = Waker::from(Arc::clone(&unpark));
    let mut spun = false;
    loop {
        unpark.woken.store(false, Ordering::Relaxed);
        if let Poll::Ready(value) = poll(&waker) {
            return Some(value);
        }
        if !spun {
            spun = true;
            if spin(&unpark) {
                continue;
            }
        }
        match deadline {
            None => thread::park(),
            Some(deadline) => {
                let now = Instant::now();
                if now >= deadline {
                    return None;
                }
                thread::park_timeout(deadline - now);
            }
        }
    }
}
