//! `Package`: entries of a package, looked up, read and verified.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

use millstream::QueueOptions;
use millstream_pak::{BatchOptions, EntryInfo, PackageOptions, Piece};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::{Buffer, Memory};
use crate::errors::{self, IntoPy as _};
use crate::file::path_of;
use crate::group::{self, Group};
use crate::memory::{Lent, release_dropped};
use crate::queue::{self, Checked, Common};
use crate::shared::Shared;
use crate::storage::Storage;
use crate::ticket::{Pending, Ticket};
use crate::wait;

/// A name of an entry, from str or bytes.
pub(crate) fn name_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match object.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => object.extract::<OsString>().map(OsString::into_vec),
    }
}

/// What the tables of a package say of an entry.
#[pyclass(frozen, get_all, module = "millstream")]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: OsString,
    /// Its number in the package.
    pub(crate) index: u32,
    /// Its bytes, decoded.
    pub(crate) length: u64,
    /// Blocks that hold it.
    pub(crate) blocks: u32,
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        format!("<millstream.Entry {:?}, {} bytes>", self.name, self.length)
    }
}

/// What a verification found.
#[pyclass(frozen, get_all, module = "millstream")]
pub(crate) struct Verification {
    /// Entries that were looked at.
    entries: u64,
    /// Their bytes, decoded.
    raw_bytes: u64,
    /// Blocks that were compared with their checksums.
    blocks: u64,
    /// Whether the package has a signature.
    signed: bool,
    /// Things that are wrong.
    failures: u64,
    /// The first of them, as messages.
    errors: Vec<String>,
}

/// Returns a storage, by default that of the process.
pub(crate) fn storage_or_default<'py>(
    py: Python<'py>,
    storage: Option<Bound<'py, Storage>>,
) -> PyResult<Bound<'py, Storage>> {
    if let Some(storage) = storage {
        return Ok(storage);
    }
    let default = py.import("millstream._default")?;
    let default = default.getattr("default_storage")?.call0()?;
    Ok(default.cast_into::<Storage>()?)
}

/// Submits a request of an entry, into `into` or into memory of the library.
pub(crate) fn submit(
    py: Python<'_>,
    queue: &millstream::Queue,
    request: millstream::Read,
    into: Option<&Bound<'_, PyAny>>,
    common: &Checked<'_>,
) -> PyResult<Ticket> {
    let lent = into.map(|into| Lent::of(into, true)).transpose()?;
    let request = queue::read_with(request, common);
    let mut batch = queue.batch();
    let pending = match (lent, into) {
        (Some(lent), Some(into)) => queue::add(py, &mut batch, queue, request.into(lent))
            .map(|ticket| Pending::Into(ticket, into.clone().unbind())),
        _ => queue::add(py, &mut batch, queue, request).map(Pending::Own),
    };
    batch.submit();
    // Also what a request that was refused has exported.
    release_dropped(py);
    pending.map(Ticket::new)
}

/// An open package.
///
/// >>> import millstream, tempfile, os
/// >>> out = os.path.join(tempfile.mkdtemp(), "data.mpak")
/// >>> _ = millstream.pack({"a.txt": b"first", "b.txt": b"second"}, out)
/// >>> with millstream.Storage() as storage:
/// ...     package = millstream.Package(out, storage)
/// ...     package.names(), bytes(package.read("b.txt"))
/// (['a.txt', 'b.txt'], b'second')
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Package {
    package: millstream_pak::Package,
    queue: millstream::Queue,
    shared: Arc<Shared>,
}

impl Package {
    fn find(&self, py: Python<'_>, name: &[u8]) -> PyResult<Option<EntryInfo>> {
        self.shared.check_open(py)?;
        let found = py.detach(|| self.package.lookup(name)).into_py(py)?;
        Ok(found.filter(|found| !found.gone))
    }

    /// An entry by its name or its number.
    ///
    /// # Errors
    /// There is none.
    fn entry_of(&self, object: &Bound<'_, PyAny>) -> PyResult<EntryInfo> {
        let py = object.py();
        if let Ok(index) = object.extract::<u32>() {
            if index >= self.package.len() {
                return Err(PyIndexError::new_err("the package has not so many entries"));
            }
            return py.detach(|| self.package.info(index)).into_py(py);
        }
        let name = name_of(object)?;
        self.find(py, &name)?.ok_or_else(|| {
            let text = String::from_utf8_lossy(&name);
            let error = millstream::Error::new(
                millstream::ErrorKind::NotFound,
                "the package has no such entry",
            );
            let error = error.at(Some(Arc::from(self.package.path())), 0, u64::MAX);
            errors::engine(py, &error.named(Some(Arc::from(text))))
        })
    }

    fn submit_range(
        &self,
        entry: &Bound<'_, PyAny>,
        (offset, length): (u64, Option<u64>),
        into: Option<&Bound<'_, PyAny>>,
        common: &Checked<'_>,
    ) -> PyResult<Ticket> {
        let py = entry.py();
        self.shared.check_open(py)?;
        let info = self.entry_of(entry)?;
        let length = length.unwrap_or_else(|| info.raw_bytes.saturating_sub(offset));
        let request = py
            .detach(|| self.package.range(info.index, offset, length))
            .into_py(py)?;
        submit(py, &self.queue, request, into, common)
    }
}

