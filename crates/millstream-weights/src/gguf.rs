//! Headers of GGUF files, versions 2 and 3, little-endian: metadata, then the tensors' names,
//! shapes, types and offsets.
//!
//! The length of the header is stored nowhere, so the parser reports how many bytes it needs. It
//! allocates in proportion to the bytes that it is given, whatever they declare.
//!
//! The parser refuses version 1, big-endian files, names that appear twice, lengths beyond the
//! file, alignments that are no power of two or no multiple of 8, more than four dimensions, rows
//! that are no whole blocks, and tensors that overlap, are not aligned or exceed the file. Tensors
//! may be in any order and leave holes, which the format allows.
//!
//! ```
//! use millstream_weights::{Parsed, gguf};
//!
//! # fn main() -> Result<(), millstream::Error> {
//! let mut file = Vec::from(*b"GGUF\x03\0\0\0");
//! file.extend([0u64.to_le_bytes(), 1u64.to_le_bytes()].concat()); // no tensor, one key
//! file.extend([&3u64.to_le_bytes()[..], b"key", &4u32.to_le_bytes(), &[9, 0]].concat());
//! assert_eq!(gguf::parse(&file, 1000)?, Parsed::NeedsBytes(43));
//! file.extend([0, 0]);
//! assert!(matches!(gguf::parse(&file, 43)?, Parsed::Complete(_)));
//! # Ok(())
//! # }
//! ```

use millstream::{Error, ErrorKind};

use crate::cursor::{Cursor, Step, Stop};
use crate::dtype::DataType;
use crate::error::{corrupt, failed, shown};
use crate::header::{Format, Header, Parsed, Split};
use crate::limits::{FILES_MAX, GGUF_DIMENSIONS_MAX, GGUF_KEYS_MAX, GGUF_TENSORS_MAX};
use crate::metadata::{Metadata, Pair, Value, ValueKind};
use crate::tensor::{Extent, Tensor, elements, sort_by_name};

/// The first bytes of a file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The alignment of tensors, unless `general.alignment` sets another.
const ALIGNMENT_DEFAULT: u64 = 32;

/// The least bytes of a key and its value: a length, a letter, a type, a byte.
const PAIR_BYTES_MIN: u64 = 8 + 1 + 4 + 1;

/// The least bytes of a tensor: the length of its name, the number of dimensions, type, offset.
const TENSOR_BYTES_MIN: u64 = 8 + 4 + 4 + 8;

/// Parses the header of a file of `file_bytes` bytes that begins with `head`. If `head` is too
/// short, call it again with the number of bytes that it returns, or with more: with twice as many
/// each time, the cost stays in proportion to the header's length.
///
/// # Errors
/// `WrongFormat` for files of other formats, versions or byte orders; `Corrupt`, with the offset;
/// `Limit` beyond the bounds of [`limits`](crate::limits).
pub fn parse(head: &[u8], file_bytes: u64) -> Result<Parsed, Error> {
    match header(&mut Cursor::new(head, file_bytes), file_bytes) {
        Ok(header) => Ok(Parsed::Complete(header)),
        Err(Stop::Needs(bytes)) => Ok(Parsed::NeedsBytes(bytes)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn header(cursor: &mut Cursor<'_>, file_bytes: u64) -> Step<Header> {
    let refused = |cause: String| Err(Stop::Failed(failed(ErrorKind::WrongFormat, cause, 0, 8)));
    if file_bytes < 4 || cursor.take(4)? != MAGIC {
        return refused(String::from("the file does not begin with GGUF"));
    }
    match cursor.u32()? {
        2 | 3 => {}
        0x0200_0000 | 0x0300_0000 => return refused(String::from("the GGUF file is big-endian")),
        version => return refused(format!("GGUF version {version} is neither 2 nor 3")),
    }
    let tensor_count = cursor.count(GGUF_TENSORS_MAX, TENSOR_BYTES_MIN, "tensors")?;
    let pair_count = cursor.count(GGUF_KEYS_MAX, PAIR_BYTES_MIN, "keys")?;
    let metadata = metadata(cursor, pair_count)?;
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT_DEFAULT,
        Some(Value::U32(value)) if value.is_power_of_two() && value >= 8 => value.into(),
        Some(_) => {
            let cause = "`general.alignment` is not a u32, or not a power of two of at least 8";
            let cause = String::from(cause);
            return cursor.corrupt(cursor.offset(), cause);
        }
    };
    let split = split(cursor, &metadata)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(tensor(cursor, alignment)?);
    }
    // Does not overflow: both are below 2^32. A file without tensors may end before.
    let data_offset = match tensor_count {
        0 => cursor.offset(),
        _ => cursor.offset().next_multiple_of(alignment),
    };
    lay_out(&mut tensors, data_offset, file_bytes).map_err(Stop::Failed)?;
    Ok(Header {
        format: Format::Gguf,
        metadata,
        data_offset,
        tensors,
        split,
    })
}

fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Step<Metadata> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (name, key) = cursor.name("a key")?;
        if name.is_empty() {
            return cursor.corrupt(8, String::from("a key is empty"));
        }
        let kind = ValueKind::of_next(cursor)?;
        let value = cursor.at;
        kind.take(cursor, 0)?;
        pairs.push(Pair { key, kind, value });
    }
    let (metadata, twice) = Metadata::new(Box::from(&cursor.bytes[..cursor.at]), pairs);
    match twice {
        None => Ok(metadata),
        Some(range) => {
            let key = String::from_utf8_lossy(&cursor.bytes[range.clone()]);
            let cause = format!("the key {} appears twice", shown(&key));
            let (start, len) = (range.start as u64, range.len() as u64);
            Err(Stop::Failed(corrupt(cause, start, len)))
        }
    }
}

