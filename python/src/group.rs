//! `Group`: completion of many requests at once.

use std::future::{Future as _, IntoFuture as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use pyo3::prelude::*;

use crate::completions::PyCompletions;
use crate::errors;
use crate::memory::release_dropped;
use crate::shared;
use crate::wait::{self, Notify};

/// Requests that belong together: counted from the call that accepts them until they complete.
/// Waitable, and awaitable in asyncio. Failures are counted, not raised.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Group {
    pub(crate) group: millstream::Group,
    generation: u32,
    /// What event loops await: one registration with the engine, however many await it.
    awaited: Mutex<Option<(millstream::Reached, Arc<Notify>)>>,
}

impl Group {
    /// In a forked child the requests of the parent never complete.
    fn check_generation(&self, py: Python<'_>) -> PyResult<()> {
        if self.group.remaining() > 0 && self.generation != shared::generation() {
            let cause = "a forked child has no engine: the group's requests belong to its parent";
            return Err(errors::simple(py, "closed", cause));
        }
        Ok(())
    }
}

/// Blocks until all requests of a group have completed; whether they have.
pub(crate) fn wait_for(
    py: Python<'_>,
    group: &millstream::Group,
    timeout: Option<f64>,
) -> PyResult<bool> {
    let deadline = wait::deadline(timeout)?;
    let (notify, mut reached) = (Arc::<Notify>::default(), group.into_future());
    let waker = notify.waker();
    let waited = wait::until(py, &notify, deadline, || {
        notify.rearm();
        Ok(Pin::new(&mut reached).poll(&mut Context::from_waker(&waker)))
    })?;
    release_dropped(py);
    Ok(waited.is_some())
}

#[pymethods]
impl Group {
    #[new]
    fn new() -> Group {
        Group {
            group: millstream::Group::new(),
            generation: shared::generation(),
            awaited: Mutex::default(),
        }
    }

    /// Requests that have not completed.
    #[getter]
    fn remaining(&self) -> u64 {
        self.group.remaining()
    }

    /// Requests that succeeded.
    #[getter]
    fn succeeded(&self) -> u64 {
        self.group.done()
    }

    /// Requests that failed.
    #[getter]
    fn failed(&self) -> u64 {
        self.group.failed()
    }

    /// Requests that were canceled.
    #[getter]
    fn canceled(&self) -> u64 {
        self.group.canceled()
    }

    /// Bytes of the requests that succeeded.
    #[getter]
    fn bytes(&self) -> u64 {
        self.group.bytes()
    }

    /// Whether all its requests have completed.
    fn done(&self) -> bool {
        self.group.remaining() == 0
    }

    /// Blocks until all its requests have completed. Raises TimeoutError once `timeout` seconds
    /// have passed, and KeyboardInterrupt on Ctrl-C; the requests then go on.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.check_generation(py)?;
        match wait_for(py, &self.group, timeout)? {
            true => Ok(()),
            false => Err(wait::timed_out(py)),
        }
    }

    /// Puts `token` into `completions` when all have completed; whether they have already.
    fn _notify(&self, py: Python<'_>, completions: &PyCompletions, token: u64) -> PyResult<bool> {
        self.check_generation(py)?;
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || (self.group.into_future(), Arc::default());
        let (reached, notify) = awaited.get_or_insert_with(new);
        notify.rearm();
        let waker = notify.waker();
        if Pin::new(reached)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            // The engine wakes nobody for a future that is dropped.
            waker.wake();
            *awaited = None;
            return Ok(true);
        }
        notify.tell(&completions.0, token);
        Ok(false)
    }

    /// Takes back a `_notify` that returned false.
    fn _forget(&self, completions: &PyCompletions, token: u64) {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, notify)) = &*awaited {
            notify.forget(&completions.0, token);
        }
    }

    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("millstream._asyncio")?.getattr("wait")?;
        wait.call1((slf,))?.call_method0("__await__")
    }

    fn __repr__(&self) -> String {
        format!("<millstream.Group, {} remaining>", self.remaining())
    }
}
