//! Reads that the thread does that waits for them. A storage with threads may begin any of them
//! first; a pumped one begins none before a thread waits.

use std::thread;
use std::time::{Duration, Instant};

use millstream::limits::LOCAL_WAITS;
use millstream::{
    Buffer, ErrorKind, Fence, FileId, Group, Priority, Queue, Read, StatusArray, Ticket, WaitsFor,
};

use crate::support::{Bench, bytes, each_backend_with, landed, options};

const LEN: usize = 9000;

/// What a test has of its storage.
struct Case<'a> {
    bench: &'a Bench,
    queue: Queue,
    file: FileId,
    content: Vec<u8>,
    /// Whether each plain read of the file is done by the thread that waits for it.
    by_callers: bool,
}

impl Case<'_> {
    fn count(&self) -> u64 {
        self.bench.storage.stats().read_by_callers
    }

    fn submit(&self, read: Read<Buffer>) -> Ticket<Buffer> {
        self.queue.submit(read).expect("room")
    }

    fn drain(&self) {
        assert!(self.queue.drain(None).expect("it may block"));
    }

    /// Waits for a read, of which the engine has settled everything when this returns; returns
    /// whether its caller did it.
    fn is_by_caller<T>(&self, wait: impl FnOnce(&Case<'_>) -> T) -> bool {
        let before = self.count();
        wait(self);
        self.drain();
        self.count() > before
    }
}

/// Runs a test on a file for which threads have waited so often that they may read it.
fn each_case(test: impl Fn(&Case<'_>)) {
    for pumped in [false, true] {
        each_backend_with(
            || options(|options| options.threads.pumped = pumped),
            |bench| {
                let content = bytes(LEN);
                let mut case = Case {
                    file: bench.file_of("file", &content),
                    queue: bench.queue(),
                    bench,
                    content,
                    by_callers: false,
                };
                for nth in 0..u64::from(LOCAL_WAITS) + 2 {
                    let read = landed(case.submit(Read::range(case.file, nth, 100)));
                    assert!(read[..] == case.content[nth as usize..][..100]);
                    case.drain();
                }
                // None, where numbers do not name files for certain.
                case.by_callers = pumped && case.count() > 0;
                test(&case);
            },
        );
    }
}

#[test]
fn a_read_that_is_waited_for_lands_in_any_memory_and_is_counted() {
    each_case(|case| {
        let (file, expected) = (case.file, &case.content[7..4000]);
        let before = case.bench.storage.stats();
        let read = || Read::range(file, 7, 3993);
        for _ in 0..3 {
            assert!(landed(case.submit(read()))[..] == *expected);
            let vec = case
                .queue
                .submit(read().into(vec![0u8; 5000]))
                .expect("room");
            assert!(landed(vec)[..3993] == *expected);
            let mut buffer = case.bench.storage.buffer(8000).expect("memory");
            buffer[..].fill(9);
            let buffer = case.queue.submit(read().into(buffer)).expect("room");
            assert!(landed(buffer)[..] == *expected);
            let read = read().user_data(5).tag(3).priority(Priority::Realtime);
            let outcome = case.submit(read).outcome();
            assert_eq!((outcome.user_data, outcome.result.ok()), (5, Some(3993)));
        }
        case.drain();
        let stats = case.bench.storage.stats().since(&before);
        let sums = (
            stats.requests,
            stats.done,
            stats.raw_bytes,
            stats.stored_bytes,
        );
        assert_eq!(sums, (12, 12, 12 * 3993, 12 * 3993));
        assert_eq!(stats.completed(Priority::Realtime), 3);
        assert!(!case.by_callers || stats.read_by_callers == 12);
        assert_eq!(case.queue.live(), 0);
    });
}

#[test]
fn what_a_caller_cannot_read_is_left_to_the_engine() {
    each_case(|case| {
        let (file, long) = (case.file, bytes(200_000));
        let by_caller = |read: Read<Buffer>| case.is_by_caller(|case| landed(case.submit(read)));
        assert!(by_caller(Read::range(file, 7, 100)) || !case.by_callers);
        let group = Group::new();
        let other = case.bench.file_of("other", &long);
        for read in [
            Read::whole(file),
            Read::at_most(file, 5, 100),
            Read::range(file, 5, 100).name("it"),
            Read::range(file, 5, 100).group(&group),
            Read::range(file, 5, 100).deadline(Instant::now()),
            Read::range(file, 5, 100).timeout(Duration::MAX),
            Read::range(file, 5, 0),
            Read::range(other, 5, 100),
            Read::range(other, 5, 150_000),
        ] {
            assert!(!by_caller(read));
        }
        let before = case.count();
        let mut ticket = case.submit(Read::range(file, 5, 100));
        assert!(
            ticket.wait_timeout(Duration::MAX).is_ok(),
            "its callers may give up"
        );
        for past in [LEN as u64 - 5, LEN as u64, 1 << 40] {
            let error = case.submit(Read::range(file, past, 6)).wait();
            assert_eq!(
                error.expect_err("it ends before").kind(),
                ErrorKind::PastEnd
            );
        }
        let small = case
            .queue
            .submit(Read::range(file, 0, 9).into(vec![0u8; 8]));
        let error = small.expect("room").wait().expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::DestinationTooSmall);
        let mut canceled = case.submit(Read::range(file, 5, 100));
        canceled.cancel();
        let _ = canceled.outcome();
        case.drain();
        assert_eq!(case.count(), before);
        assert_eq!(case.queue.take_errors().0, 4);
        assert!(by_caller(Read::range(file, 7, 100)) || !case.by_callers);
    });
}

