//! All of a queue together: threads that submit, wait, drop, cancel, post and signal at the same
//! time, and an engine that completes in any order. Too large for loom.

use std::sync::Arc;

use millstream_io::Device;
use shuttle::rand::{Rng, thread_rng};

use super::completion::{Engine, engine};
use super::{check, request, spawn};
use crate::caller::batch::Queue;
use crate::caller::fence::Fence;
use crate::error::{Error, ErrorKind};
use crate::handover::slots::Completion;

const PRODUCERS: u64 = 3;
/// Steps of each producer, besides a batch of a detached request, posted ones and a signal.
const STEPS: u64 = 4;
const POSTED: usize = 2;

/// Serves requests, a random number each round, until `entries` entries have completed.
fn serve(engine: &mut Engine, entries: u64) {
    let (mut held, mut completed) = (Vec::new(), 0);
    let shared = Arc::clone(&engine.shared);
    while completed < entries {
        if !shared.take_mail_flag() && held.is_empty() {
            let slept = engine.device.wait(None, &mut || shared.has_mail());
            slept.expect("the device works");
            continue;
        }
        completed += engine.take_dirty(&mut held) as u64;
        shared.take_letters(&mut Vec::new());
        for _ in 0..thread_rng().gen_range(0..=held.len()) {
            let request = held.swap_remove(thread_rng().gen_range(0..held.len()));
            engine.complete([request]);
            completed += 1;
        }
        engine.settle();
        shuttle::thread::yield_now();
    }
}

/// Tries again while unsubmitted batches of other threads hold all the room.
fn insist<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match attempt() {
            Ok(accepted) => return accepted,
            Err(error) => assert_eq!(error.kind(), ErrorKind::QueueFull),
        }
        shuttle::thread::yield_now();
    }
}

fn produce(queue: &Queue, token: &Arc<()>) {
    for _ in 0..STEPS {
        let mut ticket = insist(|| queue.submit(request(token)));
        match thread_rng().gen_range(0..4) {
            0 => drop(ticket),
            1 => {
                ticket.cancel();
                assert!(matches!(ticket.outcome().result, Ok(5)));
            }
            2 => {
                while ticket.try_take().is_none() {
                    shuttle::thread::yield_now();
                }
            }
            _ => assert!(matches!(ticket.outcome().result, Ok(5))),
        }
    }
    let (mut batch, fence) = (queue.batch(), Fence::new(0));
    insist(|| batch.detach(request(token)));
    for _ in 0..POSTED {
        insist(|| batch.post(request(token)));
    }
    insist(|| batch.signal(&fence, 1));
    batch.submit();
    assert!(matches!(fence.wait(1, None), Ok(true)));
}

#[test]
fn threads_that_do_everything_at_once_lose_and_leak_nothing() {
    check(0, || {
        let (mut engine, shared) = engine(4);
        let (queue, token) = (Queue::new(shared), Arc::new(()));
        let served = spawn(move || {
            serve(&mut engine, PRODUCERS * (STEPS + 2 + POSTED as u64));
            engine
        });
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| {
                let (queue, token) = (queue.clone(), Arc::clone(&token));
                spawn(move || produce(&queue, &token))
            })
            .collect();
        let mut posted = 0;
        while posted < PRODUCERS as usize * POSTED {
            assert!(matches!(queue.wait_completions(None), Ok(true)));
            let mut completions = [Completion::default(), Completion::default()];
            posted += queue.drain_completions(&mut completions);
        }
        producers.into_iter().for_each(|one| one.join().unwrap());
        assert!(matches!(queue.drain(None), Ok(true)));
        let mut engine = served.join().unwrap();
        engine.end();
        assert_eq!(queue.live(), 0);
        assert_eq!(Arc::strong_count(&token), 1, "all memory is dropped");
    });
}