fn split(cursor: &Cursor<'_>, metadata: &Metadata) -> Step<Option<Split>> {
    let number = |key| metadata.get(key).map(|value| value.as_u64());
    let count = match number("split.count") {
        None | Some(Some(0)) => return Ok(None),
        Some(count) => count.filter(|count| *count <= FILES_MAX as u64),
    };
    let index = number("split.no").unwrap_or(Some(0));
    let index = index.filter(|index| Some(*index) < count);
    let tensors = number("split.tensors.count");
    match (index, count, tensors) {
        (Some(index), Some(count), None | Some(Some(_))) => Ok(Some(Split {
            index: index as usize,
            count: count as usize,
            tensors: tensors.flatten(),
        })),
        _ => {
            let cause = "split.no, split.count or split.tensors.count is invalid";
            cursor.corrupt(cursor.offset(), String::from(cause))
        }
    }
}

/// Takes a tensor, whose offset counts from the data.
fn tensor(cursor: &mut Cursor<'_>, alignment: u64) -> Step<Tensor> {
    let (name, _) = cursor.name("the name of a tensor")?;
    let is = |what: String| format!("tensor {} {what}", shown(name));
    let dimensions = cursor.u32()?;
    if dimensions as usize > GGUF_DIMENSIONS_MAX {
        return cursor.corrupt(4, is(format!("has {dimensions} dimensions")));
    }
    let mut shape = Vec::with_capacity(GGUF_DIMENSIONS_MAX);
    for _ in 0..dimensions {
        shape.push(cursor.u64()?);
    }
    let row = shape.first().copied().unwrap_or(1);
    shape.reverse();
    let dtype = DataType::from_ggml(cursor.u32()?);
    let Some(count) = elements(&shape, &dtype) else {
        return cursor.corrupt(
            4,
            is(format!("has a shape that overflows 64 bits: {shape:?}")),
        );
    };
    if let Some((block, _)) = dtype.block()
        && !row.is_multiple_of(block)
    {
        let cause = format!("has rows of {row} elements, but blocks of {dtype} have {block}");
        return cursor.corrupt(4, is(cause));
    }
    let offset = cursor.u64()?;
    if !offset.is_multiple_of(alignment) {
        return cursor.corrupt(8, is(format!("is at {offset}, no multiple of {alignment}")));
    }
    Ok(Tensor {
        name: name.into(),
        extent: Extent::new(offset, dtype.bytes_of(count).unwrap_or(0)),
        dtype,
        shape: shape.into(),
    })
}

/// Sorts tensors by their bytes, places them in the file, and checks that they do not overlap or
/// exceed it, and that no name appears twice. Those of unknown types end where the next begins.
fn lay_out(tensors: &mut [Tensor], data_offset: u64, file_bytes: u64) -> Result<(), Error> {
    if let Some(twice) = sort_by_name(tensors) {
        let cause = format!("the tensor {} appears twice", shown(&twice.name));
        return Err(corrupt(cause, 0, data_offset));
    }
    tensors.sort_by_key(|tensor| (tensor.extent.offset, tensor.extent.len));
    let offsets: Vec<u64> = tensors.iter().map(|tensor| tensor.extent.offset).collect();
    let mut before = 0;
    for (nth, tensor) in tensors.iter_mut().enumerate() {
        let Extent { offset, len, .. } = tensor.extent;
        let begin = data_offset.saturating_add(offset);
        let mut end = begin.saturating_add(len);
        let is = |what: String| {
            let cause = format!("tensor {} {what}", shown(&tensor.name));
            Err(corrupt(cause, begin, len))
        };
        if end > file_bytes {
            return is(format!("exceeds the file ({file_bytes} bytes)"));
        }
        let count = elements(&tensor.shape, &tensor.dtype);
        if !tensor.dtype.is_known() && count != Some(0) {
            let next = offsets.get(nth + 1);
            let next = next.map_or(file_bytes, |next| data_offset.saturating_add(*next));
            end = next.min(file_bytes);
        }
        if begin < before || begin == end && count != Some(0) {
            return is(String::from("overlaps another"));
        }
        before = end;
        (tensor.extent.offset, tensor.extent.len) = (begin, end - begin);
    }
    Ok(())
}
