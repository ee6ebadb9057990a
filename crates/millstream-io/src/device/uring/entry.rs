//! From an operation to a submission entry.

use io_uring::{opcode, squeue, types};

use super::registered::Registered;
use super::slots::Slots;
use crate::device::{Operation, Segment, Segments, Verb};
use crate::limits::OPERATION_BYTES_MAX;

/// The entry for the operation in a slot; `None` if its offset is beyond what a file can have. (An
/// offset of all ones would mean the descriptor's own position to the kernel.)
pub(super) fn build(slots: &Slots, slot: u32, registered: &Registered) -> Option<squeue::Entry> {
    let operation = slots.operation(slot);
    i64::try_from(operation.offset).ok()?;
    let entry = match &operation.segments {
        Segments::One(segment) => one(operation, segment, registered),
        Segments::Many(segments) => many(operation, segments),
    };
    let entry = entry.user_data(slots.user_data(slot));
    Some(if operation.offload {
        entry.flags(squeue::Flags::ASYNC)
    } else {
        entry
    })
}

fn one(operation: &Operation, segment: &Segment, registered: &Registered) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.0), operation.offset);
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

fn many(operation: &Operation, segments: &[Segment]) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.0), operation.offset);
    // A Segment is an iovec in layout. The kernel refuses more than 1024 of them with EINVAL.
    let vectors = segments.as_ptr().cast::<libc::iovec>();
    let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
    match operation.verb {
        Verb::Read => opcode::Readv::new(file, vectors, count)
            .offset(offset)
            .build(),
        Verb::Write => opcode::Writev::new(file, vectors, count)
            .offset(offset)
            .build(),
    }
}
