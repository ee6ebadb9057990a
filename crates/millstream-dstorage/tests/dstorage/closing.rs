//! `Close`, the last release, and calls on other threads meanwhile.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use direct_storage::*;
use dstorage::abi;
use millstream_testing::{wait_at_most, wait_for};

use crate::calls::*;
use crate::common::*;

#[test]
fn a_closed_queue_completes_nothing_more() {
    let session = Session::new();
    let bytes = pattern(4 << 20, 80);
    let file = session.file("a", &bytes);
    for round in 0..20 {
        let queue = session.queue_of(1024, FILE);
        let statuses = session.statuses(200);
        let event = Event::new();
        let mut parts = vec![vec![0_u8; 20_000]; 200];
        for (at, part) in parts.iter_mut().enumerate() {
            queue.request(&read(&file, at as u64 * 20_000, part));
            queue.status(&statuses, at as u32);
        }
        queue.set_event(event.0);
        if round % 4 > 0 {
            queue.submit();
        }
        queue.close();
        let complete = |index| statuses.is_complete(index);
        let before: Vec<bool> = (0..200).map(complete).collect();
        let was_set = event.is_set();
        // The memory belongs to the program again.
        for part in &mut parts {
            part.fill(0xa5);
        }
        queue.submit();
        let limit = Duration::from_millis(5);
        assert!(!wait_at_most(limit, || event.is_set() != was_set));
        assert_eq!((0..200).map(complete).collect::<Vec<bool>>(), before);
        assert!(
            parts.iter().flatten().all(|byte| *byte == 0xa5),
            "nothing is written any more"
        );
        assert!(
            before.is_sorted_by(|one, two| one >= two),
            "statuses complete in order"
        );
        assert_eq!(query(&queue).EmptySlotCount, 1023);
    }
}

#[test]
fn a_closed_queue_refuses_what_is_enqueued() {
    let session = Session::new();
    let file = session.file("a", b"bytes");
    let queue = session.queue(FILE);
    let statuses = session.statuses(1);
    let event = Event::new();
    let mut into = [0; 5];
    queue.close();
    queue.close();
    queue.request(&read(&file, 0, &mut into));
    queue.status(&statuses, 0);
    queue.set_event(event.0);
    queue.submit();
    queue.cancel(0, 0);
    assert!(is_set_within(queue.error_event(), 0));
    let found = record(&queue);
    assert_eq!(found.FailureCount, 3);
    assert_eq!(found.FirstFailure.HResult.0, abi::E_DSTORAGE_QUEUE_CLOSED);
    assert_eq!(
        found.FirstFailure.CommandType,
        DSTORAGE_COMMAND_TYPE_REQUEST
    );
    assert_eq!(into, [0; 5]);
    assert!(!event.is_set());
    assert_eq!(result(&statuses, 0), OK, "it was never pending");
}

#[test]
fn closing_wakes_a_call_that_waits_for_a_slot() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let held: Vec<_> = (0..127).map(|_| hold(&queue)).collect();
    let (from, mut into) = ([7], [0]);
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let own = Shared::new((queue.clone(), copy(&from, NONE, &mut into)));
        let has_begun = &has_begun;
        let blocked = scope.spawn(move || {
            has_begun.store(true, Ordering::SeqCst);
            own.0.request(&own.1);
        });
        assert!(wait_for(|| has_begun.load(Ordering::SeqCst)));
        let limit = Duration::from_millis(20);
        assert!(!wait_at_most(limit, || blocked.is_finished()));
        queue.close();
        assert!(wait_for(|| blocked.is_finished()));
    });
    assert_eq!(
        record(&queue).FirstFailure.HResult.0,
        abi::E_DSTORAGE_QUEUE_CLOSED
    );
    assert_eq!(into, [0]);
    assert_eq!(end_held(&session, OK), 0, "what waited was withdrawn");
    drop(held);
}

