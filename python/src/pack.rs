//! `pack`: makes packages of folders, files and bytes; `PackPlan` and `encode_task`: the steps of
//! it, for packing on several machines.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use millstream_pak::{Coding, Item, Links, PackOptions, PackReport, Target};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{self, IntoPy as _};
use crate::file::path_of;
use crate::memory::{Lent, release_dropped};
use crate::options;
use crate::package::name_of;
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
        let (items, refused) = py.detach(|| millstream_pak::walk(&root, Links::Follow));
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
        Ok(lent) => {
            let bytes = lent.to_vec(py);
            drop(lent);
            release_dropped(py);
            Ok(Item::from_bytes(name, bytes))
        }
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            let cause = "an item is bytes, or the path of a file";
            Err(PyTypeError::new_err(cause))
        }
        Err(error) => Err(error),
    }
}

/// How a package is made; names in `order` are str or bytes.
fn options_of(
    codec: &str,
    level: Option<i32>,
    (block_bytes, share_below): (Option<u32>, Option<u32>),
    order: Option<Vec<Bound<'_, PyAny>>>,
    fold_case: bool,
) -> PyResult<PackOptions<'static>> {
    let order = order.unwrap_or_default();
    Ok(PackOptions {
        coding: match codec {
            "auto" => Coding::Auto(Target::default()),
            codec => Coding::Fixed(options::codec(codec)?),
        },
        level,
        block_bytes,
        share_below,
        fold_case,
        order: order.iter().map(name_of).collect::<PyResult<_>>()?,
        ..PackOptions::default()
    })
}

/// The first exception that was raised where only "stop" can be said.
#[derive(Default)]
struct Raised(Mutex<Option<PyErr>>);

impl Raised {
    /// Keeps the exception of a result; the value, if there was none.
    fn catch<T>(&self, result: PyResult<T>) -> Option<T> {
        let keep = |error| {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        };
        result.map_err(keep).ok()
    }

    /// The exception, or what came out.
    fn or(self, py: Python<'_>, written: millstream_pak::Result<PackReport>) -> PyResult<Packed> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => written.into_py(py).map(Packed::from),
        }
    }
}

