//! The entries of a queue, in the order of enqueueing.
//!
//! Invariants:
//! - An entry has a slot from its enqueueing until it completes, whatever it waits for; there are
//!   `capacity - 1` of them.
//! - A request completes in any order. A marker (status, signal, event) is ready once it is the
//!   first entry, it is submitted, and everything before it has completed.
//! - `failure` is the first failure, in the order of enqueueing, of the entries before the first
//!   one that remains, since the last status. So a status needs no look back.
//! - Once `closed` is set, no marker becomes ready and no failure of a request is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::abi::{HRESULT, S_OK};
use crate::event::Event;
use crate::fence::ID3D12Fence;
use crate::gpu::Copy;
use crate::record::{Command, Failure, Record};
use crate::request::PreparedRequest;
use crate::status::Statuses;
use crate::{abi, log};

/// An entry that takes effect in the order of enqueueing.
pub(super) enum Marker {
    Status(Arc<Statuses>, u32),
    Signal(ID3D12Fence, u64),
    Event(Event),
}

/// Boxed, so that the entries of a node of the tree move fast.
pub(super) enum Entry {
    Request(Box<RequestState>),
    /// Refused when it was enqueued; fails when it is submitted.
    Refused(Box<Failure>),
    /// With its parameters, for a record.
    Marker(Box<(Marker, Command)>),
    /// Completed with an error, which a later status stores. Completed without one, it is removed.
    Failed(HRESULT),
}

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Or submitted, and waiting for space in the upload heap.
    Enqueued,
    /// Or copied to a resource.
    Engine,
    /// With the program, or waiting for it.
    Custom,
}

pub(super) struct RequestState {
    pub(super) prepared: PreparedRequest,
    stage: Stage,
    pub(super) canceled: bool,
}

impl RequestState {
    pub(super) fn new(prepared: PreparedRequest) -> RequestState {
        RequestState {
            prepared,
            stage: Stage::Enqueued,
            canceled: false,
        }
    }
}

/// The sequence number of a marker that is to take effect, and the result that a status stores.
pub(super) type ReadyMarker = (u64, Box<(Marker, Command)>, HRESULT);

pub(super) struct QueueState {
    /// By sequence number.
    entries: BTreeMap<u64, Entry>,
    /// The sequence number of the next entry, and of the first that is not submitted.
    next: u64,
    submitted: u64,
    used: u16,
    capacity: u16,
    /// Requests in the engine.
    pub(super) in_engine: usize,
    pub(super) closed: bool,
    /// The thread that lets markers take effect, if one does.
    pub(super) retiring: Option<std::thread::ThreadId>,
    /// Submitted requests that wait for space in the upload heap.
    pub(super) waiting: VecDeque<u64>,
    /// What is to be copied.
    pub(super) copies: Vec<Copy>,
    /// Requests that ended, to be dropped without the lock: that releases fences and resources.
    pub(super) left: Vec<Entry>,
    failure: HRESULT,
    record: Record,
    pub(super) error_event: Event,
    /// For the log: requests that completed, and failures.
    pub(super) completed: u64,
    pub(super) failed: u64,
}

impl QueueState {
    pub(super) fn new(capacity: u16, error_event: Event) -> QueueState {
        QueueState {
            entries: BTreeMap::new(),
            next: 0,
            submitted: 0,
            used: 0,
            capacity,
            in_engine: 0,
            closed: false,
            retiring: None,
            waiting: VecDeque::new(),
            copies: Vec::new(),
            left: Vec::new(),
            failure: S_OK,
            record: Record::default(),
            error_event,
            completed: 0,
            failed: 0,
        }
    }

    pub(super) fn empty_slots(&self) -> u16 {
        self.capacity - 1 - self.used
    }

    /// Returns how many entries more are submitted automatically.
    pub(super) fn until_auto_submit(&self) -> u16 {
        let unsubmitted = self.next - self.submitted;
        (u64::from(self.capacity / 2)).saturating_sub(unsubmitted) as u16
    }

    /// Appends an entry, for which there is a slot.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        assert!(self.used < self.capacity - 1, "the queue has a slot");
        self.used += 1;
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Submits the next entry; returns the sequence number of a request that is to be started.
    /// `None`: all entries are submitted.
    pub(super) fn submit_next(&mut self) -> Option<Option<u64>> {
        if self.submitted == self.next {
            return None;
        }
        let sequence = self.submitted;
        self.submitted += 1;
        match self.entries.get(&sequence) {
            Some(Entry::Request(request)) if request.canceled => self.end(sequence, S_OK),
            Some(Entry::Request(_)) => return Some(Some(sequence)),
            Some(Entry::Refused(_)) => {
                self.used -= 1;
                if let Some(Entry::Refused(failure)) = self.entries.remove(&sequence) {
                    self.fail_entry(sequence, failure);
                }
            }
            _ => {}
        }
        Some(None)
    }

