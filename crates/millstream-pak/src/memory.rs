//! Fallible allocation of memory whose size a package or its caller decides: what cannot be
//! allocated is an error, so no package aborts the process that opens it.

use std::collections::TryReserveError;

use crate::error::{Error, ErrorKind, Result};

fn checked<T>(reserved: std::result::Result<(), TryReserveError>, count: usize) -> Result<()> {
    reserved.map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))
}

/// Makes room for `more` items.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    let reserved = items.try_reserve(more);
    checked::<T>(reserved, items.len().saturating_add(more))
}

/// Returns a vector with room for `count` items.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    checked::<T>(items.try_reserve_exact(count), count)?;
    Ok(items)
}

/// Collects the items into a vector.
pub(crate) fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = room(items.len())?;
    all.extend(items);
    Ok(all)
}

pub(crate) fn push<T>(items: &mut Vec<T>, item: T) -> Result<()> {
    reserve(items, 1)?;
    items.push(item);
    Ok(())
}

pub(crate) fn no_memory(bytes: usize) -> Error {
    let cause = format!("no memory for {bytes} bytes of the package's tables");
    Error::new(ErrorKind::OutOfMemory, cause)
}
