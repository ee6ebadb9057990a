//! The eleven semantics that users rely on, each shown over every backend.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{
    Bench, each_backend, each_backend_and_pumped, each_backend_with, options, over_sim,
};
use millstream::{
    Access, Buffer, CodecId, Decode, Error, ErrorKind, Fence, FileId, FileOp, FileOptions, Group,
    Job, JobSystem, Priority, QueueOptions, Read, StatusArray, Storage, Ticket, Write, limits,
};
use millstream_sim::{Sim, SimFileOptions, SimOptions};

fn kind<T>(result: Result<T, Error>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

/// 1. Requests complete in any order; status and signal entries take effect in their place, after
///    everything before them.
#[test]
fn s01_fifo_entries_follow_everything_before_them_and_hold_nothing_back() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 4 << 20);
        let gate = Fence::new(0);
        let (fence, last, statuses) = (Fence::new(0), Fence::new(0), StatusArray::new(2));
        let mut batch = queue.batch();
        let gated = Read::range(file, 0, 4096).after(&gate, 1);
        let mut gated = batch.add(gated).expect("room");
        batch.signal(&fence, 7).expect("room");
        batch.status(&statuses, 0).expect("room");
        batch.signal(&last, 1).expect("room");
        let mut after = batch.add(Read::range(file, 4096, 4096)).expect("room");
        batch.submit();
        after.wait().expect("entries that wait hold nothing back");
        assert!(!fence.has_reached(7) && !statuses.is_complete(0) && !last.has_reached(1));
        // Queues are independent of each other.
        let other = bench.queue();
        other.batch().signal(&gate, 1).expect("room");
        gated.wait().expect("the fence was signaled");
        assert!(bench.wait_for(|| fence.has_reached(7) && last.has_reached(1)));
        assert_eq!(statuses.result(0), Some(0));
        batch
            .detach(Read::range(bench.open("missing"), 0, 1))
            .expect("room");
        batch.status(&statuses, 1).expect("room");
        batch.submit();
        assert_eq!(kind(queue.drain(None)), Ok(true));
        assert!(bench.wait_for(|| statuses.is_complete(1)));
        assert_eq!(statuses.result(1), Some(ErrorKind::NotFound as u32));
    });
}

/// 2. A failed request stops nothing; its error names what is concerned, and the queue keeps a
///    record.
#[test]
fn s02_a_failure_stops_nothing_and_its_error_says_what_where_and_why() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 10_000);
        let mut batch = queue.batch();
        batch.detach(Read::range(file, 0, 100)).expect("room");
        let past = Read::range(file, 9_000, 2_000).name("tail").user_data(42);
        let mut past = batch.add(past).expect("room");
        batch
            .detach(Read::range(bench.open("missing"), 5, 6))
            .expect("room");
        let mut good = batch.add(Read::range(file, 1, 9_999)).expect("room");
        batch.submit();
        assert_eq!(kind(queue.drain(None)), Ok(true));
        good.wait().expect("a failure stops nothing");
        let outcome = past.outcome();
        assert_eq!(outcome.user_data, 42);
        let error = outcome.result.expect_err("past the end");
        assert_eq!(error.kind(), ErrorKind::PastEnd);
        assert_eq!((error.offset(), error.len()), (9_000, 2_000));
        assert_eq!(error.name(), Some("tail"));
        assert!(error.path().expect("a path").ends_with("data"));
        assert!(!error.cause().is_empty());
        let (count, first) = queue.take_errors();
        assert_eq!(count, 2);
        let first = first.expect("the first failure");
        assert_eq!(first.kind(), ErrorKind::PastEnd, "the order of submission");
        assert_eq!(queue.take_errors().0, 0, "taking them resets the record");
    });
}

