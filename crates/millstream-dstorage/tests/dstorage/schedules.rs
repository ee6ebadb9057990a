//! Seeded schedules: enqueue, submit, cancel and close on several threads, against a model.
//!
//! `SCHEDULE_COUNT` is the number of schedules, `MILLSTREAM_SEED` the first seed. What must hold
//! whatever the threads do: a status is the first failure of the requests enqueued before it; bytes
//! of a request that completed are the file's; no byte beside a destination changes, nor any after
//! `Close`; a queue that was not closed completes everything.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::sync::{Arc, Mutex};
use std::thread::Scope;

use direct_storage::*;
use dstorage::abi;
use windows_core::HRESULT;

use crate::calls::*;
use crate::common::*;

/// Schedules without the variable.
const COUNT: u64 = 200;

const FILE_BYTES: usize = 300_000;
const CANARY: usize = 64;

/// What one thread does with a queue of its own among the shared ones.
struct Enqueued {
    /// The destination between canaries.
    bytes: Vec<u8>,
    offset: usize,
    len: usize,
    /// What the request must end with, if it is not canceled.
    expected: HRESULT,
    is_cancelable: bool,
    is_memory: bool,
}

struct Plan {
    raw: Vec<u8>,
    stored: Vec<u8>,
}

pub(crate) fn count() -> u64 {
    match std::env::var("SCHEDULE_COUNT") {
        Ok(text) => text.parse().expect("SCHEDULE_COUNT must be a number"),
        Err(_) => COUNT,
    }
}

pub(crate) fn first_seed() -> u64 {
    match std::env::var("MILLSTREAM_SEED") {
        Ok(text) => text.parse().expect("MILLSTREAM_SEED must be a number"),
        Err(_) => 0,
    }
}

#[test]
fn seeded_schedules_hold_what_the_documentation_promises() {
    let raw = pattern(FILE_BYTES, 110);
    let stored = gdeflate::compress(&raw, gdeflate::Level::FASTEST, 1).expect("compressed");
    let plan = Arc::new(Plan { raw, stored });
    let session = Session::new();
    let file = session.file("raw", &plan.raw);
    let packed = session.file("packed", &plan.stored);
    for seed in first_seed()..first_seed() + count() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_schedule(&session, [&file, &packed], &plan, seed);
        }));
        assert!(outcome.is_ok(), "MILLSTREAM_SEED={seed} SCHEDULE_COUNT=1");
    }
}

/// Runs one schedule: up to three threads on a queue of files and one of memory, each with status
/// entries of its own, while the test ends what the program is to decompress.
fn run_schedule(session: &Session, files: [&IDStorageFile; 2], plan: &Plan, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let capacity = *random.choice(&[128, 130, 1024]).expect("not empty");
    let queues = [
        session.queue_of(capacity, FILE),
        session.queue_of(capacity, MEMORY),
    ];
    let closes = random.u8(..4) == 0;
    let threads = random.usize(1..=3);
    // One thread: the order of enqueueing is known, so statuses are compared as well.
    let mut all: Vec<Vec<Enqueued>> = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let random = fastrand::Rng::with_seed(random.u64(..));
                let job = Job {
                    queues: queues.clone(),
                    files: files.map(Clone::clone),
                    statuses: session.statuses(8),
                    is_alone: threads == 1 && !closes,
                    random,
                };
                spawn(scope, job, plan)
            })
            .collect();
        if closes {
            for _ in 0..random.u8(..20) {
                std::thread::yield_now();
            }
            queues[random.usize(..2)].close();
        }
        all.extend(
            workers
                .into_iter()
                .map(|worker| worker.join().expect("it returns")),
        );
    });
    if closes {
        for queue in &queues {
            queue.close();
        }
    } else {
        for queue in &queues {
            drain(queue);
            assert_eq!(query(queue).EmptySlotCount, capacity - 1);
        }
    }
    check(&all, plan, closes);
    if !closes {
        let failures: u32 = queues.iter().map(|queue| record(queue).FailureCount).sum();
        let certain = |it: &&Enqueued| it.expected != OK && !it.is_cancelable;
        let least = all.iter().flatten().filter(certain).count() as u32;
        let most = all.iter().flatten().filter(|it| it.expected != OK).count() as u32;
        assert!(
            (least..=most).contains(&failures),
            "{failures} of {least} to {most}"
        );
    }
}

