//! Whose turn it is to append to a file: one operation at a time for all handles that lead to it.
//!
//! Each append begins at the length that the file has then, as with `O_APPEND`. So what follows a
//! short, failed or canceled one goes to the real end, and nothing is written over. Appends that
//! find another under way wait in line, by priority, in the order of arrival within each.

use std::collections::HashMap;
use std::path::Path;

use millstream_io::{Known, Numbering};
use xxhash_rust::xxh3::xxh3_64;

use crate::ids::Id;
use crate::priority::{Priority, PriorityLists};

/// Device and inode. Where these do not name a file for certain, the path stands for it.
pub(crate) type EndKey = (u64, u64);

/// An append that waits.
#[derive(Clone, Copy)]
pub(crate) struct InLine {
    pub(crate) id: Id,
    pub(crate) len: u64,
    pub(crate) priority: Priority,
    pub(crate) arrival: u64,
}

#[derive(Default)]
struct End {
    /// Handles that are open for writing.
    files: u32,
    /// The request whose append is under way.
    holder: Option<Id>,
    /// An operation of it is in flight.
    is_out: bool,
    /// The end of what an operation that never comes back may still write.
    lost: u64,
    /// Those that ended meanwhile are in it until their turn, or until it grows.
    line: PriorityLists<InLine>,
    /// Where the line is cleared of those that ended.
    line_full: usize,
}

/// Length of a line that is not worth a look at each.
const LINE_SHORT: usize = 64;

/// The ends of all files that are open for writing.
#[derive(Default)]
pub(crate) struct Ends(HashMap<EndKey, End>);

impl Ends {
    pub(super) fn key(known: &Known, place: &Path) -> EndKey {
        match known.numbering {
            Numbering::Stable => (known.identity.device, known.identity.inode),
            _ => (u64::MAX, xxh3_64(place.as_os_str().as_encoded_bytes())),
        }
    }

    /// A handle was opened for writing, the first time.
    pub(super) fn opened(&mut self, key: EndKey) {
        self.0.entry(key).or_default().files += 1;
    }

    /// A handle that was open for writing is freed.
    pub(super) fn closed(&mut self, key: EndKey) {
        let end = self.end(key);
        end.files -= 1;
        if end.files == 0 {
            self.0.remove(&key);
        }
    }

    fn end(&mut self, key: EndKey) -> &mut End {
        let end = self.0.get_mut(&key);
        end.expect("an end lives as long as its files")
    }

    /// Whether a request's append is under way, or may begin now.
    pub(crate) fn take(&mut self, key: EndKey, id: Id) -> bool {
        *self.end(key).holder.get_or_insert(id) == id
    }

    /// Puts an append in line.
    pub(crate) fn line_up(&mut self, key: EndKey, one: InLine, is_known: impl Fn(Id) -> bool) {
        let end = self.end(key);
        if end.line.len() >= end.line_full.max(LINE_SHORT) {
            end.line.extract(|other| !is_known(other.id));
            end.line_full = end.line.len() * 2;
        }
        let is_later = |other: &InLine| other.arrival > one.arrival;
        end.line.insert(one.priority, one, is_later);
    }

    /// Whether any append is under way. If none is, the line is empty.
    pub(crate) fn is_held(&self, key: EndKey) -> bool {
        self.0.get(&key).is_some_and(|end| end.holder.is_some())
    }

    /// Whether a request's append is under way.
    pub(crate) fn is_held_by(&self, key: EndKey, id: Id) -> bool {
        let end = self.0.get(&key);
        end.is_some_and(|end| end.holder == Some(id))
    }

    /// Returns the place of an append of `len` bytes to a file that ends at `at`; `None`: it would
    /// end beyond 2^64.
    pub(crate) fn place(&mut self, key: EndKey, at: u64, len: u64) -> Option<u64> {
        let at = at.max(self.end(key).lost);
        at.checked_add(len).map(|_| at)
    }

    /// An operation of the append under way is issued.
    pub(crate) fn issued(&mut self, key: EndKey) {
        self.end(key).is_out = true;
    }

    /// An operation of the append under way has ended: the end is given back, or kept by
    /// [`Ends::hold`]. Returns its request.
    pub(crate) fn operation_ended(&mut self, key: EndKey) -> Option<Id> {
        let end = self.end(key);
        end.is_out = false;
        end.holder.take()
    }

    /// An operation never comes back that writes up to `to`.
    pub(crate) fn lost(&mut self, key: EndKey, to: u64) {
        let end = self.end(key);
        end.lost = end.lost.max(to);
        (end.is_out, end.holder) = (false, None);
    }

    /// The append under way goes on, or its turn comes.
    pub(crate) fn hold(&mut self, key: EndKey, id: Id) {
        self.end(key).holder = Some(id);
    }

    /// A request ends, or is held back; returns whether its append was under way, and has no
    /// operation in flight.
    pub(crate) fn leave(&mut self, key: EndKey, id: Id) -> bool {
        let end = self.end(key);
        let leaves = end.holder == Some(id) && !end.is_out;
        if leaves {
            end.holder = None;
        }
        leaves
    }

    /// Takes the first in line.
    pub(crate) fn next(&mut self, key: EndKey) -> Option<InLine> {
        self.end(key).line.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StorageNumber;

    const KEY: EndKey = (1, 2);

    /// Ids of `storage`, which gives its number back at the end.
    fn one(storage: StorageNumber, number: u32) -> InLine {
        InLine {
            id: Id::new(storage, number, 1),
            len: 1,
            priority: Priority::Normal,
            arrival: number.into(),
        }
    }

    #[test]
    fn appends_are_in_the_order_of_arrival_whenever_they_line_up() {
        let (storage, first) = StorageNumber::take().expect("a number");
        let mut ends = Ends::default();
        ends.opened(KEY);
        let mut numbers: Vec<u32> = (0..100).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut numbers);
        for number in numbers {
            ends.line_up(KEY, one(storage, number), |_| true);
        }
        for number in 0..100 {
            assert_eq!(ends.next(KEY).map(|one| one.arrival), Some(number));
        }
        assert!(ends.next(KEY).is_none());
        storage.give_back(first);
    }

    #[test]
    fn a_line_whose_appends_end_before_their_turn_stays_short() {
        let (storage, first) = StorageNumber::take().expect("a number");
        let mut ends = Ends::default();
        ends.opened(KEY);
        let lives = |id: Id, now: u32| id.index() == 0 || id.index() + 10 > now;
        for number in 0..100_000 {
            ends.line_up(KEY, one(storage, number), |id| lives(id, number));
            assert!(ends.end(KEY).line.len() <= LINE_SHORT);
        }
        assert_eq!(ends.next(KEY).map(|one| one.arrival), Some(0));
        storage.give_back(first);
    }
}
