//! What the owner and the threads share. Locks in this order: a crew's `queue`, then that of
//! `done`. The bell is rung without locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::execute::execute;
use super::queue::{Entry, Help, Queue};
use super::{CallAnswer, CallDone, CallsOptions};
use crate::device::Doorbell;
use crate::device::outbox::Outbox;
use crate::fs::FileSystem;
use crate::limits::{CALLS_CLOSE_THREADS, CALLS_LONG_THREADS, CALLS_THREADS_MAX};
use crate::thread::{ThreadSettings, available_cores};

/// Threads for one kind of calls.
pub(super) struct Crew {
    queue: Mutex<Queue>,
    /// Idle threads sleep here.
    pub(super) idle: Condvar,
    /// Calls wait and no thread could be started for them: the owner handles them when it reaps.
    stranded: AtomicBool,
    /// Threads are named by this and a number.
    name: &'static str,
}

/// See the module. Threads that hang keep it alive.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) bell: Doorbell,
    pub(super) settings: ThreadSettings,
    inline: bool,
    /// By [`Call::crew`](super::Call::crew).
    pub(super) crews: [Crew; 3],
    pub(super) done: Outbox<CallDone>,
    /// What a thread does, given its crew and its number.
    worker: fn(&Arc<Shared>, usize, usize),
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
    pub(super) fn new(options: CallsOptions, worker: fn(&Arc<Shared>, usize, usize)) -> Shared {
        // To ask for the cores takes a dozen system calls.
        let opens = match options.inline {
            true => 1,
            false => available_cores().clamp(2, CALLS_THREADS_MAX / 2),
        };
        Shared {
            fs: options.fs,
            bell: options.bell,
            settings: options.threads,
            inline: options.inline,
            crews: [
                Crew::new(opens, "ms-open-"),
                Crew::new(CALLS_CLOSE_THREADS, "ms-close-"),
                Crew::new(CALLS_LONG_THREADS, "ms-save-"),
            ],
            done: Outbox::new(0),
            worker,
        }
    }

    /// Owner: adds calls to a crew and gets them help.
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
    pub(super) fn send(self: &Arc<Self>, index: usize, help: Help) {
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
            .spawn(move || (shared.worker)(&shared, index, number));
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

    /// Thread: hands an answer over; gives it back if the owner is gone. The crew's lock is held,
    /// so that a call is at any moment either running or answered.
    pub(super) fn publish(&self, id: u64, answer: CallAnswer) -> Option<CallAnswer> {
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

    /// Owner: looks after calls that no thread will take: tries again to start one, and makes the
    /// calls where there is none at all.
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

    /// Whether no call waits or runs. (Answers may be there.)
    pub(super) fn is_empty(&self) -> bool {
        self.crews.iter().all(|crew| crew.queue().is_empty()) && !self.done.has_any()
    }

    /// Owner: nothing will be added any more. Calls that need not be made are canceled.
    pub(super) fn stop(&self, into: &mut Vec<CallDone>) {
        for crew in &self.crews {
            let mut queue = crew.queue();
            queue.stopping = true;
            cancel(queue.take_waiting(|call| call.is_idle()), into);
            drop(queue);
            crew.idle.notify_all();
        }
    }

    /// Owner: the end. Returns the ids of calls that still run.
    pub(super) fn close(&self, into: &mut Vec<CallDone>) -> Vec<u64> {
        let (hung, free) = self.end(into);
        for handle in free {
            // A panic of a thread of ours has no other place to be reported.
            handle.join().expect("a thread for system calls panicked");
        }
        hung
    }

    /// Owner: the end, without waiting. Waiting calls are not made, late answers are discarded.
    pub(super) fn abandon(&self) {
        let mut answers = Vec::new();
        self.end(&mut answers);
        for answered in answers {
            answered.answer.discard(self.fs.as_ref());
        }
    }

    /// Ends the threads; the calls that still run, and threads that make none.
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
