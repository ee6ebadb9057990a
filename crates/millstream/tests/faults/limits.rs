//! Little of everything: descriptors, staging, queue places; gates that open late or never, and
//! cancellation against completion.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::{
    Access, CodecId, ErrorKind, Fence, FileOptions, Gate, Group, Landed, Landing, Place, Priority,
    QueueOptions, Request, StorageOptions,
};
use millstream_testing::{Canary, Child, this_test};

use crate::rig::{PATIENCE, Rig, bytes, each, each_as, outcome, pattern};

/// Files of the test on descriptors.
const FILE_COUNT: usize = 5000;

#[test]
fn five_thousand_files_are_read_with_64_descriptors() {
    let restrict = |child: Child| child.descriptors_max(64);
    each_as(this_test!(), restrict, |name, mut options| {
        // The storage's own bound as it is (512), far above what the system gives.
        read_many_files(
            name,
            StorageOptions {
                depth: 32,
                ..options_like(&mut options)
            },
        );
    });
}

#[test]
fn five_thousand_files_are_read_with_a_bound_of_8() {
    each(this_test!(), |name, mut options| {
        let options = StorageOptions {
            descriptors: 8,
            ..options_like(&mut options)
        };
        read_many_files(name, options);
    });
}

fn options_like(options: &mut StorageOptions) -> StorageOptions {
    let backend = std::mem::take(&mut options.backend);
    StorageOptions {
        backend,
        ..StorageOptions::default()
    }
}

fn read_many_files(name: &'static str, options: StorageOptions) {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = options.descriptors as u64;
    let content_of = |index: usize| format!("content of file {index}").into_bytes();
    for index in 0..FILE_COUNT {
        fs::write(folder.path().join(index.to_string()), content_of(index)).expect("written");
    }
    let rig = Rig::new(name, options);
    let files: Vec<_> = (0..FILE_COUNT)
        .map(|index| rig.storage.open(folder.path().join(index.to_string())))
        .collect();
    for _ in 0..2 {
        let tickets: Vec<_> = files
            .iter()
            .map(|&file| rig.queue.enqueue(Request::read_file(file)).expect("taken"))
            .collect();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let done = outcome(ticket).unwrap_or_else(|e| panic!("{name}: file {index}: {e}"));
            assert!(
                done.into_buffer()[..] == content_of(index),
                "{name}: file {index}"
            );
        }
        assert!(rig.storage.stats().descriptors <= bound, "{name}");
    }
    rig.finish();
}

#[test]
fn the_least_staging_serves_four_classes_at_once() {
    each(this_test!(), |name, mut options| {
        let raw = pattern(100_000);
        let mut stored = Vec::new();
        let source = &mut &raw[..];
        millstream_codec::compress(CodecId::ZLIB, 6, source, &mut stored).expect("compressed");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("raw"), &raw).expect("written");
        fs::write(folder.path().join("zlib"), &stored).expect("written");
        let options = StorageOptions {
            staging_bytes: 16 << 10,
            block_bytes: 4 << 10,
            ..options_like(&mut options)
        };
        let rig = Rig::new(name, options);
        let plain = rig.storage.open(folder.path().join("raw"));
        let zlib = rig.storage.open(folder.path().join("zlib"));
        let mut tickets = Vec::new();
        for _ in 0..10 {
            for class in Priority::ALL {
                let packed = Request::read(zlib, 0, stored.len() as u64)
                    .codec(CodecId::ZLIB)
                    .raw_len(raw.len() as u64);
                // Memory that no device can read into directly goes through staging too.
                let memory = Box::new(vec![0; raw.len()]);
                let copied = Request::read(plain, 0, raw.len() as u64).into_landing(memory);
                for request in [packed, copied] {
                    tickets.push(rig.queue.enqueue(request.priority(class)).expect("taken"));
                }
            }
        }
        rig.queue.submit();
        for ticket in tickets {
            let done = outcome(ticket).unwrap_or_else(|e| panic!("{name}: {e}"));
            match done.landed {
                millstream::Landed::Buffer(buffer) => assert!(buffer[..] == raw, "{name}"),
                millstream::Landed::Landing(memory) => {
                    let memory: Box<dyn std::any::Any> = memory;
                    let memory = memory.downcast::<Vec<u8>>().expect("as it was given");
                    assert!(memory[..] == raw, "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        rig.finish();
    });
}

#[test]
fn a_queue_of_one_place_without_auto_submit_never_locks_up() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a"), pattern(8192)).expect("written");
        let rig = Rig::new(name, options);
        let one = QueueOptions {
            capacity: 1,
            auto_submit: false,
            ..QueueOptions::default()
        };
        let queue = rig.storage.queue(one).expect("a queue");
        let file = rig.storage.open(folder.path().join("a"));
        let tickets: Vec<_> = (0..200)
            .map(|index| Request::read(file, index * 8, 8).user_data(index))
            .map(|request| queue.enqueue(request).expect("waits for its place"))
            .collect();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let done = outcome(ticket).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(done.user_data, index as u64, "{name}");
        }
        // A place that is held: `try_enqueue` says so, and what it held was submitted.
        let fence = Fence::new(0);
        let gated = Request::read(file, 0, 8).gate(Gate::Source, &fence, 1);
        let held = queue.enqueue(gated).expect("the one place");
        let refused = queue
            .try_enqueue(Request::read(file, 8, 8))
            .expect_err("full");
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull, "{name}");
        fence.signal(1);
        assert_eq!(bytes(held).len(), 8, "{name}");
        let again = queue
            .enqueue(*refused.request)
            .expect("there is room again");
        assert_eq!(bytes(again).len(), 8, "{name}");
        drop(queue);
        rig.finish();
    });
}

