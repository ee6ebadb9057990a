//! `Queue` and `Batch`: how requests are made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{
    Decode, ErrorKind, FileId, FileOp, FileOptions, Priority, Read, Refused, Request,
};
use millstream::{Ticket as EngineTicket, Write};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::checksums::PyFileChecksums;
use crate::errors::{self, IntoPy as _};
use crate::file::{File, path_of};
use crate::group::Group;
use crate::memory::{Lent, release_dropped};
use crate::options;
use crate::shared::Shared;
use crate::ticket::{Pending, Ticket};
use crate::wait;

/// How often a full queue is asked for room.
const FULL_QUEUE_SLEEP: Duration = Duration::from_micros(200);
/// How long a full queue may have no submitted request before adding to it fails.
const UNSERVED_MAX: Duration = Duration::from_secs(1);

/// Adds a request to a batch. While the queue is full it waits detached, and notices Ctrl-C. Raises
/// QueueFull if no request was submitted for a second: all room is then held by open batches, which
/// may be this thread's own.
pub(crate) fn add<R: Request>(
    py: Python<'_>,
    batch: &mut millstream::Batch,
    queue: &millstream::Queue,
    mut request: R,
) -> PyResult<EngineTicket<R::Output>> {
    let mut served = Instant::now();
    loop {
        match batch.try_add(request) {
            Ok(ticket) => return Ok(ticket),
            Err(refused) if is_full(&refused) && served.elapsed() < UNSERVED_MAX => {
                request = refused.request;
            }
            Err(refused) => return Err(errors::engine(py, &refused.error)),
        }
        if queue.is_served() {
            served = Instant::now();
        }
        py.detach(|| std::thread::sleep(FULL_QUEUE_SLEEP));
        py.check_signals()?;
        release_dropped(py);
    }
}

fn is_full<R>(refused: &Refused<R>) -> bool {
    refused.error.kind() == ErrorKind::QueueFull
}

/// What reads and writes have in common.
#[derive(Default)]
pub(crate) struct Common<'a> {
    pub(crate) priority: Option<&'a str>,
    pub(crate) deadline: Option<f64>,
    pub(crate) timeout: Option<f64>,
    pub(crate) tag: u64,
    pub(crate) group: Option<&'a Group>,
}

/// The checked form of [`Common`].
pub(crate) struct Checked<'a> {
    pub(crate) priority: Option<Priority>,
    deadline: Option<std::time::Instant>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tag: u64,
    pub(crate) group: Option<&'a Group>,
}

impl<'a> Common<'a> {
    pub(crate) fn check(&self) -> PyResult<Checked<'a>> {
        let timeout = self.timeout.map(Duration::try_from_secs_f64).transpose();
        Ok(Checked {
            priority: self.priority.map(options::priority).transpose()?,
            deadline: wait::deadline(self.deadline)?,
            timeout: timeout.map_err(|error| errors::invalid(&format!("the timeout: {error}")))?,
            tag: self.tag,
            group: self.group,
        })
    }
}

macro_rules! with_common {
    ($name:ident, $kind:ident) => {
        pub(crate) fn $name<D: 'static>(mut request: $kind<D>, common: &Checked<'_>) -> $kind<D> {
            if common.tag != 0 {
                request = request.tag(common.tag);
            }
            if let Some(priority) = common.priority {
                request = request.priority(priority);
            }
            if let Some(deadline) = common.deadline {
                request = request.deadline(deadline);
            }
            if let Some(timeout) = common.timeout {
                request = request.timeout(timeout);
            }
            if let Some(group) = common.group {
                request = request.group(&group.group);
            }
            request
        }
    };
}

with_common!(read_with, Read);
with_common!(write_with, Write);
with_common!(op_with, FileOp);

/// Where requests are put: a queue of a storage, and a batch of it.
struct Target<'a> {
    shared: &'a Arc<Shared>,
    queue: &'a millstream::Queue,
    batch: &'a mut millstream::Batch,
}

/// The file of a request, and whether it is the request's alone.
struct Source {
    id: FileId,
    once: bool,
}

