//! `Archive`: entries of archives of other programs, looked up and read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

use millstream::QueueOptions;
use millstream_pak::PackageOptions;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::errors::{self, IntoPy as _};
use crate::file::path_of;
use crate::group::Group;
use crate::package::{Entry, name_of, storage_or_default, submit};
use crate::queue::{Checked, Common};
use crate::shared::Shared;
use crate::storage::Storage;
use crate::ticket::Ticket;

/// Opens an archive of another program as it is, and returns an `Archive`: a zip or pk3 (stored,
/// deflate and zstd entries), Quake's PACK or Godot's PCK. Reads its directory. With `verify`
/// the entries of a zip that are read whole are compared with their checksums.
///
/// >>> import millstream, tempfile, os, zipfile
/// >>> path = os.path.join(tempfile.mkdtemp(), "data.pk3")
/// >>> with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
/// ...     file.writestr("maps/a.bsp", b"level" * 100)
/// >>> with millstream.Storage() as storage:
/// ...     archive = millstream.open_archive(path, storage)
/// ...     archive.names(), len(archive.read("maps/a.bsp"))
/// (['maps/a.bsp'], 500)
#[pyfunction]
#[pyo3(signature = (path, storage=None, *, verify=true))]
pub(crate) fn open_archive(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    storage: Option<Bound<'_, Storage>>,
    verify: bool,
) -> PyResult<Archive> {
    let storage = storage_or_default(py, storage)?;
    let shared = Arc::clone(&storage.get().0);
    shared.check_open(py)?;
    let path = path_of(path)?;
    let options = PackageOptions {
        verify,
        ..PackageOptions::default()
    };
    let opened = py.detach(|| {
        let archive = millstream_pak::Archive::open_with(&shared.storage, path, options)?;
        let queue = shared.storage.queue(QueueOptions::default())?;
        Ok((archive, queue))
    });
    let (archive, queue) =
        opened.map_err(|error: millstream_pak::Error| errors::package(py, &error))?;
    Ok(Archive {
        archive,
        queue,
        shared,
    })
}

/// An open archive of another program; see `open_archive`.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Archive {
    archive: millstream_pak::Archive,
    queue: millstream::Queue,
    shared: Arc<Shared>,
}

impl Archive {
    fn find(&self, py: Python<'_>, name: &[u8]) -> PyResult<Option<u32>> {
        self.shared.check_open(py)?;
        self.archive.lookup(name).into_py(py)
    }

    /// The number of an entry, by its name or its number.
    ///
    /// # Errors
    /// There is none.
    fn index_of(&self, object: &Bound<'_, PyAny>) -> PyResult<u32> {
        let py = object.py();
        if let Ok(index) = object.extract::<u32>() {
            return match index < self.archive.len() {
                true => Ok(index),
                false => Err(PyIndexError::new_err("the archive has not so many entries")),
            };
        }
        let name = name_of(object)?;
        self.find(py, &name)?.ok_or_else(|| {
            let text = String::from_utf8_lossy(&name);
            let cause = "the archive has no such entry";
            let error = millstream::Error::new(millstream::ErrorKind::NotFound, cause);
            let error = error.at(Some(Arc::from(self.archive.path())), 0, u64::MAX);
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
        let index = self.index_of(entry)?;
        let raw_bytes = self.archive.info(index).raw_bytes;
        let length = length.unwrap_or_else(|| raw_bytes.saturating_sub(offset));
        // It may read the header of an entry.
        let request = py
            .detach(|| self.archive.range(index, offset, length))
            .into_py(py)?;
        submit(py, &self.queue, request, into, common)
    }
}

#[pymethods]
impl Archive {
    fn __len__(&self) -> usize {
        self.archive.len() as usize
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(py, &name_of(name)?)?.is_some())
    }

    /// The file.
    #[getter]
    fn path(&self) -> OsString {
        self.archive.path().as_os_str().to_os_string()
    }

    /// Names in the order of their bytes, all or those that match a pattern (`*`, `**`, `?`; a
    /// folder stands for all below it).
    #[pyo3(signature = (pattern=None))]
    fn names(&self, pattern: Option<&str>) -> Vec<OsString> {
        let found = self.archive.matching(pattern.unwrap_or("**").as_bytes());
        let name = |index| OsStr::from_bytes(self.archive.name(index)).to_os_string();
        found.into_iter().map(name).collect()
    }

    /// The entry of a name; None if there is none.
    fn lookup(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Option<Entry>> {
        let bytes = name_of(name)?;
        let index = self.find(py, &bytes)?;
        Ok(index.map(|index| {
            let length = self.archive.info(index).raw_bytes;
            Entry {
                name: OsString::from_vec(bytes),
                index,
                length,
                blocks: u32::from(length > 0),
            }
        }))
    }

    /// Requests `length` bytes of an entry (a name or a number) from `offset` on, all by default,
    /// and returns a Ticket. See `Queue.read` for the other arguments. A range of a compressed
    /// entry reads all of it, and decodes as far as the range.
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

    fn __repr__(&self) -> String {
        format!(
            "<millstream.Archive {:?}, {} entries>",
            self.archive.path(),
            self.archive.len()
        )
    }
}
