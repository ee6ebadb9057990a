//! Waiting without the interpreter lock, with Ctrl-C noticed.
//!
//! A wait is a loop of short sleeps: each begins detached from the interpreter, and after each
//! pending signals are handled, which raises KeyboardInterrupt on the main thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::completions::Completions;
use crate::errors;

/// The longest time that Ctrl-C goes unnoticed.
const SLICE: Duration = Duration::from_millis(20);

/// Wakes the threads and event loops that wait for one thing.
#[derive(Default)]
pub(crate) struct Notify {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    loops: Vec<(Arc<Completions>, u64)>,
}

impl Notify {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a waker of the engine.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Makes it sleep until the next wake.
    pub(crate) fn rearm(&self) {
        self.state().woken = false;
    }

    /// Has `token` put into the completions of an event loop as well.
    pub(crate) fn tell(&self, completions: &Arc<Completions>, token: u64) {
        let mut state = self.state();
        match state.woken {
            true => completions.put(token),
            false => state.loops.push((Arc::clone(completions), token)),
        }
    }

    /// Takes back a `tell`: an awaiter has gone.
    pub(crate) fn forget(&self, completions: &Arc<Completions>, token: u64) {
        let gone =
            |told: &(Arc<Completions>, u64)| told.1 == token && Arc::ptr_eq(&told.0, completions);
        self.state().loops.retain(|told| !gone(told));
    }

    /// Sleeps until it is woken, at most `longest`.
    fn sleep(&self, longest: Duration) {
        let state = self.state();
        let sleep = |state: &mut State| !state.woken;
        let slept = self.changed.wait_timeout_while(state, longest, sleep);
        drop(slept.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        state.woken = true;
        let loops = std::mem::take(&mut state.loops);
        drop(state);
        self.changed.notify_all();
        for (completions, token) in loops {
            completions.put(token);
        }
    }
}

/// When a wait ends that began now; `None` waits for ever.
pub(crate) fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else {
        return Ok(None);
    };
    if seconds.is_nan() {
        return Err(errors::invalid("the timeout or deadline is not a number"));
    }
    // What does not fit into a duration is longer than any process lives.
    let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    Ok(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
}

/// Repeats `poll` until it is ready; `None` if the deadline passes before. Between two polls the
/// thread sleeps until `notify` is woken. Raises what signal handlers raise.
pub(crate) fn until<T>(
    py: Python<'_>,
    notify: &Arc<Notify>,
    deadline: Option<Instant>,
    mut poll: impl FnMut() -> PyResult<Poll<T>>,
) -> PyResult<Option<T>> {
    loop {
        if let Poll::Ready(value) = poll()? {
            return Ok(Some(value));
        }
        let Some(slice) = slice(deadline) else {
            return Ok(None);
        };
        py.detach(|| notify.sleep(slice));
        py.check_signals()?;
    }
}

/// Calls `attempt` in a loop, detached, with the longest time that it may block; it returns whether
/// what it waits for has happened.
pub(crate) fn in_slices(
    py: Python<'_>,
    deadline: Option<Instant>,
    mut attempt: impl FnMut(Duration) -> Result<bool, millstream::Error> + Send,
) -> PyResult<bool> {
    loop {
        let slice = slice(deadline);
        let done = py.detach(|| attempt(slice.unwrap_or(Duration::ZERO)));
        if done.map_err(|error| errors::engine(py, &error))? {
            return Ok(true);
        }
        py.check_signals()?;
        if slice.is_none() {
            return Ok(false);
        }
    }
}

/// How long to sleep before signals are looked at; `None` once the deadline has passed.
fn slice(deadline: Option<Instant>) -> Option<Duration> {
    let Some(deadline) = deadline else {
        return Some(SLICE);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then(|| left.min(SLICE))
}

/// The exception of a wait that ended at its deadline.
pub(crate) fn timed_out(py: Python<'_>) -> PyErr {
    errors::simple(
        py,
        "wait_timed_out",
        "the wait timed out; the request goes on",
    )
}

/// From a detached thread: handles signals, and calls `progress` with a number of bytes.
pub(crate) fn tell(progress: Option<&Py<PyAny>>, bytes: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        match progress {
            Some(progress) => progress.call1(py, (bytes,)).map(drop),
            None => Ok(()),
        }
    })
}