#[test]
fn a_released_queue_completes_what_was_submitted() {
    let session = Session::new();
    let bytes = pattern(4 << 20, 81);
    let file = session.file("a", &bytes);
    let statuses = session.statuses(2);
    let event = Event::new();
    let queue = session.queue(FILE);
    let (mut submitted, mut unsubmitted) = (vec![0; bytes.len()], [0; 10]);
    queue.request(&read(&file, 0, &mut submitted));
    queue.status(&statuses, 0);
    queue.set_event(event.0);
    queue.submit();
    queue.request(&read(&file, 0, &mut unsubmitted));
    queue.status(&statuses, 1);
    drop((queue, file));
    event.wait();
    assert!(submitted == bytes);
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(result(&statuses, 1), PENDING);
    assert_eq!(unsubmitted, [0; 10]);
}

#[test]
fn everything_released_with_requests_in_flight_ends() {
    let bytes = pattern(2 << 20, 82);
    for _ in 0..10 {
        let session = Session::new();
        let file = session.file("a", &bytes);
        let queue = session.queue(FILE);
        let event = Event::new();
        let mut into = vec![0; bytes.len()];
        queue.request(&read(&file, 0, &mut into));
        queue.set_event(event.0);
        queue.submit();
        let Session {
            factory,
            folder: _folder,
            _turn,
        } = session;
        drop((factory, queue, file));
        event.wait();
        assert!(into == bytes);
        // The queue's thread closes the storage after that: the turn ends when it has.
        let default = abi::DSTORAGE_CONFIGURATION {
            NumSubmitThreads: 0,
            NumBuiltInCpuDecompressionThreads: 0,
            ForceMappingLayer: 0,
            DisableBypassIO: 0,
            DisableTelemetry: 0,
            DisableGpuDecompressionMetacommand: 0,
            DisableGpuDecompression: 0,
        };
        // SAFETY: parameters that the function takes.
        let configure = || unsafe { dstorage::DStorageSetConfiguration(&default) } == abi::S_OK;
        assert!(wait_for(configure), "nothing is left");
    }
}

#[test]
fn threads_that_call_while_it_closes_return() {
    let session = Session::new();
    let bytes = pattern(1 << 20, 83);
    let file = session.file("a", &bytes);
    for round in 0..10 {
        let queue = session.queue(FILE);
        let statuses = session.statuses(4);
        let calls = AtomicU32::new(0);
        let is_closed = AtomicBool::new(false);
        let mut parts = vec![vec![0_u8; 1000]; 4];
        std::thread::scope(|scope| {
            for (index, part) in parts.iter_mut().enumerate() {
                let request = read(&file, index as u64 * 1000, part);
                let own = Shared::new((queue.clone(), statuses.clone(), request));
                let (calls, is_closed) = (&calls, &is_closed);
                scope.spawn(move || {
                    let (queue, statuses, request) = &*own;
                    while !is_closed.load(Ordering::SeqCst) {
                        queue.request(request);
                        queue.status(statuses, index as u32);
                        queue.cancel(0, u64::from(index == 3) ^ 1);
                        queue.submit();
                        query(queue);
                        record(queue);
                        calls.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            assert!(wait_for(|| calls.load(Ordering::SeqCst) > 10 * (round + 1)));
            std::thread::scope(|closers| {
                for _ in 0..2 {
                    let queue = Shared::new(queue.clone());
                    closers.spawn(move || queue.close());
                }
            });
            is_closed.store(true, Ordering::SeqCst);
        });
        for part in &mut parts {
            part.fill(0xa5);
        }
        assert_eq!(query(&queue).EmptySlotCount, 127);
        assert!(parts.iter().flatten().all(|byte| *byte == 0xa5));
    }
}

#[test]
fn factories_that_come_and_go_on_several_threads_are_one() {
    let _turn = turn();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let own = factory();
                    let description = DSTORAGE_QUEUE_DESC {
                        Capacity: 128,
                        ..Default::default()
                    };
                    let queue: windows_core::Result<IDStorageQueue3> =
                        // SAFETY: parameters that the method takes.
                        unsafe { own.CreateQueue(&description) };
                    drain(&queue.expect("a queue"));
                }
            });
        }
    });
}