/// 3. Cancel by ticket, group or tag; every request completes exactly once; canceled is not failed.
#[test]
fn s03_requests_are_canceled_by_ticket_group_and_tag_and_complete_once() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        let (gate, group, fence) = (Fence::new(0), Group::new(), Fence::new(0));
        let gated = |tag| Read::range(file, 0, 64).after(&gate, 1).tag(tag);
        let mut batch = queue.batch();
        let by_ticket = batch.add(gated(0)).expect("room");
        let by_group = batch.add(gated(0).group(&group)).expect("room");
        let by_tag = batch.add(gated(0xf5)).expect("room");
        let mut other_tag = batch.add(gated(0xf6)).expect("room");
        batch.signal(&fence, 1).expect("room");
        batch.submit();
        let mut held = batch.add(gated(0xe5)).expect("room");
        by_ticket.cancel();
        queue.cancel_group(&group);
        queue.cancel_tagged(0x0f, 0x05);
        let mut later = batch.add(gated(0x05)).expect("room");
        for mut ticket in [by_ticket, by_group, by_tag] {
            assert_eq!(kind(ticket.wait()).err(), Some(ErrorKind::Canceled));
        }
        assert_eq!(kind(group.wait(None)), Ok(true));
        assert_eq!((group.canceled(), group.failed()), (1, 0));
        assert!(!fence.has_reached(1), "cancellation leaves entries alone");
        batch.submit();
        gate.signal(1);
        other_tag.wait().expect("another tag");
        held.wait().expect("submitted after the call");
        later.wait().expect("submitted after the call");
        assert!(bench.wait_for(|| fence.has_reached(1)));
        assert_eq!(queue.take_errors().0, 0, "canceled is not failed");
    });
}

/// 4. A full queue submits what the batch holds before it blocks; `try_add` reports it instead.
#[test]
fn s04_a_full_queue_submits_the_batch_before_it_blocks() {
    each_backend(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.auto_submit) = (1, false));
        let file = bench.file("data", 100_000);
        let mut batch = queue.batch();
        for round in 0..50 {
            // Each call finds the queue full with an entry that is not submitted.
            batch.detach(Read::range(file, round, 100)).expect("room");
        }
        batch.submit();
        assert_eq!(kind(queue.drain(None)), Ok(true));
        let gate = Fence::new(0);
        let gated = Read::range(file, 0, 1).after(&gate, 1);
        let mut first = batch.try_add(gated).expect("room");
        let refused = batch.try_add(Read::range(file, 0, 1).user_data(9));
        let refused = refused.expect_err("full");
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        gate.signal(1);
        first.wait().expect("what the batch held was submitted");
        let mut again = queue.submit(refused.request).expect("room again");
        let outcome = again.outcome();
        outcome.result.expect("read");
        assert_eq!(outcome.user_data, 9, "the request came back whole");
    });
}

/// 4. Completed tickets that were neither claimed nor dropped have a bound of their own, rounded up
///    to whole chunks of slots.
#[test]
fn s04_unclaimed_tickets_are_bounded() {
    each_backend(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.unclaimed) = (4, 4));
        let file = bench.file("data", 1000);
        let mut tickets = Vec::new();
        let error = loop {
            match queue.submit(Read::range(file, 0, 1)) {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => break error,
            }
            assert_eq!(kind(queue.drain(None)), Ok(true));
            assert!(tickets.len() <= limits::SLOT_CHUNK as usize, "no bound");
        };
        assert_eq!(error.kind(), ErrorKind::TooManyTickets);
        assert!(tickets.len() >= 8, "{} tickets", tickets.len());
        tickets.pop();
        let mut again = queue.submit(Read::range(file, 0, 1)).expect("room again");
        again.wait().expect("read");
    });
}

/// 5. Within a priority the earliest deadline goes first; a missed one is counted, never an error.
#[test]
fn s05_deadlines_order_a_priority_and_missed_ones_are_counted() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        queue.pause();
        let order = Arc::new(Mutex::new(Vec::new()));
        let request = |index: u64| {
            let order = Arc::clone(&order);
            Read::range(file, index * 100, 10).supplied(move |len| {
                order.lock().expect("not poisoned").push(index);
                Some(vec![0u8; len])
            })
        };
        let mut batch = queue.batch();
        batch.detach(request(0)).expect("room");
        batch
            .detach(request(1).deadline(Instant::now()))
            .expect("room");
        let mut raised = batch.add(request(2)).expect("room");
        batch.submit();
        raised.reprioritize(Priority::Realtime, None);
        queue.resume();
        assert_eq!(kind(queue.drain(None)), Ok(true));
        raised.wait().expect("read");
        assert_eq!(order.lock().expect("not poisoned").len(), 3);
        let stats = bench.storage.stats();
        assert_eq!((stats.deadlines_missed, stats.failed), (1, 0));
        let urgent = stats.completed(Priority::Realtime);
        assert_eq!(urgent, 1, "its priority was changed");
    });
}

