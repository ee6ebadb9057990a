//! Completion queues: posted requests come back with user data, result and memory, once each.

#[cfg(target_os = "linux")]
mod eventfd;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{PATIENCE, each_backend, each_backend_and_pumped};
use millstream::{
    Buffer, Completion, Destination, ErrorKind, Fence, FileOp, Group, Place, Queue, Read, Write,
    limits,
};

/// Waits for `count` completions and takes them, a few at a time; there are no more.
fn completions(queue: &Queue, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    while all.len() < count {
        let waited = queue.wait_completions(Some(PATIENCE)).expect("may wait");
        assert!(waited, "{} of {count} completions", all.len());
        let mut some: [Completion; 3] = Default::default();
        let taken = queue.drain_completions(&mut some);
        all.extend(some.into_iter().take(taken));
    }
    assert_eq!(all.len(), count);
    assert_eq!(queue.drain_completions(&mut [Completion::default()]), 0);
    all
}

fn by_user_data(queue: &Queue, count: usize) -> Vec<Completion> {
    let mut all = completions(queue, count);
    all.sort_by_key(|completion| completion.user_data);
    all
}

fn kind(completion: &Completion) -> Result<u64, ErrorKind> {
    completion
        .result
        .as_ref()
        .map_or_else(|error| Err(error.kind()), |&bytes| Ok(bytes))
}

#[test]
fn posted_requests_complete_with_user_data_result_and_memory() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let (file, bytes) = (bench.file("data", 100_000), bench.bytes(100_000));
        let written = bench.open_for_writing("written");
        let buffer = bench.storage.buffer(64).expect("memory");
        let mut batch = queue.batch();
        batch
            .post(Read::range(file, 10, 1000).user_data(1))
            .expect("room");
        let vector = Read::range(file, 20, 2000).into(vec![0u8; 2000]);
        batch.post(vector.user_data(2)).expect("room");
        let own = Read::range(file, 0, 64).into(buffer);
        batch.post(own.user_data(3)).expect("room");
        let write = Write::at(written, 0, vec![7u8; 500]);
        batch.post(write.user_data(4)).expect("room");
        batch
            .post(FileOp::sync(written).user_data(5))
            .expect("room");
        // Requests with a ticket and detached ones complete elsewhere.
        batch
            .detach(Read::range(file, 0, 1).user_data(6))
            .expect("room");
        let mut ticket = batch
            .add(Read::range(file, 0, 1).user_data(7))
            .expect("room");
        batch.submit();
        let mut all = by_user_data(&queue, 5);
        ticket.wait().expect("read");
        let numbers: Vec<u64> = all.iter().map(|completion| completion.user_data).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        let lengths: Vec<_> = all[..4].iter().map(kind).collect();
        assert_eq!(lengths, [Ok(1000), Ok(2000), Ok(64), Ok(500)]);
        assert!(kind(&all[4]).is_ok());
        let buffer: Buffer = all[0].take_memory().expect("a buffer");
        assert_eq!(&*buffer, &bytes[10..1010]);
        assert!(all[0].take_memory::<Buffer>().is_none(), "taken before");
        let vector: Vec<u8> = all[1].take_memory().expect("the vector");
        assert_eq!(vector, &bytes[20..2020]);
        let own: Buffer = all[2].take_memory().expect("the buffer");
        assert_eq!(&*own, &bytes[..64]);
        let vector: Vec<u8> = all[3].take_memory().expect("the vector");
        assert_eq!(vector, [7; 500]);
    });
}