impl Target<'_> {
    /// The file that an argument means: a `File`, or a path, which is opened for the request.
    fn source(&self, object: &Bound<'_, PyAny>, options: FileOptions) -> PyResult<Source> {
        let py = object.py();
        self.shared.check_open(py)?;
        if let Ok(file) = object.cast::<File>() {
            let (id, once) = (file.get().id(py)?, false);
            return Ok(Source { id, once });
        }
        let path = path_of(object)?;
        let (id, once) = (self.shared.open(py, &path, options)?, true);
        Ok(Source { id, once })
    }

    /// Closes a file that was opened for one request, once that has completed, or was refused.
    fn done_with(&mut self, py: Python<'_>, source: &Source) -> PyResult<()> {
        match source.once {
            true => self.batch.close(source.id).into_py(py),
            false => Ok(()),
        }
    }

    fn read(
        &mut self,
        object: &Bound<'_, PyAny>,
        (offset, len, at_most): (u64, Option<u64>, bool),
        into: Option<&Bound<'_, PyAny>>,
        decode: Option<Decode>,
        common: &Checked<'_>,
    ) -> PyResult<Ticket> {
        let py = object.py();
        let lent = into.map(|into| Lent::of(into, true)).transpose()?;
        let len = match ((offset, len), &lent, &decode) {
            ((_, Some(len)), ..) => len,
            // As much as fits; of encoded bytes that says nothing.
            ((_, None), Some(lent), None) => lent.bytes() as u64,
            ((_, None), ..) if offset == 0 || at_most => u64::MAX,
            ((_, None), ..) => {
                let cause = "a read that does not begin at 0 needs a length";
                return Err(errors::invalid(cause));
            }
        };
        let source = self.source(object, FileOptions::default())?;
        let mut request = match at_most {
            true => Read::at_most(source.id, offset, len),
            false => Read::range(source.id, offset, len),
        };
        if let Some(decode) = decode {
            request = request.decode(decode);
        }
        let added = self.land(py, read_with(request, common), lent.zip(into));
        let closed = self.done_with(py, &source);
        let ticket = added?;
        closed.map(|()| ticket)
    }

    /// Adds a read, whose bytes land in memory of Python or in a buffer.
    fn land(
        &mut self,
        py: Python<'_>,
        request: Read,
        into: Option<(Lent, &Bound<'_, PyAny>)>,
    ) -> PyResult<Ticket> {
        let pending = match into {
            Some((lent, into)) => add(py, self.batch, self.queue, request.into(lent))
                .map(|ticket| Pending::Into(ticket, into.clone().unbind())),
            None => add(py, self.batch, self.queue, request).map(Pending::Own),
        };
        pending.map(Ticket::new)
    }

    fn write(
        &mut self,
        object: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: Option<u64>,
        common: &Checked<'_>,
    ) -> PyResult<Ticket> {
        let py = object.py();
        let lent = Lent::of(data, false)?;
        let options = FileOptions {
            write: true,
            create: true,
            ..FileOptions::default()
        };
        let source = self.source(object, options)?;
        let request = match offset {
            Some(offset) => Write::at(source.id, offset, lent),
            None => Write::append(source.id, lent),
        };
        let added = add(py, self.batch, self.queue, write_with(request, common));
        let closed = self.done_with(py, &source);
        let ticket = Ticket::new(Pending::Written(added?));
        closed.map(|()| ticket)
    }
}

/// How the bytes of a read are encoded.
fn decode(codec: Option<&str>, raw_length: Option<u64>) -> PyResult<Option<Decode>> {
    let Some(codec) = codec else {
        return Ok(None);
    };
    let decode = Decode::codec(options::codec(codec)?);
    Ok(Some(match raw_length {
        Some(bytes) => decode.raw_len(bytes),
        None => decode,
    }))
}

/// Requests of its own priority and capacity. Requests of a queue complete in any order.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Queue {
    pub(crate) queue: millstream::Queue,
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: String,
}

impl Queue {
    /// Calls `make` with a batch, and submits it.
    fn one<T>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&mut Target<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        self.shared.check_open(py)?;
        let mut batch = self.queue.batch();
        let (shared, queue) = (&self.shared, &self.queue);
        let made = make(&mut Target {
            shared,
            queue,
            batch: &mut batch,
        });
        batch.submit();
        // Also what a request that was refused has exported.
        release_dropped(py);
        made
    }
}

