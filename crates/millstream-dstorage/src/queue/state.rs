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

use std::collections::VecDeque;
use std::sync::Arc;

use crate::abi::{HRESULT, S_OK};
use crate::event::Event;
use crate::fence::D3D12Fence;
use crate::record::{Command, Failure, Record};
use crate::request::{Gated, PreparedRequest};
use crate::status::Statuses;
use crate::{abi, log};

/// An entry that takes effect in its place.
pub(super) enum Marker {
    Status(Arc<Statuses>, u32),
    Signal(D3D12Fence, u64),
    Event(Event),
}

pub(super) enum Entry {
    /// A request, by its index in `requests`.
    Request(usize),
    /// Refused when it was enqueued; fails when it is submitted.
    Refused(Box<Failure>),
    /// With its parameters, for a record. Boxed, as requests are most of the entries.
    Marker(Box<(Marker, Command)>),
    /// Completed.
    Completed(HRESULT),
}

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Enqueued,
    Engine,
    /// With the program, or waiting for it.
    Custom,
}

pub(super) struct RequestState {
    pub(super) prepared: PreparedRequest,
    pub(super) stage: Stage,
    sequence: u64,
    canceled: bool,
}

/// A marker that is to take effect, with its place and the result that a status stores.
pub(super) struct ReadyMarker {
    pub(super) sequence: u64,
    pub(super) marker: Box<(Marker, Command)>,
    pub(super) result: HRESULT,
}

pub(super) struct QueueState {
    entries: VecDeque<Entry>,
    /// The sequence number of the first of `entries`, and of the first that is not submitted.
    first: u64,
    submitted: u64,
    requests: Vec<Option<RequestState>>,
    /// Indices of `requests` that are `None`.
    free: Vec<usize>,
    used: u16,
    capacity: u16,
    /// Requests in the engine, and with the program.
    pub(super) in_engine: usize,
    pub(super) in_custom: usize,
    pub(super) closed: bool,
    /// Threads that wait for a slot, or for the end of `close`.
    pub(super) waiters: usize,
    /// The thread that lets markers take effect, if one does.
    pub(super) retiring: Option<std::thread::ThreadId>,
    /// Gates of requests that ended, to be dropped without the lock: that releases fences.
    pub(super) left_gates: Vec<Gated>,
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
            entries: VecDeque::new(),
            first: 0,
            submitted: 0,
            requests: Vec::new(),
            free: Vec::new(),
            used: 0,
            capacity,
            in_engine: 0,
            in_custom: 0,
            closed: false,
            waiters: 0,
            retiring: None,
            left_gates: Vec::new(),
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

    fn next_sequence(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns how many entries more are submitted automatically.
    pub(super) fn until_auto_submit(&self) -> u16 {
        let unsubmitted = self.next_sequence() - self.submitted;
        (u64::from(self.capacity / 2)).saturating_sub(unsubmitted) as u16
    }

    /// Appends a request, for which there is a slot.
    pub(super) fn enqueue_request(&mut self, prepared: PreparedRequest) {
        let state = RequestState {
            prepared,
            stage: Stage::Enqueued,
            sequence: self.next_sequence(),
            canceled: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.requests[index] = Some(state);
                index
            }
            None => {
                self.requests.push(Some(state));
                self.requests.len() - 1
            }
        };
        self.enqueue(Entry::Request(index));
    }

