//! `pack`: makes packages of folders, files and bytes.

use std::ffi::OsString;
use std::sync::Mutex;

use millstream_pak::{Coding, Item, Links, PackOptions, PackReport, Target};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{self, IntoPy as _};
use crate::memory::Lent;
use crate::options;
use crate::package::name_of;
use crate::storage::path_of;
use crate::wait;

/// What was packed.
#[pyclass(frozen, get_all, module = "millstream")]
pub(crate) struct Packed {
    /// Entries.
    entries: u64,
    /// Entries whose content another one has too.
    duplicates: u64,
    /// Blocks.
    blocks: u64,
    /// Bytes of all entries, decoded.
    raw_bytes: u64,
    /// Bytes of the package.
    file_bytes: u64,
    /// The root hash.
    root: [u8; 32],
}

impl From<PackReport> for Packed {
    fn from(report: PackReport) -> Packed {
        Packed {
            entries: report.entries,
            duplicates: report.duplicates,
            blocks: report.blocks,
            raw_bytes: report.raw_bytes,
            file_bytes: report.file_bytes,
            root: report.root,
        }
    }
}

/// The inputs: all files below a folder, or names with their files or bytes.
fn items_of(source: &Bound<'_, PyAny>) -> PyResult<Vec<Item>> {
    let py = source.py();
    let is_path = source.extract::<OsString>().is_ok()
        || source.is_instance_of::<PyBytes>()
        || source.hasattr("__fspath__")?;
    if is_path {
        let root = path_of(source)?;
        let (items, refused) = py.detach(|| millstream_pak::walk_with(&root, Links::Follow));
        return match refused.first() {
            Some(error) => Err(errors::package(py, error)),
            None => Ok(items),
        };
    }
    let pairs = match source.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) => source.clone(),
    };
    let mut items = Vec::new();
    for pair in pairs.try_iter()? {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        items.push(item_of(name_of(&name)?, &value)?);
    }
    Ok(items)
}

fn item_of(name: Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<Item> {
    let py = value.py();
    if value.extract::<OsString>().is_ok() || value.hasattr("__fspath__")? {
        let path = path_of(value)?;
        return py.detach(|| Item::from_file(name, path)).into_py(py);
    }
    match Lent::of(value, false) {
        Ok(lent) => Ok(Item::from_bytes(name, lent.to_vec(py))),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            let cause = "an item is bytes, or the path of a file";
            Err(PyTypeError::new_err(cause))
        }
        Err(error) => Err(error),
    }
}

/// Writes a package of a folder's files, or of items: a dict, or pairs, of names with bytes or with
/// paths of files. The package appears under its name when it is whole and on disk.
///
/// `codec` is "auto" (for each block what loads fastest) or one codec; `order` lists names in the
/// order in which they are loaded; `threads` is 0 for all cores. `progress` is called with the
/// bytes done so far; what it raises ends the packing, and nothing is left behind.
#[pyfunction]
#[pyo3(signature = (source, out, *, codec="auto", level=None, block_bytes=None, threads=0,
    order=None, fold_case=false, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn pack(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    codec: &str,
    level: Option<i32>,
    block_bytes: Option<u32>,
    threads: usize,
    order: Option<Vec<Bound<'_, PyAny>>>,
    fold_case: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Packed> {
    let items = items_of(source)?;
    let out = path_of(out)?;
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let tell = |bytes: u64| match wait::tell(progress.as_ref(), bytes) {
        Ok(()) => true,
        Err(error) => {
            let mut raised = raised
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            raised.get_or_insert(error);
            false
        }
    };
    let order = order.unwrap_or_default();
    let options = PackOptions {
        coding: match codec {
            "auto" => Coding::Auto(Target::default()),
            codec => Coding::Fixed(options::codec(codec)?),
        },
        level,
        block_bytes,
        threads,
        fold_case,
        order: order.iter().map(name_of).collect::<PyResult<_>>()?,
        progress: Some(&tell),
        ..PackOptions::default()
    };
    let written = py.detach(|| millstream_pak::write_file(items, &options, &out));
    let raised = raised
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    match raised {
        Some(error) => Err(error),
        None => written.into_py(py).map(Packed::from),
    }
}