#[pymethods]
impl Package {
    #[new]
    #[pyo3(signature = (path, storage=None, *, verify=true))]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        storage: Option<Bound<'_, Storage>>,
        verify: bool,
    ) -> PyResult<Package> {
        let storage = storage_or_default(py, storage)?;
        let shared = Arc::clone(&storage.get().0);
        shared.check_open(py)?;
        let path = path_of(path)?;
        let options = PackageOptions {
            verify,
            ..PackageOptions::default()
        };
        let opened = py.detach(|| {
            let package = millstream_pak::Package::open_with(&shared.storage, path, options)?;
            let queue = shared.storage.queue(QueueOptions::default())?;
            Ok((package, queue))
        });
        let (package, queue) =
            opened.map_err(|error: millstream_pak::Error| errors::package(py, &error))?;
        Ok(Package {
            package,
            queue,
            shared,
        })
    }

    fn __len__(&self) -> usize {
        self.package.len() as usize
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(py, &name_of(name)?)?.is_some())
    }

    /// The file.
    #[getter]
    fn path(&self) -> OsString {
        self.package.path().as_os_str().to_os_string()
    }

    /// The root hash: it names the package's tables, and through them its content.
    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.package.root())
    }

    /// Names in the order of their bytes, all or those that match a pattern (`*`, `**`, `?`; a
    /// folder stands for all below it).
    #[pyo3(signature = (pattern=None))]
    fn names(&self, py: Python<'_>, pattern: Option<&str>) -> PyResult<Vec<OsString>> {
        self.shared.check_open(py)?;
        let pattern = pattern.unwrap_or("**").as_bytes();
        let package = &self.package;
        let names = py.detach(|| {
            let names = package.matching(pattern)?.into_iter();
            let names =
                names.map(|index| Ok(OsStr::from_bytes(package.name(index)?).to_os_string()));
            names.collect::<millstream_pak::Result<Vec<OsString>>>()
        });
        names.into_py(py)
    }

    /// The entry of a name; None if there is none.
    fn lookup(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Option<Entry>> {
        let bytes = name_of(name)?;
        Ok(self.find(py, &bytes)?.map(|found| Entry {
            name: OsString::from_vec(bytes),
            index: found.index,
            length: found.raw_bytes,
            blocks: found.block_count,
        }))
    }

    /// Requests `length` bytes of an entry (a name or a number) from `offset` on, all by default,
    /// and returns a Ticket. See `Queue.read` for the other arguments.
    #[pyo3(signature = (entry, offset=0, length=None, *, into=None, priority=None, deadline=None,
        timeout=None, tag=0, group=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn submit(
        &self,
        entry: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
        into: Option<&Bound<'_, PyAny>>,
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
        self.submit_range(entry, (offset, length), into, &common)
    }

    /// Reads `length` bytes of an entry (a name or a number) from `offset` on, all by default.
    #[pyo3(signature = (entry, offset=0, length=None, *, into=None))]
    fn read(
        &self,
        py: Python<'_>,
        entry: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
        into: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let common = Common::default().check()?;
        self.submit_range(entry, (offset, length), into, &common)?
            .result(py)
    }

    /// Reads whole entries (names or numbers) as one batch, in which neighbors become one read, and
    /// returns their read-only buffers in the same order. Entries of one read share its memory.
    #[pyo3(signature = (entries, *, priority=None, timeout=None))]
    fn read_many(
        &self,
        py: Python<'_>,
        entries: &Bound<'_, PyAny>,
        priority: Option<&str>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Buffer>> {
        let common = Common {
            priority,
            timeout,
            ..Common::default()
        }
        .check()?;
        self.shared.check_open(py)?;
        let mut pieces = Vec::new();
        for entry in entries.try_iter()? {
            let info = self.entry_of(&entry?)?;
            let (index, len) = (info.index, info.raw_bytes);
            pieces.push(Piece {
                index,
                offset: 0,
                len,
            });
        }
        let group = millstream::Group::new();
        let options = BatchOptions {
            priority: common.priority,
            tag: common.tag,
            timeout: common.timeout,
            group: Some(group.clone()),
        };
        let made = py.detach(|| self.package.enqueue_pieces(&self.queue, &pieces, &options));
        let batch = made.into_py(py)?;
        if let Err(error) = group::wait_for(py, &group, None) {
            batch.cancel();
            return Err(error);
        }
        let loaded = (0..batch.len()).map(|nth| batch.wait(nth).into_py(py));
        loaded
            .map(|part| Ok(Buffer::new(Memory::Part(part?))))
            .collect()
    }

    /// Compares everything that the package says with what it holds. Raises only if the package
    /// cannot be opened any more; what is wrong is in the result. `progress` is called with the
    /// bytes done so far; what it raises ends the verification.
    #[pyo3(signature = (progress=None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Verification> {
        self.shared.check_open(py)?;
        let mut raised: Option<PyErr> = None;
        let mut tell = |bytes: u64| {
            let told = wait::tell(progress.as_ref(), bytes);
            raised = told.err();
            raised.is_none()
        };
        let storage = &self.shared.storage;
        let found = py.detach(|| millstream_pak::verify(storage, &self.package, None, &mut tell));
        if let Some(raised) = raised {
            return Err(raised);
        }
        let found = found.into_py(py)?;
        Ok(Verification {
            entries: found.entries,
            raw_bytes: found.raw_bytes,
            blocks: found.blocks,
            signed: found.signed,
            failures: found.failures,
            errors: found.errors.iter().map(ToString::to_string).collect(),
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "<millstream.Package {:?}, {} entries>",
            self.package.path(),
            self.package.len()
        )
    }
}
