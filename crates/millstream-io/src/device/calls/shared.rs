//! State shared by the owner and the threads, and the threads' loop: take a call, make it, publish
//! the answer. Lock order: the crews' `queue`s by index, then that of `done`. The bell is rung
//! without locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::execute::execute;
use super::queue::{Entry, Help, Queue, Step};
use super::{CallAnswer, CallDone, CallsOptions};
use crate::device::Doorbell;
use crate::device::outbox::Outbox;
use crate::fs::FileSystem;
use crate::limits::{CALLS_CLOSE_THREADS, CALLS_LONG_THREADS, CALLS_THREADS_MAX};
use crate::thread::{ThreadSettings, available_cores};

/// Number of crews.
pub(super) const CREWS: usize = 4;

/// Threads for one kind of call.
pub(super) struct Crew {
    queue: Mutex<Queue>,
    /// Idle threads sleep here.
    idle: Condvar,
    /// Calls wait and no thread could be started for them: the owner handles them when it reaps.
    stranded: AtomicBool,
    /// Prefix of the threads' names, followed by their number.
    name: &'static str,
}

/// See the module. Threads that hang keep it alive.
pub(super) struct Shared {
    fs: Arc<dyn FileSystem>,
    pub(super) bell: Doorbell,
    settings: ThreadSettings,
    inline: bool,
    /// By [`Call::crew`](super::Call::crew).
    pub(super) crews: [Crew; CREWS],
    pub(super) done: Outbox<CallDone>,
}

