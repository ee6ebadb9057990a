//! Memory that a blob may lie in.
//!
//! # Safety
//! [`StableBytes`] is an unsafe trait: a validated blob is used without looking again, so its bytes
//! must stay what and where they are.
#![expect(unsafe_code, reason = "vouches for memory that does not move")]

use std::ops::Deref;
use std::sync::Arc;

use millstream::Buffer;
use zerocopy::IntoBytes;

use crate::limits::BLOB_ALIGNMENT;

/// Bytes that neither move nor change while they are borrowed from a value that may be moved.
///
/// # Safety
/// `stable` must always give the same bytes at the same address, also after the value was moved,
/// and must not change until the value is dropped or borrowed exclusively.
pub unsafe trait StableBytes {
    /// The bytes.
    fn stable(&self) -> &[u8];
}

macro_rules! stable {
    ($($memory:ty),*) => {$(
        // SAFETY: the memory is not in the value itself, so it does not move with it; only an
        // exclusive reference to the value can change it, and none to what is shared or borrowed.
        unsafe impl StableBytes for $memory {
            #[inline]
            fn stable(&self) -> &[u8] {
                self
            }
        }
    )*};
}

stable!(
    Vec<u8>,
    Box<[u8]>,
    Arc<[u8]>,
    &[u8],
    Buffer,
    AlignedBytes,
    Arc<AlignedBytes>
);

/// Bytes aligned as blobs need them.
#[derive(Clone, PartialEq, Eq)]
pub struct AlignedBytes {
    words: Vec<u128>,
    len: usize,
}

const _: () = assert!(align_of::<u128>() >= BLOB_ALIGNMENT);

impl AlignedBytes {
    /// So many zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes {
            words: vec![0; len.div_ceil(size_of::<u128>())],
            len,
        }
    }

    /// A copy.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> AlignedBytes {
        let mut aligned = AlignedBytes::zeroed(bytes.len());
        aligned.as_mut_slice().copy_from_slice(bytes);
        aligned
    }

    /// The bytes, to be filled.
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
