//! Memory for blobs.

use std::ops::Deref;

use zerocopy::IntoBytes;

use crate::limits::BLOB_ALIGNMENT;

/// Bytes in memory aligned to [`BLOB_ALIGNMENT`].
#[derive(Clone, PartialEq, Eq)]
pub struct AlignedBytes {
    words: Vec<u128>,
    len: usize,
}

const _: () = assert!(align_of::<u128>() >= BLOB_ALIGNMENT);

impl AlignedBytes {
    /// Returns `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes {
            words: vec![0; len.div_ceil(size_of::<u128>())],
            len,
        }
    }

    /// Copies `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> AlignedBytes {
        let mut aligned = AlignedBytes::zeroed(bytes.len());
        aligned.as_mut_slice().copy_from_slice(bytes);
        aligned
    }

    /// Returns the bytes mutably.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.len]
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.words.as_bytes()[..self.len]
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({})", self.len)
    }
}
