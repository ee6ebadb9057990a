//! Builds submission entries.

use io_uring::{opcode, squeue, types};

use super::registered::Registered;
use crate::device::{Operation, Segment, Segments, Verb};
use crate::limits::OPERATION_BYTES_MAX;

/// Returns the entry for an operation whose offset fits an `i64`. (An offset of all ones means the
/// file's own position to the kernel.)
pub(super) fn build(
    operation: &Operation,
    user_data: u64,
    registered: &Registered,
) -> squeue::Entry {
    debug_assert!(
        i64::try_from(operation.offset).is_ok(),
        "checked by the caller"
    );
    let entry = match operation.segments {
        Segments::One(segment) => one(operation, &segment, registered),
        Segments::Many { .. } => many(operation),
    };
    let entry = entry.user_data(user_data);
    if operation.offload {
        entry.flags(squeue::Flags::ASYNC)
    } else {
        entry
    }
}

fn one(operation: &Operation, segment: &Segment, registered: &Registered) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.fd()), operation.offset);
    let pointer = segment.pointer();
    let len = segment.len().min(OPERATION_BYTES_MAX) as u32;
    match (operation.verb, registered.index_of(segment)) {
        (Verb::Read, None) => opcode::Read::new(file, pointer, len).offset(offset).build(),
        (Verb::Write, None) => opcode::Write::new(file, pointer, len)
            .offset(offset)
            .build(),
        (Verb::Read, Some(index)) => opcode::ReadFixed::new(file, pointer, len, index)
            .offset(offset)
            .build(),
        (Verb::Write, Some(index)) => opcode::WriteFixed::new(file, pointer, len, index)
            .offset(offset)
            .build(),
    }
}

/// Builds a vectored entry. The kernel refuses more than 1024 segments with `EINVAL`.
fn many(operation: &Operation) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.fd()), operation.offset);
    let (vectors, count) = operation.segments.vectors();
    match operation.verb {
        Verb::Read => opcode::Readv::new(file, vectors, count)
            .offset(offset)
            .build(),
        Verb::Write => opcode::Writev::new(file, vectors, count)
            .offset(offset)
            .build(),
    }
}
