//! Queues: submission, capacity, the completion queue, a storage that closes. The engine here is
//! its mail, queues and slots; every request completes as soon as it is taken in.

use std::sync::Arc;

use millstream_io::Device;
use millstream_io::device::null::NullDevice;

use super::{check, mailbox, request, spawn};
use crate::caller::batch::Queue;
use crate::caller::queue::{EngineSide, FIFO, Mailbox, QueueShared, Table};
use crate::error::{Error, ErrorKind};
use crate::handover::complete::Queues;
use crate::handover::slots::Completion;
use crate::handover::waiters::wake_all;
use crate::ids::StorageNumber;
use crate::limits::SLOTS_MAX;
use crate::options::QueueOptions;

pub(super) struct Engine {
    pub(super) shared: Arc<Mailbox>,
    pub(super) device: NullDevice,
    pub(super) side: EngineSide,
    pub(super) queues: Queues,
}

/// An engine with a queue.
pub(super) fn engine(capacity: u32) -> (Engine, Arc<QueueShared>) {
    let (storage, first) = StorageNumber::take().expect("a number");
    storage.give_back(first);
    let (table, side) = Table::new(storage, 0).expect("memory");
    let (shared, device) = (mailbox(), NullDevice::new(1));
    shared.set_bell(device.doorbell());
    let options = QueueOptions {
        capacity,
        unclaimed: SLOTS_MAX - capacity,
        auto_submit: false,
        ..QueueOptions::default()
    };
    let queue = Arc::new(QueueShared::new(Arc::clone(&shared), table, options));
    let mut queues = Queues::default();
    queues.add(Arc::clone(&queue));
    let engine = Engine {
        shared,
        device,
        side,
        queues,
    };
    (engine, queue)
}

impl Engine {
    /// Runs rounds until `entries` entries have completed.
    fn run(&mut self, entries: usize) {
        let mut completed = 0;
        while completed < entries {
            let shared = Arc::clone(&self.shared);
            if shared.take_mail_flag() {
                completed += self.round();
            } else {
                let slept = self.device.wait(None, &mut || shared.has_mail());
                slept.expect("the device works");
            }
        }
    }

    fn round(&mut self) -> usize {
        let mut requests = Vec::new();
        let completed = self.take_dirty(&mut requests) + requests.len();
        self.complete(requests);
        self.settle();
        completed
    }

    pub(super) fn settle(&mut self) {
        let (mut wakers, queues) = (Vec::new(), &mut self.queues);
        self.side.settle(&mut wakers, |freed| {
            queues.touch(0).free(freed);
        });
        while queues.next_effect(&mut wakers, |_| true).is_some() {}
        wake_all(&mut wakers);
    }

    /// Takes what was submitted: requests, by their place, and how many other entries.
    pub(super) fn take_dirty(&mut self, requests: &mut Vec<(u64, u32)>) -> usize {
        let mut dirty = Vec::new();
        self.shared.take_dirty(&mut dirty, &mut Vec::new());
        dirty.iter().map(|_| self.take(requests)).sum()
    }

    fn take(&mut self, requests: &mut Vec<(u64, u32)>) -> usize {
        let state = self.queues.touch(0);
        state.take();
        let mut count = 0;
        while let Some((mut parcel, _)) = state.backlog.pop_front() {
            for (place, index) in parcel.indices.drain(..).enumerate() {
                let sequence = parcel.first_sequence + place as u64;
                if index == FIFO {
                    let fifo = parcel.fifos.pop_front().expect("one for each mark");
                    state.add_fifo(sequence, fifo);
                    count += 1;
                } else {
                    state.live += 1;
                    requests.push((sequence, index));
                }
            }
            state.spare.push(parcel);
        }
        count
    }

    pub(super) fn complete(&mut self, requests: impl IntoIterator<Item = (u64, u32)>) {
        for (sequence, index) in requests {
            let ended = self.side.end(index, 5, None);
            self.queues.touch(0).completed(sequence, 0, ended);
        }
    }

