//! One thread: take a call, make it, hand the answer over.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::execute::execute;
use super::queue::{Entry, Queue, Step};
use super::shared::{Crew, Shared};

/// Makes calls as thread `number` of crew `index`, until it is not needed any more.
pub(super) fn run(shared: &Arc<Shared>, index: usize, number: usize) {
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
        // Nothing is held back by a thread that goes to sleep, unless calls still wait.
        if !rung && queue.is_ring_due(shared.done.count()) {
            drop(queue);
            shared.bell.ring();
            rung = true;
            // The lock was given up: look again before sleeping.
            queue = crew.queue();
            continue;
        }
        rung = false;
        queue.sleeps(until.is_some());
        let timed_out;
        (queue, timed_out) = sleep(crew, queue, until.map(|until| until - now));
        if until.is_some() {
            queue.watched();
        }
        queue.arrives();
        if timed_out && shared.done.has_any() {
            // Calls hang: what they had finished before is held back no longer.
            drop(queue);
            shared.bell.ring();
            queue = crew.queue();
        }
    }
}

/// Makes a call outside of the lock and hands its answer over.
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

/// Sleeps until a wake, or for `most`; whether that time passed.
fn sleep<'a>(
    crew: &'a Crew,
    queue: MutexGuard<'a, Queue>,
    most: Option<Duration>,
) -> (MutexGuard<'a, Queue>, bool) {
    match most {
        None => {
            let woken = crew.idle.wait(queue);
            (woken.unwrap_or_else(PoisonError::into_inner), false)
        }
        Some(most) => {
            let woken = crew.idle.wait_timeout(queue, most);
            let (queue, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            (queue, timeout.timed_out())
        }
    }
}
