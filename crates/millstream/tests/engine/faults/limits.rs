//! Few resources: descriptors, staging, queue capacity; fences that are reached late or never, and
//! cancellation against completion.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::{
    Access, CodecId, Decode, Destination, ErrorKind, Fence, FileOptions, Group, Place, Priority,
    QueueOptions, Read, StorageOptions, Ticket,
};
use millstream_testing::{Child, this_test, wait_for};

use crate::faults::canary::Canary;
use crate::faults::rig::{
    PATIENCE, Rig, each, each_as, failure_kind, landed, outcome, pattern, result,
};

/// Files of the tests on descriptors.
const FILE_COUNT: usize = 5000;

#[test]
fn five_thousand_files_are_read_with_64_descriptors_of_the_process() {
    let restrict = |child: Child| child.descriptors_max(64);
    each_as(this_test!(), restrict, |name, mut options| {
        // The storage's own limit is the default (512), far above what the system gives.
        options.depth = 32;
        read_many_files(name, options);
    });
}

#[test]
fn five_thousand_files_are_read_with_8_descriptors_of_the_storage() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 8;
        read_many_files(name, options);
    });
}

/// Takes every descriptor that the process has left.
fn take_descriptors() -> Vec<fs::File> {
    std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn a_process_without_descriptors_is_waited_for_and_forgotten() {
    let restrict = |child: Child| child.descriptors_max(256);
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = (0..20)
            .map(|index| folder.path().join(index.to_string()))
            .collect();
        for path in &paths {
            fs::write(path, pattern(5000)).expect("written");
        }
        let rig = Rig::new(name, options);
        let open = |path| rig.storage.open(path, FileOptions::default());
        // Its threads and their descriptors are there before the others are taken.
        landed(rig.submit(Read::whole(open(&paths[0]))));
        let opens = rig.storage.stats().opens;
        let taken = take_descriptors();
        let waits = rig.submit(Read::whole(open(&paths[1])));
        assert!(wait_for(|| rig.storage.stats().opens > opens), "{name}");
        drop(taken);
        assert!(landed(waits)[..] == pattern(5000)[..], "{name}");
        let files: Vec<_> = paths.iter().map(open).collect();
        for _ in 0..3 {
            for file in &files {
                landed(rig.submit(Read::range(*file, 0, 10)));
            }
        }
        let opens = rig.storage.stats().opens;
        for file in &files {
            landed(rig.submit(Read::range(*file, 10, 10)));
        }
        assert_eq!(rig.storage.stats().opens, opens, "{name}: all stay open");
        rig.finish();
    });
}

#[test]
fn a_process_that_stays_without_descriptors_is_an_error_that_says_so() {
    let restrict = |child: Child| child.descriptors_max(256);
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let direct = folder.path().join("direct");
        fs::write(&path, pattern(5000)).expect("written");
        fs::write(&direct, pattern(200_000)).expect("written");
        let rig = Rig::new(name, options);
        let warm = rig.storage.open(&path, FileOptions::default());
        landed(rig.submit(Read::whole(warm)));
        // The storage has none that it could close.
        rig.queue.close(warm).expect("closed");
        assert!(wait_for(|| rig.storage.stats().descriptors == 0), "{name}");
        let other = folder.path().join("other");
        fs::write(&other, pattern(5000)).expect("written");
        let taken = take_descriptors();
        let refused = rig.submit(Read::whole(
            rig.storage.open(&other, FileOptions::default()),
        ));
        let error = result(refused).expect_err("there is no descriptor");
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        assert!(error.to_string().contains("close files"), "{name}: {error}");
        drop(taken);
        let whole = FileOptions {
            access: Some(Access::Direct),
            ..FileOptions::default()
        };
        let ticket = rig.submit(Read::whole(rig.storage.open(&direct, whole)));
        match result(ticket) {
            Ok(bytes) => assert!(bytes[..] == pattern(200_000)[..], "{name}"),
            // The file system has no direct reads.
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoDirectIo, "{name}: {error}"),
        }
        rig.finish();
    });
}

