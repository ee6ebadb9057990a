//! What tickets say that their requests wait for: each cause, and several in turn.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use millstream::{
    Access, BlockSource, BlockTable, Codec, CodecId, Decode, DevicePart, DeviceSink, Error, Fence,
    FileId, FileOp, FileOptions, Job, JobSystem, Queue, Read, Storage, StorageOptions, Ticket,
    WaitsFor, Write,
};
use millstream_io::MountKind;
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_testing::{PATIENCE, wait_for};

use crate::support::{
    Bench, bytes, each_backend_and_pumped, each_backend_with, encoded, options, over_sim, pumped,
};

const CODEC: CodecId = CodecId(0x90);

/// Waits until a request waits for `cause`, or for nothing.
#[track_caller]
fn reaches<T: 'static>(storage: &Storage, ticket: &Ticket<T>, cause: impl Into<Option<WaitsFor>>) {
    let cause = cause.into();
    let is_there = wait_for(|| {
        storage.pump();
        ticket.waits_for() == cause
    });
    assert!(is_there, "{:?}, not {cause:?}", ticket.waits_for());
    assert_eq!(ticket.is_complete(), cause.is_none());
}

/// Waits until the engine has handled what it was asked before: a later request has completed.
fn is_taken_in(storage: &Storage, queue: &Queue) {
    let later = queue.submit(Read::memory(Arc::from([1]))).expect("room");
    reaches(storage, &later, None);
}

/// Pumps a storage until nothing more happens by itself.
fn settle(storage: &Storage) {
    for _ in 0..10 {
        while storage.pump() {}
    }
}

#[test]
fn requests_wait_for_their_submission_and_for_the_engine() {
    let pumped = || options(|o| o.threads.pumped = true);
    each_backend_with(pumped, |bench| {
        let file = bench.file("data", 1000);
        let queue = bench.queue();
        let mut batch = queue.batch();
        let mut ticket = batch.add(Read::whole(file)).expect("room");
        bench.storage.pump();
        assert_eq!(ticket.waits_for(), Some(WaitsFor::Submission));
        batch.submit();
        assert_eq!(ticket.waits_for(), Some(WaitsFor::Engine));
        reaches(&bench.storage, &ticket, None);
        assert_eq!(ticket.wait().expect("read").len(), 1000);
        assert_eq!(ticket.waits_for(), None);
    });
}

#[test]
fn fences_hold_sources_and_destinations_and_what_is_ordered_behind_them() {
    each_backend_and_pumped(|bench| {
        let (storage, fence) = (&bench.storage, Fence::new(0));
        let file = bench.file("data", 100_000);
        let written = bench.open_for_writing("written");
        // A dropped queue cancels what a fence holds.
        let (queue, other) = (bench.queue(), bench.queue());
        let after = queue.submit(Read::whole(file).after(&fence, 1));
        let behind = queue.submit(FileOp::remove(bench.folder.path().join("none")));
        let landed = other.submit(Read::whole(file).write_after(&fence, 1));
        let empty = other.submit(Read::memory(Arc::new([])).write_after(&fence, 1));
        let write = other.submit(Write::at(written, 0, vec![1; 10]).after(&fence, 1));
        let sync = other.submit(FileOp::sync(written));
        let (after, behind) = (after.expect("room"), behind.expect("room"));
        let (landed, empty) = (landed.expect("room"), empty.expect("room"));
        let (write, sync) = (write.expect("room"), sync.expect("room"));
        reaches(storage, &after, WaitsFor::Fence);
        reaches(storage, &behind, WaitsFor::Earlier);
        reaches(storage, &landed, WaitsFor::Fence);
        reaches(storage, &empty, WaitsFor::Fence);
        reaches(storage, &write, WaitsFor::Fence);
        reaches(storage, &sync, WaitsFor::Earlier);
        let holds = wait_for(|| {
            storage.pump();
            storage.stats().staging_bytes >= 100_000
        });
        assert!(holds && landed.waits_for() == Some(WaitsFor::Fence));
        fence.signal(1);
        for ticket in [&after, &landed, &empty] {
            reaches(storage, ticket, None);
        }
        reaches(storage, &behind, None);
        reaches(storage, &write, None);
        reaches(storage, &sync, None);
    });
}