struct Job {
    queues: [IDStorageQueue3; 2],
    files: [IDStorageFile; 2],
    statuses: IDStorageStatusArray,
    /// No other thread uses the queues, and none closes them.
    is_alone: bool,
    random: fastrand::Rng,
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    job: Job,
    plan: &'scope Plan,
) -> std::thread::ScopedJoinHandle<'scope, Vec<Enqueued>> {
    let job = Shared::new(Mutex::new(job));
    scope.spawn(move || {
        let mut job = job.lock().expect("no other thread has it");
        let mut enqueued = Vec::new();
        // The first failures since the last status of each queue; `None`: a cancel may hide one.
        let mut expected = [Some(OK), Some(OK)];
        let steps = job.random.usize(10..80);
        for _ in 0..steps {
            step(&mut job, plan, &mut enqueued, &mut expected);
        }
        enqueued
    })
}

fn step(
    job: &mut Job,
    plan: &Plan,
    enqueued: &mut Vec<Enqueued>,
    expected: &mut [Option<HRESULT>; 2],
) {
    let kind = job.random.usize(..2);
    let queue = &job.queues[kind].clone();
    match job.random.u8(..20) {
        0..12 => {
            let (request, entry) = request_of(job, plan, kind == 1);
            match &mut expected[kind] {
                Some(first) if *first == OK && entry.expected != OK => {
                    expected[kind] = (!entry.is_cancelable).then_some(entry.expected);
                }
                _ => {}
            }
            queue.request(&request);
            enqueued.push(entry);
        }
        12..15 => {
            let index = job.random.u32(..8);
            if !job.statuses.is_complete(index) {
                return;
            }
            queue.status(&job.statuses, index);
            let first = expected[kind].replace(OK);
            if job.is_alone {
                drain(queue);
                let found = result(&job.statuses, index);
                if let Some(first) = first {
                    assert_eq!(found, first, "the first failure since the last status");
                }
            }
        }
        15 | 16 => queue.submit(),
        17 => queue.cancel(1, 1),
        18 => {
            let info = query(queue);
            assert!(info.EmptySlotCount < info.Desc.Capacity);
        }
        _ => {
            let event = Event::new();
            queue.set_event(event.0);
        }
    }
}

/// Returns a request of one of several kinds.
fn request_of(job: &mut Job, plan: &Plan, is_memory: bool) -> (DSTORAGE_REQUEST, Enqueued) {
    let random = &mut job.random;
    let (mut len, mut offset) = (random.usize(0..40_000), random.usize(..FILE_BYTES - 40_000));
    let kind = random.u8(..10);
    if kind == 0 {
        (len, offset) = (FILE_BYTES, 0);
    }
    let mut bytes = vec![0xa5; len + 2 * CANARY];
    let into = &mut bytes[CANARY..CANARY + len];
    let stored = plan.stored.len() as u32;
    let mut expected = OK;
    let mut request = match (kind, is_memory) {
        (0, false) => read_encoded(&job.files[1], 0, stored, GDEFLATE, into),
        (0, true) => copy(&plan.stored, GDEFLATE, into),
        (_, false) => read(&job.files[0], offset as u64, into),
        (_, true) => copy(&plan.raw[offset..offset + len], NONE, into),
    };
    match kind {
        1 => {
            request.Options.Reserved1[0] = 1;
            expected = HRESULT(abi::E_DSTORAGE_RESERVED_FIELDS);
        }
        2 if !is_memory && len > 0 => {
            request = read(&job.files[0], (FILE_BYTES - len + 1) as u64, into);
            expected = HRESULT(abi::E_DSTORAGE_END_OF_FILE);
        }
        3 => {
            // SAFETY: the member that the type of the command or request names.
            unsafe { request.Destination.Memory.Size += 1 };
            expected = HRESULT(abi::E_DSTORAGE_INVALID_DESTINATION_SIZE);
        }
        _ => {}
    }
    let is_cancelable = random.u8(..4) == 0;
    request.CancellationTag = u64::from(is_cancelable);
    let entry = Enqueued {
        bytes,
        offset,
        len,
        expected,
        // A refused request fails whether it is canceled or not.
        is_cancelable: is_cancelable && !matches!(kind, 1 | 3),
        is_memory,
    };
    (request, entry)
}

fn check(all: &[Vec<Enqueued>], plan: &Plan, closed: bool) {
    for entry in all.iter().flatten() {
        let (before, rest) = entry.bytes.split_at(CANARY);
        let (into, after) = rest.split_at(entry.len);
        let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xa5);
        assert!(
            is_untouched(before) && is_untouched(after),
            "no byte beside it is written"
        );
        if entry.expected != OK {
            assert!(
                is_untouched(into),
                "a request that failed early writes nothing"
            );
            continue;
        }
        let is_whole = into == &plan.raw[entry.offset..entry.offset + entry.len];
        // Parts of a large request may have landed before it was canceled.
        let may_be_cut = closed || entry.is_cancelable;
        assert!(is_whole || may_be_cut, "memory: {}", entry.is_memory);
    }
}