    /// Appends an entry, for which there is a slot.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        assert!(self.used < self.capacity - 1, "the queue has a slot");
        self.used += 1;
        self.entries.push_back(entry);
    }

    /// Submits the next entry; returns the index of a request that is to be started.
    /// `None`: all entries are submitted.
    pub(super) fn submit_next(&mut self) -> Option<Option<usize>> {
        let at = usize::try_from(self.submitted - self.first).expect("within the entries");
        let entry = self.entries.get_mut(at)?;
        let sequence = self.submitted;
        self.submitted += 1;
        match entry {
            Entry::Request(index) => {
                let index = *index;
                let canceled = self.requests[index].as_ref().is_some_and(|it| it.canceled);
                if canceled {
                    self.end(index, S_OK);
                    return Some(None);
                }
                Some(Some(index))
            }
            Entry::Refused(failure) => {
                let result = failure.result;
                let ended = std::mem::replace(entry, Entry::Completed(result));
                self.used -= 1;
                if let Entry::Refused(failure) = ended {
                    self.fail(sequence, failure);
                }
                Some(None)
            }
            Entry::Marker(_) | Entry::Completed(_) => Some(None),
        }
    }

    pub(super) fn request(&self, index: usize) -> Option<&RequestState> {
        self.requests.get(index)?.as_ref()
    }

    /// Moves a request to another stage.
    pub(super) fn advance(&mut self, index: usize, stage: Stage) {
        let Some(Some(request)) = self.requests.get_mut(index) else {
            return;
        };
        let before = std::mem::replace(&mut request.stage, stage);
        self.leave(before);
        match stage {
            Stage::Enqueued => {}
            Stage::Engine => self.in_engine += 1,
            Stage::Custom => self.in_custom += 1,
        }
    }

    fn leave(&mut self, stage: Stage) {
        match stage {
            Stage::Enqueued => {}
            Stage::Engine => self.in_engine -= 1,
            Stage::Custom => self.in_custom -= 1,
        }
    }

    /// Completes a request and frees its slot.
    pub(super) fn end(&mut self, index: usize, result: HRESULT) {
        let Some(mut request) = self.requests.get_mut(index).and_then(Option::take) else {
            debug_assert!(false, "a request completes once");
            return;
        };
        self.free.push(index);
        self.leave(request.stage);
        self.completed += 1;
        self.left_gates.extend(request.prepared.gate.take());
        // `close` has forgotten the entries.
        if self.closed {
            return;
        }
        self.used -= 1;
        let result = result.min(S_OK);
        let at = usize::try_from(request.sequence - self.first).expect("within the entries");
        self.entries[at] = Entry::Completed(result);
        if result < S_OK {
            self.fail(request.sequence, request.prepared.into_failure(result));
        }
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

    /// Marks the enqueued requests with a tag as canceled, that were not submitted.
    pub(super) fn cancel_unsubmitted(&mut self, mask: u64, value: u64) {
        for request in self.requests.iter_mut().flatten() {
            if request.stage == Stage::Enqueued && request.prepared.tag() & mask == value {
                request.canceled = true;
            }
        }
    }

    /// Removes the entries at the front that have completed, and the markers among them, up to the
    /// first that is no status. Frees their slots: a program that waits for a marker finds those of
    /// all entries up to it free.
    pub(super) fn take_ready(&mut self) -> Vec<ReadyMarker> {
        let mut ready = Vec::new();
        while !self.closed && self.first < self.submitted {
            match self.entries.front() {
                Some(Entry::Completed(result)) => {
                    if self.failure == S_OK {
                        self.failure = *result;
                    }
                    self.entries.pop_front();
                }
                Some(Entry::Marker(_)) => {
                    let Some(Entry::Marker(marker)) = self.entries.pop_front() else {
                        unreachable!("looked at above");
                    };
                    self.used -= 1;
                    let sequence = self.first;
                    if let Marker::Status(..) = marker.0 {
                        let result = std::mem::replace(&mut self.failure, S_OK);
                        ready.push(ReadyMarker {
                            sequence,
                            marker,
                            result,
                        });
                    } else {
                        self.first += 1;
                        let result = S_OK;
                        ready.push(ReadyMarker {
                            sequence,
                            marker,
                            result,
                        });
                        // It may fail, before what comes behind it.
                        break;
                    }
                }
                _ => break,
            }
            self.first += 1;
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

    /// Closes it: forgets all entries, which the caller drops without the lock, and the requests
    /// that were not started.
    pub(super) fn close(&mut self) -> (VecDeque<Entry>, Vec<RequestState>) {
        self.closed = true;
        self.used = 0;
        self.first = self.next_sequence();
        self.submitted = self.first;
        let mut dropped = Vec::new();
        for (index, request) in self.requests.iter_mut().enumerate() {
            if let Some(request) = request.take_if(|it| it.stage == Stage::Enqueued) {
                self.free.push(index);
                dropped.push(request);
            }
        }
        (std::mem::take(&mut self.entries), dropped)
    }
}
