//! The eleven semantics that users rely on, each shown over every backend.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream::{
    CodecId, Counter, ErrorKind, Event, Fence, FileOptions, Gate, Group, Landed, Landing, Priority,
    QueueOptions, Request, StatusArray, StorageOptions,
};
use support::each_backend;

/// 1. Requests end in any order; status, signal and event entries fire in their place, after all
///    before them.
#[test]
fn s01_fifo_entries_fire_after_everything_before_them_and_hold_nothing_back() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 4 << 20);
        let gate = Fence::new(0);
        let (fence, event, statuses) = (Fence::new(0), Event::new(), StatusArray::new(2));
        let gated = Request::read(file, 0, 4096).gate(Gate::Source, &gate, 1);
        let gated = queue.enqueue(gated).expect("enqueued");
        queue.enqueue_signal(&fence, 7);
        queue.enqueue_status(&statuses, 0);
        queue.enqueue_event(&event);
        let after = queue
            .enqueue(Request::read(file, 4096, 4096))
            .expect("enqueued");
        queue.submit();
        after.wait().expect("entries that wait hold nothing back");
        assert!(!fence.reached(7) && !statuses.is_complete(0) && !event.is_set());
        // Queues are independent of each other.
        let other = bench.queue();
        other.enqueue_signal(&gate, 1);
        other.submit();
        gated.wait().expect("let go by the gate");
        assert!(bench.wait_for(|| fence.reached(7) && event.is_set()));
        assert_eq!(statuses.result(0), Some(0));
        let missing = bench.storage.open(bench.folder.path().join("missing"));
        queue
            .enqueue_detached(Request::read(missing, 0, 1))
            .expect("enqueued");
        queue.enqueue_status(&statuses, 1);
        queue.drain();
        assert!(bench.wait_for(|| statuses.is_complete(1)));
        assert_eq!(statuses.result(1), Some(ErrorKind::NotFound as u32));
    });
}

/// 2. A failed request stops nothing; its error names what is concerned, and the queue keeps a
///    record.
#[test]
fn s02_a_failure_stops_nothing_and_says_what_where_and_why() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 10_000);
        let missing = bench.storage.open(bench.folder.path().join("missing"));
        queue
            .enqueue_detached(Request::read(file, 0, 100))
            .expect("enqueued");
        let request = Request::read(file, 9_000, 2_000).name("tail").user_data(42);
        let past = queue.enqueue(request).expect("enqueued");
        queue
            .enqueue_detached(Request::read(missing, 5, 6))
            .expect("enqueued");
        let good = queue
            .enqueue(Request::read(file, 1, 9_999))
            .expect("enqueued");
        queue.drain();
        good.wait().expect("a failure stops nothing");
        let failed = past.wait().expect_err("past the end");
        assert_eq!(
            (failed.user_data, failed.error.kind()),
            (42, ErrorKind::PastEnd)
        );
        assert_eq!((failed.error.offset(), failed.error.len()), (9_000, 2_000));
        assert_eq!(failed.error.name(), Some("tail"));
        assert!(failed.error.path().expect("a path").ends_with("data"));
        assert!(!failed.error.cause().is_empty());
        let record = queue.take_errors();
        assert_eq!(record.count, 2);
        assert_eq!(
            record.first.expect("the first").kind(),
            ErrorKind::PastEnd,
            "enqueue order"
        );
        assert_eq!(queue.take_errors().count, 0, "read means reset");
    });
}