#[test]
fn gates_that_open_late_let_go_and_gates_that_never_open_are_cancelled() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(folder.path().join("a"));
        let (late, never) = (Fence::new(0), Fence::new(0));
        let gated = |gate, fence: &Fence, value| {
            let request = Request::read(file, 0, 1 << 20).gate(gate, fence, value);
            rig.queue.enqueue(request).expect("taken")
        };
        let opened: Vec<_> = [Gate::Source, Gate::Destination]
            .into_iter()
            .flat_map(|gate| (1..=20).map(move |value| (gate, value)))
            .map(|(gate, value)| gated(gate, &late, value))
            .collect();
        let timed = Request::read(file, 0, 8)
            .gate(Gate::Source, &never, 1)
            .timeout(Duration::from_millis(20));
        let timed = rig.queue.enqueue(timed).expect("taken");
        // Requests without a gate are not held up by those with one.
        let free = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert!(bytes(free)[..] == content, "{name}");
        assert!(opened.iter().all(|ticket| !ticket.is_ended()), "{name}");
        assert_eq!(
            crate::rig::failure_kind(timed),
            ErrorKind::TimedOut,
            "{name}"
        );
        for value in 1..=20 {
            late.signal(value);
        }
        for ticket in opened {
            assert!(bytes(ticket)[..] == content, "{name}");
        }
        let other = rig.storage.queue(QueueOptions::default()).expect("a queue");
        let dropped: Vec<_> = [Gate::Source, Gate::Destination]
            .into_iter()
            .map(|gate| Request::read(file, 0, 1 << 20).gate(gate, &never, 1))
            .map(|request| other.enqueue(request).expect("taken"))
            .collect();
        let cancelled = gated(Gate::Destination, &never, 1);
        cancelled.cancel();
        assert!(crate::rig::failure(cancelled).is_cancelled(), "{name}");
        drop(other);
        for ticket in dropped {
            assert!(crate::rig::failure(ticket).is_cancelled(), "{name}");
        }
        rig.finish();
    });
}

/// Requests of the test on cancellation, over both backends together.
const CANCELLED_COUNT: usize = 100_000;

/// Requests that are in the queue at a time there.
const CANCEL_BATCH: usize = 500;