/// 5. Requests of a tag change priority and deadline together; of several changes the last counts.
#[test]
fn s05_requests_submitted_before_are_reprioritized_by_tag_however_they_are_delivered() {
    // A pumped storage has not taken them in at the call.
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        queue.pause();
        let read = |tag| Read::range(file, 0, 10).tag(tag);
        let mut batch = queue.batch();
        batch.post(read(0x11)).expect("room");
        batch.detach(read(0x21)).expect("room");
        batch.post(read(0x12)).expect("room");
        let (lowered, raised) = (batch.add(read(0x31)), batch.add(read(0x31)));
        let (mut lowered, mut raised) = (lowered.expect("room"), raised.expect("room"));
        batch.submit();
        let mut held = batch.add(read(0x11)).expect("room");
        lowered.reprioritize(Priority::Realtime, None);
        queue.reprioritize_tagged(0x0f, 0x01, Priority::Realtime, None);
        queue.reprioritize_tagged(0x0f, 0x01, Priority::High, Some(Instant::now()));
        raised.reprioritize(Priority::Realtime, None);
        let mut later = queue.submit(read(0x11)).expect("room");
        batch.submit();
        queue.resume();
        for ticket in [&mut lowered, &mut raised, &mut held, &mut later] {
            ticket.wait().expect("read");
        }
        assert_eq!(kind(queue.drain(None)), Ok(true));
        let stats = bench.storage.stats();
        let completed = [Priority::Normal, Priority::High, Priority::Realtime];
        assert_eq!(
            completed.map(|priority| stats.completed(priority)),
            [3, 3, 1]
        );
        assert_eq!(
            stats.deadlines_missed, 3,
            "the deadlines of the last change"
        );
    });
}

/// 6. With `write_after` the source may be read, and nothing is written before the fence.
#[test]
fn s06_write_after_keeps_memory_untouched_until_the_fence() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 300_000);
        let gate = Fence::new(0);
        let mut memory = vec![0xa5u8; 200_000];
        let request = Read::range(file, 1000, 200_000).write_after(&gate, 1);
        #[expect(unsafe_code, reason = "shows borrowed memory")]
        // SAFETY: `memory` outlives the wait below.
        let request = unsafe { request.borrowed(memory.as_mut_ptr(), memory.len()) };
        let mut ticket = queue.submit(request).expect("room");
        let waited = ticket.wait_timeout(Duration::from_millis(30));
        assert!(waited.expect("may wait").is_none(), "held back");
        let untouched = memory.iter().all(|&byte| byte == 0xa5);
        assert!(untouched, "nothing lands before the fence");
        gate.signal(1);
        ticket.wait().expect("the fence was signaled");
        assert!(memory == bench.bytes(300_000)[1000..201_000]);
    });
}

/// 6. Dropping the last handle and batch of a queue cancels what is still held back by a fence.
#[test]
fn s06_dropping_a_queue_cancels_what_a_fence_holds_back() {
    each_backend(|bench| {
        let file = bench.file("data", 300_000);
        let (gate, group) = (Fence::new(0), Group::new());
        let queue = bench.queue();
        let read = || Read::range(file, 0, 1000).group(&group);
        let mut batch = queue.batch();
        batch.detach(read().after(&gate, 1)).expect("room");
        batch.detach(read().write_after(&gate, 1)).expect("room");
        batch.detach(read()).expect("room");
        drop(queue);
        drop(batch);
        assert_eq!(kind(group.wait(None)), Ok(true));
        assert_eq!((group.canceled(), group.done()), (2, 1));
    });
}

/// 7. Close waits for what is in flight, completes everything, and leaves no thread.
#[test]
fn s07_close_completes_every_request_and_reports_nothing_when_nothing_hangs() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 8 << 20);
        let group = Group::new();
        let mut batch = queue.batch();
        for index in 0..200 {
            let request = Read::range(file, index * 40_000, 40_000).group(&group);
            batch.detach(request).expect("room");
        }
        batch.submit();
        let mut held = batch.add(Read::range(file, 0, 1)).expect("room");
        let report = bench.storage.close(Duration::from_secs(10));
        assert_eq!(report.operations, 0);
        let completed = group.done() + group.canceled();
        assert_eq!((group.remaining(), completed), (0, 200));
        drop(batch);
        assert_eq!(kind(held.wait()).err(), Some(ErrorKind::Closed));
        let late = queue.submit(Read::range(file, 0, 1));
        assert_eq!(kind(late).err(), Some(ErrorKind::Closed));
    });
}