/// Writes a package of a folder's files, or of items: a dict, or pairs, of names with bytes or with
/// paths of files. The package appears under its name when it is whole and on disk.
///
/// `codec` is "auto" (for each block what loads fastest) or one codec; `order` lists names in the
/// order in which they are loaded; `threads` is 0 for all cores. Entries below `share_below` bytes
/// (32 KiB by default) share blocks, which are read and decoded whole: 0 suits records that are
/// read one at a time, as `Dataset` does. `progress` is called with the bytes done so far; what it
/// raises ends the packing, and nothing is left behind.
#[pyfunction]
#[pyo3(signature = (source, out, *, codec="auto", level=None, block_bytes=None, share_below=None,
    threads=0, order=None, fold_case=false, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn pack(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    codec: &str,
    level: Option<i32>,
    block_bytes: Option<u32>,
    share_below: Option<u32>,
    threads: usize,
    order: Option<Vec<Bound<'_, PyAny>>>,
    fold_case: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Packed> {
    let items = items_of(source)?;
    let out = path_of(out)?;
    let raised = Raised::default();
    let tell = |bytes: u64| raised.catch(wait::tell(progress.as_ref(), bytes)).is_some();
    let options = PackOptions {
        threads,
        progress: Some(&tell),
        ..options_of(codec, level, (block_bytes, share_below), order, fold_case)?
    };
    let written = py.detach(|| millstream_pak::write_file(items, &options, &out));
    raised.or(py, written)
}

/// A package that is planned and not yet encoded, for packing on several machines: its blocks are
/// numbered in the order of the file, `task` makes what `encode_task` needs for some of them, on
/// any machine that sees the files under the same absolute paths, and `write` puts together what
/// came back. The bytes are those that `pack` writes. The arguments are those of `pack`.
///
/// >>> import millstream, os, tempfile
/// >>> plan = millstream.PackPlan({"zeros": bytes(1_000_000)}, codec="zstd")
/// >>> tasks = [plan.task(*blocks) for blocks in plan.ranges(300_000)]
/// >>> encoded = map(millstream.encode_task, tasks)
/// >>> plan.write(encoded, os.path.join(tempfile.mkdtemp(), "zeros.mpak")).entries
/// 1
#[pyclass(frozen, module = "millstream")]
pub(crate) struct PackPlan(millstream_pak::PackPlan<'static>);

impl PackPlan {
    fn blocks_of(&self, first: u32, end: u32) -> PyResult<Range<u32>> {
        match first <= end && end <= self.0.block_count() {
            true => Ok(first..end),
            false => Err(PyIndexError::new_err("the plan has no such blocks")),
        }
    }
}

#[pymethods]
impl PackPlan {
    #[new]
    #[pyo3(signature = (source, *, codec="auto", level=None, block_bytes=None, share_below=None,
        order=None, fold_case=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        codec: &str,
        level: Option<i32>,
        block_bytes: Option<u32>,
        share_below: Option<u32>,
        order: Option<Vec<Bound<'_, PyAny>>>,
        fold_case: bool,
    ) -> PyResult<PackPlan> {
        let items = items_of(source)?;
        let options = options_of(codec, level, (block_bytes, share_below), order, fold_case)?;
        let plan = py.detach(|| millstream_pak::PackPlan::new(items, options));
        plan.into_py(py).map(PackPlan)
    }

    /// How many blocks there are.
    #[getter]
    fn blocks(&self) -> u32 {
        self.0.block_count()
    }

    /// Bytes of the blocks from `first` to before `end`, before they are encoded.
    fn raw_bytes(&self, first: u32, end: u32) -> PyResult<u64> {
        Ok(self.0.raw_bytes(self.blocks_of(first, end)?))
    }

    /// All blocks as pairs of a first and an end, each of at most `raw_bytes` (and at most 256
    /// MiB), or of one block.
    fn ranges(&self, raw_bytes: u64) -> Vec<(u32, u32)> {
        let ranges = self.0.ranges(raw_bytes).into_iter();
        ranges.map(|range| (range.start, range.end)).collect()
    }

    /// What `encode_task` needs for the blocks from `first` to before `end`.
    fn task<'py>(&self, py: Python<'py>, first: u32, end: u32) -> PyResult<Bound<'py, PyBytes>> {
        let blocks = self.blocks_of(first, end)?;
        let task = py.detach(|| self.0.task(blocks)).into_py(py)?;
        Ok(PyBytes::new(py, &task))
    }

    /// Writes the package of all blocks: `encoded` yields what `encode_task` returned for the
    /// plan's ranges, in their order. The package appears under its name when it is whole and on
    /// disk; what `encoded` raises ends the packing, and nothing is left behind. Results that are
    /// damaged, or of another plan, are refused; that a worker hashed other bytes than it encoded
    /// is found by `Package.verify`.
    fn write(
        &self,
        py: Python<'_>,
        encoded: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<Packed> {
        let out = path_of(out)?;
        let encoded = encoded.try_iter()?.unbind();
        let raised = Raised::default();
        let next = || -> PyResult<Option<Vec<u8>>> {
            Python::attach(|py| {
                py.check_signals()?;
                let next = encoded.bind(py).clone().next().transpose()?;
                next.map(|next| Ok(next.cast::<PyBytes>()?.as_bytes().to_vec()))
                    .transpose()
            })
        };
        let encoded = std::iter::from_fn(|| raised.catch(next()).flatten());
        let written = py.detach(|| self.0.write_file(encoded, &out));
        raised.or(py, written)
    }
}

/// Encodes the blocks of a task of `PackPlan.task`, on one core, and returns them for
/// `PackPlan.write`. A file that changed since it was planned raises Changed.
#[pyfunction]
pub(crate) fn encode_task<'py>(py: Python<'py>, task: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let encoded = py
        .detach(|| millstream_pak::encode_task(task))
        .into_py(py)?;
    Ok(PyBytes::new(py, &encoded))
}
