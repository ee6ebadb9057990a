//! The end of a request, and of a round: outcomes, effects of ordered entries, released capacity.

use std::sync::Arc;

use millstream_io::error::guard;

use super::columns::{Extra, flag, held_key, staged_of};
use super::{Engine, Flow, What};
use crate::caller::queue::Fifo;
use crate::caller::request::{Rare, Verb};
use crate::engine::staged::Staged;
use crate::engine::state::Event;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::closed_error;
use crate::handover::waiters::wake_all;
use crate::ids::FileId;
use crate::stats::Counters;
use crate::trace::Track;

impl Engine {
    /// Fails, cancels or times out a request, which ends once nothing of it is out.
    pub(super) fn end_wanted(&mut self, index: u32, error: Error) -> Flow {
        if self.cols[index as usize].ending.is_some() {
            return Flow::Wait;
        }
        self.withdraw_offer(index);
        self.unschedule(index);
        let col = &mut self.cols[index as usize];
        col.ending = Some(error);
        match col.is_out() {
            true => {
                col.state.on(Event::Drain);
                self.externals.any_ended = true;
                self.drain(index);
                Flow::Wait
            }
            false => self.drained(index),
        }
    }

    /// Gives back what an ending request needs no more: what is out of it may be with the
    /// application, which takes its time.
    pub(super) fn drain(&mut self, index: u32) {
        self.detach_file(index);
        self.waits_for_out(index);
        if self.staged(index).is_some() {
            staged_of(&mut self.extras, index).give_back_idle(&mut self.staging);
        }
    }

    /// Ends a request of which nothing is out any more.
    pub(super) fn drained(&mut self, index: u32) -> Flow {
        let col = &mut self.cols[index as usize];
        assert!(!col.is_out(), "memory is out until it is back");
        Flow::End(col.ending.take())
    }

    /// Ends a request. Nothing looks at its slot afterwards.
    #[inline]
    pub(super) fn finish(&mut self, index: u32, error: Option<Error>) {
        let (error, bytes) = match error {
            None => (None, self.landed_bytes(index)),
            Some(error) => (Some(self.describe(index, error)), 0),
        };
        let kind = error.as_ref().map(Error::kind);
        self.externals.any_ended |= kind.is_some();
        if self.shared.recorder.is_on() {
            let start_ns = self.cols[index as usize].submitted_ns;
            self.trace(Track::Queue, start_ns, self.now_ns, bytes, index);
        }
        let col = &mut self.cols[index as usize];
        assert!(!col.is_out(), "a request ends with nothing out");
        col.state.on(Event::End);
        let (queue, sequence, flags) = (u32::from(col.queue), col.sequence, col.flags);
        let key = held_key(col.priority, col.arrival);
        let latency = self.now_ns.saturating_sub(col.submitted_ns);
        let counters = &self.shared.counters;
        counters.latency[col.priority as usize].add(latency);
        count_end(counters, kind, bytes);
        if flags & flag::HOLDS != 0 {
            self.release_file(index, flags, error.as_ref());
        }
        let charged = match flags & (flag::EXTRA | flag::USUAL) {
            0 => 0,
            _ => self.drop_extra(index, flags, kind, bytes),
        };
        let state = self.queues.touch(queue);
        if !state.held.is_empty() {
            state.held.remove(&key);
        }
        if let (Some(error), Some(kind)) = (&error, kind)
            && kind != ErrorKind::Canceled
        {
            state.failed(sequence, kind);
            state.shared.record_failure(sequence, error);
        }
        let ended = self.side.end(index, bytes, error);
        state.completed(sequence, charged, ended);
    }

    /// Raw bytes that landed, or bytes that were written.
    #[inline]
    pub(super) fn landed_bytes(&self, index: u32) -> u64 {
        let col = &self.cols[index as usize];
        match col.verb {
            Verb::Sync | Verb::Names | Verb::Info => 0,
            Verb::Write | Verb::Append | Verb::Prefetch => col.len,
            Verb::Read | Verb::Memory => match self.staged(index) {
                Some(staged) => staged.landed_len().unwrap_or(0),
                None => col.len,
            },
        }
    }

    pub(super) fn staged(&self, index: u32) -> Option<&Staged> {
        self.extra_of(index)?.staged.as_deref()
    }

    /// Whether a request has a window of staging whose operations are not all issued.
    #[inline(always)]
    pub(super) fn has_open_window(&self, index: u32) -> bool {
        self.staged(index).is_some_and(Staged::has_open_window)
    }

    /// Adds the file, range and name of its request to an error.
    pub(super) fn describe(&mut self, index: u32, error: Error) -> Error {
        let col = &self.cols[index as usize];
        let body = self.side.peek(index);
        let (range, len) = (body.offset, if col.len > 0 { col.len } else { body.len });
        let path = self
            .files
            .peek(body.file)
            .map(|file| Arc::clone(&file.path));
        let path = path.or_else(|| self.extra_of(index)?.path.clone());
        let name = self.rare(index).and_then(|rare| rare.name.clone());
        // A block of a table names its own place, maybe in another file.
        error.or_at(path, range, len).named(name)
    }

