//! Headers of safetensors files: eight bytes of length, then JSON that names each tensor's type,
//! shape and bytes; and the index of a model of several files.
//!
//! The parser refuses what the reference implementation refuses: a header above 100 MB, tensors
//! that overlap, leave holes or do not fill the file, lengths that overflow or are not those of the
//! shape. It also refuses a name that appears twice, where the reference takes the last tensor, and
//! shapes that overflow or have more than 32 dimensions. A type that it does not know is kept with
//! its name and bytes.
//!
//! ```
//! use millstream_weights::safetensors::Index;
//!
//! # fn main() -> Result<(), millstream::Error> {
//! let index = Index::parse(br#"{"weight_map":{"b":"2.safetensors","a":"1.safetensors"}}"#)?;
//! assert_eq!(index.files, ["1.safetensors", "2.safetensors"]);
//! assert_eq!(index.tensors, [("a".into(), 0), ("b".into(), 1)]);
//! assert!(Index::parse(br#"{"weight_map":{"a":"../other"}}"#).is_err());
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use millstream::Error;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::dtype::DataType;
use crate::error::{corrupt, shortened, shown};
use crate::header::{Format, Header, Parsed};
use crate::limits::{DIMENSIONS_MAX, INDEX_BYTES_MAX, SAFETENSORS_HEADER_BYTES_MAX};
use crate::metadata::Metadata;
use crate::tensor::{Extent, Tensor, elements};

/// Bytes before the JSON.
const PREFIX_BYTES: u64 = 8;

/// Parses the header of a file of `file_bytes` bytes that begins with `head`.
///
/// # Errors
/// `Corrupt`, with the offset.
pub fn parse(head: &[u8], file_bytes: u64) -> Result<Parsed, Error> {
    let needed = PREFIX_BYTES.min(file_bytes);
    let Some((prefix, json)) = head.split_first_chunk() else {
        return match (head.len() as u64) < needed {
            true => Ok(Parsed::NeedsBytes(needed)),
            false => Err(corrupt("the file is too short for a header", 0, file_bytes)),
        };
    };
    let bytes = u64::from_le_bytes(*prefix);
    if bytes > SAFETENSORS_HEADER_BYTES_MAX {
        let most = SAFETENSORS_HEADER_BYTES_MAX;
        let cause = format!("a header of {bytes} bytes is longer than {most}");
        return Err(corrupt(cause, 0, PREFIX_BYTES));
    }
    let data_offset = PREFIX_BYTES + bytes;
    if data_offset > file_bytes {
        let cause = format!("a header of {bytes} bytes exceeds the file ({file_bytes} bytes)");
        return Err(corrupt(cause, 0, PREFIX_BYTES));
    }
    let Some(json) = json.get(..bytes as usize) else {
        return Ok(Parsed::NeedsBytes(data_offset));
    };
    let entries: Entries = parse_json(json, PREFIX_BYTES)?;
    let pairs = entries.metadata.iter().flatten();
    Ok(Parsed::Complete(Header {
        format: Format::Safetensors,
        metadata: Metadata::from_strings(pairs.map(|(key, value)| (&**key, &**value))),
        data_offset,
        tensors: lay_out(entries.tensors, data_offset, file_bytes)?,
        split: None,
    }))
}

