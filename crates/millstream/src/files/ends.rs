//! Where appends go: the end of a file, one for all handles that lead to it.
//!
//! One operation appends at a time, so that those behind a short or failed one follow its real end,
//! and a canceled one leaves no hole. Appends that find the end taken wait in line; those in line
//! become one operation together. A line has at most [`APPEND_LINE_BYTES`]: others wait behind it,
//! without a place, so that higher priorities can pass them.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use millstream_io::{Known, Numbering};
use xxhash_rust::xxh3::xxh3_64;

use crate::ids::Id;
use crate::limits::{APPEND_LINE_BYTES, APPENDS_MAX};

/// Device and inode. Where these do not name a file for certain, the path stands for it.
pub(crate) type EndKey = (u64, u64);

#[derive(Default)]
struct End {
    /// Behind everything that was written, and what the append under way writes.
    at: u64,
    /// Handles that are open for writing.
    files: u32,
    /// The request whose append is under way.
    holder: Option<Id>,
    /// An operation of it is in flight.
    is_out: bool,
    /// The end of the place of the last append.
    placed: u64,
    /// Appends that are next, with their bytes; the sum of these.
    line: VecDeque<(Id, u64)>,
    line_bytes: u64,
    behind: VecDeque<Id>,
}

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

    /// A handle was opened for writing, the first time, and its file has `len` bytes.
    pub(super) fn opened(&mut self, key: EndKey, len: u64) {
        let end = self.0.entry(key).or_default();
        end.files += 1;
        // Another process, or a truncation, may have moved it.
        end.at = match end.holder {
            None => len,
            Some(_) => end.at.max(len),
        };
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

    /// A write up to `end` has landed.
    pub(super) fn grew(&mut self, key: EndKey, end: u64) {
        let own = self.end(key);
        own.at = own.at.max(end);
    }

    /// Whether an append is under way, or may begin now; if not, it waits in line.
    pub(crate) fn take(&mut self, key: EndKey, id: Id, len: u64) -> bool {
        let end = self.end(key);
        if *end.holder.get_or_insert(id) == id {
            return true;
        }
        if end.line_bytes < APPEND_LINE_BYTES {
            end.line.push_back((id, len));
            end.line_bytes += len;
        } else {
            end.behind.push_back(id);
        }
        false
    }

    /// Whether a request's append is under way.
    pub(crate) fn is_held_by(&self, key: EndKey, id: Id) -> bool {
        let end = self.0.get(&key);
        end.is_some_and(|end| end.holder == Some(id))
    }

    /// Returns the place of an append of `len` bytes that begins; `None`: it would end beyond 2^64.
    pub(crate) fn place(&mut self, key: EndKey, len: u64) -> Option<u64> {
        let end = self.end(key);
        let at = end.at;
        end.at = at.checked_add(len)?;
        end.placed = end.at;
        Some(at)
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

    /// The append under way goes on.
    pub(crate) fn hold(&mut self, key: EndKey, id: Id) {
        self.end(key).holder = Some(id);
    }

    /// A request ends; returns whether its append was under way, and has no operation in flight.
    pub(crate) fn leave(&mut self, key: EndKey, id: Id) -> bool {
        let end = self.end(key);
        let leaves = end.holder == Some(id) && !end.is_out;
        if leaves {
            end.holder = None;
        }
        leaves
    }

    /// Of the last append that had a place, only the bytes up to `landed` are in the file: the next
    /// one follows these, unless a write has moved the end.
    pub(crate) fn landed(&mut self, key: EndKey, landed: u64) {
        let end = self.end(key);
        if landed < end.placed && end.at == end.placed {
            end.at = landed;
        }
    }

    /// The first in line.
    pub(crate) fn first_in_line(&mut self, key: EndKey) -> Option<(Id, u64)> {
        self.end(key).line.front().copied()
    }

    /// Takes the first in line.
    pub(crate) fn next_in_line(&mut self, key: EndKey) -> Option<Id> {
        let end = self.end(key);
        let (id, len) = end.line.pop_front()?;
        end.line_bytes -= len;
        Some(id)
    }

    /// Puts appends back that were taken out of the line, in order.
    pub(crate) fn put_back(&mut self, key: EndKey, appends: &[(Id, u64)]) {
        let end = self.end(key);
        for append in appends.iter().rev() {
            end.line_bytes += append.1;
            end.line.push_front(*append);
        }
    }

    /// Takes some of those that wait behind the line, which has room.
    pub(crate) fn take_behind(&mut self, key: EndKey) -> Vec<Id> {
        let end = self.end(key);
        match end.line_bytes < APPEND_LINE_BYTES {
            true => end
                .behind
                .drain(..end.behind.len().min(APPENDS_MAX))
                .collect(),
            false => Vec::new(),
        }
    }
}
