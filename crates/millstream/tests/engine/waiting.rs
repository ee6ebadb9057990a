//! Waiting: where it is refused, how long it may last, and that it pumps a storage without threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::support::{
    Bench, PATIENCE, each_backend, each_backend_and_pumped, each_backend_with, options,
};
use millstream::{
    Codec, CodecId, Completion, Decode, Error, ErrorKind, Fence, FileId, FileOp, Group, LogLevel,
    Queue, Read, Storage,
};

/// Short, so that a wait that is not refused fails its test instead of hanging it.
const SHORT: Duration = Duration::from_millis(200);

fn kind<T>(result: Result<T, Error>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

/// What a callback needs to wait for things that do not happen.
struct Waits {
    storage: Storage,
    queue: Queue,
    file: FileId,
    gate: Fence,
    group: Group,
}

/// How each kind of waiting ended.
type Refusals = Vec<(&'static str, Option<ErrorKind>)>;

impl Waits {
    /// Its group has a request that `gate` holds back until it is signaled.
    fn new(bench: &Bench) -> Waits {
        let file = bench.file("waited for", 100);
        let waits = Waits {
            storage: bench.storage.clone(),
            queue: bench.queue(),
            file,
            gate: Fence::new(0),
            group: Group::new(),
        };
        let held = Read::range(file, 0, 1).after(&waits.gate, 1);
        waits.queue.detach(held.group(&waits.group)).expect("room");
        waits
    }

    /// Tries every way to wait, and lets go of what was held back.
    fn attempt(self) -> Refusals {
        let error = |result: Result<(), Error>| kind(result).err();
        let held = Read::range(self.file, 0, 1).after(&self.gate, 1);
        let mut ticket = self.queue.try_submit(held).expect("room");
        let held = FileOp::sync(self.file).after(&self.gate, 1);
        let mut operation = self.queue.try_submit(held).expect("room");
        let fence = Fence::new(0);
        let short = Some(SHORT);
        let mut refusals = vec![
            ("ticket", error(ticket.wait_timeout(SHORT).map(drop))),
            ("operation", error(operation.wait_timeout(SHORT).map(drop))),
            ("fence", error(fence.wait(1, short).map(drop))),
            ("group", error(self.group.wait(short).map(drop))),
            ("drain", error(self.queue.drain(short).map(drop))),
            (
                "completions",
                error(self.queue.wait_completions(short).map(drop)),
            ),
            (
                "storage",
                error(self.storage.wait(fence.at(1), short).map(drop)),
            ),
        ];
        if refusals[0].1.is_some() {
            // Without a timeout: it would never return if it were not refused.
            refusals.push(("ticket, for ever", error(ticket.wait().map(drop))));
            refusals.push(("operation, for ever", error(operation.wait().map(drop))));
            refusals.push(("load", error(self.storage.load("Cargo.toml").map(drop))));
            refusals.push(("drain, for ever", error(self.queue.drain(None).map(drop))));
        }
        // What is there already needs no wait.
        assert_eq!(kind(self.gate.wait(0, None)), Ok(true));
        self.gate.signal(1);
        refusals
    }
}

fn all_were_refused(refusals: &Receiver<Refusals>) {
    let refusals = refusals
        .recv_timeout(PATIENCE)
        .expect("the callback was called");
    for (what, refusal) in refusals {
        assert_eq!(refusal, Some(ErrorKind::OnStorageThread), "{what}");
    }
}

/// Hands what a callback needs to it, once.
struct Attempt {
    waits: Mutex<Option<Waits>>,
    sender: Sender<Refusals>,
}

impl Attempt {
    fn new() -> (Arc<Attempt>, Receiver<Refusals>) {
        let (sender, receiver) = channel();
        let waits = Mutex::default();
        (Arc::new(Attempt { waits, sender }), receiver)
    }

    fn arm(&self, waits: Waits) {
        *self.waits.lock().expect("not poisoned") = Some(waits);
    }

    fn run(&self) {
        let waits = self.waits.lock().expect("not poisoned").take();
        if let Some(waits) = waits {
            self.sender.send(waits.attempt()).expect("the test waits");
        }
    }
}

impl Wake for Attempt {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

#[test]
fn a_waker_that_waits_for_its_storage_is_refused() {
    each_backend_and_pumped(|bench| {
        let (attempt, refusals) = Attempt::new();
        attempt.arm(Waits::new(bench));
        let gate = Fence::new(0);
        let file = bench.file("data", 100);
        let request = Read::range(file, 0, 1).after(&gate, 1);
        // What a fence holds back is canceled with its queue.
        let queue = bench.queue();
        let mut ticket = queue.submit(request).expect("room");
        let waker = Waker::from(attempt);
        let mut context = Context::from_waker(&waker);
        assert!(ticket.poll_outcome(&mut context).is_pending());
        gate.signal(1);
        assert!(bench.wait_for(|| ticket.is_complete()));
        all_were_refused(&refusals);
        ticket.wait().expect("read");
    });
}

struct WaitingCodec(Arc<Attempt>);

impl Codec for WaitingCodec {
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        self.0.run();
        raw.copy_from_slice(stored);
        Ok(stored.len())
    }
}

#[test]
fn a_codec_that_waits_for_its_storage_is_refused() {
    for pumped in [false, true] {
        let (attempt, refusals) = Attempt::new();
        let with_codec = || {
            options(|o| {
                o.threads.pumped = pumped;
                o.codec(CodecId::APPLICATION, WaitingCodec(Arc::clone(&attempt)));
            })
        };
        each_backend_with(with_codec, |bench| {
            attempt.arm(Waits::new(bench));
            let file = bench.file("data", 100);
            let decode = Decode::codec(CodecId::APPLICATION).raw_len(100);
            let request = Read::whole(file).decode(decode);
            let mut ticket = bench.queue().submit(request).expect("room");
            assert_eq!(&*ticket.wait().expect("decoded"), bench.bytes(100));
            all_were_refused(&refusals);
        });
    }
}

#[test]
fn a_callback_that_supplies_memory_and_waits_for_its_storage_is_refused() {
    each_backend_and_pumped(|bench| {
        let (attempt, refusals) = Attempt::new();
        attempt.arm(Waits::new(bench));
        let file = bench.file("data", 100);
        let supply = move |len| {
            attempt.run();
            Some(vec![0u8; len])
        };
        let request = Read::whole(file).supplied(supply);
        let mut ticket = bench.queue().submit(request).expect("room");
        assert_eq!(ticket.wait().expect("read"), bench.bytes(100));
        all_were_refused(&refusals);
    });
}

#[test]
fn a_log_hook_that_waits_for_its_storage_is_refused() {
    for pumped in [false, true] {
        let (attempt, refusals) = Attempt::new();
        let with_hook = || {
            let attempt = Arc::clone(&attempt);
            options(|o| {
                o.threads.pumped = pumped;
                o.log = Some(Arc::new(move |_, text: &str| {
                    if text == "attempt" {
                        attempt.run();
                    }
                }));
            })
        };
        each_backend_with(with_hook, |bench| {
            attempt.arm(Waits::new(bench));
            bench.storage.log(LogLevel::Info, "attempt");
            all_were_refused(&refusals);
        });
    }
}

/// On a thread of the storage a full queue is reported at once.
#[test]
fn a_waker_that_adds_to_a_full_queue_is_refused() {
    struct Add(Queue, FileId, Sender<Option<ErrorKind>>);
    impl Wake for Add {
        fn wake(self: Arc<Self>) {
            let added = self.0.submit(Read::range(self.1, 0, 1));
            self.2
                .send(kind(added.map(drop)).err())
                .expect("the test waits");
        }
    }
    each_backend_and_pumped(|bench| {
        let (gate, held) = (Fence::new(0), Fence::new(0));
        let file = bench.file("data", 100);
        let full = bench.queue_with(|o| o.capacity = 1);
        full.detach(Read::range(file, 0, 1).after(&held, 1))
            .expect("room");
        let request = Read::range(file, 0, 1).after(&gate, 1);
        // What a fence holds back is canceled with its queue.
        let queue = bench.queue();
        let mut ticket = queue.submit(request).expect("room");
        let (sender, receiver) = channel();
        let waker = Waker::from(Arc::new(Add(full, file, sender)));
        let mut context = Context::from_waker(&waker);
        assert!(ticket.poll_outcome(&mut context).is_pending());
        gate.signal(1);
        assert!(bench.wait_for(|| ticket.is_complete()));
        let refusal = receiver.recv_timeout(PATIENCE).expect("woken");
        assert_eq!(refusal, Some(ErrorKind::QueueFull));
        held.signal(1);
    });
}

#[test]
fn the_longest_duration_means_no_limit_everywhere() {
    each_backend_and_pumped(|bench| {
        const MAX: Duration = Duration::MAX;
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let (fence, group) = (Fence::new(0), Group::new());
        let read = || Read::range(file, 0, 1).timeout(MAX);
        let mut batch = queue.batch();
        let mut timed = batch.add(read()).expect("room");
        let awaited = batch.add(read()).expect("room");
        batch.detach(read().group(&group)).expect("room");
        batch.signal(&fence, 1).expect("room");
        batch.submit();
        let outcome = timed.wait_timeout(MAX).expect("may wait");
        outcome.expect("complete").result.expect("read");
        let awaited = bench.storage.wait(awaited, Some(MAX)).expect("may wait");
        awaited.expect("complete").expect("read");
        assert_eq!(kind(queue.drain(Some(MAX))), Ok(true));
        assert_eq!(kind(fence.wait(1, Some(MAX))), Ok(true));
        assert_eq!(kind(group.wait(Some(MAX))), Ok(true));
        queue.post(read()).expect("room");
        assert_eq!(kind(queue.wait_completions(Some(MAX))), Ok(true));
        assert_eq!(queue.drain_completions(&mut [Completion::default()]), 1);
        let report = bench.storage.close(MAX);
        assert_eq!(report.operations, 0);
    });
}

/// The longest waits end with what they wait for, not at once.
#[test]
fn the_longest_waits_of_fences_and_groups_sleep_until_they_are_woken() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let (gate, fence, group) = (Fence::new(0), Fence::new(0), Group::new());
        let mut batch = queue.batch();
        let held = Read::range(file, 0, 1).after(&gate, 1);
        let mut ticket = batch.add(held.group(&group)).expect("room");
        batch.signal(&fence, 1).expect("room");
        batch.submit();
        std::thread::scope(|scope| {
            let waits = [
                scope.spawn(|| fence.wait(1, Some(Duration::MAX))),
                scope.spawn(|| group.wait(Some(Duration::MAX))),
                scope.spawn(|| queue.drain(Some(Duration::MAX))),
                scope.spawn(|| Ok(ticket.wait_timeout(Duration::MAX)?.is_some())),
            ];
            std::thread::sleep(Duration::from_millis(20));
            assert!(waits.iter().all(|wait| !wait.is_finished()));
            gate.signal(1);
            for wait in waits {
                assert_eq!(kind(wait.join().expect("no panic")), Ok(true));
            }
        });
    });
}