fn read_many_files(name: &'static str, options: StorageOptions) {
    let folder = tempfile::tempdir().expect("a folder");
    let descriptors_max = options.descriptors as u64;
    let content_of = |index: usize| format!("content of file {index}").into_bytes();
    for index in 0..FILE_COUNT {
        fs::write(folder.path().join(index.to_string()), content_of(index)).expect("written");
    }
    let rig = Rig::new(name, options);
    let path = |index: usize| folder.path().join(index.to_string());
    let files: Vec<_> = (0..FILE_COUNT)
        .map(|index| rig.storage.open(path(index), FileOptions::default()))
        .collect();
    for _ in 0..2 {
        let tickets = rig.submit_all(files.iter().map(|&file| Read::whole(file)));
        for (index, ticket) in tickets.into_iter().enumerate() {
            let bytes = result(ticket).unwrap_or_else(|error| panic!("{name}: {index}: {error}"));
            assert!(bytes[..] == content_of(index), "{name}: file {index}");
        }
        let stats = rig.storage.stats();
        assert!(stats.descriptors <= descriptors_max, "{name}: {stats:?}");
    }
    rig.finish();
}

#[test]
fn the_least_staging_serves_four_priorities_at_once() {
    each(this_test!(), |name, mut options| {
        let raw = pattern(100_000);
        let mut stored = Vec::new();
        let source = &mut &raw[..];
        millstream_codec::compress(CodecId::ZLIB, 6, source, &mut stored).expect("compressed");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("raw"), &raw).expect("written");
        fs::write(folder.path().join("zlib"), &stored).expect("written");
        options.staging_bytes = 16 << 10;
        options.block_bytes = 4 << 10;
        let rig = Rig::new(name, options);
        let open = |name| {
            rig.storage
                .open(folder.path().join(name), FileOptions::default())
        };
        let (plain, zlib) = (open("raw"), open("zlib"));
        let len = raw.len() as u64;
        let (mut decoded, mut copied) = (Vec::new(), Vec::new());
        let mut batch = rig.queue.batch();
        for _ in 0..10 {
            for priority in Priority::ALL {
                let decode = Decode::codec(CodecId::ZLIB).raw_len(len);
                let request = Read::range(zlib, 0, stored.len() as u64).decode(decode);
                decoded.push(batch.add(request.priority(priority)).expect("accepted"));
                // Memory that no device can read into directly goes through staging, too.
                let request = Read::range(plain, 0, len).into(vec![0; raw.len()]);
                copied.push(batch.add(request.priority(priority)).expect("accepted"));
            }
        }
        drop(batch);
        for ticket in decoded {
            assert!(landed(ticket)[..] == raw, "{name}");
        }
        for ticket in copied {
            assert!(landed(ticket) == raw, "{name}");
        }
        rig.finish();
    });
}

#[test]
fn a_queue_with_capacity_1_and_no_auto_submit_never_deadlocks() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(8192);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let mut options = QueueOptions::default();
        options.capacity = 1;
        options.auto_submit = false;
        let queue = rig.storage.queue(options).expect("a queue");
        let path = folder.path().join("a");
        let file = rig.storage.open(path, FileOptions::default());
        let read = |index: u64| Read::range(file, index * 8, 8).user_data(index);
        let mut tickets: Vec<_> = (0..200)
            .map(|index| queue.submit(read(index)).expect("waits for room"))
            .collect();
        let mut batch = queue.batch();
        tickets.extend((200..400).map(|index| batch.add(read(index)).expect("waits for room")));
        drop(batch);
        for (index, ticket) in tickets.into_iter().enumerate() {
            let outcome = outcome(ticket);
            assert_eq!(outcome.user_data, index as u64, "{name}");
            let bytes = outcome.into_result().expect("read");
            assert!(bytes[..] == content[index * 8..][..8], "{name}");
        }
        // While a fence holds the only room, the non-blocking call reports it.
        let fence = Fence::new(0);
        let held = queue.submit(read(0).after(&fence, 1)).expect("accepted");
        let refused = queue.try_submit(read(1)).expect_err("full");
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull, "{name}");
        fence.signal(1);
        assert_eq!(landed(held).len(), 8, "{name}");
        let again = queue.submit(refused.request).expect("there is room again");
        assert_eq!(landed(again).len(), 8, "{name}");
        drop(queue);
        rig.finish();
    });
}

