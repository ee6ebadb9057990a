//! Identifiers: one `u64` each, tagged with the storage that gave them, so that an identifier of
//! another storage is detected and never names something else.
//!
//! Layout: 12 bits of storage number, 20 bits of index, 32 bits of generation (from the top:
//! generation, storage, index). Living storages have distinct numbers; one static bitmap gives them
//! out, the only global of this crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{INDEX_BITS, STORAGES_MAX};

const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// An index with its generation and storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct Id(u64);

impl Id {
    /// Names nothing.
    pub(crate) const NONE: Id = Id(u64::MAX);

    #[inline]
    pub(crate) fn new(storage: StorageNumber, index: u32, generation: u32) -> Id {
        debug_assert!(u64::from(index) <= INDEX_MASK, "an index has 20 bits");
        let storage = u64::from(storage.0) << INDEX_BITS;
        Id(u64::from(generation) << 32 | storage | u64::from(index))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Id {
        Id(bits)
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0 & INDEX_MASK) as u32
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn storage(self) -> StorageNumber {
        StorageNumber((self.0 >> INDEX_BITS & 0xfff) as u16)
    }
}

/// A file of a storage. Plain data: it may be copied, kept and sent to other threads. A stale id,
/// or one of another storage, is detected (`StaleFile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub(crate) Id);

impl FileId {
    /// No file: for requests that have none.
    pub(crate) const NONE: FileId = FileId(Id::NONE);

    /// Returns the id as a number, for code that can only store integers.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0.0
    }

    /// Returns the id of a number from [`FileId::to_bits`]. Any other is detected when used.
    #[must_use]
    pub fn from_bits(bits: u64) -> FileId {
        FileId(Id(bits))
    }
}

/// The number of a storage; its owner gives it back when the storage is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageNumber(u16);

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    taken: [0; STORAGES_MAX / 64],
    generations: [1; STORAGES_MAX],
});

struct Numbers {
    taken: [u64; STORAGES_MAX / 64],
    /// The first generation of the next storage of a number, so that an id of an earlier one is
    /// detected, too.
    generations: [u32; STORAGES_MAX],
}

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StorageNumber {
    /// Takes a number that no living storage has, and the first generation for its ids.
    pub(crate) fn take() -> Option<(StorageNumber, u32)> {
        let mut numbers = numbers();
        let word = numbers.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = numbers.taken[word].trailing_ones();
        numbers.taken[word] |= 1 << bit;
        let number = u16::try_from(word as u32 * 64 + bit).expect("12 bits");
        let generation = numbers.generations[usize::from(number)];
        Some((StorageNumber(number), generation))
    }

    /// Gives the number back; its storage is gone, and had ids of generations below `next`.
    /// Generations begin anew long before they are exhausted.
    pub(crate) fn give_back(self, next: u32) {
        let mut numbers = numbers();
        let (word, bit) = (usize::from(self.0) / 64, self.0 % 64);
        assert!(numbers.taken[word] & 1 << bit != 0, "given back once");
        numbers.taken[word] &= !(1 << bit);
        numbers.generations[usize::from(self.0)] = if next < 1 << 31 { next } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_id_do_not_overlap() {
        let id = Id::new(StorageNumber(0xabc), 0xf_fffe, 0xdead_beef);
        assert_eq!((id.index(), id.generation()), (0xf_fffe, 0xdead_beef));
        assert_eq!(id.storage(), StorageNumber(0xabc));
    }
}
