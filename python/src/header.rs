//! Headers of safetensors files: eight bytes of length, then JSON that names each tensor's type,
//! shape and bytes.
//!
//! Refused is what the reference implementation refuses (a header above 100 MB, tensors that
//! overlap, leave holes or do not fill the file, lengths that overflow or are not those of the
//! shape, unknown types), and also two tensors of one name, of which the reference takes the last.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use pyo3::prelude::*;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::errors;

/// Bytes before the JSON.
const PREFIX_BYTES: u64 = 8;

/// The longest JSON, as the reference has it.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// Dimensions that every version of numpy and torch makes.
const DIMENSIONS_MAX: usize = 32;

/// Types and the bits of an element.
const TYPES: [(&str, u64); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

#[derive(serde::Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

struct Header {
    metadata: Option<HashMap<String, String>>,
    tensors: Vec<(String, Tensor)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header {
            metadata: None,
            tensors: Vec::new(),
        };
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!(
                    "the name {name:?} stands there twice"
                )));
            }
            if name == "__metadata__" {
                header.metadata = map.next_value()?;
            } else {
                header.tensors.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}

/// What is wrong, and at which byte of the file.
struct Wrong {
    cause: String,
    offset: u64,
}

fn wrong<T>(cause: impl Into<String>, offset: u64) -> Result<T, Wrong> {
    let cause = cause.into();
    Err(Wrong { cause, offset })
}

/// Length of the JSON.
fn header_bytes(head: &[u8], file_bytes: u64) -> Result<u64, Wrong> {
    let Some(prefix) = head.first_chunk::<8>() else {
        return wrong("the file is too short for a header", 0);
    };
    let bytes = u64::from_le_bytes(*prefix);
    if bytes > HEADER_BYTES_MAX {
        return wrong(
            format!("a header of {bytes} bytes is longer than {HEADER_BYTES_MAX}"),
            0,
        );
    }
    if bytes > file_bytes.saturating_sub(PREFIX_BYTES) {
        return wrong(
            format!("a header of {bytes} bytes reaches past the end of the file"),
            0,
        );
    }
    Ok(bytes)
}

fn parse(json: &[u8]) -> Result<Header, Wrong> {
    let text = std::str::from_utf8(json);
    let text = text.map_err(|error| Wrong {
        cause: String::from("the header is not UTF-8"),
        offset: PREFIX_BYTES + error.valid_up_to() as u64,
    })?;
    serde_json::from_str(text).map_err(|error| {
        let before: usize = text
            .split_inclusive('\n')
            .take(error.line() - 1)
            .map(str::len)
            .sum();
        let at = before + error.column().saturating_sub(1);
        Wrong {
            cause: format!("the header is invalid: {error}"),
            offset: PREFIX_BYTES + at as u64,
        }
    })
}

/// Checks that the tensors, in the order of their bytes, fill `data_bytes` without holes.
fn check(tensors: &mut [(String, Tensor)], start: u64, data_bytes: u64) -> Result<(), Wrong> {
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut next = 0;
    for (name, tensor) in &*tensors {
        let (begin, end) = tensor.data_offsets;
        let at = start.saturating_add(begin);
        if begin != next || end < begin {
            let cause =
                format!("{name:?} has bytes {begin}..{end}, but those before end at {next}");
            return wrong(cause, at);
        }
        let Some(bits) = type_bits(&tensor.dtype) else {
            return wrong(
                format!("{name:?} has the unknown type {:?}", tensor.dtype),
                at,
            );
        };
        // A tensor without bytes becomes an array, too, whose other dimensions count.
        let lengths = tensor.shape.iter().map(|&one| one.max(1));
        let count = lengths.fold(1u64, |all, one| all.saturating_mul(one));
        let bits = count
            .checked_mul(bits)
            .filter(|_| tensor.shape.len() <= DIMENSIONS_MAX);
        let Some(bits) = bits else {
            return wrong(format!("no array has the shape of {name:?}"), at);
        };
        let bits = if tensor.shape.contains(&0) { 0 } else { bits };
        if bits % 8 != 0 {
            return wrong(format!("{name:?} does not end at a whole byte"), at);
        }
        if end - begin != bits / 8 {
            let cause = format!("{name:?} has {} bytes, its shape {}", end - begin, bits / 8);
            return wrong(cause, at);
        }
        next = end;
    }
    if next != data_bytes {
        let cause = format!("the tensors have {next} bytes, the file {data_bytes}");
        return wrong(cause, start.saturating_add(next.min(data_bytes)));
    }
    Ok(())
}

fn type_bits(name: &str) -> Option<u64> {
    TYPES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, bits)| *bits)
}

/// A tensor for Python: name, type, shape, first byte in the file, bytes.
type Row = (String, String, Vec<u64>, u64, u64);

/// How long the header is, the metadata, and the tensors in the order of their bytes.
type Parsed = (u64, Option<HashMap<String, String>>, Vec<Row>);

/// Parses the header of a safetensors file of `file_bytes` bytes that begins with `head`. Returns
/// how long `head` must be if it is too short, or the metadata and the tensors in the order of
/// their bytes: name, type, shape, first byte in the file, bytes.
#[pyfunction]
pub(crate) fn parse_safetensors(
    py: Python<'_>,
    head: &[u8],
    file_bytes: u64,
    path: OsString,
) -> PyResult<Parsed> {
    // Other threads run meanwhile (which only timing could test): `head` is bytes, and constant.
    let parsed = py.detach(|| {
        let start = PREFIX_BYTES + header_bytes(head, file_bytes)?;
        let Some(json) = head.get(PREFIX_BYTES as usize..start as usize) else {
            return Ok((start, None, Vec::new()));
        };
        let mut header = parse(json)?;
        check(&mut header.tensors, start, file_bytes - start)?;
        let rows = header.tensors.into_iter().map(|(name, tensor)| {
            let (begin, end) = tensor.data_offsets;
            (name, tensor.dtype, tensor.shape, start + begin, end - begin)
        });
        Ok((start, header.metadata, rows.collect()))
    });
    parsed.map_err(|error: Wrong| {
        let path = PathBuf::from(path);
        errors::corrupt(py, &path, error.offset, &error.cause)
    })
}
