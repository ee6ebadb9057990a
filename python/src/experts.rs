//! `ExpertCache`: experts of a model on demand, in a bounded set of slots.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_weights::{Expert, ExpertCache as Cache, Extent};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::buffer::{Buffer, Memory};
use crate::errors::IntoPy as _;
use crate::file::path_of;
use crate::package::storage_or_default;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::wait;

/// Experts of a mixture-of-experts model, read on demand into `slots` equal slots.
///
/// `experts` has the parts of each expert as (index in `files`, offset, length): its tensors, or
/// its slices of tensors of all experts. A key is an index in `experts`. Files are read past the
/// page cache where that is possible.
///
/// A layer wants what its router chose, then guesses what the next layer may choose: guesses are
/// read while nothing else is. An expert is a tuple of a read-only `Buffer` for each part, in its
/// slot; it stays as long as any of them lives. Ready experts that are not held make room for
/// others, the one first that was not used for the longest time. Calls may be made from any thread;
/// while one waits, others are delayed by up to 20 ms. In a forked child the buffers are zeros.
///
/// >>> import millstream, tempfile
/// >>> with tempfile.NamedTemporaryFile() as file, millstream.Storage() as storage:
/// ...     _ = file.write(b"\x00" * 10_000 + b"\x01" * 10_000)
/// ...     file.flush()
/// ...     experts = [[(0, 0, 10_000)], [(0, 10_000, 10_000)]]
/// ...     cache = millstream.ExpertCache([file.name], experts, 1, storage)
/// ...     cache.want([1], deadline=0.002)
/// ...     (weights,) = cache.wait(1)
/// ...     bytes(weights)[:2]
/// b'\x01\x01'
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct ExpertCache {
    cache: Mutex<Cache>,
    shared: Arc<Shared>,
    len: usize,
}

impl ExpertCache {
    /// Calls the cache without the interpreter lock: another thread may wait in it.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Cache) -> Result<T, millstream::Error> + Send,
    ) -> PyResult<T> {
        self.shared.check_open(py)?;
        py.detach(|| call(&mut self.cache.lock().unwrap_or_else(PoisonError::into_inner)))
            .into_py(py)
    }
}

fn parts_of<'py>(py: Python<'py>, expert: &Expert) -> PyResult<Bound<'py, PyTuple>> {
    let part = |nth| Buffer::new(Memory::Expert(expert.clone(), nth));
    PyTuple::new(py, (0..expert.part_count()).map(part).collect::<Vec<_>>())
}

#[pymethods]
impl ExpertCache {
    /// Opens the files and allocates all slots.
    #[new]
    #[pyo3(signature = (files, experts, slots, storage=None))]
    fn new(
        py: Python<'_>,
        files: Vec<Bound<'_, PyAny>>,
        experts: Vec<Vec<(usize, u64, u64)>>,
        slots: usize,
        storage: Option<Bound<'_, Storage>>,
    ) -> PyResult<ExpertCache> {
        let storage = storage_or_default(py, storage)?;
        let shared = Arc::clone(&storage.get().0);
        shared.check_open(py)?;
        let files: Vec<PathBuf> = files.iter().map(path_of).collect::<PyResult<_>>()?;
        let part = |(file, offset, len)| Extent { file, offset, len };
        let len = experts.len();
        let experts = experts
            .into_iter()
            .map(|parts| parts.into_iter().map(part).collect());
        let experts: Vec<Vec<Extent>> = experts.collect();
        let made = py.detach(|| Cache::new(&shared.storage, &files, experts, slots));
        Ok(ExpertCache {
            cache: Mutex::new(made.into_py(py)?),
            shared,
            len,
        })
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// Reads these experts at high priority, those with the earliest deadline (seconds from now)
    /// first; promotes the reads of those that were guessed. They stay until they are taken or
    /// released. Does not wait.
    ///
    /// Raises MillstreamError if each slot has an expert that is held or wanted.
    #[pyo3(signature = (keys, *, deadline=None))]
    fn want(&self, py: Python<'_>, keys: Vec<u32>, deadline: Option<f64>) -> PyResult<()> {
        let deadline = wait::deadline(deadline)?;
        self.call(py, |cache| cache.want(&keys, deadline))
    }

    /// Reads these experts at low priority, in this order, while there are slots for them. Does not
    /// wait.
    fn guess(&self, py: Python<'_>, keys: Vec<u32>) -> PyResult<()> {
        self.call(py, |cache| cache.guess(&keys))
    }

    /// Withdraws guesses: cancels those of their reads that have not begun. Does not wait.
    fn withdraw(&self, py: Python<'_>, keys: Vec<u32>) -> PyResult<()> {
        self.call(py, |cache| cache.withdraw(&keys))
    }

    /// Gives up experts that were wanted: they may be evicted, and their reads go on as those of
    /// guesses. Does not wait.
    fn release(&self, py: Python<'_>, keys: Vec<u32>) -> PyResult<()> {
        self.call(py, |cache| cache.release(&keys))
    }

    /// The expert if it is ready, else None. Does not wait.
    fn get<'py>(&self, py: Python<'py>, key: u32) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let ready = self.call(py, |cache| Ok(cache.get(key)))?;
        ready.map(|expert| parts_of(py, &expert)).transpose()
    }

    /// Waits until the expert is ready, which is wanted first if it was not, at most `timeout`
    /// seconds. After an error of its reads it is absent: wanting it reads it again.
    #[pyo3(signature = (key, timeout=None))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        key: u32,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.shared.check_open(py)?;
        let mut ready = None;
        let done = wait::in_slices(py, wait::deadline(timeout)?, |slice| {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            ready = cache.wait_timeout(key, slice)?;
            Ok(ready.is_some())
        })?;
        match ready {
            Some(expert) if done => parts_of(py, &expert),
            _ => Err(wait::timed_out(py)),
        }
    }

    /// What the cache has done so far: counts, bytes, and seconds that threads waited for experts.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.call(py, |cache| Ok(cache.stats()))?;
        let all = PyDict::new(py);
        for (name, count) in [
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("promotions", stats.promotions),
            ("guesses", stats.guesses),
            ("guesses_used", stats.guesses_used),
            ("withdrawn", stats.withdrawn),
            ("refused", stats.refused),
            ("evictions", stats.evictions),
            ("read_bytes", stats.read_bytes),
            ("wasted_bytes", stats.wasted_bytes),
        ] {
            all.set_item(name, count)?;
        }
        all.set_item("stall", stats.stall.as_secs_f64())?;
        Ok(all)
    }
}
