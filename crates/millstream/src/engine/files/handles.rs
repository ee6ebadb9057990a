//! The handles of one path: what they share, and when one uses the descriptors of another.
//!
//! Handles of a path form a ring. They share the order and the errors of writes (`writes.rs`). A
//! handle shares another one's descriptors if it was opened in the same way, to read only, and both
//! certainly have the same file: the other's first open had not begun when the handle was made, or
//! a look at the path, made later, found the identity of its open file, on a file system where that
//! cannot belong to another. One look serves all handles that were made before it. Requests of a
//! handle that shares are passed on to the other, which lives until both are closed.

use std::sync::Arc;

use millstream_io::{IoError, Known, Numbering, OwnedDescriptor};

use super::file::{Phase, Urgency};
use super::{File, Files};
use crate::ids::FileId;

/// A look at a path, for handles that may share the descriptors of `file`.
pub(crate) struct Look {
    pub(crate) file: u32,
    pub(crate) handles: Vec<u32>,
}

impl Files {
    /// Links a new handle with the others of its path; returns one of these, the newest if that
    /// lives.
    pub(super) fn link(&mut self, index: u32) -> Option<u32> {
        let place = Arc::clone(&self.at(index).place);
        let other = self.places.insert(place, index)?;
        let next = self.at(other).next;
        self.at(other).next = index;
        self.at(next).before = index;
        let writes = self.at(other).writes;
        let since = writes.map_or(0, |writes| {
            let writes = &mut self.writes[writes as usize];
            writes.users += 1;
            writes.next_error()
        });
        let file = self.at(index);
        (file.before, file.next, file.writes) = (other, next, writes);
        file.errors_since = since;
        Some(other)
    }

    /// Takes a handle that is freed out of its ring.
    pub(super) fn unlink(&mut self, index: u32) {
        let file = self.at(index);
        let (before, next, writes) = (file.before, file.next, file.writes);
        let place = Arc::clone(&file.place);
        self.at(before).next = next;
        self.at(next).before = before;
        if self.places.get(&place) == Some(&index) {
            match before == index {
                true => self.places.remove(&place),
                false => self.places.insert(place, before),
            };
        }
        if let Some(writes) = writes {
            self.leave_writes(writes);
        }
    }

    /// Has a new handle share the descriptors of another, or asks whether it may; false: it must be
    /// opened.
    pub(super) fn share(&mut self, index: u32, other: u32) -> bool {
        let other = match self.peek_at(other).phase {
            Phase::Shared(owner) | Phase::Looking(owner) => owner,
            _ => other,
        };
        let (file, owner) = (self.peek_at(index), self.peek_at(other));
        if file.options != owner.options || file.options.write || owner.options.changes() {
            return false;
        }
        let is_first = owner.known.is_none();
        match owner.phase {
            Phase::Queued(..) if is_first && !owner.opened_once => {
                self.at(other).hold();
                self.at(index).phase = Phase::Shared(other);
                return true;
            }
            Phase::Opening if is_first => {}
            Phase::Open(_) if owner.is_named_for_certain() => {
                let id = owner.id;
                self.looks.push(id);
            }
            _ => return false,
        }
        let owner = self.at(other);
        owner.hold();
        owner.attach();
        owner.sharers.push(index);
        self.at(index).phase = Phase::Looking(other);
        true
    }

    /// Before the first open of a handle for writing: notes the handles of its path whose
    /// descriptors lead to another file afterwards, on overlay; returns what identifies these.
    pub(super) fn note_readers(&mut self, index: u32) -> Vec<Known> {
        let file = self.peek_at(index);
        let (mut next, mut readers, mut known) = (file.next, Vec::new(), Vec::new());
        while file.options.write && file.known.is_none() && next != index {
            let other = self.peek_at(next);
            if let Some(of_file) = other.known {
                if of_file.numbering != Numbering::Layered {
                    break;
                }
                if !other.options.write && other.pinned.is_none() {
                    readers.push(other.id);
                    known.push(of_file);
                }
            }
            next = other.next;
        }
        self.at(index).readers = readers;
        known
    }

    /// Gives a handle a new descriptor in place of its own.
    pub(super) fn renew(&mut self, reader: FileId, descriptor: OwnedDescriptor, writer: u32) {
        self.descriptors += 1;
        let index = reader.0.index();
        let is_open = |file: &&mut File| file.descriptor().is_some() && !file.is_being_opened();
        let Some(file) = self.get(reader).filter(is_open) else {
            // Closed meanwhile: it is opened again when it is needed.
            return self.close_later(writer, descriptor);
        };
        let direct = file.take_direct();
        let before = std::mem::replace(&mut file.phase, Phase::Open(descriptor));
        if let Phase::Open(before) = before {
            file.replaced.push(before);
        }
        file.replaced.extend(direct);
        if file.operations == 0 {
            self.close_replaced(index);
        }
    }

    pub(super) fn close_replaced(&mut self, index: u32) {
        for descriptor in std::mem::take(&mut self.at(index).replaced) {
            self.close_later(index, descriptor);
        }
    }

    /// The open of a file has ended: handles that wait to share its descriptors look at the path,
    /// or are opened themselves.
    pub(super) fn note_sharers(&mut self, owner: u32) {
        let file = self.at(owner);
        if file.sharers.is_empty() {
            return;
        }
        match file.phase {
            Phase::Open(_) if file.is_named_for_certain() => {
                let id = file.id;
                self.looks.push(id);
            }
            _ => {
                for index in std::mem::take(&mut self.at(owner).sharers) {
                    self.open_apart(index, owner);
                }
            }
        }
    }

    /// Opens a handle that was to share the descriptors of `owner`.
    fn open_apart(&mut self, index: u32, owner: u32) {
        let file = self.at(index);
        file.phase = Phase::Closed;
        let urgency = match file.waiters.is_empty() {
            true => Urgency::Ahead,
            false => Urgency::Urgent,
        };
        self.want(index, urgency);
        let id = self.at(index).id;
        self.requeued.push(id);
        self.release_owner(owner, true);
    }

    /// A handle shares the descriptors of another, or waits for that, no more.
    pub(super) fn release_owner(&mut self, owner: u32, attached: bool) {
        if self.release(owner, attached) {
            let id = self.at(owner).id;
            self.unneeded.push(id);
        }
    }

    /// The next look to be made, and whether a request waits for it.
    pub(crate) fn next_look(&mut self) -> Option<(Look, bool)> {
        loop {
            let id = self.looks.pop()?;
            let Some(file) = self.get(id) else {
                continue;
            };
            let handles = std::mem::take(&mut file.sharers);
            if !handles.is_empty() {
                let mut all = handles.iter();
                let urgent = all.any(|handle| !self.peek_at(*handle).waiters.is_empty());
                let file = id.0.index();
                return Some((Look { file, handles }, urgent));
            }
        }
    }

    /// Takes the answer of a look.
    pub(crate) fn looked(&mut self, look: Look, found: &Result<Known, IoError>) {
        let owner = self.peek_at(look.file);
        let is_open = matches!(owner.phase, Phase::Open(_));
        let known = owner.known.filter(|_| is_open).zip(found.as_ref().ok());
        let is_same = known.is_some_and(|(known, found)| known.is_same(found));
        let owner = self.at(look.file);
        if let Some((_, found)) = known.filter(|_| is_same) {
            // Other processes may have changed it since.
            owner.set_len(found.len);
        }
        for index in look.handles {
            if is_same {
                self.at(index).phase = Phase::Shared(look.file);
                self.detach(look.file);
            } else {
                self.open_apart(index, look.file);
            }
        }
    }
}