#[test]
fn held_requests_wait_for_what_holds_them_now() {
    each_backend_and_pumped(|bench| {
        let storage = &bench.storage;
        let file = bench.file("data", 1000);
        // A day for the bytes of the first.
        let queue = bench.queue_with(|o| o.bandwidth = Some(1));
        let read = || queue.submit(Read::range(file, 0, 1000)).expect("room");
        let first = read();
        reaches(storage, &first, None);
        let held = read();
        reaches(storage, &held, WaitsFor::Bandwidth);
        queue.pause();
        reaches(storage, &held, WaitsFor::Pause);
        queue.resume();
        reaches(storage, &held, WaitsFor::Bandwidth);
        queue.pause();
        reaches(storage, &held, WaitsFor::Pause);
        queue.set_bandwidth(None);
        let late = read();
        reaches(storage, &late, WaitsFor::Pause);
        assert_eq!(held.waits_for(), Some(WaitsFor::Pause));
        queue.resume();
        reaches(storage, &held, None);
        reaches(storage, &late, None);
    });
}

/// A disk whose simulated time advances while its storage is pumped.
fn sim() -> (Sim, SimFiles) {
    Sim::new(SimOptions {
        call_ns: 100_000,
        ..SimOptions::default()
    })
}

/// A disk with the files "f", "g" and "h", of which some are on a mount that can hang.
fn disk(len: usize, mount_kind: MountKind) -> (Sim, SimFiles) {
    let (sim, files) = sim();
    for name in ["f", "g", "h"] {
        let options = SimFileOptions {
            mount_kind,
            mount: 2,
            ..SimFileOptions::default()
        };
        files.add(name, bytes(len), options);
    }
    (sim, files)
}

fn hang(files: &SimFiles, name: &str) {
    files.hang(Path::new(name), 0..u64::MAX, None);
}

#[test]
fn a_paused_request_waits_for_its_device_once_it_is_resumed() {
    let (sim, files) = disk(100_000, MountKind::Local);
    let (storage, queue, file) = pumped(sim, &files, Access::Direct);
    hang(&files, "f");
    queue.pause();
    let ticket = queue.submit(Read::whole(file)).expect("room");
    reaches(&storage, &ticket, WaitsFor::Pause);
    queue.resume();
    reaches(&storage, &ticket, WaitsFor::Device);
    settle(&storage);
    assert_eq!(ticket.waits_for(), Some(WaitsFor::Device));
    files.release_hung();
    reaches(&storage, &ticket, None);
}

#[test]
fn an_open_waits_for_a_descriptor_and_its_read_for_the_device() {
    let (sim, files) = disk(100_000, MountKind::Local);
    let mut options = over_sim(sim, &files, Access::Direct);
    options.descriptors = 2;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let read = |name| {
        let file = storage.open(name, FileOptions::default());
        queue.submit(Read::whole(file)).expect("room")
    };
    hang(&files, "f");
    let first = read("f");
    reaches(&storage, &first, WaitsFor::Device);
    let second = read("g");
    reaches(&storage, &second, WaitsFor::Descriptor);
    // Its operation is let go, and that of the second hangs.
    files.release_hung();
    hang(&files, "g");
    reaches(&storage, &second, WaitsFor::Device);
    assert_eq!(first.waits_for(), None);
    files.release_hung();
    reaches(&storage, &second, None);
}

#[test]
fn mounts_that_can_hang_have_places_for_few_operations() {
    let (sim, files) = disk(10_000, MountKind::Slow);
    let (storage, queue, file) = pumped(sim, &files, Access::Buffered);
    let writes = FileOptions {
        write: true,
        ..FileOptions::default()
    };
    let written = storage.open("g", writes);
    for name in ["f", "g", "h"] {
        hang(&files, name);
    }
    let write = queue.submit(Write::at(written, 0, vec![1; 10]));
    let write = write.expect("room");
    reaches(&storage, &write, WaitsFor::Mount);
    let read = || queue.submit(Read::whole(file)).expect("room");
    let reads: Vec<_> = (0..8).map(|_| read()).collect();
    settle(&storage);
    assert!(files.hung_count() < 9, "some have no place");
    for ticket in &reads {
        assert_eq!(ticket.waits_for(), Some(WaitsFor::Mount));
    }
    write.cancel();
    settle(&storage);
    if !write.is_complete() {
        assert_eq!(write.waits_for(), Some(WaitsFor::Mount));
    }
    files.release_hung();
    for ticket in &reads {
        reaches(&storage, ticket, None);
    }
    reaches(&storage, &write, None);
}