#[test]
fn memory_comes_back_with_failed_and_canceled_completions() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let missing = bench.open("missing");
        let gate = Fence::new(0);
        let mut batch = queue.batch();
        let past = Read::range(file, 999, 2).into(vec![0u8; 11]);
        batch.post(past.user_data(1)).expect("room");
        let buffer = bench.storage.buffer(12).expect("memory");
        let absent = Read::range(missing, 0, 12).into(buffer);
        batch.post(absent.user_data(2)).expect("room");
        batch
            .post(Read::range(missing, 0, 12).user_data(3))
            .expect("room");
        let held = Read::range(file, 0, 14).into(vec![0u8; 14]);
        let held = held.after(&gate, 1).tag(4).user_data(4);
        batch.post(held).expect("room");
        batch.submit();
        queue.cancel_tagged(u64::MAX, 4);
        let mut all = by_user_data(&queue, 4);
        let kinds: Vec<_> = all.iter().map(kind).collect();
        let expected = [
            ErrorKind::PastEnd,
            ErrorKind::NotFound,
            ErrorKind::NotFound,
            ErrorKind::Canceled,
        ];
        assert_eq!(kinds, expected.map(Err));
        let vector: Vec<u8> = all[0].take_memory().expect("the vector");
        assert_eq!(vector.len(), 11);
        let buffer: Buffer = all[1].take_memory().expect("the buffer");
        assert!(buffer.capacity() >= 12);
        assert!(all[2].take_memory::<Buffer>().is_none(), "none was taken");
        let vector: Vec<u8> = all[3].take_memory().expect("the vector");
        assert_eq!(vector.len(), 14);
        assert_eq!(queue.take_errors().0, 3, "canceled is not failed");
    });
}

/// The requests are released one by one, in the reverse order of their submission.
#[test]
fn completions_are_drained_in_the_order_of_completion() {
    const COUNT: u64 = 10;
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let (gate, group) = (Fence::new(0), Group::new());
        let mut batch = queue.batch();
        for index in 0..COUNT {
            let request = Read::range(file, index, 1).user_data(index).group(&group);
            batch
                .post(request.after(&gate, COUNT - index))
                .expect("room");
        }
        batch.submit();
        for value in 1..=COUNT {
            gate.signal(value);
            assert!(bench.wait_for(|| group.remaining() == COUNT - value));
        }
        let all = completions(&queue, COUNT as usize);
        let numbers: Vec<u64> = all.iter().map(|completion| completion.user_data).collect();
        assert_eq!(numbers, (0..COUNT).rev().collect::<Vec<u64>>());
    });
}

#[test]
fn a_wait_for_completions_ends_with_the_first_one_or_with_its_timeout() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let short = Some(Duration::from_millis(5));
        assert!(!queue.wait_completions(short).expect("may wait"));
        let gate = Fence::new(0);
        queue
            .post(Read::range(file, 0, 1).after(&gate, 1))
            .expect("room");
        assert!(!queue.wait_completions(short).expect("may wait"));
        assert_eq!(queue.drain_completions(&mut [Completion::default()]), 0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_completions(Some(PATIENCE)));
            std::thread::sleep(Duration::from_millis(20));
            gate.signal(1);
            let waited = waiting.join().expect("no panic");
            assert!(waited.expect("may wait"), "the signal came");
        });
        assert!(
            queue.wait_completions(None).expect("may wait"),
            "still there"
        );
        assert_eq!(completions(&queue, 1).len(), 1);
        assert!(!queue.wait_completions(short).expect("may wait"), "taken");
    });
}

/// The bound is rounded up to whole chunks of slots.
#[test]
fn completions_that_are_not_drained_are_bounded_and_none_is_lost() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.unclaimed) = (4, 4));
        let file = bench.file("data", 1000);
        let mut posted = 0;
        let error = loop {
            if let Err(error) = queue.post(Read::range(file, 0, 1).user_data(posted)) {
                break error;
            }
            posted += 1;
            assert!(queue.drain(None).expect("may wait"));
            assert!(posted <= u64::from(limits::SLOT_CHUNK), "no bound");
        };
        assert_eq!(error.kind(), ErrorKind::TooManyTickets);
        assert!(posted >= 8, "{posted} completions");
        let all = by_user_data(&queue, posted as usize);
        assert!(
            all.iter()
                .map(|completion| completion.user_data)
                .eq(0..posted)
        );
        queue.post(Read::range(file, 0, 1)).expect("room again");
        completions(&queue, 1);
    });
}