#[pymethods]
impl Queue {
    /// Reads `length` bytes at `offset` of a file (a path or a File), the whole file by default,
    /// and returns a Ticket at once. Its result is a Buffer, or `into`: any writable, contiguous
    /// object with the buffer protocol, such as a numpy array. That memory must not be used until
    /// the request has completed, and cannot be freed or resized before; page-aligned memory needs
    /// no copy. Without a length, `into` is filled. A range that reaches past the end of the file
    /// fails, unless `at_most` is true: then as many bytes land as there are.
    ///
    /// `codec` says how the stored bytes are encoded and `raw_length` how long they are decoded.
    /// `deadline` (seconds from now) orders requests of a priority; `timeout` ends the request.
    ///
    /// >>> import millstream, numpy, tempfile
    /// >>> with tempfile.NamedTemporaryFile() as file, millstream.Storage() as storage:
    /// ...     _ = file.write(bytes(range(8)))
    /// ...     file.flush()
    /// ...     array = numpy.zeros(4, numpy.uint16)
    /// ...     storage.queue().read(file.name, into=array).wait() is array
    /// True
    /// >>> array.tolist()
    /// [256, 770, 1284, 1798]
    #[pyo3(signature = (file, offset=0, length=None, *, into=None, at_most=false, codec=None,
        raw_length=None, priority=None, deadline=None, timeout=None, tag=0, group=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
        into: Option<&Bound<'_, PyAny>>,
        at_most: bool,
        codec: Option<&str>,
        raw_length: Option<u64>,
        priority: Option<&str>,
        deadline: Option<f64>,
        timeout: Option<f64>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            deadline,
            timeout,
            tag,
            group,
        }
        .check()?;
        let decode = decode(codec, raw_length)?;
        self.one(py, |target| {
            target.read(file, (offset, length, at_most), into, decode, &common)
        })
    }

    /// Reads many ranges as one batch: `requests` yields `(file, offset, length)` or
    /// `(file, offset, length, into)`. Returns a list of tickets in the same order.
    ///
    /// If one is refused, its exception is raised; those before it were submitted.
    #[pyo3(signature = (requests, *, priority=None, tag=0, group=None))]
    fn read_many(
        &self,
        py: Python<'_>,
        requests: &Bound<'_, PyAny>,
        priority: Option<&str>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Vec<Ticket>> {
        let common = Common {
            priority,
            tag,
            group,
            ..Common::default()
        }
        .check()?;
        self.one(py, |target| {
            let mut tickets = Vec::new();
            for request in requests.try_iter()? {
                let request = request?.cast_into::<PyTuple>()?;
                let (file, offset) = (request.get_item(0)?, request.get_item(1)?.extract()?);
                let length = request.get_item(2)?.extract()?;
                let into = match request.len() {
                    4 => Some(request.get_item(3)?).filter(|into| !into.is_none()),
                    _ => None,
                };
                tickets.push(target.read(
                    &file,
                    (offset, length, false),
                    into.as_ref(),
                    None,
                    &common,
                )?);
            }
            Ok(tickets)
        })
    }

    /// Writes the bytes of `data` (any contiguous object with the buffer protocol) at `offset` of
    /// a file; a path is created if it does not exist. Returns a Ticket, whose result is the number
    /// of bytes. `data` must not change until the request has completed.
    #[pyo3(signature = (file, data, offset=0, *, priority=None, deadline=None, timeout=None, tag=0,
        group=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        priority: Option<&str>,
        deadline: Option<f64>,
        timeout: Option<f64>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            deadline,
            timeout,
            tag,
            group,
        }
        .check()?;
        self.one(py, |target| target.write(file, data, Some(offset), &common))
    }

    /// As `write`, behind what the file holds and what earlier appends of the storage will add.
    #[pyo3(signature = (file, data, *, priority=None, tag=0, group=None))]
    fn append(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        priority: Option<&str>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            tag,
            group,
            ..Common::default()
        }
        .check()?;
        self.one(py, |target| target.write(file, data, None, &common))
    }

    /// Makes durable what earlier requests wrote to a File. Raises the first write error since the
    /// last sync.
    fn sync(&self, py: Python<'_>, file: &Bound<'_, File>) -> PyResult<Ticket> {
        let id = file.get().id(py)?;
        self.one(py, |target| {
            let ticket = add(py, target.batch, target.queue, FileOp::sync(id))?;
            Ok(Ticket::new(Pending::Done(ticket)))
        })
    }

    /// Replaces a file's content as a whole, durably: readers and crashes see the old content or
    /// the new one. Starts after everything before it in the queue has completed.
    #[pyo3(signature = (path, data, *, priority=None, tag=0, group=None))]
    fn replace(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        priority: Option<&str>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            tag,
            group,
            ..Common::default()
        }
        .check()?;
        let path: PathBuf = path_of(path)?;
        self.one(py, |target| {
            let lent = Lent::of(data, false)?;
            let request = op_with(FileOp::replace(path, lent), &common);
            let ticket = add(py, target.batch, target.queue, request)?;
            Ok(Ticket::new(Pending::Replaced(ticket)))
        })
    }

    /// An empty batch: requests that are handed over together, at its `submit` or at the end of its
    /// `with` block.
    fn batch(slf: Bound<'_, Self>) -> Batch {
        Batch {
            batch: slf.get().queue.batch(),
            queue: slf.unbind(),
        }
    }

    /// Cancels the requests submitted before this call for which `tag & mask == value`.
    fn cancel_tagged(&self, mask: u64, value: u64) {
        self.queue.cancel_tagged(mask, value);
    }

    /// Cancels the requests submitted before this call that belong to `group`.
    fn cancel_group(&self, group: &Group) {
        self.queue.cancel_group(&group.group);
    }

    /// Requests that have not completed.
    #[getter]
    fn live(&self) -> u64 {
        self.queue.live()
    }

    /// Blocks until everything submitted so far has completed. Raises TimeoutError once `timeout`
    /// seconds have passed, and KeyboardInterrupt on Ctrl-C.
    #[pyo3(signature = (timeout=None))]
    fn drain(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let deadline = wait::deadline(timeout)?;
        self.shared.check_open(py)?;
        let drained = wait::in_slices(py, deadline, |slice| self.queue.drain(Some(slice)))?;
        release_dropped(py);
        match drained {
            true => Ok(()),
            false => Err(wait::timed_out(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("<millstream.Queue {:?}>", self.name)
    }
}

/// Requests that are handed to the engine together. Used by one thread at a time.
///
/// >>> import millstream, tempfile
/// >>> with tempfile.NamedTemporaryFile() as file, millstream.Storage() as storage:
/// ...     _ = file.write(b"head and body")
/// ...     file.flush()
/// ...     with storage.queue().batch() as batch:
/// ...         head = batch.read(file.name, 0, 4, priority="high")
/// ...         body = batch.read(file.name, 9, 4)
/// ...     bytes(head.wait()), bytes(body.wait())
/// (b'head', b'body')
#[pyclass(module = "millstream")]
pub(crate) struct Batch {
    batch: millstream::Batch,
    queue: Py<Queue>,
}

impl Batch {
    fn add<T>(
        &mut self,
        py: Python<'_>,
        make: impl FnOnce(&mut Target<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let queue = self.queue.get();
        let (shared, queue) = (&queue.shared, &queue.queue);
        let made = make(&mut Target {
            shared,
            queue,
            batch: &mut self.batch,
        });
        release_dropped(py);
        made
    }
}

#[pymethods]
impl Batch {
    /// As `Queue.read`.
    #[pyo3(signature = (file, offset=0, length=None, *, into=None, at_most=false, codec=None,
        raw_length=None, priority=None, deadline=None, timeout=None, tag=0, group=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read(
        &mut self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
        into: Option<&Bound<'_, PyAny>>,
        at_most: bool,
        codec: Option<&str>,
        raw_length: Option<u64>,
        priority: Option<&str>,
        deadline: Option<f64>,
        timeout: Option<f64>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            deadline,
            timeout,
            tag,
            group,
        }
        .check()?;
        let decode = decode(codec, raw_length)?;
        self.add(py, |target| {
            target.read(file, (offset, length, at_most), into, decode, &common)
        })
    }

    /// As `Queue.write`.
    #[pyo3(signature = (file, data, offset=0, *, priority=None, deadline=None, timeout=None, tag=0,
        group=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write(
        &mut self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        priority: Option<&str>,
        deadline: Option<f64>,
        timeout: Option<f64>,
        tag: u64,
        group: Option<&Group>,
    ) -> PyResult<Ticket> {
        let common = Common {
            priority,
            deadline,
            timeout,
            tag,
            group,
        }
        .check()?;
        self.add(py, |target| target.write(file, data, Some(offset), &common))
    }

    /// As `read` of an open file, whose blocks are compared with checksums.
    fn _read_checked(
        &mut self,
        py: Python<'_>,
        file: &Bound<'_, File>,
        range: (u64, u64),
        checksums: &PyFileChecksums,
        into: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ticket> {
        let lent = into.map(|into| Lent::of(into, true)).transpose()?;
        self.add(py, |target| {
            target.shared.check_open(py)?;
            let request = checksums.0.request(file.get().id(py)?, range.0, range.1);
            target.land(py, request, lent.zip(into))
        })
    }

    /// Hands everything to the engine. Does not block.
    fn submit(&mut self) {
        self.batch.submit();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
        self.batch.submit();
    }
}