/// 3. Cancel by ticket, group or tag; every request ends exactly once; cancelled is not failed.
#[test]
fn s03_requests_are_cancelled_by_ticket_group_and_tag_and_end_once() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        let gate = Fence::new(0);
        let group = Group::new();
        let held = |tag| {
            Request::read(file, 0, 64)
                .gate(Gate::Source, &gate, 1)
                .tag(tag)
        };
        let by_ticket = queue.enqueue(held(0)).expect("enqueued");
        let by_group = queue.enqueue(held(0).group(&group)).expect("enqueued");
        let by_tag = queue.enqueue(held(0xf5)).expect("enqueued");
        let spared = queue.enqueue(held(0xf6)).expect("enqueued");
        let fence = Fence::new(0);
        queue.enqueue_signal(&fence, 1);
        queue.submit();
        let unsubmitted = queue.enqueue(held(0xe5)).expect("enqueued");
        by_ticket.cancel();
        queue.cancel_group(&group);
        queue.cancel_tagged(0x0f, 0x05);
        let later = queue.enqueue(held(0x05)).expect("enqueued");
        for ticket in [by_ticket, by_group, by_tag, unsubmitted] {
            assert!(ticket.wait().expect_err("cancelled").is_cancelled());
        }
        assert_eq!(
            (group.progress().cancelled, group.progress().failed),
            (1, 0)
        );
        assert!(!fence.reached(1), "a mask cancel never touches entries");
        queue.submit();
        gate.signal(1);
        spared.wait().expect("another tag");
        later.wait().expect("enqueued after the call");
        assert!(bench.wait_for(|| fence.reached(1)));
        assert_eq!(queue.take_errors().count, 0, "cancelled is not failed");
    });
}

/// 4. A full queue submits before it blocks; `try_enqueue` says so instead.
#[test]
fn s04_a_full_queue_submits_what_it_holds_before_it_blocks() {
    each_backend(|bench| {
        let options = QueueOptions {
            capacity: 1,
            auto_submit: false,
            ..Default::default()
        };
        let queue = bench.storage.queue(options).expect("a queue");
        let file = bench.file("data", 100_000);
        for round in 0..50 {
            // Each call finds the queue full with an unsubmitted request.
            queue
                .enqueue_detached(Request::read(file, round, 100))
                .expect("enqueued");
        }
        let gate = Fence::new(0);
        queue.drain();
        let gated = Request::read(file, 0, 1).gate(Gate::Source, &gate, 1);
        let first = queue.try_enqueue(gated).expect("there is room");
        let rejected = queue.try_enqueue(Request::read(file, 0, 1).user_data(9));
        let rejected = rejected.expect_err("full");
        assert_eq!(rejected.error.kind(), ErrorKind::QueueFull);
        gate.signal(1);
        first.wait().expect("what the queue held was submitted");
        queue
            .enqueue(*rejected.request)
            .expect("room again")
            .wait()
            .expect("read");
    });
}

/// 4. Ended tickets that nobody claims have a bound of their own.
#[test]
fn s04_unclaimed_tickets_are_bounded() {
    each_backend(|bench| {
        let options = QueueOptions {
            capacity: 4,
            unclaimed_max: 4,
            ..Default::default()
        };
        let queue = bench.storage.queue(options).expect("a queue");
        let file = bench.file("data", 1000);
        let mut tickets = Vec::new();
        let error = loop {
            match queue.enqueue(Request::read(file, 0, 1)) {
                Ok(ticket) => tickets.push(ticket),
                Err(rejected) => break rejected.error,
            }
            queue.drain();
        };
        assert_eq!(error.kind(), ErrorKind::TooManyTickets);
        assert_eq!(tickets.len(), 8);
        tickets.pop();
        queue
            .enqueue(Request::read(file, 0, 1))
            .expect("room again")
            .wait()
            .expect("read");
    });
}

/// 5. Within a class the earliest deadline goes first; a missed one is counted, never an error.
#[test]
fn s05_deadlines_order_a_class_and_missed_ones_are_counted() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        queue.pause();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let now = Instant::now();
        let request = |index: u64, deadline: Option<Instant>| {
            let order = Arc::clone(&order);
            let supply = Box::new(move |len: usize| {
                order.lock().expect("not poisoned").push(index);
                Some(Box::new(vec![0u8; len]) as Box<dyn Landing>)
            });
            let request = Request::read(file, index * 100, 10).into_supplied(supply);
            match deadline {
                Some(deadline) => request.deadline(deadline),
                None => request,
            }
        };
        queue.enqueue_detached(request(0, None)).expect("enqueued");
        queue
            .enqueue_detached(request(1, Some(now)))
            .expect("enqueued");
        let raised = queue.enqueue(request(2, None)).expect("enqueued");
        queue.submit();
        raised.reprioritise(Priority::Realtime, None);
        queue.resume();
        queue.drain();
        raised.wait().expect("read");
        assert_eq!(order.lock().expect("not poisoned").len(), 3);
        let stats = bench.storage.stats();
        assert_eq!(stats.deadlines_missed, 1);
        assert_eq!(stats.failed, 0);
        assert_eq!(
            stats.latency[Priority::Realtime as usize].count(),
            1,
            "its class was changed"
        );
    });
}

