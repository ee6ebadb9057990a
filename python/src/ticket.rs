//! `Ticket`: the completion of one request.
//!
//! The state is behind a mutex that is held only while attached to the interpreter, never over a
//! wait, and never while Python code can run: that could ask for the same ticket, on this thread
//! or, since the interpreter may switch, on another. So errors become exceptions, and what the
//! state before owned is dropped, once the mutex is free. The first call that finds the request
//! complete turns its outcome into a result, which stays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millstream::{Outcome, Ticket as EngineTicket, WaitsFor};
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{PyTraverseError, PyVisit};

use crate::buffer::{Buffer, Memory};
use crate::completions::PyCompletions;
use crate::errors;
use crate::memory::{Lent, release_dropped};
use crate::options;
use crate::wait::{self, Notify};

/// A request's ticket, by the memory that comes back.
pub(crate) enum Pending {
    /// Memory of the library.
    Own(EngineTicket<millstream::Buffer>),
    /// Memory of a Python object that bytes land in: the result is the object.
    Into(EngineTicket<Lent>, Py<PyAny>),
    /// Memory of a Python object that is written: the result is the number of bytes.
    Written(EngineTicket<Lent>),
    /// Memory of a Python object that is a file's new content: the result is `None`.
    Replaced(EngineTicket<Lent>),
    /// No memory: the result is `None`.
    Done(EngineTicket<()>),
}

macro_rules! each {
    ($pending:expr, $ticket:ident => $call:expr) => {
        match $pending {
            Pending::Own($ticket) => $call,
            Pending::Into($ticket, _) | Pending::Written($ticket) | Pending::Replaced($ticket) => {
                $call
            }
            Pending::Done($ticket) => $call,
        }
    };
}

enum State {
    Pending(Pending, Option<Arc<Notify>>),
    Done(Py<PyAny>),
    Failed(Fault),
}

/// Why there is no result.
enum Fault {
    Engine(millstream::Error),
    Python(PyErr),
}

impl Fault {
    fn clone_ref(&self, py: Python<'_>) -> Fault {
        match self {
            Fault::Engine(error) => Fault::Engine(error.clone()),
            Fault::Python(error) => Fault::Python(error.clone_ref(py)),
        }
    }

    /// The exception. Runs Python code.
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Fault::Engine(error) => errors::engine(py, &error),
            Fault::Python(error) => error,
        }
    }
}

impl From<millstream::Error> for Fault {
    fn from(error: millstream::Error) -> Fault {
        Fault::Engine(error)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Python(error)
    }
}

/// The completion of one request: wait for it, await it in asyncio, or cancel it.
///
/// Dropping a ticket neither cancels nor waits.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Ticket(Mutex<State>);

