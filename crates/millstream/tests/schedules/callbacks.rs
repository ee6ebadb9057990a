//! The application's code that the engine calls in its rounds: suppliers, codecs, job systems,
//! sinks, block sources, wakers, drops. In a schedule it does what the application's threads do:
//! submits, opens, closes, cancels, pauses.
//!
//! While a storage is pumped, its schedule is left here; what the engine calls finds it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::features::Features;

thread_local! {
    static PUMPED: RefCell<Option<Features>> = const { RefCell::new(None) };
    /// The storage survives a panic of the application, and a schedule must not.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Pumps the storage of a schedule once; returns whether anything was done, too.
pub(crate) fn pump(features: Features) -> (Features, bool) {
    let storage = features.storage().clone();
    PUMPED.set(Some(features));
    let worked = storage.pump();
    if let Some(panic) = PANIC.take() {
        resume_unwind(panic);
    }
    (PUMPED.take().expect("it was left here"), worked)
}

/// The engine calls the application.
pub(crate) fn called() {
    // Nothing in a call of a call.
    let _ = PUMPED.try_with(|pumped| {
        if let Ok(mut pumped) = pumped.try_borrow_mut()
            && let Some(features) = pumped.as_mut()
        {
            let called = catch_unwind(AssertUnwindSafe(|| features.called()));
            if let Err(panic) = called {
                PANIC.set(Some(panic));
            }
        }
    });
}

/// Calls the application when it is dropped.
pub(crate) struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        called();
    }
}

struct Woken;

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        called();
    }
}

/// A waker that calls the application.
pub(crate) fn waker() -> Waker {
    Arc::new(Woken).into()
}