#[test]
fn fences_reached_late_release_requests_and_those_never_reached_can_be_canceled() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let path = folder.path().join("a");
        let file = rig.storage.open(path, FileOptions::default());
        let (late, never) = (Fence::new(0), Fence::new(0));
        let whole = || Read::range(file, 0, 1 << 20);
        let after = (1..=20).map(|value| whole().after(&late, value));
        let write_after = (1..=20).map(|value| whole().write_after(&late, value));
        let gated = rig.submit_all(after.chain(write_after));
        let timed = Read::range(file, 0, 8).after(&never, 1);
        let timed = rig.submit(timed.timeout(Duration::from_millis(20)));
        // Requests without a fence are not held up by those with one.
        assert!(landed(rig.submit(whole()))[..] == content, "{name}");
        assert!(gated.iter().all(|ticket| !ticket.is_complete()), "{name}");
        assert_eq!(failure_kind(timed), ErrorKind::TimedOut, "{name}");
        (1..=20).for_each(|value| late.signal(value));
        for ticket in gated {
            assert!(landed(ticket)[..] == content, "{name}");
        }
        let other = rig.storage.queue(QueueOptions::default()).expect("a queue");
        let dropped = [whole().after(&never, 1), whole().write_after(&never, 1)];
        let dropped = dropped.map(|request| other.submit(request).expect("accepted"));
        let canceled = rig.submit(whole().write_after(&never, 1));
        canceled.cancel();
        assert_eq!(failure_kind(canceled), ErrorKind::Canceled, "{name}");
        drop(other);
        for ticket in dropped {
            assert_eq!(failure_kind(ticket), ErrorKind::Canceled, "{name}");
        }
        rig.finish();
    });
}

/// Requests of the test on cancellation, per backend.
const CANCELED_COUNT: usize = 50_000;

/// Requests of a batch there.
const CANCEL_BATCH: usize = 500;

/// Submits a batch of reads, cancels half of them, and waits for all; how many were canceled.
fn cancel_half(
    rig: &Rig,
    reads: impl Iterator<Item = Read>,
    content: &[u8],
    random: &mut fastrand::Rng,
) -> u64 {
    let name = rig.name;
    let tickets = rig.submit_all(reads);
    for ticket in tickets.iter().filter(|_| random.bool()) {
        ticket.cancel();
    }
    let mut canceled = 0;
    for ticket in tickets {
        let outcome = outcome(ticket);
        let at = outcome.user_data as usize;
        match outcome.into_result() {
            Ok(bytes) => assert!(bytes[..] == content[at..at + 512], "{name}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Canceled, "{name}: {error}");
                canceled += 1;
            }
        }
    }
    canceled
}

#[test]
fn fifty_thousand_cancellations_race_completion_and_each_request_completes_once() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        fs::write(folder.path().join("a"), &content).expect("written");
        let rig = Rig::new(name, options);
        let path = folder.path().join("a");
        let file = rig.storage.open(path, FileOptions::default());
        let stop = AtomicBool::new(false);
        let seed = fastrand::u64(..);
        println!("{name}: seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let group = Group::new();
        let mut canceled = 0;
        std::thread::scope(|scope| {
            // A second thread cancels by tag all the time.
            scope.spawn(|| {
                let mut random = fastrand::Rng::with_seed(!seed);
                while !stop.load(Ordering::Relaxed) {
                    rig.queue.cancel_tagged(15, random.u64(0..16));
                    std::thread::yield_now();
                }
            });
            let stop = StopOnDrop(&stop);
            for _ in 0..CANCELED_COUNT / CANCEL_BATCH {
                let mut offsets = random.fork();
                let reads = (0..CANCEL_BATCH as u64).map(|tag| {
                    let offset = offsets.u64(0..(1 << 20) - 4096);
                    let read = Read::range(file, offset, 512).tag(tag).group(&group);
                    read.user_data(offset)
                });
                canceled += cancel_half(&rig, reads, &content, &mut random);
            }
            drop(stop);
        });
        assert_eq!(group.wait(Some(PATIENCE)).ok(), Some(true), "{name}");
        assert_eq!(group.canceled(), canceled, "{name}");
        assert_eq!(group.done(), CANCELED_COUNT as u64 - canceled, "{name}");
        let (failed, _) = rig.queue.take_errors();
        assert_eq!(failed, 0, "{name}: canceled is not failed");
        rig.finish();
    });
}

/// Ends the canceling thread also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn direct_and_buffered_descriptors_are_limited_together() {
    each(this_test!(), |name, mut options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(256 << 10);
        options.descriptors = 6;
        let rig = Rig::new(name, options);
        let mut tickets = Vec::new();
        let mut batch = rig.queue.batch();
        for index in 0..40 {
            let path = folder.path().join(index.to_string());
            fs::write(&path, &content).expect("written");
            let with = FileOptions {
                write: index % 4 == 0,
                ..FileOptions::default()
            };
            let file = rig.storage.open(&path, with);
            // Large reads bypass the cache, small ones do not: two descriptors a file.
            for (offset, len) in [(0, 256 << 10), (77, 999)] {
                let read = Read::range(file, offset as u64, len as u64);
                tickets.push((offset, len, batch.add(read).expect("accepted")));
            }
        }
        drop(batch);
        for (offset, len, ticket) in tickets {
            assert!(
                landed(ticket)[..] == content[offset..offset + len],
                "{name}"
            );
        }
        assert!(rig.storage.stats().descriptors <= 6, "{name}");
        rig.finish();
    });
}

