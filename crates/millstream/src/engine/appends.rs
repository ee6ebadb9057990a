//! Appends: one operation at a time for each file (`files/ends.rs`).
//!
//! The request whose turn it is passes the scheduler like others. Before its first operation is
//! issued, the length of the file is asked for (on mounts that can hang by a call); small appends
//! that are next in line are copied behind it, and written with it: their memory is not lent to the
//! kernel. What a short or failed operation did not write of these goes back to the head of the
//! line; the request in which it ended fails. An append of several blocks keeps its turn until its
//! last one, and once it has begun is held back by no pause.

use millstream_io::Buffer;
use millstream_io::device::calls::Call;
use millstream_io::error::guard;

use super::columns::{flag, is_known};
use super::intake::file_system_panicked;
use super::issue::Issue;
use super::{Engine, Flow, What};
use crate::caller::request::Verb;
use crate::caller::waits::WaitsFor;
use crate::decode::jobs::Lent;
use crate::engine::files::{EndKey, InLine};
use crate::engine::state::{Event, State};
use crate::engine::transfers::{Block, Copied, Lane, Members};
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::limits::{APPEND_BYTES_MAX, APPEND_COPY_BYTES_MAX, APPENDS_MAX};
use crate::priority::Priority;

impl Engine {
    /// Issues the next operation of an append, or has it wait for others.
    #[cold]
    pub(super) fn issue_append(&mut self, index: u32, priority: Priority) -> Issue {
        let body = *self.side.peek(index);
        let file = body.file.0.index();
        let key = self.files.end_of(file);
        let one = self.in_line(index, priority);
        if !self.files.ends.take(key, one.id) {
            self.leave(index, Event::Hold);
            self.line_up(key, one);
            return Issue::Left;
        }
        if self.is_full(file, Lane::Main) {
            return Issue::Full;
        }
        if self.cols[index as usize].issued == 0 {
            let end = match self.file_end(index) {
                Ok(end) => end,
                Err(issue) => return issue,
            };
            let members = self.followers_in_line(one, file, key);
            if !members.is_empty() {
                let total: u64 = members.iter().map(|one| one.len).sum();
                let buffer = self.shared.buffers.take(total as usize).ok();
                let place = self.files.ends.place(key, end, total);
                if let (Some(at), Some(buffer)) = (place, buffer) {
                    return self.begin_appends(members, at, buffer, priority);
                }
                for follower in &members[1..] {
                    self.line_up(key, *follower);
                }
            }
            let Some(at) = self.files.ends.place(key, end, body.len) else {
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

    fn in_line(&self, index: u32, priority: Priority) -> InLine {
        InLine {
            id: self.id(index),
            len: self.side.peek(index).len,
            priority,
            arrival: self.cols[index as usize].arrival,
        }
    }

    fn line_up(&mut self, key: EndKey, one: InLine) {
        let cols = &self.cols;
        let ends = &mut self.files.ends;
        ends.line_up(key, one, |id| is_known(cols, id));
        let index = one.id.index();
        self.waits(index, WaitsFor::Earlier);
        self.pass_place_of(index);
    }

    /// The length of the file of an append that begins.
    fn file_end(&mut self, index: u32) -> Result<u64, Issue> {
        let file = self.files.at(self.side.peek(index).file.0.index());
        let descriptor = file.descriptor().expect("a file with users is open");
        if !file.can_hang() {
            let fs = &self.shared.fs;
            return match guard(|| fs.len(descriptor)) {
                Some(Ok(len)) => Ok(len),
                Some(Err(error)) => Err(self.fail(index, error.into())),
                None => Err(self.fail(index, file_system_panicked())),
            };
        }
        if self.cols[index as usize].has(flag::ASKED) {
            // The answer has come: its own, whatever others have asked since.
            self.cols[index as usize].flags &= !flag::ASKED;
            return Ok(self.side.peek(index).offset);
        }
        self.unschedule(index);
        self.ask_file(index, Call::Len);
        Err(Issue::Left)
    }

    /// Takes appends out of the line that are written with the first, if that is small. Returns
    /// them all, or none if there are no others.
    fn followers_in_line(&mut self, first: InLine, file: u32, key: EndKey) -> Vec<InLine> {
        let (mut members, mut total) = (Vec::new(), first.len);
        while first.len <= APPEND_COPY_BYTES_MAX
            && members.len() < APPENDS_MAX
            && let Some(one) = self.next_in_line(key)
        {
            let is_of_file = self.side.peek(one.id.index()).file.0.index() == file;
            let fits = one.len <= APPEND_COPY_BYTES_MAX && total + one.len <= APPEND_BYTES_MAX;
            if !fits || !is_of_file {
                self.line_up(key, one);
                break;
            }
            if members.is_empty() {
                members.push(first);
            }
            members.push(one);
            total += one.len;
        }
        members
    }

    /// Takes the next append out of the line that has not ended, and that its queue does not hold
    /// back.
    fn next_in_line(&mut self, key: EndKey) -> Option<InLine> {
        while let Some(one) = self.files.ends.next(key) {
            let is_alive = is_known(&self.cols, one.id) && {
                let col = &self.cols[one.id.index() as usize];
                col.state == State::Gated && col.ending.is_none()
            };
            if is_alive && !self.is_held_in_line(one.id.index()) {
                return Some(one);
            }
        }
        None
    }

    /// Whether the queue of an append in line is paused or out of bandwidth: it waits for that now.
    fn is_held_in_line(&mut self, index: u32) -> bool {
        if !self.queues.are_limited() || !self.is_limited_now(index) {
            return false;
        }
        self.hold(index);
        true
    }

    /// Puts an append back in line that its queue held back, unless its file was closed: with the
    /// next event, it might come behind later ones of its queue. Returns whether it did.
    fn line_up_again(&mut self, index: u32) -> bool {
        let col = &self.cols[index as usize];
        if col.verb != Verb::Append || col.ending.is_some() {
            return false;
        }
        let priority = col.priority;
        let file = self.files.peek_at(self.side.peek(index).file.0.index());
        let end = file.end().filter(|_| file.descriptor().is_some());
        let Some(key) = end else {
            return false;
        };
        let flow = self.need_file(index);
        assert!(flow.is_none(), "the file is open");
        self.line_up(key, self.in_line(index, priority));
        if !self.files.ends.is_held(key) {
            self.next_append(key);
        }
        true
    }

    /// A request goes on that its queue held back.
    pub(super) fn let_go(&mut self, id: Id) {
        if !self.line_up_again(id.index()) {
            self.events.push_back((id, What::Released));
        }
    }

    /// Begins the operation of several appends, the first of which was picked.
    fn begin_appends(
        &mut self,
        members: Vec<InLine>,
        at: u64,
        mut buffer: Buffer,
        priority: Priority,
    ) -> Issue {
        let first = members[0].id.index();
        let mut copied = 0;
        for one in &members {
            let (index, bytes) = (one.id.index(), one.len as usize);
            let body = self.side.body(index);
            body.offset = at + copied as u64;
            let from = Lent::new(body.pointer, bytes);
            from.copy_to(&mut buffer[copied..copied + bytes]);
            copied += bytes;
            let col = &mut self.cols[index as usize];
            col.issued = one.len;
            col.operations += 1;
            match index == first {
                true => self.leave(index, Event::Issued),
                false => self.join_append(index, one.len),
            }
            self.waits(index, WaitsFor::Device);
        }
        let body = *self.side.peek(first);
        let mut block = self.write_block(&body, at, copied as u64, priority, buffer.base());
        block.append = true;
        self.find_lane(&mut block);
        self.count_issued(first, &block, members[0].len);
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
                for one in copied.requests {
                    let (id, len) = (one.id, one.len);
                    let part = Block {
                        offset: block.offset + at,
                        want: len,
                        ..*block
                    };
                    match at {
                        at if at + len <= landed => {
                            self.member_back(id, len, started_ns, &part, Ok(()));
                        }
                        at if at > landed => rest.push(one),
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
            None => self.next_append(key),
        }
    }

    /// Whether it is a request's turn to append.
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
    fn back_to_line(&mut self, rest: Vec<InLine>, key: EndKey) {
        for one in rest {
            if !self.is_known(one.id) {
                self.quarantine_back(one.id, 1, 0);
                continue;
            }
            let index = one.id.index();
            let col = &mut self.cols[index as usize];
            col.operations -= 1;
            if col.ending.is_some() {
                let flow = self.after_out(index);
                self.follow(index, flow);
                continue;
            }
            col.issued = 0;
            col.state.on(Event::Hold);
            self.line_up(key, one);
        }
    }

    /// Begins the next append in line.
    pub(super) fn next_append(&mut self, key: EndKey) {
        if let Some(one) = self.next_in_line(key) {
            self.files.ends.hold(key, one.id);
            self.follow(one.id.index(), Flow::Runnable);
        }
    }

    /// The request of an append ends, or is held back before it has begun: the next one begins.
    pub(super) fn give_turn_on(&mut self, index: u32) {
        let file = self.side.peek(index).file.0.index();
        let id = self.id(index);
        if let Some(key) = self.files.peek_at(file).end()
            && self.files.ends.leave(key, id)
        {
            self.next_append(key);
        }
    }

    /// The operation of an append never comes back: the next one goes behind its place.
    pub(super) fn append_lost(&mut self, block: &Block) {
        let key = self.files.end_of(block.file);
        self.files.ends.lost(key, block.offset + block.want);
        self.next_append(key);
    }
}