#[test]
fn a_place_on_a_mount_goes_to_a_request_that_may_use_it() {
    for is_paused in [true, false] {
        let (sim, files) = Sim::new(SimOptions {
            latency_min_ns: 1_000_000,
            latency_max_ns: 1_000_000,
            ..SimOptions::default()
        });
        let disk = SimFileOptions {
            mount_kind: MountKind::Slow,
            ..SimFileOptions::default()
        };
        files.add("f", bytes(24_576), disk);
        let (storage, other, file) = pumped(sim, &files, Access::Buffered);
        let queue = storage.queue(Default::default()).expect("a queue");
        files.hang(Path::new("f"), 0..3 * 4096, None);
        let read = |queue: &Queue, block: u64| {
            let read = Read::range(file, block * 4096, 4096);
            queue.submit(read).expect("room")
        };
        let _busy: Vec<_> = (0..4).map(|block| read(&queue, block)).collect();
        settle(&storage);
        assert_eq!(files.hung_count(), 3);
        let first = read(&other, 4);
        reaches(&storage, &first, WaitsFor::Mount);
        let second = read(&queue, 5);
        reaches(&storage, &second, WaitsFor::Mount);
        match is_paused {
            true => other.pause(),
            false => first.cancel(),
        }
        let ends = wait_for(|| {
            let never = Fence::new(0).at(1);
            let _ = storage.wait(never, Some(std::time::Duration::from_micros(50)));
            storage.pump();
            second.is_complete()
        });
        assert!(ends, "{:?}", second.waits_for());
        files.release_hung();
    }
}

/// A read that needs most of 1 MiB of staging at once.
fn large(raw: &[u8], file: FileId) -> Read {
    let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(raw.len() as u64);
    Read::whole(file).decode(decode)
}

fn noise(len: usize) -> Vec<u8> {
    let mut raw = vec![0; len];
    fastrand::Rng::with_seed(1).fill(&mut raw);
    raw
}

#[test]
fn a_place_on_a_mount_goes_to_a_request_that_needs_no_staging_while_another_waits_for_it() {
    let (sim, files) = Sim::new(SimOptions {
        latency_min_ns: 1_000_000,
        latency_max_ns: 1_000_000,
        ..SimOptions::default()
    });
    let disk = SimFileOptions {
        mount_kind: MountKind::Slow,
        ..SimFileOptions::default()
    };
    let raw = noise(500_000);
    files.add("large", encoded(CodecId::LZ4_BLOCK, &raw), disk.clone());
    files.add("small", bytes(12_288), disk);
    let mut options = over_sim(sim, &files, Access::Buffered);
    (options.threads.pumped, options.staging_bytes) = (true, 1 << 20);
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let [staged, plain] = ["large", "small"].map(|name| storage.open(name, FileOptions::default()));
    hang(&files, "large");
    files.hang(Path::new("small"), 0..4096, None);
    let staged = || queue.submit(large(&raw, staged)).expect("room");
    let plain = |block: u64| {
        let read = Read::range(plain, block * 4096, 4096);
        queue.submit(read).expect("room")
    };
    // What hangs has all of staging that reads of this mount may have.
    let _busy = ([staged(), staged()], plain(0));
    settle(&storage);
    assert_eq!(files.hung_count(), 3);
    let ends = plain(1);
    reaches(&storage, &ends, WaitsFor::Mount);
    let first = staged();
    reaches(&storage, &first, WaitsFor::Mount);
    let second = plain(2);
    reaches(&storage, &second, WaitsFor::Mount);
    let is_served = wait_for(|| {
        let never = Fence::new(0).at(1);
        let _ = storage.wait(never, Some(std::time::Duration::from_micros(50)));
        storage.pump();
        second.is_complete()
    });
    assert!(is_served, "{:?}", second.waits_for());
    // Only what hangs has staging that it may take.
    reaches(&storage, &first, WaitsFor::Application);
    files.release_hung();
}

