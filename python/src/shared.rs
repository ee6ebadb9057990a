//! The storages of this process, which end before the interpreter does and are not of a forked
//! child.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use millstream::{FileId, FileOptions, QueueOptions};
use pyo3::prelude::*;

use crate::errors;
use crate::memory::release_dropped;
use crate::options::Given;

/// Seconds that leaving a `with` block, and the end of the interpreter, wait for the system.
pub(crate) const CLOSE_SECONDS: f64 = 5.0;

/// A storage behind all Python objects that use it.
pub(crate) struct Shared {
    pub(crate) storage: millstream::Storage,
    /// For closing files.
    pub(crate) own: millstream::Queue,
    pub(crate) closed: AtomicBool,
    generation: u32,
}

/// How often this process's ancestors have forked since the module was loaded: what was made in an
/// earlier generation belongs to a parent, whose threads may have held any lock.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of this process.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// What a forked child calls before anything else.
#[pyfunction]
pub(crate) fn _after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // Locked only while attached, and the thread that forks is.
    ALL.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// All storages, to be closed before the interpreter ends. Locked only while attached.
static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

impl Shared {
    pub(crate) fn new(py: Python<'_>, given: &Given<'_>) -> PyResult<Arc<Shared>> {
        let options = given.options()?;
        let made = py.detach(|| {
            let storage = millstream::Storage::new(options)?;
            let own = storage.queue(QueueOptions::default())?;
            Ok((storage, own))
        });
        let (storage, own) = made.map_err(|error: millstream::Error| errors::engine(py, &error))?;
        let closed = AtomicBool::new(false);
        let shared = Arc::new(Shared {
            storage,
            own,
            closed,
            generation: generation(),
        });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        Ok(shared)
    }

    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_inherited() {
            let cause = "a forked child has no engine: the storage belongs to its parent";
            return Err(errors::simple(py, "closed", cause));
        }
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(errors::simple(py, "closed", "the storage is closed")),
        }
    }

    /// Whether it belongs to a parent of this process.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != generation()
    }

    /// Opens a file for reading, or for what the options say.
    pub(crate) fn open(
        &self,
        py: Python<'_>,
        path: &Path,
        options: FileOptions,
    ) -> PyResult<FileId> {
        self.check_open(py)?;
        Ok(self.storage.open(path, options))
    }

    pub(crate) fn close(&self, py: Python<'_>, seconds: f64) -> millstream::CloseReport {
        self.closed.store(true, Ordering::Relaxed);
        let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let report = py.detach(|| self.storage.close(timeout));
        release_dropped(py);
        report
    }
}

impl Drop for Shared {
    /// Waits for the system without the interpreter lock.
    fn drop(&mut self) {
        if !*self.closed.get_mut() && !self.is_inherited() {
            let storage = &self.storage;
            let timeout = Duration::from_secs_f64(CLOSE_SECONDS);
            let close = |py: Python<'_>| py.detach(|| storage.close(timeout));
            // Without an interpreter the engine's own drop does the same.
            let _ = Python::try_attach(close);
        }
    }
}

/// Closes all storages: what the interpreter calls before it ends, so that no request uses memory
/// of objects that it destroys.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    for shared in all.iter().filter_map(Weak::upgrade) {
        shared.close(py, CLOSE_SECONDS);
    }
}
