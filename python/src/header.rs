//! Headers of safetensors files, parsed by `millstream-weights`. A type that it does not know is
//! refused, as the reference implementation refuses it: no array has such elements.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use millstream_weights::{Parsed, Value, safetensors};
use pyo3::prelude::*;

use crate::errors;

/// A tensor for Python: name, type, shape, first byte in the file, bytes.
type Row = (String, String, Vec<u64>, u64, u64);

/// How long the header is, the metadata, and the tensors in the order of their bytes.
type Rows = (u64, BTreeMap<String, String>, Vec<Row>);

/// What is wrong, and at which byte of the file.
type Wrong = (String, u64);

fn parse(head: &[u8], file_bytes: u64) -> Result<Rows, Wrong> {
    let parsed = safetensors::parse(head, file_bytes);
    let header = match parsed.map_err(|error| (error.cause().to_owned(), error.offset()))? {
        Parsed::Complete(header) => header,
        Parsed::NeedsBytes(bytes) => return Ok((bytes, BTreeMap::new(), Vec::new())),
    };
    if let Some(tensor) = header.tensors.iter().find(|it| !it.dtype.is_known()) {
        let cut = |text: &str| text.chars().take(100).collect::<String>();
        let (name, dtype) = (cut(&tensor.name), cut(&tensor.dtype.to_string()));
        let cause = format!("tensor {name:?} has the unknown type {dtype:?}");
        return Err((cause, tensor.extent.offset));
    }
    let rows = header.tensors.into_iter().map(|tensor| {
        let (name, dtype) = (String::from(&*tensor.name), tensor.dtype.to_string());
        let extent = tensor.extent;
        (
            name,
            dtype,
            tensor.shape.into_vec(),
            extent.offset,
            extent.len,
        )
    });
    let rows = rows.collect();
    let text = |value: Value<'_>| value.as_str().unwrap_or_default().to_owned();
    let pairs = header.metadata.iter();
    let metadata = pairs.map(|(key, value)| (key.to_owned(), text(value)));
    Ok((header.data_offset, metadata.collect(), rows))
}

/// Parses the header of a safetensors file of `file_bytes` bytes that begins with `head`. Returns
/// how long `head` must be if it is too short, or the metadata and the tensors in the order of
/// their bytes: name, type, shape, first byte in the file, bytes.
#[pyfunction]
pub(crate) fn parse_safetensors(
    py: Python<'_>,
    head: &[u8],
    file_bytes: u64,
    path: OsString,
) -> PyResult<Rows> {
    // Other threads run meanwhile (which only timing could test): `head` is bytes, and constant.
    let parsed = py.detach(|| parse(head, file_bytes));
    parsed.map_err(|(cause, offset)| errors::corrupt(py, &PathBuf::from(path), offset, &cause))
}