#[test]
fn a_request_waits_for_staging_that_another_holds() {
    let raw = noise(700_000);
    let (sim, files) = sim();
    let stored = encoded(CodecId::LZ4_BLOCK, &raw);
    files.add("f", stored, SimFileOptions::default());
    let mut options = over_sim(sim, &files, Access::Direct);
    options.staging_bytes = 1 << 20;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let file = storage.open("f", FileOptions::default());
    hang(&files, "f");
    let mut tickets: Vec<_> = (0..2)
        .map(|_| queue.submit(large(&raw, file)).expect("room"))
        .collect();
    reaches(&storage, &tickets[0], WaitsFor::Device);
    reaches(&storage, &tickets[1], WaitsFor::Staging);
    settle(&storage);
    assert_eq!(tickets[1].waits_for(), Some(WaitsFor::Staging));
    files.release_hung();
    for ticket in &mut tickets {
        assert!(ticket.wait().expect("decoded")[..] == raw);
    }
}

/// What code of the application waits for.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_open = self.is_open.lock().expect("no panic");
        let passed = self
            .changed
            .wait_timeout_while(is_open, 2 * PATIENCE, |is_open| !*is_open);
        assert!(*passed.expect("no panic").0, "never opened");
    }

    fn open(&self) {
        *self.is_open.lock().expect("no panic") = true;
        self.changed.notify_all();
    }
}

/// A codec that blocks its worker.
struct Blocks(Arc<Gate>);

impl Codec for Blocks {
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        self.0.pass();
        raw.copy_from_slice(stored);
        Ok(stored.len())
    }
}

fn zlib(raw: &[u8]) -> Read {
    let decode = Decode::codec(CodecId::ZLIB).raw_len(raw.len() as u64);
    Read::memory(encoded(CodecId::ZLIB, raw).into()).decode(decode)
}

#[test]
fn a_job_waits_for_a_worker_that_a_codec_of_another_request_blocks() {
    let gate = Arc::new(Gate::default());
    let with_codec = || {
        *gate.is_open.lock().expect("no panic") = false;
        options(|o| {
            o.threads.workers = Some(1);
            o.codec(CODEC, Blocks(Arc::clone(&gate)));
        })
    };
    each_backend_with(with_codec, |bench| {
        let raw = bench.bytes(100_000);
        let decode = Decode::codec(CODEC).raw_len(raw.len() as u64);
        let read = Read::memory(raw[..].into()).decode(decode);
        let blocked = bench.queue().submit(read).expect("room");
        reaches(&bench.storage, &blocked, WaitsFor::Application);
        let behind = bench.queue().submit(zlib(&raw)).expect("room");
        reaches(&bench.storage, &behind, WaitsFor::Job);
        gate.open();
        reaches(&bench.storage, &blocked, None);
        reaches(&bench.storage, &behind, None);
    });
}

#[test]
fn jobs_of_a_pumped_storage_wait_for_the_next_round() {
    let pumped = || options(|o| o.threads.pumped = true);
    each_backend_with(pumped, |bench| {
        let ticket = bench.queue().submit(zlib(&bench.bytes(100_000)));
        let ticket = ticket.expect("room");
        bench.storage.pump();
        assert_eq!(ticket.waits_for(), Some(WaitsFor::Job));
        reaches(&bench.storage, &ticket, None);
    });
}

/// Jobs and parts that the application keeps.
#[derive(Clone, Default)]
struct Kept {
    jobs: Arc<Mutex<Vec<Job>>>,
    parts: Arc<Mutex<Vec<DevicePart>>>,
}

impl Kept {
    fn run(&self) {
        let jobs = std::mem::take(&mut *self.jobs.lock().expect("no panic"));
        let parts = std::mem::take(&mut *self.parts.lock().expect("no panic"));
        for mut job in jobs {
            // Jobs of a codec are finished by the application, others are run.
            let (stored, raw) = job.stored_and_raw();
            if stored.is_empty() {
                job.run();
            } else {
                raw.copy_from_slice(stored);
                let len = stored.len();
                job.finish(Ok(len));
            }
        }
        parts.into_iter().for_each(|part| part.finish(Ok(())));
    }

    /// Runs what is kept until a request completes.
    fn complete<T: 'static>(&self, storage: &Storage, ticket: &Ticket<T>) {
        let is_complete = wait_for(|| {
            self.run();
            storage.pump();
            ticket.is_complete()
        });
        assert!(is_complete && ticket.waits_for().is_none());
    }
}