impl Ticket {
    pub(crate) fn new(pending: Pending) -> Ticket {
        Ticket(Mutex::new(State::Pending(pending, None)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, if the request has completed.
    fn settled(
        &self,
        py: Python<'_>,
        mut state: MutexGuard<'_, State>,
    ) -> Option<PyResult<Py<PyAny>>> {
        if let State::Pending(pending, _) = &mut *state {
            let result = taken(py, pending)?;
            settle(state, result);
        } else {
            drop(state);
        }
        release_dropped(py);
        Some(self.result_of(py))
    }

    fn result_of(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fault = match &*self.state() {
            State::Done(result) => return Ok(result.clone_ref(py)),
            State::Failed(fault) => fault.clone_ref(py),
            State::Pending(..) => unreachable!("it was settled before"),
        };
        Err(fault.raise(py))
    }

    /// What is woken when the request completes; `None` if it has. Waiters of a ticket share it.
    ///
    /// # Errors
    /// The request cannot be waited for.
    fn notify(&self, py: Python<'_>) -> PyResult<Option<Arc<Notify>>> {
        let mut state = self.state();
        let State::Pending(pending, notify) = &mut *state else {
            return Ok(None);
        };
        if let Some(notify) = notify {
            return Ok(Some(Arc::clone(notify)));
        }
        // Fails if its batch was not submitted: no wait would ever end.
        match looked_at(py, pending) {
            Ok(None) => Ok(Some(Arc::clone(notify.insert(Arc::default())))),
            Ok(Some(result)) => {
                settle(state, result);
                Ok(None)
            }
            Err(error) => {
                drop(state);
                Err(errors::engine(py, &error))
            }
        }
    }

    /// As the engine's poll: registers `notify`.
    fn poll(&self, py: Python<'_>, notify: &Arc<Notify>) -> Poll<()> {
        let mut state = self.state();
        let State::Pending(pending, _) = &mut *state else {
            return Poll::Ready(());
        };
        notify.rearm();
        let waker = notify.waker();
        let mut context = Context::from_waker(&waker);
        let polled = match pending {
            Pending::Own(ticket) => ticket.poll_outcome(&mut context).map(|end| own(py, end)),
            Pending::Into(ticket, object) => {
                let polled = ticket.poll_outcome(&mut context);
                polled.map(|end| into(py, end, object))
            }
            Pending::Written(ticket) => ticket
                .poll_outcome(&mut context)
                .map(|end| written(py, end)),
            Pending::Replaced(ticket) => ticket.poll_outcome(&mut context).map(|end| none(py, end)),
            Pending::Done(ticket) => ticket.poll_outcome(&mut context).map(|end| none(py, end)),
        };
        polled.map(|result| settle(state, result))
    }

    /// Blocks until the request has completed, and returns its result.
    pub(crate) fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.settle_by(py, None)?;
        self.result_of(py)
    }

    /// Blocks until the request has completed, well or badly.
    ///
    /// # Errors
    /// Those of the wait: the deadline has passed, a signal handler has raised, or the request
    /// cannot be waited for.
    fn settle_by(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<()> {
        if let Some(notify) = self.notify(py)? {
            let waited = wait::until(py, &notify, deadline, || Ok(self.poll(py, &notify)))?;
            waited.ok_or_else(|| wait::timed_out(py))?;
        }
        release_dropped(py);
        Ok(())
    }
}

/// Ends the state, and frees the mutex before the old one, with the ticket, is dropped: the new one
/// has what is needed of it. Whoever waits is woken, as the engine wakes nobody for a ticket whose
/// outcome was taken.
fn settle(mut state: MutexGuard<'_, State>, result: Settled) {
    let old = std::mem::replace(
        &mut *state,
        match result {
            Ok(result) => State::Done(result),
            Err(fault) => State::Failed(fault),
        },
    );
    drop(state);
    if let State::Pending(_, Some(notify)) = &old {
        notify.waker().wake();
    }
}

/// What a request ended with.
type Settled = Result<Py<PyAny>, Fault>;

/// The outcome as a result, if the request has completed.
fn taken(py: Python<'_>, pending: &mut Pending) -> Option<Settled> {
    Some(match pending {
        Pending::Own(ticket) => own(py, ticket.try_take()?),
        Pending::Into(ticket, object) => into(py, ticket.try_take()?, object),
        Pending::Written(ticket) => written(py, ticket.try_take()?),
        Pending::Replaced(ticket) => none(py, ticket.try_take()?),
        Pending::Done(ticket) => none(py, ticket.try_take()?),
    })
}

/// As [`taken`], with the error of a ticket that cannot be waited for.
fn looked_at(py: Python<'_>, pending: &mut Pending) -> Result<Option<Settled>, millstream::Error> {
    let now = Duration::ZERO;
    Ok(match pending {
        Pending::Own(ticket) => ticket.wait_timeout(now)?.map(|end| own(py, end)),
        Pending::Into(ticket, object) => {
            let end = ticket.wait_timeout(now)?;
            end.map(|end| into(py, end, object))
        }
        Pending::Written(ticket) => ticket.wait_timeout(now)?.map(|end| written(py, end)),
        Pending::Replaced(ticket) => ticket.wait_timeout(now)?.map(|end| none(py, end)),
        Pending::Done(ticket) => ticket.wait_timeout(now)?.map(|end| none(py, end)),
    })
}

fn own(py: Python<'_>, outcome: Outcome<millstream::Buffer>) -> Settled {
    let buffer = outcome.into_result()?;
    Ok(Py::new(py, Buffer::new(Memory::Own(buffer)))?.into_any())
}

fn into(py: Python<'_>, outcome: Outcome<Lent>, object: &Py<PyAny>) -> Settled {
    outcome.result?;
    Ok(object.clone_ref(py))
}

fn written(py: Python<'_>, outcome: Outcome<Lent>) -> Settled {
    let bytes = outcome.result?;
    let bytes = bytes.into_pyobject(py).map_err(PyErr::from)?;
    Ok(bytes.into_any().unbind())
}

fn none<T>(py: Python<'_>, outcome: Outcome<T>) -> Settled {
    outcome.result?;
    Ok(py.None())
}

#[pymethods]
impl Ticket {
    /// For the collector of cycles. As with a tuple, there is no `tp_clear`: a cycle through
    /// a ticket passes through an object that has one, as `into` with an attribute does.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // What is not visited is not collected: this thread may hold the mutex.
        let state = self.0.try_lock();
        match state.as_deref() {
            Ok(State::Pending(Pending::Into(_, object), _) | State::Done(object)) => {
                visit.call(object)
            }
            _ => Ok(()),
        }
    }

    /// Blocks until the request has completed, without holding the interpreter lock, and returns
    /// its result. Ctrl-C raises KeyboardInterrupt; the request then goes on.
    ///
    /// Raises what the request failed with, Canceled, or TimeoutError once `timeout` seconds have
    /// passed (the request goes on).
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let deadline = wait::deadline(timeout)?;
        match self.settled(py, self.state()) {
            Some(result) => result,
            None => {
                self.settle_by(py, deadline)?;
                self.result_of(py)
            }
        }
    }

    /// Whether the request has completed, failed or been canceled.
    fn done(&self) -> bool {
        match &*self.state() {
            State::Pending(pending, _) => each!(pending, ticket => ticket.is_complete()),
            _ => true,
        }
    }

    /// Returns what the request waits for now, as a word such as "file", "fence" or "device"; None
    /// once it is done, or if it never will be because its storage is closed. Does not block.
    fn waits_for(&self) -> Option<&'static str> {
        match &*self.state() {
            State::Pending(pending, _) => each!(pending, ticket => ticket.waits_for()),
            _ => None,
        }
        .map(WaitsFor::name)
    }

