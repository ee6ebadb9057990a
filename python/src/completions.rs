//! `Completions`: how an asyncio event loop learns of completions.
//!
//! The engine puts tokens into a list and makes an eventfd readable; the loop watches the eventfd
//! and takes the tokens. So no thread of the engine ever waits for the interpreter, and many
//! completions wake the loop once.
#![expect(
    unsafe_code,
    reason = "eventfd and its reads and writes are calls of libc"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::shared;

/// Tokens of completed requests, and the eventfd that is readable while there are any.
pub(crate) struct Completions {
    tokens: Mutex<Vec<u64>>,
    eventfd: OwnedFd,
    generation: u32,
}

impl Completions {
    fn new() -> io::Result<Completions> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Completions {
            tokens: Mutex::new(Vec::new()),
            // SAFETY: the descriptor is new, and nobody else's.
            eventfd: unsafe { OwnedFd::from_raw_fd(fd) },
            generation: shared::generation(),
        })
    }

    /// Whether it belongs to a parent of this process, with which it shares the eventfd.
    fn is_inherited(&self) -> bool {
        self.generation != shared::generation()
    }

    /// Adds a token. Does nothing in a forked child.
    pub(crate) fn put(&self, token: u64) {
        if self.is_inherited() {
            return;
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(token);
        if tokens.len() == 1 {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight bytes that are valid during the call. It fails only if the count is at
            // its limit, and then the eventfd is readable already.
            unsafe { libc::write(self.eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    fn take(&self) -> Vec<u64> {
        if self.is_inherited() {
            return Vec::new();
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = [0u8; 8];
        // SAFETY: eight bytes that are valid during the call. It fails if nothing was written,
        // which changes nothing.
        unsafe {
            libc::read(
                self.eventfd.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
        std::mem::take(&mut tokens)
    }
}

/// Completions for one event loop.
#[pyclass(frozen, name = "Completions", module = "millstream._native")]
pub(crate) struct PyCompletions(pub(crate) Arc<Completions>);

#[pymethods]
impl PyCompletions {
    #[new]
    fn new() -> PyResult<PyCompletions> {
        Ok(PyCompletions(Arc::new(Completions::new()?)))
    }

    /// The descriptor that is readable while there are tokens.
    fn fileno(&self) -> i32 {
        self.0.eventfd.as_raw_fd()
    }

    /// Takes all tokens.
    fn take(&self) -> Vec<u64> {
        self.0.take()
    }
}
