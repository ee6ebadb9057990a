//! Blocking on something that can be polled with a waker.
//!
//! Everything that can be waited for (tickets, groups, fences, events) has one mechanism, a poll
//! with a `Waker`. A blocking wait is that poll with a waker which unparks the thread, so there is
//! no second path to get wrong.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static THREAD_WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    static ROLE: RefCell<Role> = const { RefCell::new(Role::Application) };
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
    let waker = THREAD_WAKER.with(Waker::clone);
    loop {
        if let Poll::Ready(value) = poll(&waker) {
            return Some(value);
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
