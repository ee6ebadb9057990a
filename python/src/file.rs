//! `File`, and paths.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::{FileId, FileInfo};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{self, IntoPy as _};
use crate::shared::Shared;
use crate::wait;

/// A path from str, bytes or os.PathLike.
pub(crate) fn path_of(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match object.extract::<OsString>() {
        Ok(path) => Ok(PathBuf::from(path)),
        Err(_) => {
            let decoded = object
                .py()
                .import("os")?
                .getattr("fsdecode")?
                .call1((object,))?;
            decoded.extract::<OsString>().map(PathBuf::from)
        }
    }
}

/// A file of a storage, to be named by requests.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct File {
    id: FileId,
    path: PathBuf,
    pub(crate) shared: Arc<Shared>,
    closed: AtomicBool,
}

impl File {
    pub(crate) fn new(shared: Arc<Shared>, id: FileId, path: PathBuf) -> File {
        File {
            id,
            path,
            shared,
            closed: AtomicBool::new(false),
        }
    }

    /// Its id in a storage.
    ///
    /// # Errors
    /// It was closed.
    pub(crate) fn id(&self, py: Python<'_>) -> PyResult<FileId> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(self.id),
            true => Err(errors::simple(py, "stale_file", "the file was closed")),
        }
    }
}

#[pymethods]
impl File {
    /// The path it was opened by.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into_os_string()
    }

    /// Its length in bytes. Blocks until the file is open.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.check_open(py)?;
        let id = self.id(py)?;
        let mut ticket = self.shared.storage.opened(id).into_py(py)?;
        let mut info: Option<Result<FileInfo, millstream::Error>> = None;
        wait::in_slices(py, None, |slice| {
            info = ticket
                .wait_timeout(slice)?
                .map(millstream::Outcome::into_result);
            Ok(info.is_some())
        })?;
        let info = info.expect("the wait had no deadline");
        info.map(|info| info.len).into_py(py)
    }

    /// Closes the file once the requests before have completed; later ones raise MillstreamError.
    fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) && !self.shared.is_inherited() {
            // Fails only with the storage, whose end closes all files.
            let _ = self.shared.own.close(self.id);
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let closed = self.closed.load(Ordering::Relaxed);
        let closed = if closed { ", closed" } else { "" };
        format!("<millstream.File {:?}{closed}>", self.path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.close();
    }
}
