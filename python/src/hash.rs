//! Writes the checksums of a model.

use std::sync::Arc;

use millstream::{AtomicFile, Error, ErrorKind, QueueOptions};
use millstream_weights::Model;
use pyo3::prelude::*;

use crate::errors::{self, IntoPy as _};
use crate::file::path_of;
use crate::package::storage_or_default;
use crate::storage::Storage;

/// Writes the checksums of a model to a file; see `millstream.safetensors.write_checksums`.
#[pyfunction]
pub(crate) fn write_checksums(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    storage: Option<Bound<'_, Storage>>,
) -> PyResult<()> {
    let storage = storage_or_default(py, storage)?;
    let shared = Arc::clone(&storage.get().0);
    shared.check_open(py)?;
    let (path, out) = (path_of(path)?, path_of(out)?);
    let mut raised = Ok(());
    let made = py.detach(|| {
        let model = Model::open(&shared.storage, path)?;
        let mut files = model.files().iter();
        let real = out.canonicalize().ok();
        if real.is_some() && files.any(|file| file.path.canonicalize().ok() == real) {
            let error = Error::new(ErrorKind::InvalidArgument, "a file of the model itself");
            return Err(error.at(Some(Arc::from(&*out)), 0, u64::MAX));
        }
        let queue = shared.storage.queue(QueueOptions::default())?;
        model.hash(&queue, &mut |_| {
            raised = Python::attach(|py| py.check_signals());
            raised.is_ok()
        })
    });
    let Some(made) = made.into_py(py)? else {
        return raised;
    };
    let written = py.detach(|| {
        let file = AtomicFile::create(&out)?;
        file.write_and_commit(&made.to_bytes(), AtomicFile::KEEP_PERMISSIONS)
    });
    written.map_err(|error| {
        let error = Error::from(error).at(Some(Arc::from(out)), 0, u64::MAX);
        errors::engine(py, &error)
    })
}