/// 8. A timeout ends a request that waits.
#[test]
fn s08_a_timeout_ends_a_request_that_is_held_back() {
    each_backend(|bench| {
        let file = bench.file("data", 1000);
        let gate = Fence::new(0);
        let request = Read::range(file, 0, 10).after(&gate, 1);
        let request = request.timeout(Duration::from_millis(5));
        let queue = bench.queue();
        let mut ticket = queue.submit(request).expect("room");
        assert_eq!(kind(ticket.wait()).err(), Some(ErrorKind::TimedOut));
    });
}

/// 9. A file is an id; closing is an entry in its place; later requests fail with `StaleFile`.
#[test]
fn s09_a_close_entry_lets_earlier_requests_complete_and_makes_later_ones_stale() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        let mut batch = queue.batch();
        let mut before = batch.add(Read::whole(file)).expect("room");
        batch.close(file).expect("room");
        let mut after = batch.add(Read::range(file, 0, 1)).expect("room");
        batch.submit();
        assert_eq!(before.wait().expect("read").len(), 1 << 20);
        assert_eq!(kind(after.wait()).err(), Some(ErrorKind::StaleFile));
        let again = bench.open("data");
        assert_ne!(again, file);
        let mut opened = bench.storage.opened(again).expect("room");
        assert_eq!(opened.wait().expect("open").len, 1 << 20);
        assert!(bench.wait_for(|| bench.storage.stats().descriptors <= 2));
    });
}

/// 10. Descriptors, staging and threads are bounded; several storages live side by side.
#[test]
fn s10_descriptors_are_bounded_and_reopened_as_needed() {
    each_backend_with(
        || options(|o| o.descriptors = 8),
        |bench| {
            let queue = bench.queue();
            let files: Vec<_> = (0..100)
                .map(|index| bench.file(&format!("f{index}"), 1000 + index))
                .collect();
            for round in 0..3 {
                let mut batch = queue.batch();
                let read = |&file| batch.add(Read::whole(file)).expect("room");
                let tickets: Vec<_> = files.iter().map(read).collect();
                batch.submit();
                for (index, mut ticket) in tickets.into_iter().enumerate() {
                    let buffer = ticket.wait().expect("read");
                    assert_eq!(buffer.len(), 1000 + index, "round {round}");
                }
                assert!(bench.storage.stats().descriptors <= 8);
            }
        },
    );
}

/// 10. A storage runs without threads of its own, pumped by the application.
#[test]
fn s10_a_storage_can_be_pumped() {
    each_backend_with(
        || options(|o| o.threads.pumped = true),
        |bench| {
            let file = bench.file("data", 3 << 20);
            let mut opened = bench.storage.opened(file).expect("room");
            assert_eq!(opened.wait().expect("opened").len, 3 << 20);
            let group = Group::new();
            let queue = bench.queue();
            let mut batch = queue.batch();
            for index in 0..10 {
                let request = Read::range(file, index * 1000, 1000).group(&group);
                batch.detach(request).expect("room");
            }
            let mut whole = batch.add(Read::whole(file)).expect("room");
            batch.submit();
            while group.remaining() > 0 {
                bench.storage.pump();
            }
            assert!(*whole.wait().expect("read") == bench.bytes(3 << 20)[..]);
        },
    );
}

/// Runs each job on a thread of its own, and counts them.
struct Spawn(Arc<AtomicUsize>);

impl JobSystem for Spawn {
    fn spawn(&self, job: Job) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || job.run());
    }
}

/// 10. Decode jobs can run in the application's job system.
#[test]
fn s10_decode_jobs_run_in_the_applications_job_system() {
    let count = Arc::new(AtomicUsize::new(0));
    let system = || options(|o| o.job_system = Some(Arc::new(Spawn(Arc::clone(&count)))));
    each_backend_with(system, |bench| {
        let before = count.load(Ordering::Relaxed);
        let raw = bench.bytes(500_000);
        let file = bench.file_of("z", &crate::support::encoded(CodecId::ZLIB, &raw));
        let request = Read::whole(file).decode(Decode::codec(CodecId::ZLIB).raw_len(500_000));
        let mut ticket = bench.queue().submit(request).expect("room");
        assert!(*ticket.wait().expect("decoded") == raw[..]);
        assert!(count.load(Ordering::Relaxed) > before);
    });
}

fn buffer(bench: &Bench, bytes: &[u8]) -> Buffer {
    let mut buffer = bench.storage.buffer(bytes.len()).expect("memory");
    buffer.copy_from_slice(bytes);
    buffer
}

