//! The checker: walks a blob once, in the order in which it was built.
//!
//! Its state is one number, the end of all that has been claimed. A target must begin there or
//! later, so claims never overlap, offsets can lead neither back nor in a cycle, and the walk
//! visits each value once: its cost is linear in the length of the blob, whatever its bytes are.

use super::{Record, fail};
use crate::error::{ErrorKind, Result};
use crate::limits::{BLOB_ALIGNMENT, BLOB_DEPTH_MAX};

/// Validates a blob in one walk; see the module.
pub struct Checker<'a> {
    bytes: &'a [u8],
    claimed_end: usize,
    depth: usize,
}

impl<'a> Checker<'a> {
    pub(super) fn new(bytes: &'a [u8], claimed_end: usize) -> Checker<'a> {
        Checker {
            bytes,
            claimed_end,
            depth: 0,
        }
    }

    /// Returns bytes of a claimed value.
    ///
    /// # Panics
    /// If they reach beyond the blob.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> &'a [u8] {
        &self.bytes[at..at + len]
    }

    /// Returns a word of a claimed value.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u32 {
        let bytes = self.bytes[at..at + 4].first_chunk().expect("four bytes");
        u32::from_le_bytes(*bytes)
    }

    /// Claims `count` values of `T` for the pointer at `at`; returns where the first begins.
    /// Refuses values outside of the blob, before the end of what was claimed, or misaligned.
    #[inline(always)]
    pub(super) fn claim<T: Record>(
        &mut self,
        at: usize,
        offset: u32,
        count: usize,
    ) -> Result<usize> {
        const {
            assert!(
                size_of::<T>() > 0,
                "a type of no bytes has no place in a blob"
            );
            assert!(
                align_of::<T>() <= BLOB_ALIGNMENT,
                "no type is aligned further than its blob"
            );
        }
        let start = at.saturating_add(offset as usize);
        let end = count
            .checked_mul(size_of::<T>())
            .and_then(|len| len.checked_add(start));
        match end {
            Some(end)
                if start >= self.claimed_end
                    && end <= self.bytes.len()
                    && start.is_multiple_of(align_of::<T>()) =>
            {
                self.claimed_end = end;
                Ok(start)
            }
            _ => self.refuse(at, offset, end, align_of::<T>()),
        }
    }

    #[cold]
    fn refuse(&self, at: usize, offset: u32, end: Option<usize>, align: usize) -> Result<usize> {
        let start = at.saturating_add(offset as usize);
        let cause = if end.is_none_or(|end| end > self.bytes.len()) {
            "an offset or a count leads out of the blob"
        } else if !start.is_multiple_of(align) {
            "an offset leads to misaligned bytes"
        } else {
            "an offset leads back to what belongs to another"
        };
        fail(ErrorKind::Corrupt, at, 4, cause)
    }

    /// Calls `validate` one level deeper.
    #[inline(always)]
    pub(super) fn deeper(
        &mut self,
        at: usize,
        validate: impl FnOnce(&mut Checker<'a>, usize) -> Result<()>,
    ) -> Result<()> {
        if self.depth == BLOB_DEPTH_MAX {
            return fail(ErrorKind::Limit, at, 0, "records are nested too deep");
        }
        self.depth += 1;
        let result = validate(self, at);
        self.depth -= 1;
        result
    }
}
