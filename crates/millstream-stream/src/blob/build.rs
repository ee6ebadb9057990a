//! Builds a blob from ordinary values.
//!
//! A record's own bytes are reserved first; then its fields are stored in order, and whatever a
//! field owns is appended at the end, followed by what that owns. The checker walks in the same
//! order. Bytes between values are zero, so that the same values always give the same bytes.

use super::memory::AlignedBytes;
use super::{Array, HEADER_BYTES, MAGIC, Maybe, Record, Ref, Text, VERSION, fail, schema_hash};
use crate::error::{ErrorKind, Result};
use crate::limits::{BLOB_ALIGNMENT, BLOB_DEPTH_MAX};

/// A value that can be stored as a `T`.
pub trait Build<T: Record> {
    /// Stores it at `at`, where the bytes of a `T` are reserved.
    ///
    /// # Errors
    /// The blob would be too long or nested too deep, or memory does not suffice.
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()>;

    /// Stores values one after the other.
    ///
    /// # Errors
    /// As [`Build::store`].
    fn store_all(values: &[Self], builder: &mut Builder, at: usize) -> Result<()>
    where
        Self: Sized,
    {
        store_each::<T, Self>(values, builder, at)
    }
}

pub(super) fn store_each<T: Record, U: Build<T>>(
    values: &[U],
    builder: &mut Builder,
    at: usize,
) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        value.store(builder, at + index * size_of::<T>())?;
    }
    Ok(())
}

/// A blob being built.
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    depth: usize,
}

/// Builds a blob whose root is `value`.
///
/// # Errors
/// The blob would be too long (an offset has 32 bits) or nested too deep, or memory does not
/// suffice.
pub fn build<T: Record, U: Build<T> + ?Sized>(value: &U) -> Result<AlignedBytes> {
    let mut builder = Builder {
        bytes: vec![0; HEADER_BYTES],
        depth: 0,
    };
    let root = builder.reserve::<T>(1)?;
    value.store(&mut builder, root)?;
    let len = builder.bytes.len() as u64;
    builder.put(0, &MAGIC);
    builder.put(4, &u32::from(VERSION).to_le_bytes());
    builder.put(8, &schema_hash::<T>().to_le_bytes());
    builder.put(16, &len.to_le_bytes());
    builder.put(24, &(root as u32).to_le_bytes());
    Ok(AlignedBytes::from_slice(&builder.bytes))
}

impl Builder {
    /// Reserves zeroed bytes for `count` values of `T`; returns where they begin.
    fn reserve<T: Record>(&mut self, count: usize) -> Result<usize> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= BLOB_ALIGNMENT) }
        let start = self.bytes.len().next_multiple_of(align_of::<T>());
        let end = count
            .checked_mul(size_of::<T>())
            .and_then(|len| len.checked_add(start))
            .filter(|end| u32::try_from(*end).is_ok());
        let Some(end) = end else {
            let cause = "a blob has at most 4 GiB";
            return fail(ErrorKind::Limit, start, count, cause);
        };
        let more = end - self.bytes.len();
        if self.bytes.try_reserve(more).is_err() {
            let cause = "no memory for the blob";
            return fail(ErrorKind::OutOfMemory, start, more, cause);
        }
        self.bytes.resize(end, 0);
        Ok(start)
    }

    /// Writes bytes that were reserved.
    ///
    /// # Panics
    /// If they reach beyond what was reserved.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Reserves what the pointer at `at` owns, writes its offset, and calls `store`.
    fn own<T: Record>(
        &mut self,
        at: usize,
        count: usize,
        store: impl FnOnce(&mut Builder, usize) -> Result<()>,
    ) -> Result<()> {
        if self.depth >= BLOB_DEPTH_MAX && !T::PLAIN {
            let cause = "records are nested too deep";
            return fail(ErrorKind::Limit, at, 0, cause);
        }
        let start = self.reserve::<T>(count)?;
        self.put(at, &((start - at) as u32).to_le_bytes());
        self.depth += 1;
        let result = store(self, start);
        self.depth -= 1;
        result
    }
}

impl Build<Text> for str {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        Build::<Array<u8>>::store(self.as_bytes(), builder, at)
    }
}

impl Build<Text> for String {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        Build::<Text>::store(self.as_str(), builder, at)
    }
}

impl<T: Record, U: Build<T>> Build<Array<T>> for [U] {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let Ok(count) = u32::try_from(self.len()) else {
            let cause = "an array has less than 2^32 elements";
            return fail(ErrorKind::Limit, at, self.len(), cause);
        };
        builder.put(at + 4, &count.to_le_bytes());
        builder.own::<T>(at, self.len(), |builder, at| {
            U::store_all(self, builder, at)
        })
    }
}

impl<T: Record, U: Build<T>> Build<Array<T>> for Vec<U> {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        Build::<Array<T>>::store(self.as_slice(), builder, at)
    }
}

impl<T: Record, U: Build<T> + ?Sized> Build<Ref<T>> for Box<U> {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        builder.own::<T>(at, 1, |builder, at| (**self).store(builder, at))
    }
}

impl<T: Record, U: Build<T> + ?Sized> Build<Maybe<T>> for Option<Box<U>> {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        match self {
            None => Ok(()),
            Some(value) => builder.own::<T>(at, 1, |builder, at| (**value).store(builder, at)),
        }
    }
}
