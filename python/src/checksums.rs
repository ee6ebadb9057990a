//! `Checksums`: a file of checksums, and those of each file of a model.

use std::path::PathBuf;
use std::sync::Arc;

use millstream_weights::{Checksums, FileChecksums};
use pyo3::prelude::*;

use crate::errors::IntoPy as _;
use crate::file::path_of;

/// A file of checksums, which was read.
#[pyclass(frozen, name = "Checksums", module = "millstream._native")]
pub(crate) struct PyChecksums(Checksums);

#[pymethods]
impl PyChecksums {
    #[new]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<PyChecksums> {
        let path: PathBuf = path_of(path)?;
        let read = py.detach(|| Checksums::read(&path)).into_py(py)?;
        Ok(PyChecksums(read))
    }

    /// The checksums of the file of this name and length.
    fn file(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        length: u64,
    ) -> PyResult<PyFileChecksums> {
        let found = self.0.file(&path_of(path)?, length).into_py(py)?;
        Ok(PyFileChecksums(Arc::clone(found)))
    }
}

/// The checksums of a file, for `Batch._read_checked`.
#[pyclass(frozen, name = "FileChecksums", module = "millstream._native")]
pub(crate) struct PyFileChecksums(pub(crate) Arc<FileChecksums>);
