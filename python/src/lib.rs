//! The native module of the Python package `millstream`.
//!
//! | file | owns |
//! |---|---|
//! | `storage`, `file`, `queue`, `ticket`, `group` | the engine's objects as Python's |
//! | `shared` | the storages of this process |
//! | `buffer`, `memory` | memory of the library for Python, and of Python for the engine |
//! | `wait`, `completions` | blocking waits that notice Ctrl-C; event loops |
//! | `package`, `pack` | packages: read, verify, make |
//! | `header` | model weights: headers of safetensors files |
//! | `checksums`, `hash` | reads that are compared with checksums; their files |
//! | `experts` | experts on demand |
//! | `shared_model` | models that processes load together |
//! | `errors`, `options` | exceptions; words as values |
//!
//! No thread of the engine ever attaches to the interpreter: it could wait there for a thread that
//! waits for the engine, and it must not while the interpreter ends.

mod archive;
mod buffer;
mod checksums;
mod completions;
mod errors;
mod experts;
mod file;
mod group;
mod hash;
mod header;
mod memory;
mod options;
mod pack;
mod package;
mod queue;
mod region;
mod shared;
mod shared_model;
mod storage;
mod ticket;
mod wait;

use pyo3::prelude::*;

/// Millstream's engine for Python; see `millstream`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<archive::Archive>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<checksums::PyChecksums>()?;
    module.add_class::<checksums::PyFileChecksums>()?;
    module.add_class::<completions::PyCompletions>()?;
    module.add_class::<experts::ExpertCache>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<pack::Packed>()?;
    module.add_class::<pack::PackPlan>()?;
    module.add_class::<package::Entry>()?;
    module.add_class::<package::Package>()?;
    module.add_class::<package::Verification>()?;
    module.add_class::<queue::Batch>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<file::File>()?;
    module.add_class::<shared_model::PySharedModel>()?;
    module.add_class::<storage::Storage>()?;
    module.add_class::<ticket::Ticket>()?;
    module.add_function(wrap_pyfunction!(archive::open_archive, module)?)?;
    module.add_function(wrap_pyfunction!(hash::write_checksums, module)?)?;
    module.add_function(wrap_pyfunction!(header::parse_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(pack::encode_task, module)?)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    module.add_function(wrap_pyfunction!(shared::_after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(shared::_close_all, module)?)?;
    module.add_function(wrap_pyfunction!(ticket::wait_all, module)?)?;
    Ok(())
}