    pub(super) fn rare(&self, index: u32) -> Option<&Rare> {
        Some(&self.extra_of(index)?.rare)
    }

    /// The extra part of a request, if it has one.
    pub(super) fn extra_of(&self, index: u32) -> Option<&Extra> {
        match self.cols[index as usize].has(flag::EXTRA) {
            true => self.extras.get(index as usize)?.as_deref(),
            false => None,
        }
    }

    /// Releases what few requests have: timer, windows, their share of what fences may hold; queues
    /// the group's notification. Returns the bytes that its queue had charged.
    #[cold]
    pub(super) fn drop_extra(
        &mut self,
        index: u32,
        flags: u8,
        kind: Option<ErrorKind>,
        bytes: u64,
    ) -> u64 {
        let mut charged = 0;
        if flags & flag::USUAL != 0 {
            let missed = self.now_ns > self.deadline_ns(index);
            let counters = &self.shared.counters;
            counters.deadlines_missed.add(u64::from(missed));
            let usual = self.side.usual(index);
            charged = usual.charged;
            let group = usual.group.take();
            self.groups.extend(group.map(|group| (group, kind, bytes)));
        }
        if flags & flag::EXTRA != 0 {
            self.timers.remove(index);
            let mut extra = self.extras[index as usize].take();
            if let Some(staged) = extra.as_mut().and_then(|extra| extra.staged.take()) {
                self.gated_bytes -= staged.gated_bytes;
                staged.release(&mut self.staging);
            }
            // The block source is the application's.
            let _ = guard(|| drop(extra));
        }
        charged
    }

    #[inline]
    pub(super) fn release_file(&mut self, index: u32, flags: u8, error: Option<&Error>) {
        let body = self.side.peek(index);
        let (file, epoch) = (body.file.0.index(), body.room);
        if flags & flag::WRITES != 0 {
            if self.cols[index as usize].verb == Verb::Append {
                self.give_turn_on(index);
            }
            let syncs = self.files.write_completed(file, epoch, error);
            let due = syncs.into_iter().map(|id| (id, What::Released));
            self.events.extend(due);
        }
        self.pass_place_on(file);
        if self.files.release(file, flags & flag::ATTACHED != 0) {
            self.finish_file(file);
        }
    }

    /// Frees a closed handle, if nothing needs it any more, and the one whose descriptors it
    /// shared.
    pub(super) fn finish_file(&mut self, file: u32) {
        let mut next = Some(file);
        while let Some(file) = next {
            if self.files.finish_close(file) {
                crate::sync::lock(&self.shared.names).retire(file);
            }
            next = self.next_unneeded();
        }
    }

    /// A handle that was closed, and may be needed no more.
    pub(super) fn next_unneeded(&mut self) -> Option<u32> {
        loop {
            let id = self.files.unneeded.pop()?;
            if self.files.peek(id).is_some() {
                return Some(id.0.index());
            }
        }
    }

    /// Ends a round: settles tickets, applies entries that are due, releases capacity, wakes.
    pub(super) fn settle(&mut self) {
        let (cols, queues) = (&self.cols, &mut self.queues);
        self.side.settle(&mut self.wakers, |slot| {
            let queue = cols[slot.index() as usize].queue;
            queues.touch(u32::from(queue)).free(slot);
        });
        loop {
            let files = &self.files;
            let is_open = |file: FileId| !files.must_open(file);
            let effect = self.queues.next_effect(&mut self.wakers, is_open);
            let Some((queue, sequence, fifo)) = effect else {
                break;
            };
            self.effect(queue, sequence, fifo);
        }
        for (group, kind, bytes) in self.groups.drain(..) {
            group.completed(kind, bytes, &mut self.wakers);
        }
        self.account();
        // Nothing is locked and all tables are consistent.
        let panicked = wake_all(&mut self.wakers);
        if panicked > 0 {
            self.shared.warn(format!("{panicked} wakers panicked"));
        }
    }

    /// Applies an entry whose turn has come.
    fn effect(&mut self, queue: u32, sequence: u64, effect: Fifo) {
        match effect {
            Fifo::Start(id) => {
                if self.is_known(id) {
                    let flow = self.start_ordered(id.index());
                    self.follow(id.index(), flow);
                }
            }
            Fifo::Close(file) => {
                let queue = Arc::clone(&self.queues.state(queue).shared);
                if let Some(entry) = self.files.get(file) {
                    entry.close_fired = true;
                    entry.closed_by = Some((queue, sequence));
                    self.finish_file(file.0.index());
                }
            }
            Fifo::Signal(..) | Fifo::Status(..) => {}
        }
    }
}

#[inline]
fn count_end(counters: &Counters, kind: Option<ErrorKind>, bytes: u64) {
    match kind {
        None => {
            counters.done.add(1);
            counters.raw_bytes.add(bytes);
        }
        Some(ErrorKind::Canceled) => counters.canceled.add(1),
        Some(_) => counters.failed.add(1),
    }
}

/// The error of what a closing storage no longer begins.
pub(super) fn canceled_by_close() -> Error {
    Error::new(ErrorKind::Canceled, closed_error().cause().to_owned())
}