impl JobSystem for Kept {
    fn spawn(&self, job: Job) {
        self.jobs.lock().expect("no panic").push(job);
    }
}

impl Codec for Kept {
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        raw.copy_from_slice(stored);
        Ok(stored.len())
    }

    fn defer(&self, job: Job) -> Option<Job> {
        self.spawn(job);
        None
    }
}

impl DeviceSink for Kept {
    fn room(&self) -> u64 {
        u64::MAX
    }

    fn take(&self, part: DevicePart) {
        self.parts.lock().expect("no panic").push(part);
    }
}

/// Checks over each backend, with threads and without, that a read waits for the application.
fn waits_for_the_application<D: 'static>(
    set: impl Fn(&mut StorageOptions, &Kept),
    read: impl Fn(&Bench, &Kept) -> Read<D>,
) {
    let kept = Kept::default();
    for pumped in [false, true] {
        let options = || {
            options(|o| {
                o.threads.pumped = pumped;
                set(o, &kept);
            })
        };
        each_backend_with(options, |bench| {
            let read = read(bench, &kept);
            let ticket = bench.queue().submit(read).expect("room");
            reaches(&bench.storage, &ticket, WaitsFor::Application);
            settle(&bench.storage);
            assert_eq!(ticket.waits_for(), Some(WaitsFor::Application));
            kept.complete(&bench.storage, &ticket);
        });
    }
}

#[test]
fn requests_wait_for_a_job_system_that_keeps_their_jobs() {
    waits_for_the_application(
        |o, kept| o.job_system = Some(Arc::new(kept.clone())),
        |bench, _| zlib(&bench.bytes(100_000)),
    );
}

#[test]
fn requests_wait_for_a_codec_that_defers() {
    waits_for_the_application(
        |o, kept| o.codec(CODEC, kept.clone()),
        |bench, _| {
            let file = bench.file("data", 1000);
            Read::whole(file).decode(Decode::codec(CODEC).raw_len(1000))
        },
    );
}

#[test]
fn requests_wait_for_a_device_sink() {
    waits_for_the_application(
        |_, _| {},
        |bench, kept| {
            let file = bench.file("data", 1000);
            Read::whole(file).into_device(Arc::new(kept.clone()))
        },
    );
}

struct Base(Arc<Gate>);

impl BlockSource for Base {
    fn read_at(&self, _: u64, into: &mut [u8]) -> Result<(), Error> {
        self.0.pass();
        into.fill(7);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        None
    }
}

#[test]
fn requests_wait_for_suppliers_of_memory_and_for_block_sources() {
    each_backend_with(StorageOptions::default, |bench| {
        let (queue, gate) = (bench.queue(), Arc::new(Gate::default()));
        let file = bench.file("data", 1000);
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..1000, 1000);
        table.push(CodecId::STORED, 0..1000, 1000);
        table.external_block();
        let table = table.external(Arc::new(Base(Arc::clone(&gate))));
        let read = Read::whole(file).decode(Decode::table(table));
        let based = queue.submit(read).expect("room");
        let own = Arc::clone(&gate);
        let supply = move |len| {
            own.pass();
            Some(vec![0u8; len])
        };
        let supplied = queue.submit(Read::whole(file).supplied(supply));
        let supplied = supplied.expect("room");
        reaches(&bench.storage, &based, WaitsFor::Application);
        reaches(&bench.storage, &supplied, WaitsFor::Application);
        supplied.cancel();
        is_taken_in(&bench.storage, &queue);
        assert_eq!(supplied.waits_for(), Some(WaitsFor::Application));
        gate.open();
        reaches(&bench.storage, &based, None);
        reaches(&bench.storage, &supplied, None);
    });
}