/// Sorts tensors by their bytes, and checks that they fill the file without holes.
fn lay_out(
    mut entries: Vec<(String, Entry)>,
    data_offset: u64,
    file_bytes: u64,
) -> Result<Vec<Tensor>, Error> {
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut next = 0;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let (begin, end) = entry.data_offsets;
        let offset = data_offset.saturating_add(begin);
        let wrong = |cause| {
            let cause = format!("tensor {} {cause}", shown(&name));
            Err(corrupt(cause, offset, end.saturating_sub(begin)))
        };
        if begin != next || end < begin {
            let cause = format!("has bytes {begin}..{end}, but those before end at {next}");
            return wrong(cause);
        }
        let (len, dtype) = (end - begin, DataType::from_safetensors(&entry.dtype));
        if entry.shape.len() > DIMENSIONS_MAX {
            return wrong(format!("has {} dimensions", entry.shape.len()));
        }
        let Some(count) = elements(&entry.shape, &dtype) else {
            return wrong(String::from("has a shape that overflows 64 bits"));
        };
        match dtype.bytes_of(count) {
            Some(bytes) if bytes != len => {
                return wrong(format!("has {len} bytes, but its shape {bytes}"));
            }
            None if dtype.is_known() => {
                return wrong(String::from("does not end at a whole byte"));
            }
            _ => {}
        }
        next = end;
        tensors.push(Tensor {
            name: name.into(),
            dtype,
            shape: entry.shape.into(),
            extent: Extent::new(offset, len),
        });
    }
    let data_bytes = file_bytes - data_offset;
    if next != data_bytes {
        let cause = format!("the tensors have {next} bytes, but the file {data_bytes}");
        let at = data_offset.saturating_add(next.min(data_bytes));
        return Err(corrupt(cause, at, next.abs_diff(data_bytes)));
    }
    Ok(tensors)
}

/// The index of a model of several files, `model.safetensors.index.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Index {
    /// Names of the files, which are in the folder of the index.
    pub files: Vec<String>,
    /// Names of the tensors in byte order, each with the index of its file in [`Index::files`]: the
    /// last that the text has for the name.
    pub tensors: Vec<(String, usize)>,
}

impl Index {
    /// Parses the text of an index. A file is named by its name alone, without a folder.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(text: &[u8]) -> Result<Index, Error> {
        if text.len() as u64 > INDEX_BYTES_MAX {
            let cause = format!("the index is longer than {INDEX_BYTES_MAX} bytes");
            return Err(corrupt(cause, 0, text.len() as u64));
        }
        let document: IndexDocument = parse_json(text, 0)?;
        let named = document.weight_map;
        let distinct: BTreeSet<&String> = named.values().collect();
        let files: Vec<String> = distinct.into_iter().cloned().collect();
        if let Some(file) = files.iter().find(|file| !is_file_name(file)) {
            let cause = format!("{} is not the name of a file in the folder", shown(file));
            return Err(corrupt(cause, 0, text.len() as u64));
        }
        let place = |(name, file)| {
            let index = files.binary_search(&file);
            (name, index.expect("all files are listed"))
        };
        let tensors = named.into_iter().map(place).collect();
        Ok(Index { files, tensors })
    }

    /// Returns the index of the file of a tensor.
    pub(crate) fn file_of(&self, name: &str) -> Option<usize> {
        let found = self.tensors.binary_search_by(|(it, _)| (**it).cmp(name));
        Some(self.tensors[found.ok()?].1)
    }
}

/// Whether a name leads to a file of the index's folder, on every system.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', ':', '\0'])
}

/// Parses JSON that begins at `offset` of a file.
fn parse_json<'de, T: Deserialize<'de>>(json: &'de [u8], offset: u64) -> Result<T, Error> {
    let text = std::str::from_utf8(json).map_err(|error| {
        let at = offset + error.valid_up_to() as u64;
        corrupt("the header is not UTF-8", at, 1)
    })?;
    serde_json::from_str(text).map_err(|error| {
        let lines = text.split_inclusive('\n');
        let before = lines.take(error.line().saturating_sub(1));
        let at = before.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let cause = shortened(format!("the header is invalid: {error}"));
        corrupt(cause, offset + at as u64, 1)
    })
}

/// The entries of a header, each name of which appears once.
#[derive(Default)]
struct Entries {
    metadata: Option<BTreeMap<String, String>>,
    tensors: Vec<(String, Entry)>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let (mut entries, mut seen) = (Entries::default(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                let cause = format!("the name {} appears twice", shown(&name));
                return Err(A::Error::custom(cause));
            }
            match &*name {
                "__metadata__" => entries.metadata = map.next_value()?,
                _ => entries.tensors.push((name, map.next_value()?)),
            }
        }
        Ok(entries)
    }
}

#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

#[derive(serde::Deserialize)]
struct IndexDocument {
    weight_map: BTreeMap<String, String>,
}