/// 6. A gate on the destination lets the source be read, and nothing be written.
#[test]
fn s06_a_destination_gate_keeps_memory_untouched_until_the_fence() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 300_000);
        let gate = Fence::new(0);
        let mut memory = vec![0xa5u8; 200_000];
        let request = Request::read(file, 1000, 200_000).gate(Gate::Destination, &gate, 1);
        #[expect(unsafe_code, reason = "shows borrowed memory")]
        // SAFETY: `memory` outlives the wait below.
        let request = unsafe { request.into_borrowed(memory.as_mut_ptr(), memory.len()) };
        let ticket = queue.enqueue(request).expect("enqueued");
        queue.submit();
        let ticket = ticket
            .wait_timeout(Duration::from_millis(30))
            .expect_err("held");
        assert!(
            memory.iter().all(|&byte| byte == 0xa5),
            "nothing lands before the fence"
        );
        gate.signal(1);
        ticket.wait().expect("let go");
        assert!(memory == bench.bytes(300_000)[1000..201_000]);
    });
}

/// 6. Dropping a queue cancels what is still gated.
#[test]
fn s06_dropping_a_queue_cancels_what_is_gated() {
    each_backend(|bench| {
        let file = bench.file("data", 300_000);
        let (gate, group) = (Fence::new(0), Group::new());
        let queue = bench.queue();
        for kind in [Gate::Source, Gate::Destination] {
            let request = Request::read(file, 0, 1000)
                .gate(kind, &gate, 1)
                .group(&group);
            queue.enqueue_detached(request).expect("enqueued");
        }
        queue
            .enqueue_detached(Request::read(file, 0, 1000).group(&group))
            .expect("enqueued");
        drop(queue);
        group.wait();
        assert_eq!((group.progress().cancelled, group.progress().done), (2, 1));
    });
}

/// 7. Close waits for what is out, ends everything, and leaves no thread.
#[test]
fn s07_close_ends_every_request_and_reports_nothing_when_nothing_hangs() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 8 << 20);
        let group = Group::new();
        for index in 0..200 {
            let request = Request::read(file, index * 40_000, 40_000).group(&group);
            queue.enqueue_detached(request).expect("enqueued");
        }
        let unsubmitted = queue.enqueue(Request::read(file, 0, 1)).expect("enqueued");
        let report = bench.storage.close(Duration::from_secs(10));
        assert_eq!(report.operations, 0);
        let progress = group.progress();
        assert_eq!(
            (progress.remaining, progress.done + progress.cancelled),
            (0, 200)
        );
        assert!(unsubmitted.wait().expect_err("closed").is_cancelled());
        let late = queue
            .enqueue(Request::read(file, 0, 1))
            .expect_err("closed");
        assert_eq!(late.error.kind(), ErrorKind::Closed);
    });
}

/// 8. A timeout ends a request that waits.
#[test]
fn s08_a_timeout_ends_a_request_that_has_not_come_through() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let gate = Fence::new(0);
        let request = Request::read(file, 0, 10).gate(Gate::Source, &gate, 1);
        let ticket = queue
            .enqueue(request.timeout(Duration::from_millis(5)))
            .expect("enqueued");
        queue.submit();
        let failed = ticket.wait().expect_err("nobody signals");
        assert_eq!(failed.error.kind(), ErrorKind::TimedOut);
    });
}