#[test]
fn requests_wait_for_the_application_while_it_holds_all_of_staging() {
    let raw = noise(700_000);
    let (sim, files) = sim();
    let stored = encoded(CodecId::LZ4_BLOCK, &raw);
    files.add("f", stored, SimFileOptions::default());
    let kept = Kept::default();
    let mut options = over_sim(sim, &files, Access::Direct);
    options.staging_bytes = 1 << 20;
    options.job_system = Some(Arc::new(kept.clone()));
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let file = storage.open("f", FileOptions::default());
    let tickets: Vec<_> = (0..4)
        .map(|_| queue.submit(large(&raw, file)).expect("room"))
        .collect();
    for ticket in &tickets {
        reaches(&storage, ticket, WaitsFor::Application);
    }
    settle(&storage);
    assert!(kept.jobs.lock().expect("no panic").len() < tickets.len());
    assert!(storage.stats().blocked_by_application > 0);
    for ticket in &tickets {
        assert_eq!(ticket.waits_for(), Some(WaitsFor::Application));
    }
    for ticket in &tickets {
        kept.complete(&storage, ticket);
    }
}

/// Requests that wait for the application's staging hold no descriptor that another needs.
#[test]
fn a_file_is_opened_while_the_application_holds_all_of_staging() {
    let raw = noise(700_000);
    let (sim, files) = sim();
    let stored = encoded(CodecId::LZ4_BLOCK, &raw);
    for name in ["a", "b", "c", "d"] {
        files.add(name, stored.clone(), SimFileOptions::default());
    }
    files.add("plain", raw.clone(), SimFileOptions::default());
    let kept = Kept::default();
    let mut options = over_sim(sim, &files, Access::Buffered);
    options.staging_bytes = 1 << 20;
    options.descriptors = 2;
    options.job_system = Some(Arc::new(kept.clone()));
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let open = |name| storage.open(name, FileOptions::default());
    let tickets: Vec<_> = ["a", "b", "c", "d", "a", "b"]
        .map(|name| queue.submit(large(&raw, open(name))).expect("room"))
        .into();
    settle(&storage);
    // Those behind it open their files again, and only one of them finds room.
    kept.complete(&storage, &tickets[0]);
    settle(&storage);
    let mut plain = queue.submit(Read::whole(open("plain"))).expect("room");
    reaches(&storage, &plain, None);
    assert!(plain.wait().expect("read")[..] == raw);
    for ticket in &tickets {
        kept.complete(&storage, ticket);
    }
}

#[cfg(target_os = "linux")]
mod fuse {
    use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip};

    use super::*;

    #[test]
    fn requests_wait_for_opens_calls_and_reads_that_hang() {
        let with_descriptors = || options(|o| o.descriptors = 2);
        each_backend_with(with_descriptors, |bench| {
            let content = bytes(5000);
            let mount = or_skip!(FaultFs::mount(&[("a", &content), ("b", &content)]));
            let (storage, queue) = (&bench.storage, bench.queue());
            let read = |name| {
                let file = storage.open(mount.path(name), FileOptions::default());
                queue.submit(Read::whole(file)).expect("room")
            };
            mount.inject(Rule::on(Call::Read, Effect::Hang));
            let first = read("a");
            reaches(storage, &first, WaitsFor::Mount);
            assert!(mount.wait_held(1, PATIENCE));
            let second = read("b");
            reaches(storage, &second, WaitsFor::Descriptor);
            mount.inject(Rule::on(Call::Open, Effect::Hang).of("b").times(1));
            mount.release();
            reaches(storage, &first, None);
            assert!(mount.wait_held(1, PATIENCE));
            reaches(storage, &second, WaitsFor::File);
            mount.release();
            reaches(storage, &second, WaitsFor::Mount);
            mount.heal();
            reaches(storage, &second, None);
        });
    }

    #[test]
    fn a_canceled_call_on_a_file_is_still_waited_for() {
        each_backend_with(StorageOptions::default, |bench| {
            let mount = or_skip!(FaultFs::mount(&[("a", b"a")]));
            let (storage, queue) = (&bench.storage, bench.queue());
            let options = FileOptions {
                write: true,
                ..FileOptions::default()
            };
            let file = storage.open(mount.path("a"), options);
            mount.inject(Rule::on(Call::Sync, Effect::Hang));
            let sync = queue.submit(FileOp::sync(file)).expect("room");
            assert!(mount.wait_held(1, PATIENCE));
            reaches(storage, &sync, WaitsFor::File);
            sync.cancel();
            is_taken_in(storage, &queue);
            assert_eq!(sync.waits_for(), Some(WaitsFor::File));
            mount.heal();
            reaches(storage, &sync, None);
        });
    }
}