    pub(super) fn request(&mut self, sequence: u64) -> Option<&mut RequestState> {
        match self.entries.get_mut(&sequence)? {
            Entry::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Returns whether no request is in the engine or will return to it; of a closed queue none
    /// returns.
    pub(super) fn is_idle(&self) -> bool {
        let mut submitted = self.entries.range(..self.submitted);
        let returns = |it: &Entry| matches!(it, Entry::Request(it) if it.prepared.has_target());
        self.in_engine == 0 && (self.closed || !submitted.any(|(_, it)| returns(it)))
    }

    /// Completes a request, unless its bytes are to be copied to a resource before.
    pub(super) fn end_or_copy(&mut self, sequence: u64, result: HRESULT) {
        let is_wanted = result >= S_OK && !self.closed;
        let request = self
            .request(sequence)
            .filter(|it| is_wanted && !it.canceled);
        match request.and_then(|it| it.prepared.take_copy(sequence)) {
            Some(copy) => {
                self.copies.push(copy);
                self.advance(sequence, Stage::Engine);
            }
            None => self.end(sequence, result),
        }
    }

    /// Moves a request to another stage.
    pub(super) fn advance(&mut self, sequence: u64, stage: Stage) {
        if let Some(Entry::Request(request)) = self.entries.get_mut(&sequence) {
            self.in_engine -= usize::from(request.stage == Stage::Engine);
            self.in_engine += usize::from(stage == Stage::Engine);
            request.stage = stage;
        }
    }

    /// Completes a request and frees its slot.
    pub(super) fn end(&mut self, sequence: u64, result: HRESULT) {
        let Some(Entry::Request(request)) = self.entries.remove(&sequence) else {
            unreachable!("a request completes once");
        };
        self.in_engine -= usize::from(request.stage == Stage::Engine);
        self.completed += 1;
        if !self.closed {
            self.used -= 1;
            if result < S_OK {
                self.fail_entry(sequence, request.prepared.failure(result));
            }
        }
        if request.prepared.holds_objects() {
            self.left.push(Entry::Request(request));
        }
    }

    /// Replaces an entry by its failure. Of failures without an entry between them the first is
    /// kept, so there are at most twice as many entries as slots, and one more.
    fn fail_entry(&mut self, sequence: u64, failure: Box<Failure>) {
        let before = self.entries.range(..sequence).next_back();
        if !matches!(before, Some((_, Entry::Failed(_)))) {
            let behind = self.entries.range(sequence..).next();
            if let Some((&behind, Entry::Failed(_))) = behind {
                self.entries.remove(&behind);
            }
            let result = failure.result();
            self.entries.insert(sequence, Entry::Failed(result));
        }
        self.fail(sequence, failure);
    }

    fn fail(&mut self, sequence: u64, failure: Box<Failure>) {
        self.failed += 1;
        log::error(|| failure.to_string());
        self.record.add(sequence, failure);
        self.error_event.set();
    }

    /// Records a call that failed because the queue is closed.
    pub(super) fn refuse(&mut self, failure: Box<Failure>) {
        // Behind all that was enqueued, so that it hides no earlier failure.
        self.fail(u64::MAX, failure);
    }

    /// Cancels the requests with a tag that are not read yet: those that wait for space end.
    pub(super) fn cancel_unread(&mut self, mask: u64, value: u64) {
        for entry in self.entries.values_mut() {
            if let Entry::Request(request) = entry
                // In the engine without space it waits for its gate, and may just have done that.
                && (request.stage == Stage::Enqueued || request.prepared.needs_space())
                && request.prepared.tag() & mask == value
            {
                request.canceled = true;
            }
        }
        for sequence in std::mem::take(&mut self.waiting) {
            match self.request(sequence).expect("it waits").canceled {
                true => self.end(sequence, S_OK),
                false => self.waiting.push_back(sequence),
            }
        }
    }

    /// Removes the failures at the front, and the markers among them, up to the first that is no
    /// status. Frees their slots: a program that waits for a marker finds those of all entries up
    /// to it free.
    pub(super) fn take_ready(&mut self) -> Vec<ReadyMarker> {
        let mut ready = Vec::new();
        while !self.closed
            && let Some(entry) = self.entries.first_entry()
            && *entry.key() < self.submitted
        {
            if !matches!(entry.get(), Entry::Failed(_) | Entry::Marker(_)) {
                break;
            }
            let sequence = *entry.key();
            match entry.remove() {
                Entry::Failed(result) if self.failure == S_OK => self.failure = result,
                Entry::Marker(marker) => {
                    self.used -= 1;
                    let is_status = matches!(marker.0, Marker::Status(..));
                    let result = match is_status {
                        true => std::mem::replace(&mut self.failure, S_OK),
                        false => S_OK,
                    };
                    ready.push((sequence, marker, result));
                    if !is_status {
                        // It may fail, before what comes behind it.
                        break;
                    }
                }
                _ => {}
            }
        }
        ready
    }

    /// Records a marker that failed.
    pub(super) fn fail_marker(&mut self, sequence: u64, result: HRESULT, command: Command) {
        if self.closed {
            return;
        }
        if self.failure == S_OK {
            self.failure = result;
        }
        self.fail(sequence, Failure::new(result, command));
    }

    pub(super) fn take_record(&mut self) -> abi::DSTORAGE_ERROR_RECORD {
        self.error_event.reset();
        self.record.take()
    }

    /// Closes it; returns all entries but the requests that were started, to be dropped without the
    /// lock.
    pub(super) fn close(&mut self) -> BTreeMap<u64, Entry> {
        self.closed = true;
        self.used = 0;
        self.waiting.clear();
        self.submitted = self.next;
        let is_started =
            |entry: &Entry| matches!(entry, Entry::Request(it) if it.stage != Stage::Enqueued);
        let entries = std::mem::take(&mut self.entries);
        let (started, dropped) = entries.into_iter().partition(|(_, it)| is_started(it));
        self.entries = started;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_entries_behind_one_that_waits_are_not_kept() {
        let event = || Event::new().expect("an event");
        let mut state = QueueState::new(128, event());
        let marker = Marker::Event(event());
        let command = Command::Event(std::ptr::null_mut());
        state.enqueue(Entry::Marker(Box::new((marker, command))));
        for _ in 0..1000 {
            state.enqueue(Entry::Refused(Failure::new(-1, command)));
            while state.submit_next().is_some() {}
        }
        assert_eq!(state.entries.len(), 2, "the marker, and the first failure");
        assert_eq!(state.empty_slots(), 126);
        assert_eq!(state.take_ready().len(), 1);
    }
}