    /// Asks for cancellation; does not block. The request completes with Canceled, unless it
    /// completes otherwise before.
    fn cancel(&self) {
        if let State::Pending(pending, _) = &*self.state() {
            each!(pending, ticket => ticket.cancel());
        }
    }

    /// Changes the priority of a request that was not served yet; `deadline` in seconds from now.
    #[pyo3(signature = (priority, deadline=None))]
    fn reprioritize(&self, priority: &str, deadline: Option<f64>) -> PyResult<()> {
        let (priority, deadline) = (options::priority(priority)?, wait::deadline(deadline)?);
        if let State::Pending(pending, _) = &*self.state() {
            each!(pending, ticket => ticket.reprioritize(priority, deadline));
        }
        Ok(())
    }

    /// Puts `token` into `completions` when the request completes; whether it has already.
    fn _notify(&self, py: Python<'_>, completions: &PyCompletions, token: u64) -> PyResult<bool> {
        let Some(notify) = self.notify(py)? else {
            return Ok(true);
        };
        if self.poll(py, &notify).is_ready() {
            return Ok(true);
        }
        notify.tell(&completions.0, token);
        Ok(false)
    }

    /// Takes back a `_notify` that returned false.
    fn _forget(&self, completions: &PyCompletions, token: u64) {
        if let State::Pending(_, Some(notify)) = &*self.state() {
            notify.forget(&completions.0, token);
        }
    }

    /// `Ticket[R]` in annotations: a ticket whose result is an R.
    #[classmethod]
    fn __class_getitem__(class: &Bound<'_, PyType>, result: &Bound<'_, PyAny>) -> Py<PyType> {
        let _ = result;
        class.clone().unbind()
    }

    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("millstream._asyncio")?.getattr("wait")?;
        wait.call1((slf,))?.call_method0("__await__")
    }

    fn __repr__(&self) -> &'static str {
        let done = self.done();
        match &*self.state() {
            State::Failed(_) => "<millstream.Ticket, failed>",
            _ if done => "<millstream.Ticket, complete>",
            _ => "<millstream.Ticket, pending>",
        }
    }
}

/// Waits for tickets and returns their results in order. Raises the first exception in that order,
/// once all have completed, and TimeoutError once `timeout` seconds have passed.
#[pyfunction]
#[pyo3(signature = (tickets, timeout=None))]
pub(crate) fn wait_all(
    py: Python<'_>,
    tickets: &Bound<'_, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Vec<Py<PyAny>>> {
    let deadline = wait::deadline(timeout)?;
    let mut results = Vec::new();
    let mut failed = None;
    for ticket in tickets.try_iter()? {
        let ticket = ticket?.cast_into::<Ticket>()?;
        let ticket = ticket.get();
        let result = match ticket.settled(py, ticket.state()) {
            Some(result) => result,
            None => {
                ticket.settle_by(py, deadline)?;
                ticket.result_of(py)
            }
        };
        match result {
            Ok(result) => results.push(result),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(results), Err)
}
