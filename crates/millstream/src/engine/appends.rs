//! Appends: one operation at a time for each file (`files/ends.rs`).
//!
//! The request that has the end passes the scheduler like others. When its first operation is
//! issued, small appends that are next in line are copied behind it, and written with it: their
//! memory is not lent to the kernel. What a short or failed operation did not write of these goes
//! back to the head of the line; the request in which it ended fails. An append of several blocks
//! keeps the end until its last one, and is held back by no pause meanwhile.

use millstream_io::Buffer;

use super::columns::is_known;
use super::issue::Issue;
use super::{Engine, Flow, What};
use crate::decode::jobs::Lent;
use crate::error::{Error, ErrorKind};
use crate::files::EndKey;
use crate::ids::Id;
use crate::limits::{APPEND_COPY_BYTES_MAX, APPEND_LINE_BYTES, APPENDS_MAX};
use crate::priority::Priority;
use crate::request::Verb;
use crate::state::{Event, State};
use crate::transfers::{Block, Copied, Lane, Members};
use crate::waits::WaitsFor;

impl Engine {
    /// Issues the next operation of an append, or has it wait for others.
    #[cold]
    pub(super) fn issue_append(&mut self, index: u32, priority: Priority) -> Issue {
        let (id, body) = (self.id(index), *self.side.peek(index));
        let file = body.file.0.index();
        let key = self.files.end_of(file);
        if !self.files.ends.take(key, id, body.len) {
            self.leave(index, Event::Hold);
            self.waits(index, WaitsFor::Earlier);
            return Issue::Left;
        }
        if self.is_full(file, Lane::Main) {
            return Issue::Full;
        }
        if self.cols[index as usize].issued == 0 {
            let members = self.followers_in_line((id, body.len), file, key);
            let total: u64 = members.iter().map(|(_, len)| len).sum();
            if members.len() > 1 {
                let buffer = self.shared.buffers.take(total as usize).ok();
                let place =
                    buffer.and_then(|buffer| Some((self.files.ends.place(key, total)?, buffer)));
                if let Some((at, buffer)) = place {
                    return self.begin_appends(members, at, buffer, priority);
                }
                self.files.ends.put_back(key, &members[1..]);
            }
            let Some(at) = self.files.ends.place(key, body.len) else {
                let cause = "the file would end beyond 2^64";
                return self.fail(index, Error::new(ErrorKind::Overflow, cause));
            };
            self.side.body(index).offset = at;
        }
        let body = *self.side.peek(index);
        let (mut block, bytes) = self.plan_write(index, &body, priority);
        block.append = true;
        self.files.ends.issued(key);
        self.push_plain(index, block, bytes);
        let col = &self.cols[index as usize];
        if col.issued < col.len {
            // Its next block follows this one's end.
            self.leave(index, Event::Issued);
        }
        Issue::Issued
    }

    /// Takes appends out of the line that are written with the first, if that is small.
    fn followers_in_line(&mut self, first: (Id, u64), file: u32, key: EndKey) -> Vec<(Id, u64)> {
        let (mut members, mut total) = (vec![first], first.1);
        if total > APPEND_COPY_BYTES_MAX {
            return members;
        }
        while let Some((id, len)) = self.files.ends.first_in_line(key)
            && members.len() < APPENDS_MAX
        {
            let fits = len <= APPEND_COPY_BYTES_MAX && total + len <= APPEND_LINE_BYTES;
            let is_waiting = self.is_in_line(id);
            if is_waiting && !(fits && self.side.peek(id.index()).file.0.index() == file) {
                break;
            }
            self.files.ends.next_in_line(key);
            if is_waiting {
                members.push((id, len));
                total += len;
            }
        }
        members
    }

    /// Whether an append that was put in line still waits there.
    fn is_in_line(&self, id: Id) -> bool {
        is_known(&self.cols, id) && {
            let col = &self.cols[id.index() as usize];
            col.state == State::Gated && col.ending.is_none()
        }
    }

    /// Begins the operation of several appends, the first of which was picked.
    fn begin_appends(
        &mut self,
        members: Vec<(Id, u64)>,
        at: u64,
        mut buffer: Buffer,
        priority: Priority,
    ) -> Issue {
        let first = members[0].0.index();
        let mut copied = 0;
        for (id, len) in &members {
            let (index, bytes) = (id.index(), *len as usize);
            let body = self.side.body(index);
            body.offset = at + copied as u64;
            let from = Lent::new(body.pointer, bytes);
            from.copy_to(&mut buffer[copied..copied + bytes]);
            copied += bytes;
            let col = &mut self.cols[index as usize];
            col.issued = *len;
            col.operations += 1;
            match index == first {
                true => self.leave(index, Event::Issued),
                false => self.join_append(index, *len),
            }
            self.waits(index, WaitsFor::Device);
        }
        let body = *self.side.peek(first);
        let mut block = self.write_block(&body, at, copied as u64, priority, buffer.base());
        block.append = true;
        self.find_lane(&mut block);
        self.count_issued(first, &block, members[0].1);
        self.shared.counters.merged_operations.add(1);
        self.files.ends.issued(self.files.end_of(block.file));
        let copied = Copied {
            requests: members,
            _buffer: buffer,
        };
        self.transfers.begin_copied(copied, block, self.now_ns);
        Issue::Left
    }