#[test]
fn a_queue_that_is_paused_or_limited_serves_no_caller() {
    each_case(|case| {
        let read = || Read::range(case.file, 7, 100);
        case.queue.pause();
        let (mut ticket, before) = (case.submit(read()), case.count());
        thread::scope(|scope| {
            let waiting = scope.spawn(move || ticket.wait().expect("resumed").len());
            // The engine has taken it, and it is not complete.
            let other = case.submit(Read::range(case.file, 7, 101));
            let is_held = || other.waits_for() == Some(WaitsFor::Pause);
            assert!(case.bench.wait_for(is_held));
            assert!(!waiting.is_finished());
            case.queue.resume();
            assert_eq!(landed(other).len(), 101);
            assert_eq!(waiting.join().expect("it waits"), 100);
        });
        case.queue.set_bandwidth(Some(1 << 40));
        assert_eq!(landed(case.submit(read())).len(), 100);
        case.drain();
        assert_eq!(case.count(), before);
        case.queue.set_bandwidth(None);
        assert!(case.is_by_caller(|case| landed(case.submit(read()))) || !case.by_callers);
    });
}

#[test]
fn entries_take_effect_after_a_read_that_its_caller_does() {
    each_case(|case| {
        let (fence, statuses) = (Fence::new(0), StatusArray::new(2));
        let mut batch = case.queue.batch();
        for value in 1..50 {
            let mut ticket = batch.add(Read::range(case.file, value, 10)).expect("room");
            batch.submit();
            let read = ticket.wait().expect("read");
            assert!(read[..] == case.content[value as usize..][..10]);
            batch.status(&statuses, 0).expect("room");
            batch.signal(&fence, value).expect("room");
            batch.submit();
            case.drain();
            assert!(fence.has_reached(value));
            assert_eq!(statuses.result(0), Some(0));
        }
        case.drain();
        assert_eq!(case.queue.live(), 0);
    });
}

#[test]
fn many_threads_that_wait_get_the_bytes_of_their_own_reads() {
    each_case(|case| {
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let queue = case.bench.queue_with(|options| options.capacity = 2);
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..200 {
                        let (at, len) = (random.usize(..LEN - 64), random.usize(1..64));
                        let read = Read::range(case.file, at as u64, len as u64);
                        let read = match random.bool() {
                            true => landed(queue.submit(read).expect("room")),
                            false => landed(case.submit(read)),
                        };
                        assert!(read[..] == case.content[at..][..len]);
                    }
                    assert!(queue.drain(None).expect("it may block"));
                });
            }
        });
        case.drain();
        let stats = case.bench.storage.stats();
        assert_eq!((stats.stalls, stats.requests), (0, stats.done));
    });
}

#[test]
fn a_storage_that_closes_ends_each_read_that_is_waited_for() {
    for _ in 0..8 {
        each_case(|case| {
            thread::scope(|scope| {
                let readers = [0, 1].map(|_| {
                    scope.spawn(|| {
                        loop {
                            let read = Read::range(case.file, 7, 100);
                            let outcome = case.queue.submit(read).and_then(|mut it| it.wait());
                            match outcome {
                                Ok(read) => assert!(read[..] == case.content[7..107]),
                                Err(error) => return error.kind(),
                            }
                        }
                    })
                });
                let mut ticket = case.submit(Read::range(case.file, 1, 10));
                ticket.wait().expect("nothing has closed it");
                let report = case.bench.storage.close(Duration::from_secs(60));
                assert_eq!(report, millstream::CloseReport::default());
                for reader in readers {
                    let kind = reader.join().expect("no panic");
                    assert!(matches!(kind, ErrorKind::Closed | ErrorKind::Canceled));
                }
            });
        });
    }
}
