//! Tensors: name, type, shape, and which bytes of which file.
//!
//! ```
//! use millstream_weights::{Parsed, safetensors};
//!
//! # fn main() -> Result<(), millstream::Error> {
//! let json = br#"{"w":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]}}"#;
//! let file = [&(json.len() as u64).to_le_bytes()[..], json, &[0; 12]].concat();
//! let Parsed::Complete(header) = safetensors::parse(&file, file.len() as u64)? else {
//!     unreachable!("all bytes were given")
//! };
//! let row = header.tensors[0].slice(1..2)?;
//! assert_eq!((row.offset, row.len), (header.data_offset + 4, 4));
//! # Ok(())
//! # }
//! ```

use std::ops::Range;
use std::sync::Arc;

use millstream::{Error, ErrorKind};

use crate::dtype::DataType;
use crate::error::{failed, shown};

/// Bytes of one file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    /// The file, by its index in [`Model::files`](crate::Model::files).
    pub file: usize,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// Of the only file so far.
    pub(crate) fn new(offset: u64, len: u64) -> Extent {
        Extent {
            file: 0,
            offset,
            len,
        }
    }

    /// Returns the offset behind the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// A tensor of a file: its description, not its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tensor {
    /// The name.
    pub name: Arc<str>,
    /// The type of the elements.
    pub dtype: DataType,
    /// The dimensions, outermost first, as safetensors and numpy have them. GGUF files store them
    /// in the opposite order.
    pub shape: Box<[u64]>,
    /// Where the bytes are. Those of an unknown type of GGML extend to the next tensor or to the
    /// end of the file, and so may include padding.
    pub extent: Extent,
}

impl Tensor {
    /// Returns the number of rows: the outermost dimension, 1 for a scalar.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns where some rows are.
    ///
    /// # Errors
    /// `PastEnd` if there are no such rows. `InvalidArgument` if they do not begin and end at whole
    /// blocks and bytes, or if the type is unknown (unless all rows are asked for).
    pub fn slice(&self, rows: Range<u64>) -> Result<Extent, Error> {
        let (begin, end, count) = (rows.start, rows.end, self.rows());
        let refused = |kind, why: String| {
            let cause = format!("rows {begin}..{end} of tensor {}: {why}", shown(&self.name));
            Err(failed(kind, cause, self.extent.offset, self.extent.len))
        };
        if begin > end || end > count {
            return refused(ErrorKind::PastEnd, format!("it has {count}"));
        }
        if begin == 0 && end == count {
            return Ok(self.extent);
        }
        // The product of all dimensions fits, so that of some does.
        let row: u64 = self.shape.iter().skip(1).product();
        let bytes = |rows: u64| self.dtype.bytes_of(rows * row);
        let (Some(before), Some(len)) = (bytes(begin), bytes(end - begin)) else {
            let why = match self.dtype.is_known() {
                true => format!("no whole bytes of {}", self.dtype),
                false => format!("the type {} is unknown", shown(&self.dtype.to_string())),
            };
            return refused(ErrorKind::InvalidArgument, why);
        };
        Ok(Extent {
            offset: self.extent.offset + before,
            len,
            ..self.extent
        })
    }
}

/// Returns the number of elements of a shape. `None` if elements or bytes, even without the
/// dimensions that are 0, exceed a signed number of 64 bits.
pub(crate) fn elements(shape: &[u64], dtype: &DataType) -> Option<u64> {
    let fold = |all: u64, one: &u64| all.checked_mul((*one).max(1));
    let count = shape.iter().try_fold(1, fold)?;
    let (block, bits) = dtype.block().unwrap_or((1, 8));
    let bytes = u128::from(count) * u128::from(bits) / u128::from(block) / 8;
    let fits = bytes.max(u128::from(count)) <= i64::MAX as u128;
    fits.then(|| if shape.contains(&0) { 0 } else { count })
}

/// Sorts tensors by name; returns one whose name appears twice.
pub(crate) fn sort_by_name(tensors: &mut [Tensor]) -> Option<&Tensor> {
    tensors.sort_unstable_by(|a, b| (&a.name, a.extent).cmp(&(&b.name, b.extent)));
    let mut neighbors = tensors.windows(2);
    let twice = neighbors.find(|two| two[0].name == two[1].name);
    twice.map(|two| &two[1])
}