/// 9. A file is an id; closing is an entry in its place; later requests get `StaleFile`.
#[test]
fn s09_a_close_entry_lets_earlier_requests_end_and_makes_later_ones_stale() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1 << 20);
        let before = queue.enqueue(Request::read_file(file)).expect("enqueued");
        queue.enqueue_close(file);
        let after = queue.enqueue(Request::read(file, 0, 1)).expect("enqueued");
        queue.submit();
        assert_eq!(before.wait().expect("read").bytes, 1 << 20);
        let stale = after.wait().expect_err("closed");
        assert_eq!(stale.error.kind(), ErrorKind::StaleFile);
        let again = bench.storage.open(bench.folder.path().join("data"));
        assert_ne!(again, file);
        assert_eq!(
            bench.storage.opened(again).wait().expect("open").len,
            1 << 20
        );
        assert!(bench.wait_for(|| bench.storage.stats().descriptors <= 2));
    });
}

/// 10. Descriptors, staging and threads are bounded; several storages live side by side.
#[test]
fn s10_descriptors_are_bounded_and_reopened_as_needed() {
    let options = || StorageOptions {
        descriptors: 8,
        ..Default::default()
    };
    support::each_backend_with(options, |bench| {
        let queue = bench.queue();
        let files: Vec<_> = (0..100)
            .map(|index| bench.file(&format!("f{index}"), 1000 + index))
            .collect();
        for round in 0..3 {
            let tickets: Vec<_> = files
                .iter()
                .map(|&file| queue.enqueue(Request::read_file(file)).expect("enqueued"))
                .collect();
            queue.submit();
            for (index, ticket) in tickets.into_iter().enumerate() {
                let done = ticket.wait().expect("read");
                assert_eq!(done.bytes, 1000 + index as u64, "round {round}");
            }
            assert!(bench.storage.stats().descriptors <= 8);
        }
    });
}

/// 10. A storage runs without threads of its own, pumped by the application.
#[test]
fn s10_a_storage_can_be_pumped() {
    let options = || {
        let mut options = StorageOptions::default();
        options.threads.pumped = true;
        options
    };
    support::each_backend_with(options, |bench| {
        let queue = bench.queue();
        let file = bench.file("data", 3 << 20);
        let about = bench.storage.opened(file).wait().expect("opened");
        assert_eq!(about.len, 3 << 20);
        let counter = Counter::new();
        for index in 0..10 {
            let request = Request::read(file, index * 1000, 1000).counter(&counter);
            queue.enqueue_detached(request).expect("enqueued");
        }
        let whole = queue.enqueue(Request::read_file(file)).expect("enqueued");
        queue.submit();
        while counter.remaining() > 0 {
            bench.storage.pump();
        }
        assert!(*whole.wait().expect("read").into_buffer() == bench.bytes(3 << 20)[..]);
    });
}

