//! The calls and threads of one crew: plain data, changed under one lock, without I/O.

use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Call;
use crate::limits::{CALLS_HOLD_RATIO, CALLS_HUNG_NS, CALLS_THREADS_MAX};

/// A call with its id.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) urgent: bool,
    pub(super) call: Call,
}

/// A call that a thread is making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) id: u64,
    since: Instant,
}

/// A thread of the crew. Its index is the thread's number.
#[derive(Default)]
pub(super) struct Member {
    pub(super) running: Option<Running>,
    pub(super) handle: Option<JoinHandle<()>>,
    pub(super) exists: bool,
}

/// A thread's next step.
pub(super) enum Step {
    /// Make this call.
    Make(Entry),
    /// Sleep until woken.
    Sleep,
    /// Sleep until woken or until this time, when a running call counts as hung.
    Watch(Instant),
    /// End the thread.
    End,
}

/// The thread that is to help with the waiting calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    /// None.
    None,
    /// A sleeping thread.
    Wake,
    /// A new thread, with this number.
    Start(usize),
}

/// See the module.
pub(super) struct Queue {
    urgent: VecDeque<Entry>,
    others: VecDeque<Entry>,
    /// By number; as many as ever existed at a time.
    pub(super) members: Vec<Member>,
    /// Maximum number of calls that run at a time, not counting hung ones.
    base: usize,
    /// Number of threads.
    pub(super) threads: usize,
    running: usize,
    /// Number of threads that sleep and have not been woken.
    sleeping: usize,
    /// Number of threads woken or started that have not locked the queue yet.
    coming: usize,
    /// A thread sleeps until a call counts as hung.
    watched: bool,
    /// Nothing will be added: idle threads end.
    pub(super) stopping: bool,
    /// Nothing more is begun.
    pub(super) ended: bool,
}

const HUNG: Duration = Duration::from_nanos(CALLS_HUNG_NS);

impl Queue {
    pub(super) fn new(base: usize) -> Queue {
        assert!((1..CALLS_THREADS_MAX).contains(&base), "a crew needs room");
        Queue {
            urgent: VecDeque::new(),
            others: VecDeque::new(),
            members: Vec::new(),
            base,
            threads: 0,
            running: 0,
            sleeping: 0,
            coming: 0,
            watched: false,
            stopping: false,
            ended: false,
        }
    }

    /// Takes all of `entries`, in order.
    pub(super) fn add(&mut self, entries: &mut Vec<Entry>) {
        for entry in entries.drain(..) {
            if entry.urgent {
                self.urgent.push_back(entry);
            } else {
                self.others.push_back(entry);
            }
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.urgent.len() + self.others.len()
    }

    /// Whether nothing waits or runs.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.running == 0
    }

    /// Takes the next call: urgent ones first.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        self.urgent.pop_front().or_else(|| self.others.pop_front())
    }

    /// Takes the waiting calls that `which` selects.
    pub(super) fn take_waiting(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        for lane in [&mut self.urgent, &mut self.others] {
            for entry in std::mem::take(lane) {
                if which(&entry.call) {
                    taken.push(entry);
                } else {
                    lane.push_back(entry);
                }
            }
        }
        taken
    }

    /// Returns the number of running calls that are not hung, and when the first of them will be.
    fn fresh(&self, now: Instant) -> (usize, Option<Instant>) {
        let running = self.members.iter().filter_map(|member| member.running);
        let fresh = running.map(|running| running.since + HUNG);
        let fresh = fresh.filter(|&hung_at| hung_at > now);
        fresh.fold((0, None), |(count, first), hung_at| {
            let first = first.map_or(hung_at, |first: Instant| first.min(hung_at));
            (count + 1, Some(first))
        })
    }

    /// Decides and records what thread `number` does next.
    pub(super) fn next(&mut self, number: usize, now: Instant) -> Step {
        assert!(self.members[number].running.is_none(), "one call at a time");
        if self.ended {
            return Step::End;
        }
        if self.waiting() == 0 {
            let surplus = self.threads > self.base + 1 && {
                let hung = self.running - self.fresh(now).0;
                self.threads - hung > self.base + 1
            };
            return if self.stopping || surplus {
                Step::End
            } else {
                Step::Sleep
            };
        }
        if self.running >= self.base {
            let (fresh, first) = self.fresh(now);
            if fresh >= self.base {
                let first = first.expect("the base is not 0, so some call runs");
                let surplus = self.threads - (self.running - fresh) > self.base + 1;
                return match (surplus, self.watched) {
                    (true, _) => Step::End,
                    (false, true) => Step::Sleep,
                    (false, false) => Step::Watch(first),
                };
            }
        }
        let entry = self.pop().expect("something waits");
        self.running += 1;
        self.members[number].running = Some(Running {
            id: entry.id,
            since: now,
        });
        Step::Make(entry)
    }

    /// Records that thread `number` has made its call.
    pub(super) fn made(&mut self, number: usize) {
        let running = self.members[number].running.take();
        assert!(running.is_some(), "it was making a call");
        self.running -= 1;
    }

    /// Returns the thread to help with the waiting calls: one to make the next call or, if the
    /// maximum number runs, one to watch them. Counts it as coming.
    pub(super) fn help(&mut self, now: Instant) -> Help {
        if self.waiting() == 0 || self.coming > 0 || self.ended {
            return Help::None;
        }
        if self.watched && self.running >= self.base && self.fresh(now).0 >= self.base {
            return Help::None;
        }
        if self.sleeping > 0 {
            self.sleeping -= 1;
            self.coming += 1;
            return Help::Wake;
        }
        if self.threads >= CALLS_THREADS_MAX {
            return Help::None;
        }
        let free = self.members.iter().position(|member| !member.exists);
        let number = free.unwrap_or_else(|| {
            self.members.push(Member::default());
            self.members.len() - 1
        });
        self.members[number].exists = true;
        self.threads += 1;
        self.coming += 1;
        Help::Start(number)
    }

    /// Undoes the start of thread `number`. A thread that slept may have been counted as arriving.
    pub(super) fn not_started(&mut self, number: usize) {
        self.arrives();
        self.ends(number);
    }

    /// Removes thread `number`.
    pub(super) fn ends(&mut self, number: usize) {
        self.members[number] = Member::default();
        self.threads -= 1;
    }

    /// Counts a thread that goes to sleep; `watches`: only until a call counts as hung.
    pub(super) fn sleeps(&mut self, watches: bool) {
        self.sleeping += 1;
        self.watched |= watches;
    }

    /// Records that the watching thread is awake.
    pub(super) fn watched(&mut self) {
        self.watched = false;
    }

    /// Counts a started or sleeping thread as running. Whether it is one of those counted as coming
    /// cannot be known (a wake may be spurious, or by timeout), but the sum is right.
    pub(super) fn arrives(&mut self) {
        if self.coming > 0 {
            self.coming -= 1;
        } else {
            self.sleeping -= 1;
        }
    }

    /// Whether calls wait and no thread will take them unless the owner starts one.
    pub(super) fn is_stranded(&self) -> bool {
        self.waiting() > 0 && self.coming == 0 && self.sleeping == 0
    }

    /// Whether `done` answers suffice to wake the owner. With all threads in calls, no thread is
    /// left to wake it later.
    pub(super) fn is_ring_due(&self, done: usize) -> bool {
        let all_started = self.threads == CALLS_THREADS_MAX;
        done > 0 && (all_started || done * CALLS_HOLD_RATIO >= self.waiting())
    }
}