#[test]
fn a_wait_that_times_out_leaves_what_it_waited_for_as_it_was() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let (gate, group) = (Fence::new(0), Group::new());
        let held = Read::range(file, 0, 1).after(&gate, 1).group(&group);
        let mut ticket = queue.submit(held).expect("room");
        let short = Duration::from_millis(2);
        let started = Instant::now();
        assert!(ticket.wait_timeout(short).expect("may wait").is_none());
        assert_eq!(kind(gate.wait(1, Some(short))), Ok(false));
        assert_eq!(kind(group.wait(Some(short))), Ok(false));
        assert_eq!(kind(queue.drain(Some(short))), Ok(false));
        let storage = &bench.storage;
        assert_eq!(kind(storage.wait(gate.at(1), Some(short))), Ok(None));
        assert_eq!(kind(storage.wait(&group, Some(Duration::ZERO))), Ok(None));
        assert!(started.elapsed() >= 5 * short);
        gate.signal(1);
        ticket.wait().expect("read");
        assert_eq!(kind(storage.wait(&group, None)), Ok(Some(())));
    });
}

/// No other thread pumps here: what completes was pumped by the wait itself.
#[test]
fn storage_wait_pumps_for_tickets_fences_and_groups() {
    each_backend_and_pumped(|bench| {
        let (queue, storage) = (bench.queue(), &bench.storage);
        let file = bench.file("data", 300_000);
        let (fence, group) = (Fence::new(0), Group::new());
        let mut batch = queue.batch();
        batch.detach(Read::whole(file).group(&group)).expect("room");
        batch.submit();
        assert_eq!(kind(storage.wait(&group, None)), Ok(Some(())));
        assert_eq!(group.done(), 1);
        batch.detach(Read::whole(file)).expect("room");
        batch.signal(&fence, 5).expect("room");
        batch.submit();
        assert_eq!(kind(storage.wait(fence.at(5), None)), Ok(Some(())));
        let ticket = batch.add(Read::whole(file)).expect("room");
        batch.submit();
        let landed = storage.wait(ticket, None).expect("may wait");
        let landed = landed.expect("complete").expect("read");
        assert_eq!(&*landed, bench.bytes(300_000));
        // A future of one's own, made of them.
        let ticket = batch
            .add(Read::range(file, 7, 9).group(&group))
            .expect("room");
        batch.signal(&fence, 6).expect("room");
        batch.submit();
        let both = async {
            fence.at(6).await;
            (&group).await;
            ticket.await
        };
        let landed = storage.wait(both, Some(PATIENCE)).expect("may wait");
        assert_eq!(landed.expect("complete").expect("read").len(), 9);
    });
}