/// 11. Writes are requests with the same completion.
#[test]
fn s11_writes_appends_syncs_renames_and_replaces_are_requests() {
    each_backend(|bench| {
        let queue = bench.queue();
        let path = bench.folder.path().join("new");
        let file = bench.open_for_writing("new");
        let big = bench.bytes(3_000_000);
        let mut batch = queue.batch();
        batch
            .detach(Write::at(file, 0, buffer(bench, &big)))
            .expect("room");
        batch
            .detach(Write::append(file, buffer(bench, b"tail")))
            .expect("room");
        let mut sync = batch.add(FileOp::sync(file)).expect("room");
        batch.submit();
        sync.wait().expect("synced");
        // The append was submitted when the file was empty: it goes behind what the file held when
        // it was opened.
        let written = std::fs::read(&path).expect("read");
        assert_eq!(written.len(), 3_000_000);
        assert!(written[4..] == big[4..]);
        let to = bench.folder.path().join("renamed");
        let replaced = bench.folder.path().join("replaced");
        std::fs::write(&replaced, "old").expect("written");
        batch.detach(FileOp::rename(&path, &to)).expect("room");
        let replace = FileOp::replace(&replaced, b"new content".to_vec());
        let mut replace = batch.add(replace).expect("room");
        batch.submit();
        let memory = replace.wait().expect("replaced");
        assert_eq!(memory, b"new content", "the memory comes back");
        assert_eq!(std::fs::read(&replaced).expect("read"), b"new content");
        assert!(to.exists() && !path.exists());
    });
}

/// 11. No error of a write is lost, and its memory comes back.
#[test]
fn s11_a_failed_write_shows_in_its_completion_and_in_the_sync_after_it() {
    each_backend(|bench| {
        let queue = bench.queue();
        let read_only = bench.file("ro", 10);
        let write = Write::at(read_only, 0, buffer(bench, b"x"));
        let outcome = queue.submit(write).expect("room").outcome();
        let error = outcome.result.expect_err("not opened for writing");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(&*outcome.memory.expect("the buffer comes back"), b"x");
        let synced = queue.submit(FileOp::sync(read_only)).expect("room").wait();
        assert!(
            synced.is_err(),
            "a sync reports the write that failed before it"
        );
    });
}

/// Tickets and fences can be awaited.
#[test]
fn completions_can_be_awaited() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 100_000);
        let fence = Fence::new(0);
        let mut batch = queue.batch();
        let ticket = batch.add(Read::range(file, 5, 50_000)).expect("room");
        batch.signal(&fence, 3).expect("room");
        batch.submit();
        let landed = crate::support::block_on(async {
            fence.at(3).await;
            ticket.await
        });
        assert_eq!(landed.expect("read").len(), 50_000);
        let dropped = queue.submit(Read::range(file, 0, 10)).expect("room");
        drop(dropped.cancel_on_drop());
        assert_eq!(kind(queue.drain(None)), Ok(true));
    });
}

fn fails_with<T: std::fmt::Debug + 'static>(mut ticket: Ticket<T>, expected: ErrorKind) {
    assert_eq!(ticket.wait().expect_err("fails").kind(), expected);
}

const LANDED: usize = 2_000_000;

fn lands_everywhere(bench: &Bench, source: FileId, codec: CodecId, bytes: &[u8]) {
    let decode = || Decode::codec(codec).raw_len(LANDED as u64);
    let read = || Read::whole(source).decode(decode());
    let queue = bench.queue();
    let mut batch = queue.batch();
    let supply = |len| {
        assert_eq!(len, LANDED);
        Some(vec![0u8; len + 3])
    };
    let mut supplied = batch.add(read().supplied(supply)).expect("room");
    let owned = vec![0u8; LANDED].into_boxed_slice();
    let mut owned = batch.add(read().into(owned)).expect("room");
    let mut vector = batch.add(read().into(vec![0u8; LANDED])).expect("room");
    let refused = batch
        .add(read().supplied(|_| None::<Vec<u8>>))
        .expect("room");
    let panics = |_| -> Option<Vec<u8>> { panic!("no memory") };
    let panicked = batch.add(read().supplied(panics)).expect("room");
    let small = batch.add(read().into(vec![0u8; LANDED - 1])).expect("room");
    batch.submit();
    assert!(supplied.wait().expect("read")[..LANDED] == *bytes);
    assert!(*owned.wait().expect("read") == *bytes);
    assert!(vector.wait().expect("read") == bytes);
    fails_with(refused, ErrorKind::Application);
    fails_with(panicked, ErrorKind::Application);
    fails_with(small, ErrorKind::DestinationTooSmall);
}