/// 10. Decode jobs can run in the application's job system.
#[test]
fn s10_decode_jobs_run_in_the_applications_job_system() {
    struct Spawn(Arc<AtomicUsize>);
    impl millstream::JobSystem for Spawn {
        fn spawn(&self, job: millstream::PortableJob) {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || job.run());
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let options = || {
        let system: Arc<dyn millstream::JobSystem> = Arc::new(Spawn(Arc::clone(&count)));
        StorageOptions {
            job_system: Some(system),
            ..Default::default()
        }
    };
    support::each_backend_with(options, |bench| {
        let before = count.load(Ordering::Relaxed);
        let raw = bench.bytes(500_000);
        let stored = support::encoded(CodecId::ZLIB, &raw);
        let file = bench.file_of("z", &stored);
        let request = Request::read_file(file)
            .codec(CodecId::ZLIB)
            .raw_len(500_000);
        let done = bench
            .queue()
            .enqueue(request)
            .expect("enqueued")
            .wait()
            .expect("decoded");
        assert!(*done.into_buffer() == raw[..]);
        assert!(count.load(Ordering::Relaxed) > before);
    });
}

/// 11. Writes are requests with the same completion, and no error is lost.
#[test]
fn s11_writes_appends_syncs_renames_and_replaces_are_requests() {
    each_backend(|bench| {
        let queue = bench.queue();
        let path = bench.folder.path().join("new");
        let options = FileOptions {
            write: true,
            create: true,
            ..Default::default()
        };
        let file = bench.storage.open_with(&path, options);
        let buffer = |bytes: &[u8]| {
            let mut buffer = bench.storage.buffer(bytes.len()).expect("memory");
            buffer.copy_from_slice(bytes);
            buffer
        };
        let big = bench.bytes(3_000_000);
        queue
            .enqueue_detached(Request::write(file, 0, buffer(&big)))
            .expect("enqueued");
        queue
            .enqueue_detached(Request::append(file, buffer(b"tail")))
            .expect("enqueued");
        let sync = queue.enqueue(Request::sync(file)).expect("enqueued");
        queue.submit();
        sync.wait().expect("synced");
        // The append was queued when the file was empty: it goes behind what the file held at its
        // open.
        let written = std::fs::read(&path).expect("read");
        assert_eq!(written.len(), 3_000_000);
        assert!(written[4..] == big[4..]);
        let to = bench.folder.path().join("renamed");
        let replaced = bench.folder.path().join("replaced");
        std::fs::write(&replaced, "old").expect("written");
        let whole: Box<dyn Landing> = Box::new(b"new content".to_vec());
        queue
            .enqueue_detached(Request::rename(&path, &to))
            .expect("enqueued");
        let replace = queue
            .enqueue(Request::replace(&replaced, whole))
            .expect("enqueued");
        queue.submit();
        let done = replace.wait().expect("replaced");
        assert!(
            matches!(done.landed, Landed::Landing(_)),
            "the memory comes back"
        );
        assert_eq!(std::fs::read(&replaced).expect("read"), b"new content");
        assert!(to.exists() && !path.exists());
        let read_only = bench.file("ro", 10);
        let refused = queue
            .enqueue(Request::write(read_only, 0, buffer(b"x")))
            .expect("enqueued");
        let failed = refused.wait().expect_err("not opened for writing");
        assert_eq!(failed.error.kind(), ErrorKind::PermissionDenied);
        assert!(
            matches!(failed.landed, Landed::Buffer(_)),
            "the buffer comes back"
        );
        let error = queue
            .enqueue(Request::sync(read_only))
            .expect("enqueued")
            .wait();
        assert!(
            error.is_err(),
            "a sync tells of the write that failed before it"
        );
    });
}

/// Tickets, groups and fences are plain futures.
#[test]
fn completions_can_be_awaited() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 100_000);
        let fence = Fence::new(0);
        let ticket = queue
            .enqueue(Request::read(file, 5, 50_000))
            .expect("enqueued");
        queue.enqueue_signal(&fence, 3);
        queue.submit();
        let done = support::block_on(async {
            fence.reach(3).await;
            ticket.await
        });
        assert_eq!(done.expect("read").bytes, 50_000);
        let dropped = queue.enqueue(Request::read(file, 0, 10)).expect("enqueued");
        drop(dropped.cancel_on_drop());
        queue.drain();
    });
}