#[test]
fn tickets_fences_and_groups_are_awaited() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 100_000);
        let (fence, group) = (Fence::new(0), Group::new());
        let missing = bench.open("missing");
        let mut batch = queue.batch();
        let ticket = batch.add(Read::range(file, 5, 50_000)).expect("room");
        let failing = batch.add(Read::whole(missing).group(&group)).expect("room");
        batch.detach(Read::whole(file).group(&group)).expect("room");
        batch.signal(&fence, 3).expect("room");
        batch.submit();
        crate::support::block_on(async {
            (&group).await;
            assert_eq!((group.done(), group.failed()), (1, 1));
            fence.at(3).await;
            fence.at(1).await;
            let landed = ticket.await.expect("read");
            assert_eq!(&*landed, &bench.bytes(100_000)[5..50_005]);
            assert_eq!(kind(failing.await).err(), Some(ErrorKind::NotFound));
            let opened = bench.storage.opened(file).expect("room").await;
            assert_eq!(opened.expect("open").len, 100_000);
        });
    });
}

/// Two threads wait in pump mode: whoever finds the engine free pumps for both.
#[test]
fn several_threads_may_wait_for_a_pumped_storage() {
    each_backend_with(
        || options(|o| o.threads.pumped = true),
        |bench| {
            let queue = bench.queue();
            let file = bench.file("data", 100_000);
            let wait = || {
                for index in 0..500 {
                    let mut ticket = queue.submit(Read::range(file, index, 100)).expect("room");
                    assert_eq!(ticket.wait().expect("read").len(), 100);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(wait);
                scope.spawn(wait);
            });
        },
    );
}

/// Its outcome is there: claiming it never blocks.
#[test]
fn a_completed_ticket_needs_no_wait_on_a_thread_of_the_storage() {
    struct Claim(
        Mutex<Option<millstream::Ticket<millstream::Buffer>>>,
        Sender<usize>,
    );
    impl Wake for Claim {
        fn wake(self: Arc<Self>) {
            let ticket = self.0.lock().expect("not poisoned").take();
            let landed = ticket.map(|mut ticket| ticket.wait().expect("complete before"));
            self.1
                .send(landed.map_or(0, |buffer| buffer.len()))
                .expect("the test waits");
        }
    }
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let gate = Fence::new(0);
        let complete = queue.submit(Read::range(file, 0, 77)).expect("room");
        assert!(bench.wait_for(|| complete.is_complete()));
        let held = Read::range(file, 0, 1).after(&gate, 1);
        let mut held = queue.submit(held).expect("room");
        let (sender, receiver) = channel();
        let waker = Waker::from(Arc::new(Claim(Mutex::new(Some(complete)), sender)));
        let mut context = Context::from_waker(&waker);
        assert!(held.poll_outcome(&mut context).is_pending());
        gate.signal(1);
        assert!(bench.wait_for(|| held.is_complete()));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(77));
    });
}