    /// An append leaves the line, to be written with the one before it.
    fn join_append(&mut self, index: u32, len: u64) {
        self.cols[index as usize].state.on(Event::Work);
        if self.queues.are_limited() {
            self.spend_bandwidth(index, len);
        }
    }

    /// Takes the end of an operation of an append, of which `landed` bytes are in the file.
    #[cold]
    pub(super) fn append_back(
        &mut self,
        members: Members,
        block: &Block,
        started_ns: u64,
        landed: u64,
        error: Option<Error>,
    ) {
        let key = self.files.end_of(block.file);
        let holder = self.files.ends.operation_ended(key);
        match members {
            Members::Copied(copied) => {
                let mut rest = Vec::new();
                let mut at = 0;
                for (id, len) in copied.requests {
                    let part = Block {
                        offset: block.offset + at,
                        want: len,
                        ..*block
                    };
                    match at {
                        at if at + len <= landed => {
                            self.member_back(id, len, started_ns, &part, Ok(()));
                        }
                        at if at > landed => rest.push((id, len)),
                        _ => {
                            let failed = Err(error.clone());
                            self.member_back(id, len, started_ns, &part, failed);
                        }
                    }
                    at += len;
                }
                self.back_to_line(rest, key);
            }
            Members::One(id) => {
                let result = match landed >= block.need {
                    true => Ok(()),
                    false => Err(error),
                };
                self.member_back(id, block.want, started_ns, block, result);
            }
            Members::Many(_) => unreachable!("appends are not merged in place"),
        }
        match holder.filter(|id| self.has_more_to_append(*id)) {
            Some(id) => self.files.ends.hold(key, id),
            None => {
                self.files.ends.landed(key, block.offset + landed);
                self.next_append(key);
            }
        }
    }

    /// Whether a request's append is under way.
    pub(super) fn holds_end(&mut self, index: u32) -> bool {
        if self.cols[index as usize].verb != Verb::Append {
            return false;
        }
        let id = self.id(index);
        let end = self
            .files
            .peek_at(self.side.peek(index).file.0.index())
            .end();
        end.is_some_and(|key| self.files.ends.is_held_by(key, id))
    }

    fn has_more_to_append(&self, id: Id) -> bool {
        is_known(&self.cols, id) && {
            let col = &self.cols[id.index() as usize];
            col.verb == Verb::Append && col.ending.is_none() && (1..col.len).contains(&col.issued)
        }
    }

    /// Puts appends back in line that an operation did not write.
    fn back_to_line(&mut self, mut rest: Vec<(Id, u64)>, key: EndKey) {
        rest.retain(|(id, _)| {
            if !self.is_known(*id) {
                self.quarantine_back(*id, 1, 0);
                return false;
            }
            let index = id.index();
            let col = &mut self.cols[index as usize];
            col.operations -= 1;
            if col.ending.is_some() {
                let flow = self.after_out(index);
                self.follow(index, flow);
                return false;
            }
            col.issued = 0;
            col.state.on(Event::Hold);
            self.waits(index, WaitsFor::Earlier);
            true
        });
        self.files.ends.put_back(key, &rest);
    }

    /// Begins the next append in line.
    pub(super) fn next_append(&mut self, key: EndKey) {
        while let Some(id) = self.files.ends.next_in_line(key) {
            if self.is_in_line(id) {
                self.files.ends.hold(key, id);
                self.follow(id.index(), Flow::Runnable);
                break;
            }
        }
        let behind = self.files.ends.take_behind(key);
        self.events
            .extend(behind.into_iter().map(|id| (id, What::Released)));
    }

    /// The request of an append ends.
    pub(super) fn append_ends(&mut self, index: u32, file: u32) {
        let (id, issued) = (self.id(index), self.cols[index as usize].issued);
        let Some(key) = self.files.peek_at(file).end() else {
            return;
        };
        if self.files.ends.leave(key, id) {
            if issued > 0 {
                let end = self.side.peek(index).offset + issued;
                self.files.ends.landed(key, end);
            }
            self.next_append(key);
        }
    }

    /// The operation of an append never comes back: the next one goes behind its place.
    pub(super) fn append_lost(&mut self, block: &Block) {
        let key = self.files.end_of(block.file);
        self.files.ends.operation_ended(key);
        self.next_append(key);
    }
}
