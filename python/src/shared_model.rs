//! `SharedModel`: a model that processes load together.

use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_weights::{Model, SharedModel};
use pyo3::prelude::*;

use crate::errors::IntoPy as _;
use crate::file::path_of;
use crate::package::storage_or_default;
use crate::storage::Storage;

/// Name, type, shape, and where its bytes are in the shared memory.
type Placed = (String, String, Vec<u64>, usize, usize);

/// A model in memory that processes share; see `millstream.safetensors.load_shared`.
#[pyclass(frozen, name = "SharedModel", module = "millstream._native")]
pub(crate) struct PySharedModel {
    shared: SharedModel,
    placed: Vec<Placed>,
}

#[pymethods]
impl PySharedModel {
    /// Loads it, or waits until others have.
    #[new]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        group: String,
        storage: Option<Bound<'_, Storage>>,
    ) -> PyResult<PySharedModel> {
        let storage = storage_or_default(py, storage)?;
        let engine = Arc::clone(&storage.get().0);
        engine.check_open(py)?;
        let path: PathBuf = path_of(path)?;
        let mut raised = Ok(());
        let loaded = py.detach(|| {
            let model = Model::open(&engine.storage, path)?;
            let mut go_on = || {
                raised = Python::attach(|py| py.check_signals());
                match raised {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            };
            let shared = SharedModel::load(&engine.storage, &model, &group, &mut go_on)?;
            let placed = model.tensors().iter().map(|tensor| {
                let range = shared.range(&tensor.extent).expect("a tensor of the model");
                let (name, dtype) = (tensor.name.to_string(), tensor.dtype.to_string());
                (name, dtype, tensor.shape.to_vec(), range.start, range.len())
            });
            let placed = placed.collect();
            Ok::<_, millstream::Error>(PySharedModel { shared, placed })
        });
        raised?;
        loaded.into_py(py)
    }

    /// The file in memory, while this object lives.
    fn fileno(&self) -> i32 {
        self.shared.file().as_raw_fd()
    }

    #[getter]
    fn read_bytes(&self) -> u64 {
        self.shared.read_bytes()
    }

    #[getter]
    fn tensors(&self) -> Vec<Placed> {
        self.placed.clone()
    }

    /// Counts as no user of the memory any more, and removes it if there is no other.
    fn leave(&self, py: Python<'_>) {
        py.detach(|| self.shared.leave());
    }
}