/// Supplied and owned destinations, aligned or not.
#[test]
fn bytes_land_in_every_kind_of_destination() {
    each_backend(|bench| {
        let bytes = bench.bytes(LANDED);
        let stored = bench.file("data", LANDED);
        let encoded = bench.file_of("zst", &crate::support::encoded(CodecId::ZSTD, &bytes));
        lands_everywhere(bench, stored, CodecId::STORED, &bytes);
        lands_everywhere(bench, encoded, CodecId::ZSTD, &bytes);
    });
}

/// Pausing one queue, or limiting its bandwidth, holds back no other.
#[test]
fn a_paused_or_limited_queue_holds_back_no_other() {
    each_backend(|bench| {
        let (paused, limited, free) = (bench.queue(), bench.queue(), bench.queue());
        let file = bench.file("data", 4 << 20);
        paused.pause();
        limited.set_bandwidth(Some(40 << 20));
        let mut held = paused.submit(Read::range(file, 0, 4096)).expect("room");
        let started = Instant::now();
        let mut slow = limited.submit(Read::range(file, 0, 4 << 20)).expect("room");
        let mut fast = free.submit(Read::range(file, 0, 4 << 20)).expect("room");
        fast.wait().expect("read");
        assert!(!held.is_complete());
        slow.wait().expect("read");
        let least = Duration::from_millis(50);
        assert!(
            started.elapsed() >= least,
            "4 MiB at 40 MiB/s, less a block"
        );
        paused.resume();
        held.wait().expect("read");
    });
}

/// One byte at 1000 bytes a second is paid for after a millisecond, what is read with it would take
/// minutes.
#[test]
fn a_limited_queue_does_not_pay_for_neighbors_that_are_read_with_its_own() {
    let (sim, files) = Sim::new(SimOptions::default());
    let stored = crate::support::bytes(1 << 20);
    let cached = SimFileOptions {
        cached_bytes: Some(stored.len() as u64),
        ..SimFileOptions::default()
    };
    files.add("f", stored, cached);
    let mut options = over_sim(sim, &files, Access::Buffered);
    options.merge = true;
    let storage = Storage::new(options).expect("a storage");
    let queue = || storage.queue(QueueOptions::default()).expect("a queue");
    let (limited, free) = (queue(), queue());
    limited.set_bandwidth(Some(1000));
    let file = storage.open("f", FileOptions::default());
    let opened = storage.opened(file).expect("room").wait();
    opened.expect("it is there");
    let mut own = limited.submit(Read::range(file, 0, 1)).expect("room");
    let mut batch = free.batch();
    let others: Vec<_> = (0..3)
        .map(|other| Read::range(file, 1 + (other << 16), 1 << 16))
        .map(|read| batch.add(read).expect("room"))
        .collect();
    batch.submit();
    own.wait().expect("read");
    for mut other in others {
        other.wait().expect("read");
    }
    let stats = storage.stats();
    assert_eq!((stats.merged_operations, stats.operations), (1, 1));
    let mut next = limited.submit(Read::range(file, 0, 1)).expect("room");
    let next = next.wait_timeout(crate::support::PATIENCE);
    assert!(next.expect("not claimed").is_some(), "it waits for minutes");
}

/// A mapped view is brought into memory ahead of its use by requests like any other.
#[test]
fn a_mapped_view_is_prefetched_by_requests() {
    each_backend(|bench| {
        let bytes = bench.bytes(9_000_000);
        bench.file_of("view", &bytes);
        let path = bench.folder.path().join("view");
        #[expect(unsafe_code, reason = "maps a file that is not truncated")]
        // SAFETY: the file stays as it is until the folder goes, after the view.
        let view = unsafe { millstream::MappedView::open(&path, 0, u64::MAX) };
        let view = view.expect("mapped");
        let queue = bench.queue();
        let mut batch = queue.batch();
        let prefetched = FileOp::prefetch(&view, 4096, 8_000_000);
        let mut prefetched = batch.add(prefetched).expect("room");
        let beyond = FileOp::prefetch(&view, 8_999_999, 2);
        let mut beyond = batch.add(beyond).expect("room");
        batch.submit();
        assert_eq!(kind(prefetched.outcome().result), Ok(8_000_000));
        assert!(beyond.wait().is_err(), "past the view's end");
        assert!(view[..] == bytes[..]);
    });
}