/// Guarded memory that a request owns.
struct Guarded(Canary);

#[expect(unsafe_code, reason = "lends guarded memory to requests")]
// SAFETY: a canary's memory stays in place and valid until the canary is dropped, and nothing else
// uses it while the request owns it.
unsafe impl Destination for Guarded {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.0.pointer(),
            len: self.0.len(),
        }
    }
}

/// Checks the memory of a completed request, and poisons it for the rest of the test.
fn inspect(name: &str, content: &[u8], ticket: Ticket<Guarded>) -> Guarded {
    let outcome = outcome(ticket);
    let mut guarded = outcome.memory.expect("the memory comes back either way");
    let canary = &mut guarded.0;
    let intact = canary.edges_intact();
    intact.unwrap_or_else(|damage| panic!("{name}: {damage}"));
    let at = outcome.user_data as usize;
    match outcome.result {
        Ok(bytes) => {
            assert_eq!(bytes, canary.len() as u64, "{name}");
            let wanted = &content[at..at + canary.len()];
            assert!(canary.as_slice() == wanted, "{name}: at {at}");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Canceled, "{name}: {error}"),
    }
    canary.poison();
    guarded
}

#[test]
fn no_destination_is_written_after_its_request_has_completed() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(4 << 20));
        fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let seed = fastrand::u64(..);
        println!("{name}: seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for access in [Access::Direct, Access::Buffered] {
            let with = FileOptions {
                access: Some(access),
                ..FileOptions::default()
            };
            let file = rig.storage.open(&path, with);
            let opened = result(rig.storage.opened(file).expect("accepted"));
            if access == Access::Direct && !opened.is_ok_and(|info| info.direct) {
                continue;
            }
            let mut completed = Vec::new();
            for _ in 0..20 {
                let mut draws = random.fork();
                let tickets = rig.submit_all((0..40).map(|_| {
                    // Whole pages, odd lengths, and lengths of several blocks.
                    let len = [4096, 5000, 65_536, 70_001, 300_000][draws.usize(0..5)];
                    let offset = draws.u64(0..(4 << 20) - len as u64);
                    let memory = Guarded(Canary::new(len, seed));
                    let read = Read::range(file, offset, len as u64).into(memory);
                    read.user_data(offset)
                }));
                for ticket in tickets.iter().filter(|_| random.bool()) {
                    ticket.cancel();
                }
                let inspected = tickets.into_iter();
                completed.extend(inspected.map(|ticket| inspect(name, &content, ticket)));
            }
            assert!(rig.queue.drain(None).expect("drained"), "{name}");
            for guarded in completed {
                let intact = guarded.0.intact();
                intact.unwrap_or_else(|damage| panic!("{name}: {damage}"));
            }
        }
        rig.finish();
    });
}

#[test]
fn a_process_at_its_limit_of_threads_reads_all_the_same() {
    // The leak sanitizer starts a process, which the limit forbids.
    let restrict = |child: Child| child.as_nobody().leaks_on_purpose();
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let content = pattern(9 << 20);
        fs::write(&path, &content).expect("written");
        let written = fs::File::open(&path).expect("opened");
        written.sync_all().expect("synced");
        millstream_io::fs::evict(&written).expect("evicted");
        let rig = Rig::new(name, options);
        let none = rustix::process::Rlimit {
            current: Some(1),
            maximum: Some(1),
        };
        rustix::process::setrlimit(rustix::process::Resource::Nproc, none).expect("lowered");
        // Buffered reads of this length run on threads of the kernel, which count as the process's.
        let buffered = FileOptions {
            access: Some(Access::Buffered),
            ..FileOptions::default()
        };
        let file = rig.storage.open(&path, buffered);
        let pieces = (0..9).map(|piece| Read::range(file, piece << 20, 1 << 20));
        for (piece, ticket) in rig.submit_all(pieces).into_iter().enumerate() {
            let place = piece << 20;
            assert!(
                landed(ticket)[..] == content[place..place + (1 << 20)],
                "{name}"
            );
        }
        rig.finish();
    });
}