/// Scattered, supplied and owned destinations, aligned or not.
#[test]
fn bytes_land_in_every_kind_of_destination() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 2_000_000);
        let bytes = bench.bytes(2_000_000);
        let raw = support::encoded(CodecId::ZSTD, &bytes);
        let encoded = bench.file_of("zst", &raw);
        for (source, codec) in [(file, CodecId::STORED), (encoded, CodecId::ZSTD)] {
            let request = || Request::read_file(source).codec(codec).raw_len(2_000_000);
            let pieces: Vec<_> = [1_000_001, 4096, 995_903]
                .into_iter()
                .map(|len| bench.storage.buffer(len).expect("memory"))
                .collect();
            let scattered = queue
                .enqueue(request().into_pieces(pieces))
                .expect("enqueued");
            let supplied = queue
                .enqueue(request().into_supplied(Box::new(|len| {
                    assert_eq!(len, 2_000_000);
                    Some(Box::new(vec![0u8; len + 3]))
                })))
                .expect("enqueued");
            let owned: Box<dyn Landing> = Box::new(vec![0u8; 2_000_000].into_boxed_slice());
            let owned = queue
                .enqueue(request().into_landing(owned))
                .expect("enqueued");
            let refused = queue.enqueue(request().into_supplied(Box::new(|_| None)));
            let panicking = queue.enqueue(request().into_supplied(Box::new(|_| panic!("no"))));
            let small: Box<dyn Landing> = Box::new(vec![0u8; 1_999_999]);
            let small = queue
                .enqueue(request().into_landing(small))
                .expect("enqueued");
            queue.submit();
            let Landed::Pieces(pieces) = scattered.wait().expect("read").landed else {
                panic!("pieces come back")
            };
            assert!(
                pieces
                    .iter()
                    .flat_map(|piece| piece.iter())
                    .eq(bytes.iter())
            );
            for ticket in [supplied, owned] {
                let Landed::Landing(mut memory) = ticket.wait().expect("read").landed else {
                    panic!("the application's memory comes back")
                };
                let millstream::Place::Host { len, .. } = memory.place() else {
                    panic!("host memory")
                };
                assert!(len >= 2_000_000);
                let memory: Box<dyn std::any::Any> = memory;
                let held: Vec<u8> = match memory.downcast::<Vec<u8>>() {
                    Ok(vec) => *vec,
                    Err(other) => other.downcast::<Box<[u8]>>().expect("a box").to_vec(),
                };
                assert!(held[..2_000_000] == bytes[..]);
            }
            for ticket in [refused, panicking] {
                let failed = ticket.expect("enqueued").wait().expect_err("no memory");
                assert_eq!(failed.error.kind(), ErrorKind::Application);
            }
            let failed = small.wait().expect_err("too small");
            assert_eq!(failed.error.kind(), ErrorKind::DestinationTooSmall);
        }
    });
}

/// Pause, resume and a bandwidth cap hold back one queue and no other.
#[test]
fn a_paused_or_capped_queue_holds_back_nobody_else() {
    each_backend(|bench| {
        let (paused, capped, free) = (bench.queue(), bench.queue(), bench.queue());
        let file = bench.file("data", 4 << 20);
        paused.pause();
        capped.set_bandwidth(Some(40 << 20));
        let held = paused
            .enqueue(Request::read(file, 0, 4096))
            .expect("enqueued");
        paused.submit();
        let started = Instant::now();
        let slow = capped
            .enqueue(Request::read(file, 0, 4 << 20))
            .expect("enqueued");
        capped.submit();
        free.enqueue(Request::read(file, 0, 4 << 20))
            .expect("enqueued")
            .wait()
            .expect("read");
        assert!(!held.is_ended());
        slow.wait().expect("read");
        assert!(
            started.elapsed() >= Duration::from_millis(50),
            "4 MiB at 40 MiB/s, less a block"
        );
        paused.resume();
        held.wait().expect("read");
    });
}

/// A mapped view is warmed ahead of its use by requests like any other.
#[test]
fn a_mapped_view_is_warmed_by_requests() {
    each_backend(|bench| {
        let bytes = bench.bytes(9_000_000);
        bench.file_of("view", &bytes);
        let path = bench.folder.path().join("view");
        #[expect(unsafe_code, reason = "maps a file that nobody cuts")]
        // SAFETY: the file stays as it is until the folder goes, after the view.
        let view = unsafe { millstream::MappedView::open(&path, 0, u64::MAX) };
        let view = view.expect("mapped");
        let queue = bench.queue();
        let warm = queue
            .enqueue(Request::warm(&view, 4096, 8_000_000))
            .expect("enqueued");
        let beyond = queue
            .enqueue(Request::warm(&view, 8_999_999, 2))
            .expect("enqueued");
        queue.submit();
        assert_eq!(warm.wait().expect("warmed").bytes, 8_000_000);
        assert!(beyond.wait().is_err(), "past the view's end");
        assert!(view[..] == bytes[..]);
    });
}