#[test]
fn a_hundred_thousand_cancellations_race_completions_and_each_request_ends_once() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(folder.path().join("a"));
        let stop = AtomicBool::new(false);
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let group = Group::new();
        let mut ended: HashMap<bool, usize> = HashMap::new();
        std::thread::scope(|scope| {
            // A second thread cancels by tag all the time.
            scope.spawn(|| {
                let mut random = fastrand::Rng::with_seed(!seed);
                while !stop.load(Ordering::Relaxed) {
                    rig.queue.cancel_tagged(15, random.u64(0..16));
                    std::thread::yield_now();
                }
            });
            for _ in 0..CANCELLED_COUNT / 2 / CANCEL_BATCH {
                let tickets: Vec<_> = (0..CANCEL_BATCH as u64)
                    .map(|tag| {
                        let offset = random.u64(0..(1 << 20) - 4096);
                        let request = Request::read(file, offset, 512).tag(tag).user_data(offset);
                        rig.queue.enqueue(request.group(&group)).expect("taken")
                    })
                    .collect();
                rig.queue.submit();
                for ticket in tickets.iter().filter(|_| random.bool()) {
                    ticket.cancel();
                }
                for ticket in tickets {
                    let cancelled = match outcome(ticket) {
                        Ok(done) => {
                            let at = done.user_data as usize;
                            let buffer = done.into_buffer();
                            assert!(buffer[..] == content[at..at + 512], "{name} seed {seed}");
                            false
                        }
                        Err(failed) => {
                            assert!(failed.is_cancelled(), "{name} seed {seed}: {failed}");
                            true
                        }
                    };
                    *ended.entry(cancelled).or_default() += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(group.wait_timeout(PATIENCE), "{name} seed {seed}");
        let progress = group.progress();
        let count = |cancelled| ended.get(&cancelled).copied().unwrap_or(0) as u64;
        assert_eq!(progress.done, count(false), "{name} seed {seed}");
        assert_eq!(progress.cancelled, count(true), "{name} seed {seed}");
        assert_eq!(
            progress.done + progress.cancelled,
            CANCELLED_COUNT as u64 / 2,
            "{name}"
        );
        assert_eq!(
            rig.queue.take_errors().count,
            0,
            "{name}: cancelled is not failed"
        );
        rig.finish();
    });
}

#[test]
fn files_of_both_ways_are_bounded_together() {
    each(this_test!(), |name, mut options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content: Arc<[u8]> = pattern(256 << 10).into();
        let options = StorageOptions {
            descriptors: 6,
            ..options_like(&mut options)
        };
        let rig = Rig::new(name, options);
        let mut tickets = Vec::new();
        for index in 0..40 {
            let path = folder.path().join(index.to_string());
            fs::write(&path, &content).expect("written");
            let write = index % 4 == 0;
            let with = FileOptions {
                write,
                ..FileOptions::default()
            };
            let file = rig.storage.open_with(&path, with);
            // Large ones go past the cache, small ones through it: two descriptors a file.
            tickets.push((
                0,
                256 << 10,
                rig.queue.enqueue(Request::read(file, 0, 256 << 10)),
            ));
            tickets.push((77, 999, rig.queue.enqueue(Request::read(file, 77, 999))));
        }
        for (offset, len, ticket) in tickets {
            let read = bytes(ticket.expect("taken"));
            assert!(read[..] == content[offset..offset + len], "{name}");
        }
        assert!(rig.storage.stats().descriptors <= 6, "{name}");
        rig.finish();
    });
}

/// A guarded buffer that a request lands in.
struct Guarded(Canary);

#[expect(unsafe_code, reason = "lends guarded memory to requests")]
// SAFETY: a canary's memory stays where it is and is valid until the canary is dropped, and nobody
// else uses it while the request owns it.
unsafe impl Landing for Guarded {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.0.pointer(),
            len: self.0.len(),
        }
    }
}

#[test]
fn nobody_writes_to_a_destination_after_its_request_has_ended() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4 << 20);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for access in [Access::Direct, Access::Buffered] {
            let with = FileOptions {
                access: Some(access),
                ..FileOptions::default()
            };
            let file = rig.storage.open_with(folder.path().join("a"), with);
            if access == Access::Direct && !rig.storage.opened(file).wait().expect("open").direct {
                continue;
            }
            let mut ended = Vec::new();
            for _ in 0..20 {
                let tickets: Vec<_> = (0..40)
                    .map(|_| {
                        // Whole pages, odd lengths, and what needs several blocks.
                        let len = [4096, 5000, 65_536, 70_001, 300_000][random.usize(0..5)];
                        let offset = random.u64(0..(4 << 20) - len as u64);
                        let memory = Box::new(Guarded(Canary::new(len, seed)));
                        let request = Request::read(file, offset, len as u64).user_data(offset);
                        rig.queue
                            .enqueue(request.into_landing(memory))
                            .expect("taken")
                    })
                    .collect();
                rig.queue.submit();
                for ticket in tickets.iter().filter(|_| random.bool()) {
                    ticket.cancel();
                }
                for ticket in tickets {
                    let (landed, offset) = match outcome(ticket) {
                        Ok(done) => (done.landed, Some(done.user_data as usize)),
                        Err(failed) => {
                            assert!(failed.is_cancelled(), "{name} seed {seed}: {failed}");
                            (failed.landed, None)
                        }
                    };
                    let Landed::Landing(memory) = landed else {
                        panic!("{name} seed {seed}: the memory did not come back");
                    };
                    let memory: Box<dyn std::any::Any> = memory;
                    let mut guarded = memory.downcast::<Guarded>().expect("as it was given");
                    let canary = &mut guarded.0;
                    canary
                        .edges_intact()
                        .unwrap_or_else(|e| panic!("{name} seed {seed}: {e}"));
                    if let Some(at) = offset {
                        let wanted = &content[at..at + canary.len()];
                        assert!(canary.as_slice() == wanted, "{name} seed {seed}: at {at}");
                    }
                    // Nobody may touch it from now on, until all is over.
                    canary.poison();
                    ended.push(guarded);
                }
            }
            rig.queue.drain();
            for guarded in ended {
                guarded
                    .0
                    .intact()
                    .unwrap_or_else(|e| panic!("{name} seed {seed}: {e}"));
            }
        }
        rig.finish();
    });
}
