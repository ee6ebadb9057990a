//! The engine's data of each request besides its slot: one cache line, and for few an extra part.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use millstream_io::device::calls::OfferToken;

use crate::caller::request::{Rare, Verb};
use crate::engine::staged::Staged;
use crate::engine::state::State;
use crate::error::Error;
use crate::handover::complete::HeldKey;
use crate::ids::{FileId, Id};
use crate::priority::Priority;

/// The engine's own columns of a slot: one cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Col {
    pub(super) len: u64,
    pub(super) issued: u64,
    pub(super) sequence: u64,
    pub(super) submitted_ns: u64,
    pub(super) arrival: u64,
    /// Why it ends, set once.
    pub(super) ending: Option<Error>,
    pub(super) generation: u32,
    pub(super) queue: u16,
    pub(super) operations: u16,
    /// Jobs, calls and offers in flight.
    pub(super) jobs: u32,
    pub(super) state: State,
    pub(super) priority: Priority,
    pub(super) verb: Verb,
    pub(super) flags: u8,
}
const _: () = assert!(
    size_of::<Col>() == 64,
    "the columns of a slot are a cache line"
);

/// Flags of a column.
pub(super) mod flag {
    /// It has a group, a deadline, a raw length or charged bytes.
    pub(in crate::engine) const USUAL: u8 = 1;
    /// It has an entry in `extras`.
    pub(in crate::engine) const EXTRA: u8 = 2;
    /// Counted among the requests of its file.
    pub(in crate::engine) const HOLDS: u8 = 4;
    /// Counted among the users of its file.
    pub(in crate::engine) const ATTACHED: u8 = 8;
    /// Never to be merged (again).
    pub(in crate::engine) const ALONE: u8 = 16;
    /// The length or the content of its file was asked for once more.
    pub(in crate::engine) const ASKED: u8 = 32;
    /// Its range is definite and was checked.
    pub(in crate::engine) const PREPARED: u8 = 64;
    /// Counted among the writes of its file.
    pub(in crate::engine) const WRITES: u8 = 128;
}

impl Col {
    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn is_out(&self) -> bool {
        self.operations > 0 || self.jobs > 0
    }
}

/// The part that few requests have.
#[derive(Default)]
pub(super) struct Extra {
    pub(super) rare: Box<Rare>,
    pub(super) staged: Option<Box<Staged>>,
    /// Its memory is offered to the open of its file (counted in `jobs`).
    pub(super) offer: Option<Arc<OfferToken>>,
    /// The path that a call on names concerns, for errors.
    pub(super) path: Option<Arc<Path>>,
    /// Of a sync: the handle it was made for, if it was passed on to another.
    pub(super) handle: Option<FileId>,
}

/// The staged part of a request that has one.
pub(super) fn staged_of(extras: &mut [Option<Box<Extra>>], index: u32) -> &mut Staged {
    let extra = extras[index as usize].as_mut();
    let staged = extra.and_then(|extra| extra.staged.as_deref_mut());
    staged.expect("a staged request")
}

/// The key of a request among those that its queue holds.
pub(super) fn held_key(priority: Priority, arrival: u64) -> HeldKey {
    (Reverse(priority), arrival)
}

/// Adds an id to a list of waiting requests. Before the list grows, ended ones are dropped from it.
pub(super) fn push_waiting(list: &mut Vec<Id>, id: Id, cols: &[Col]) {
    if list.len() == list.capacity() {
        list.retain(|id| is_known(cols, *id));
        list.reserve(list.len().max(16));
    }
    list.push(id);
}

/// Whether a request has arrived and has not ended.
pub(super) fn is_known(cols: &[Col], id: Id) -> bool {
    let col = cols.get(id.index() as usize);
    col.is_some_and(|col| col.state != State::Free && col.generation == id.generation())
}