/// Memory that shows whether it still lives.
struct Counted {
    bytes: Vec<u8>,
    _alive: Arc<()>,
}

#[expect(unsafe_code, reason = "a destination of the application")]
// SAFETY: the vector's memory is its own, and neither grown nor moved while the value lives.
unsafe impl Destination for Counted {
    fn place(&mut self) -> Place {
        self.bytes.place()
    }
}

#[test]
fn a_dropped_queue_frees_the_memory_of_completions_that_were_not_drained() {
    each_backend_and_pumped(|bench| {
        let file = bench.file("data", 100_000);
        let (alive, gate) = (Arc::new(()), Fence::new(0));
        let read = |index: u64, len: usize| {
            Read::range(file, index, len as u64).into(Counted {
                bytes: vec![0; len],
                _alive: Arc::clone(&alive),
            })
        };
        for round in 0..20 {
            let (queue, group) = (bench.queue(), Group::new());
            let mut batch = queue.batch();
            for index in 0..50 {
                batch.post(read(index, 1000).group(&group)).expect("room");
            }
            // Fails, and comes back with its memory.
            batch.post(read(99_999, 2).group(&group)).expect("room");
            batch.submit();
            assert!(bench.wait_for(|| group.remaining() == 0));
            assert!(queue.wait_completions(Some(PATIENCE)).expect("may wait"));
            assert!(Arc::strong_count(&alive) > 1, "round {round}");
            // Canceled by the drop, and never drained either.
            batch.post(read(0, 1).after(&gate, 1)).expect("room");
            drop((batch, queue));
            assert!(
                bench.wait_for(|| Arc::strong_count(&alive) == 1),
                "round {round}: {} destinations are left",
                Arc::strong_count(&alive) - 1
            );
        }
    });
}

#[test]
fn threads_that_drain_at_the_same_time_take_each_completion_once() {
    const COUNT: u64 = 5_000;
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 100_000);
        let taken = AtomicU64::new(0);
        let drain = || {
            let mut numbers = Vec::new();
            let mut some: [Completion; 8] = Default::default();
            while taken.load(Ordering::Relaxed) < COUNT {
                let count = queue.drain_completions(&mut some);
                taken.fetch_add(count as u64, Ordering::Relaxed);
                numbers.extend(some[..count].iter().map(|completion| completion.user_data));
                if count == 0 {
                    let short = Some(Duration::from_millis(1));
                    queue.wait_completions(short).expect("may wait");
                }
            }
            numbers
        };
        let numbers = std::thread::scope(|scope| {
            let threads = [scope.spawn(drain), scope.spawn(drain), scope.spawn(drain)];
            let mut batch = queue.batch();
            for number in 0..COUNT {
                let request = Read::range(file, number, 16).user_data(number);
                batch.post(request).expect("room");
                if number % 100 == 0 {
                    batch.submit();
                }
            }
            batch.submit();
            threads
                .map(|thread| thread.join().expect("no panic"))
                .concat()
        });
        assert_eq!(numbers.len() as u64, COUNT);
        let distinct: BTreeSet<u64> = numbers.into_iter().collect();
        assert!(distinct.into_iter().eq(0..COUNT), "each number once");
    });
}

#[test]
fn completions_can_be_drained_after_the_storage_was_closed() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let gate = Fence::new(0);
        let mut batch = queue.batch();
        batch
            .post(Read::range(file, 0, 1).user_data(1).after(&gate, 1))
            .expect("room");
        batch.submit();
        let held = Read::range(file, 0, 5).into(vec![0u8; 5]);
        batch.post(held.user_data(2)).expect("room");
        bench.storage.close(PATIENCE);
        drop(batch);
        let mut all = by_user_data(&queue, 2);
        let kinds: Vec<_> = all.iter().map(kind).collect();
        assert_eq!(kinds, [Err(ErrorKind::Canceled), Err(ErrorKind::Closed)]);
        let vector: Vec<u8> = all[1].take_memory().expect("the vector");
        assert_eq!(vector.len(), 5);
    });
}