    /// Takes the last mail; nothing is accepted afterwards.
    pub(super) fn end(&mut self) {
        while !self.shared.end_mail() {
            self.round();
        }
    }
}

#[test]
fn a_posted_completion_wakes_a_thread_that_waits_for_the_completion_queue() {
    check(3, || {
        let (mut engine, shared) = engine(2);
        let (queue, token) = (Queue::new(Arc::clone(&shared)), Arc::new(()));
        let served = spawn(move || {
            engine.run(2);
            engine
        });
        let mut batch = queue.batch();
        for _ in 0..2 {
            batch.post(request(&token)).expect("there is room");
        }
        batch.submit();
        let mut completions = [Completion::default(), Completion::default()];
        let mut count = 0;
        while count < 2 {
            assert!(matches!(queue.wait_completions(None), Ok(true)));
            count += queue.drain_completions(&mut completions[count..]);
        }
        for completion in completions {
            assert!(matches!(completion.result, Ok(5)));
            assert_eq!(completion.user_data, 7);
        }
        assert_eq!(Arc::strong_count(&token), 1);
        let mut engine = served.join().unwrap();
        engine.end();
        drop(batch);
        assert_eq!(queue.live(), 0);
    });
}

#[test]
fn every_submission_is_served_and_a_full_queue_blocks_until_there_is_room() {
    for capacity in [1, 2] {
        check(3, move || {
            let (mut engine, shared) = engine(capacity);
            let (queue, token) = (Queue::new(shared), Arc::new(()));
            let served = spawn(move || {
                engine.run(2);
                engine
            });
            for _ in 0..2 {
                queue.detach(request(&token)).expect("room comes");
            }
            let mut engine = served.join().unwrap();
            engine.end();
            assert_eq!(queue.live(), 0);
            assert_eq!(Arc::strong_count(&token), 1);
        });
    }
}

/// Held requests of a queue that closes end as closed; none is forgotten.
#[test]
fn a_batch_handed_over_to_a_queue_that_closes_is_served_or_refused() {
    check(3, || {
        let (mut engine, shared) = engine(2);
        let (queue, token) = (Queue::new(Arc::clone(&shared)), Arc::new(()));
        let mut batch = queue.batch();
        let mut ticket = batch.add(request(&token)).expect("there is room");
        batch.post(request(&token)).expect("there is room");
        let closer = spawn(move || {
            shared.close();
            let mut requests = Vec::new();
            engine.take(&mut requests);
            engine.complete(requests);
            engine.round();
            engine.end();
            engine
        });
        batch.submit();
        let outcome = ticket.outcome();
        let engine = closer.join().unwrap();
        let mut completions = [Completion::default()];
        assert_eq!(queue.drain_completions(&mut completions), 1);
        let closed = |result: &Result<u64, Error>| match result {
            Ok(bytes) => {
                assert_eq!(*bytes, 5);
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed);
                true
            }
        };
        let all = [&outcome.result, &completions[0].result].map(closed);
        assert_eq!(all[0], all[1], "a parcel is taken in as a whole");
        drop(outcome);
        drop((completions, engine));
        assert_eq!(queue.live(), 0);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn two_threads_that_drain_are_woken_once_what_each_waits_for_has_completed() {
    check(2, || {
        let (mut engine, shared) = engine(2);
        let (queue, token) = (Queue::new(shared), Arc::new(()));
        let served = spawn(move || {
            engine.run(2);
            engine
        });
        queue.detach(request(&token)).expect("there is room");
        let own = queue.clone();
        let first = spawn(move || assert!(matches!(own.drain(None), Ok(true))));
        queue.detach(request(&token)).expect("there is room");
        assert!(matches!(queue.drain(None), Ok(true)));
        assert_eq!(Arc::strong_count(&token), 1, "all have completed");
        first.join().unwrap();
        let mut engine = served.join().unwrap();
        engine.end();
        assert_eq!(queue.live(), 0);
    });
}