impl Crew {
    fn new(base: usize, name: &'static str) -> Crew {
        Crew {
            queue: Mutex::new(Queue::new(base)),
            idle: Condvar::new(),
            stranded: AtomicBool::new(false),
            name,
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn new(options: CallsOptions) -> Shared {
        // Querying the number of cores takes a dozen system calls.
        let cores = match options.inline {
            true => 1,
            false => available_cores().clamp(2, CALLS_THREADS_MAX / 2),
        };
        Shared {
            fs: options.fs,
            bell: options.bell,
            settings: options.threads,
            inline: options.inline,
            crews: [
                Crew::new(cores, "ms-open-"),
                Crew::new(CALLS_CLOSE_THREADS, "ms-close-"),
                Crew::new(CALLS_LONG_THREADS, "ms-save-"),
                Crew::new(cores, "ms-run-"),
            ],
            done: Outbox::new(0),
        }
    }

    /// Called by the owner: adds calls to a crew and wakes or starts a thread.
    pub(super) fn add(self: &Arc<Self>, index: usize, entries: &mut Vec<Entry>) {
        let crew = &self.crews[index];
        let mut queue = crew.queue();
        queue.add(entries);
        if self.inline {
            crew.stranded.store(true, Ordering::Release);
            return;
        }
        let help = queue.help(Instant::now());
        drop(queue);
        self.send(index, help);
    }

    /// Wakes or starts a thread.
    fn send(self: &Arc<Self>, index: usize, help: Help) {
        let crew = &self.crews[index];
        let number = match help {
            Help::None => return,
            Help::Wake => {
                crew.idle.notify_one();
                return;
            }
            Help::Start(number) => number,
        };
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(format!("{}{number}", crew.name))
            .spawn(move || run(&shared, index, number));
        let mut queue = crew.queue();
        match started {
            // A thread that has ended already needs no handle.
            Ok(handle) if queue.members[number].exists => {
                queue.members[number].handle = Some(handle);
            }
            Ok(_) => {}
            Err(_) => {
                queue.not_started(number);
                crew.stranded.store(queue.is_stranded(), Ordering::Release);
                let alone = queue.threads == 0;
                drop(queue);
                if alone {
                    self.bell.ring();
                }
            }
        }
    }

    /// Called by a thread: publishes an answer; returns it if the owner is gone. The crew's lock is
    /// held, so that a call is at any moment either running or answered.
    fn publish(&self, id: u64, answer: CallAnswer) -> Option<CallAnswer> {
        let mut answer = Some(answer);
        self.done
            .put(|done| done.extend(answer.take().map(|answer| CallDone { id, answer })));
        answer
    }

    /// Whether calls wait for the owner to make them.
    pub(super) fn is_inline_due(&self) -> bool {
        self.crews.iter().any(|crew| {
            crew.stranded.load(Ordering::Acquire) && {
                let queue = crew.queue();
                queue.threads == 0 && queue.waiting() > 0
            }
        })
    }

    /// Called by the owner: handles calls that no thread will take. Tries again to start a thread,
    /// and makes the calls if there is none at all.
    pub(super) fn attend(self: &Arc<Self>, into: &mut Vec<CallDone>) {
        for (index, crew) in self.crews.iter().enumerate() {
            if !crew.stranded.swap(false, Ordering::AcqRel) {
                continue;
            }
            if !self.inline {
                let help = crew.queue().help(Instant::now());
                self.send(index, help);
            }
            while let Some(entry) = self.take_inline(crew) {
                into.push(CallDone {
                    id: entry.id,
                    answer: execute(self.fs.as_ref(), entry.call),
                });
            }
        }
    }

    fn take_inline(&self, crew: &Crew) -> Option<Entry> {
        let mut queue = crew.queue();
        if queue.threads > 0 {
            return None;
        }
        queue.pop()
    }

    /// Whether no call waits or runs, and all answers are reaped.
    pub(super) fn is_empty(&self) -> bool {
        self.crews.iter().all(|crew| crew.queue().is_empty()) && !self.done.has_any()
    }

    /// Called by the owner: no call will be added. Cancels calls that can be canceled without loss.
    pub(super) fn stop(&self, into: &mut Vec<CallDone>) {
        for crew in &self.crews {
            let mut queue = crew.queue();
            queue.stopping = true;
            cancel(queue.take_waiting(|call| call.is_idle()), into);
            drop(queue);
            crew.idle.notify_all();
        }
    }

    /// Called by the owner: ends the threads. Returns the ids of calls that still run.
    pub(super) fn close(&self, into: &mut Vec<CallDone>) -> Vec<u64> {
        let (hung, free) = self.end(into);
        for handle in free {
            // Nothing else would report a panic of such a thread.
            handle.join().expect("a thread for system calls panicked");
        }
        hung
    }

    /// As `close`, without waiting. Waiting calls are not made, late answers are discarded.
    pub(super) fn abandon(&self) {
        let mut answers = Vec::new();
        self.end(&mut answers);
        for answered in answers {
            answered.answer.discard(self.fs.as_ref());
        }
    }

    /// Ends the threads; returns the calls that still run, and the threads that make none.
    fn end(&self, into: &mut Vec<CallDone>) -> (Vec<u64>, Vec<JoinHandle<()>>) {
        let mut hung = Vec::new();
        let mut free = Vec::new();
        // Both locks, so that each call is seen either running or answered.
        let mut queues = self.crews.each_ref().map(Crew::queue);
        for queue in &mut queues {
            queue.stopping = true;
            queue.ended = true;
            cancel(queue.take_waiting(|_| true), into);
            for member in &mut queue.members {
                match member.running {
                    Some(running) => hung.push(running.id),
                    None => free.extend(member.handle.take()),
                }
            }
        }
        self.done.close(into);
        drop(queues);
        for crew in &self.crews {
            crew.idle.notify_all();
        }
        (hung, free)
    }
}

fn cancel(entries: Vec<Entry>, into: &mut Vec<CallDone>) {
    into.extend(entries.into_iter().map(|entry| CallDone {
        id: entry.id,
        answer: entry.call.canceled(),
    }));
}

/// Makes calls as thread `number` of crew `index`, until the thread is surplus or the device ends.
fn run(shared: &Arc<Shared>, index: usize, number: usize) {
    shared.settings.apply(number);
    let crew = &shared.crews[index];
    let mut queue = crew.queue();
    queue.arrives();
    // Whether the owner was woken since this thread's last call or sleep.
    let mut rung = false;
    loop {
        let now = Instant::now();
        let until = match queue.next(number, now) {
            Step::Make(entry) => {
                queue = make(shared, index, number, queue, entry);
                rung = false;
                continue;
            }
            Step::End => {
                queue.ends(number);
                let help = queue.help(now);
                drop(queue);
                shared.send(index, help);
                if shared.done.has_any() {
                    shared.bell.ring();
                }
                return;
            }
            Step::Sleep => None,
            Step::Watch(until) => Some(until),
        };
        // A thread that goes to sleep holds nothing back, unless calls still wait.
        if !rung && queue.is_ring_due(shared.done.count()) {
            drop(queue);
            shared.bell.ring();
            rung = true;
            // The lock was released: check again before sleeping.
            queue = crew.queue();
            continue;
        }
        rung = false;
        queue.sleeps(until.is_some());
        let most = until.map_or(Duration::MAX, |until| until - now);
        let woken = crew.idle.wait_timeout(queue, most);
        let timeout;
        (queue, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
        if until.is_some() {
            queue.watched();
        }
        queue.arrives();
        if timeout.timed_out() && shared.done.has_any() {
            // Calls hang: answers finished before are not held back any longer.
            drop(queue);
            shared.bell.ring();
            queue = crew.queue();
        }
    }
}

/// Makes a call outside the lock and publishes its answer.
fn make<'a>(
    shared: &'a Arc<Shared>,
    index: usize,
    number: usize,
    mut queue: MutexGuard<'a, Queue>,
    entry: Entry,
) -> MutexGuard<'a, Queue> {
    let ring = queue.is_ring_due(shared.done.count());
    let help = queue.help(Instant::now());
    drop(queue);
    if ring {
        shared.bell.ring();
    }
    shared.send(index, help);
    let answer = execute(shared.fs.as_ref(), entry.call);
    let crew = &shared.crews[index];
    let mut queue = crew.queue();
    queue.made(number);
    let Some(late) = shared.publish(entry.id, answer) else {
        return queue;
    };
    drop(queue);
    late.discard(shared.fs.as_ref());
    crew.queue()
}
