//! `Storage`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::{DeviceKind, FileOptions, Priority, QueueOptions, Stats};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::buffer::{Buffer, Memory};
use crate::errors::IntoPy as _;
use crate::file::{File, path_of};
use crate::options::{self, Given};
use crate::queue::Queue;
use crate::shared::{CLOSE_SECONDS, Shared};

/// Files, queues, threads and memory that belong together.
///
/// A storage has an engine thread, worker threads and a device: io_uring, or threads where the
/// system refuses it. Close it with :meth:`close` or a `with` block.
///
/// >>> import millstream, tempfile
/// >>> with tempfile.NamedTemporaryFile() as file, millstream.Storage() as storage:
/// ...     _ = file.write(b"some bytes")
/// ...     file.flush()
/// ...     bytes(storage.queue().read(file.name, 5, 5).wait())
/// b'bytes'
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Storage(pub(crate) Arc<Shared>);

#[pymethods]
impl Storage {
    #[new]
    #[pyo3(signature = (*, backend="auto", access="auto", depth=None, block_bytes=None,
        staging_bytes=None, retained_bytes=None, descriptors=None, workers=None, disk_model=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        backend: &str,
        access: &str,
        depth: Option<u32>,
        block_bytes: Option<usize>,
        staging_bytes: Option<usize>,
        retained_bytes: Option<usize>,
        descriptors: Option<usize>,
        workers: Option<usize>,
        disk_model: Option<&str>,
    ) -> PyResult<Storage> {
        let given = Given {
            backend,
            access,
            depth,
            block_bytes,
            staging_bytes,
            retained_bytes,
            descriptors,
            workers,
            disk_model,
        };
        Shared::new(py, &given).map(Storage)
    }

    /// Makes a queue. `priority` is that of requests that have none of their own; `capacity` bounds
    /// the requests that have not completed; `bandwidth` their bytes per second.
    #[pyo3(signature = (*, priority="normal", capacity=None, bandwidth=None, name=""))]
    fn queue(
        &self,
        py: Python<'_>,
        priority: &str,
        capacity: Option<u32>,
        bandwidth: Option<u64>,
        name: &str,
    ) -> PyResult<Queue> {
        self.0.check_open(py)?;
        let mut options = QueueOptions::default();
        options.priority = options::priority(priority)?;
        options.capacity = capacity.unwrap_or(options.capacity);
        // Lists of tickets are usual in Python, and their memory is bounded by who holds them.
        options.unclaimed = millstream::limits::QUEUE_CAPACITY_MAX;
        options.bandwidth = bandwidth;
        options.name = String::from(name);
        let queue = self.0.storage.queue(options).into_py(py)?;
        Ok(Queue {
            queue,
            shared: Arc::clone(&self.0),
            name: String::from(name),
        })
    }

    /// Opens a file, to be read or written by requests of the storage's queues. Returns at once:
    /// the file is opened by a thread of the storage, and a missing one shows on its requests.
    #[pyo3(signature = (path, *, write=false, create=false, exclusive=false, truncate=false,
        access=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn open(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        write: bool,
        create: bool,
        exclusive: bool,
        truncate: bool,
        access: Option<&str>,
    ) -> PyResult<File> {
        let options = FileOptions {
            write: write || create || exclusive || truncate,
            create: create || exclusive,
            exclusive,
            truncate,
            access: access.map(options::access).transpose()?,
            package: false,
        };
        let path = path_of(path)?;
        let id = self.0.open(py, &path, options)?;
        Ok(File::new(Arc::clone(&self.0), id, path))
    }

    /// Loads a whole file, and waits until it has. The calling thread reads a small file on a local
    /// disk itself; of any other the storage reads many blocks at a time. Other threads of Python
    /// run meanwhile; signals are handled when it returns.
    fn load(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        self.0.check_open(py)?;
        let path = path_of(path)?;
        let buffer = py.detach(|| self.0.storage.load(path)).into_py(py)?;
        Ok(Buffer::new(Memory::Own(buffer)))
    }

    /// A buffer of the storage's pool: page-aligned, so that direct reads into it need no copy. Its
    /// content is unspecified.
    fn buffer(&self, py: Python<'_>, length: usize) -> PyResult<Buffer> {
        self.0.check_open(py)?;
        let buffer = self.0.storage.buffer(length).into_py(py)?;
        Ok(Buffer::new(Memory::Own(buffer)))
    }

    /// The device that serves it: "uring" or "threads".
    #[getter]
    fn device(&self) -> &'static str {
        match self.0.storage.device_kind() {
            DeviceKind::Uring => "uring",
            DeviceKind::Threads => "threads",
            _ => "other",
        }
    }

    /// Why it is this device, and what it uses.
    #[getter]
    fn device_reason(&self) -> String {
        String::from(self.0.storage.device_reason())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// Counts and times since the storage was made, by name. Times are nanoseconds.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats_dict(py, &self.0.storage.stats())
    }

    /// Starts to record a trace; what was recorded before is dropped.
    fn start_trace(&self, py: Python<'_>) -> PyResult<()> {
        self.0.check_open(py)?;
        self.0.storage.start_trace();
        Ok(())
    }

    /// Stops recording and returns the trace as Chrome trace-event JSON.
    fn take_trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let json = py.detach(|| {
            let mut json = Vec::new();
            self.0
                .storage
                .take_trace()
                .write_json(&mut json)
                .map(|()| json)
        })?;
        Ok(PyBytes::new(py, &json))
    }

    /// Closes the storage: what has not begun is canceled, what is in flight is waited for, at most
    /// `timeout` seconds. Returns how many operations the system still holds; their memory is never
    /// freed or reused. Closing again does nothing.
    #[pyo3(signature = (timeout=5.0))]
    fn close(&self, py: Python<'_>, timeout: f64) -> usize {
        self.0.close(py, timeout).operations
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.0.close(py, CLOSE_SECONDS);
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<millstream.Storage on {}{closed}>", self.device())
    }
}

/// Statistics by name.
fn stats_dict<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    macro_rules! set {
        ($($name:ident)*) => { $(dict.set_item(stringify!($name), stats.$name)?;)* };
    }
    set!(done failed canceled requests deadlines_missed overdue operations merged_operations);
    set!(direct_operations copied_operations retried_operations stored_bytes raw_bytes);
    set!(device_idle_ns device_busy_ns jobs decode_wait_ns decode_ns worker_starved_ns);
    set!(opens read_with_open open_ns open_max_ns descriptors staging_bytes staging_peak_bytes);
    set!(staging_capacity_bytes in_flight_bytes in_flight stalls);
    set!(blocked_by_application windows_outside close_errors);
    for (name, priority) in options::PRIORITIES.into_iter().zip(Priority::ALL) {
        dict.set_item(format!("p50_ns_{name}"), stats.latency_ns(priority, 0.5))?;
        dict.set_item(format!("p99_ns_{name}"), stats.latency_ns(priority, 0.99))?;
    }
    Ok(dict)
}
