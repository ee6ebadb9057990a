//! The calls of one crew that wait, and how its threads make them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::execute::{closing, execute};
use super::{Call, CallAnswer, CallDone};
use crate::crew::Work;
use crate::device::Doorbell;
use crate::device::outbox::Outbox;
use crate::fs::FileSystem;
use crate::limits::{CALLS_FAST_MIN, CALLS_FAST_NS, CALLS_HOLD_MAX};
use crate::thread::ThreadSettings;

/// A call with its id.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) urgent: bool,
    pub(super) call: Call,
}

impl Entry {
    /// Answers a call that is not made.
    pub(super) fn cancel(self) -> CallDone {
        CallDone {
            id: self.id,
            answer: self.call.canceled(),
        }
    }
}

/// Calls that no thread has begun.
#[derive(Default)]
pub(super) struct Waiting {
    urgent: VecDeque<Entry>,
    others: VecDeque<Entry>,
}

impl Waiting {
    /// Takes all of `entries`, in order.
    pub(super) fn add(&mut self, entries: &mut Vec<Entry>) {
        for entry in entries.drain(..) {
            match entry.urgent {
                true => self.urgent.push_back(entry),
                false => self.others.push_back(entry),
            }
        }
    }

    /// Has a call overtake others, if no thread has begun it.
    pub(super) fn hurry(&mut self, id: u64) {
        let at = self.others.iter().position(|entry| entry.id == id);
        let entry = at.and_then(|at| self.others.remove(at));
        self.urgent.extend(entry.map(|entry| Entry {
            urgent: true,
            ..entry
        }));
    }

    /// Takes the calls that `which` selects.
    pub(super) fn take_where(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        for list in [&mut self.urgent, &mut self.others] {
            for entry in std::mem::take(list) {
                match which(&entry.call) {
                    true => taken.push(entry),
                    false => list.push_back(entry),
                }
            }
        }
        taken
    }

    /// Cancels all calls. Closes stay in the list, for the threads to make.
    pub(super) fn end(&mut self) -> Vec<CallDone> {
        let is_close = |call: &Call| matches!(call, Call::Close(_));
        let rest = self.take_where(|call| !is_close(call));
        let closes = [&self.urgent, &self.others].into_iter().flatten();
        let closes = closes.map(|entry| CallDone {
            id: entry.id,
            answer: CallAnswer::Done(Err(closing())),
        });
        let mut answers: Vec<_> = closes.collect();
        answers.extend(rest.into_iter().map(Entry::cancel));
        answers
    }
}

/// Makes calls.
pub(super) struct Maker {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) bell: Doorbell,
    pub(super) settings: ThreadSettings,
    pub(super) done: Arc<Outbox<CallDone>>,
    /// Calls in a row that waited for no disk, and were not urgent.
    pub(super) fast: AtomicUsize,
}

impl Work for Maker {
    type List = Waiting;
    type Task = Entry;
    type Done = CallDone;
    type Local = ();

    fn begin(&self, number: usize) {
        self.settings.apply(number);
    }

    fn waiting(list: &Waiting) -> usize {
        list.urgent.len() + list.others.len()
    }

    fn take(&self, list: &mut Waiting, _: usize, share: &mut Vec<Entry>) {
        let next = list.urgent.pop_front().or_else(|| list.others.pop_front());
        share.extend(next);
    }

    fn id(entry: &Entry) -> u64 {
        entry.id
    }

    fn run(&self, (): &mut (), share: &mut Vec<Entry>, done: &mut Vec<CallDone>) {
        let (began, is_urgent) = (Instant::now(), share.iter().any(|entry| entry.urgent));
        done.extend(share.drain(..).map(|entry| CallDone {
            id: entry.id,
            answer: execute(self.fs.as_ref(), entry.call),
        }));
        match began.elapsed() < Duration::from_nanos(CALLS_FAST_NS) && !is_urgent {
            true => drop(self.fast.fetch_add(1, Ordering::Relaxed)),
            false => self.fast.store(0, Ordering::Relaxed),
        }
    }

    fn publish(&self, done: &mut Vec<CallDone>) {
        self.done.put(done);
    }

    fn discard(&self, late: &mut Vec<CallDone>) {
        for CallDone { answer, .. } in late.drain(..) {
            answer.discard(self.fs.as_ref());
        }
    }

    fn is_ring_due(&self, waiting: usize, is_full: bool) -> bool {
        let done = self.done.count();
        let is_fast = self.fast.load(Ordering::Relaxed) >= CALLS_FAST_MIN;
        let least = if is_fast && !is_full {
            CALLS_HOLD_MAX.min(2 * waiting)
        } else {
            1
        };
        done >= least.max(1)
    }

    fn ring(&self) {
        self.bell.ring();
    }
}
