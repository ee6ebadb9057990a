//! One copy out of the page cache.
//!
//! # Safety
//! By the contract of [`Device::push`](crate::Device::push) the memory of an operation is valid and
//! not used otherwise until its completion is reaped; each operation is executed once, before that.
#![expect(unsafe_code, reason = "copies into memory lent as raw segments")]

use crate::device::{Completion, Operation, Verb};
use crate::error::{Errno, guard};
use crate::fs::FileSystem;
use crate::limits::{COPY_BYTES_PER_NS, COPY_CALL_COST_NS};

/// Returns about how long an operation takes.
pub(super) fn cost_ns(operation: &Operation) -> u64 {
    COPY_CALL_COST_NS + operation.segments.bytes() as u64 / COPY_BYTES_PER_NS
}

/// Copies the cached part of an operation's bytes. A panic of the file system is an `EIO`.
pub(super) fn execute(fs: &dyn FileSystem, operation: &Operation) -> Completion {
    let copied = guard(|| copy(fs, operation)).unwrap_or(Err(Errno::IO));
    Completion::new(operation.id, copied)
}

fn copy(fs: &dyn FileSystem, operation: &Operation) -> Result<usize, Errno> {
    if operation.verb != Verb::Read {
        return Err(Errno::INVALID);
    }
    // SAFETY: the operation was pushed and has not completed.
    let segments = unsafe { operation.segments.as_slice() };
    let (mut copied, mut asked) = (0, 0);
    for segment in segments.iter().filter(|segment| !segment.is_empty()) {
        asked += segment.len();
        let at = operation.offset.saturating_add(copied as u64);
        // SAFETY: the caller of push lends these bytes (module's Safety).
        let into = unsafe { std::slice::from_raw_parts_mut(segment.pointer(), segment.len()) };
        match fs.read_cached(operation.file, at, into) {
            Some(count) => copied += count.min(segment.len()),
            None if copied == 0 => return Err(Errno::INVALID),
            None => {}
        }
        if copied < asked {
            break;
        }
    }
    Ok(copied)
}
