//! Page-cache hits: who copies them changes nothing but the time.

use std::path::Path;
use std::time::Duration;

use millstream::{
    Access, Buffer, CodecId, Decode, ErrorKind, FileId, FileOptions, Priority, Queue, QueueOptions,
    Read, Storage, StorageOptions, Ticket,
};
use millstream_io::MountKind;
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use crate::support::{bytes, each_backend, each_backend_with, options, over_sim};

/// A pumped storage over the simulated disk with one file of which `cached_bytes` are in the cache.
struct Pumped {
    storage: Storage,
    queue: Queue,
    file: FileId,
    content: Vec<u8>,
    files: SimFiles,
}

impl Pumped {
    fn new(len: usize, sim: SimOptions, file: SimFileOptions) -> Pumped {
        let (sim, files) = Sim::new(sim);
        let content = bytes(len);
        files.add("f", content.clone(), file);
        let (storage, queue, file) = crate::support::pumped(sim, &files, Access::Buffered);
        Pumped {
            storage,
            queue,
            file,
            content,
            files,
        }
    }

    fn read(&self, offset: usize, len: usize) -> Ticket<Buffer> {
        let request = Read::range(self.file, offset as u64, len as u64);
        self.queue.submit(request).expect("room")
    }

    /// Reads pieces of `len` bytes one after the other, and checks them.
    fn read_all(&self, len: usize) {
        for offset in (0..self.content.len()).step_by(len) {
            let len = len.min(self.content.len() - offset);
            let bytes = self.read(offset, len).wait().expect("read");
            assert_eq!(&*bytes, &self.content[offset..offset + len], "at {offset}");
        }
    }

    /// A few hits, so that the next read is tried without asking first.
    fn hit_a_few_times(&self) {
        for offset in 0..8 {
            self.read(offset, 4096).wait().expect("cached");
        }
    }
}

fn cached(bytes: u64) -> SimFileOptions {
    SimFileOptions {
        cached_bytes: Some(bytes),
        ..SimFileOptions::default()
    }
}

fn buffered() -> StorageOptions {
    options(|o| o.access = Access::Buffered)
}

#[test]
fn hits_need_no_device_and_misses_come_from_it() {
    let half = 100_000;
    let pumped = Pumped::new(2 * half, SimOptions::default(), cached(half as u64 + 77));
    pumped.read_all(1000);
    let stats = pumped.storage.stats();
    assert!(stats.copied_operations >= 95, "{stats:?}");
    assert!(
        stats.operations - stats.copied_operations >= 95,
        "{stats:?}"
    );
    assert_eq!(stats.stored_bytes, 2 * half as u64, "every byte once");
}

#[test]
fn a_read_that_is_cached_in_part_is_completed_by_the_device() {
    let sim = SimOptions {
        short_chance: 0.5,
        ..SimOptions::default()
    };
    let pumped = Pumped::new(1 << 20, sim, cached(600_001));
    pumped.hit_a_few_times();
    let bytes = pumped.read(500_000, 200_000).wait().expect("half of it is");
    assert_eq!(&*bytes, &pumped.content[500_000..700_000]);
    assert_eq!(pumped.storage.stats().stored_bytes, 8 * 4096 + 200_000);
}

#[test]
fn the_page_cache_is_rarely_tried_for_a_cold_file() {
    let pumped = Pumped::new(1 << 20, SimOptions::default(), cached(0));
    let before = pumped.storage.stats().operations;
    pumped.read_all(1024);
    let stats = pumped.storage.stats();
    assert_eq!((stats.copied_operations, stats.retried_operations), (0, 0));
    assert_eq!(
        stats.operations - before,
        1024,
        "a miss is no operation of its own"
    );
    // It is noticed when the file comes into the cache.
    pumped.files.change(Path::new("f"), |options| {
        options.cached_bytes = Some(1 << 20);
    });
    pumped.read_all(1024);
    let copied = pumped.storage.stats().copied_operations;
    assert!(copied >= 1024 - 64, "{copied} of 1024 copied");
}

/// The close takes effect while the operation is in flight, so its completion frees the file.
#[test]
fn a_file_that_another_queue_has_closed_lives_until_its_last_operation_completes() {
    for cached_bytes in [0, 100_000] {
        let pumped = Pumped::new(100_000, SimOptions::default(), cached(cached_bytes));
        let other = pumped.storage.queue(QueueOptions::default());
        let other = other.expect("a queue");
        let mut ticket = pumped.read(1000, 9000);
        other.batch().close(pumped.file).expect("room");
        let bytes = ticket.wait().expect("submitted before the close");
        assert_eq!(&*bytes, &pumped.content[1000..10_000]);
        let stale = pumped.read(0, 1).wait().expect_err("it is closed");
        assert_eq!(stale.kind(), ErrorKind::StaleFile);
    }
}

#[test]
fn a_mount_that_can_hang_is_left_to_its_device() {
    let slow = SimFileOptions {
        mount_kind: MountKind::Slow,
        mount: 2,
        ..cached(1 << 20)
    };
    let pumped = Pumped::new(1 << 20, SimOptions::default(), slow);
    pumped.read_all(10_000);
    assert_eq!(pumped.storage.stats().copied_operations, 0);
}

#[test]
fn a_truncated_file_fails_with_past_end_when_it_is_cached_too() {
    let pumped = Pumped::new(100_000, SimOptions::default(), cached(100_000));
    pumped.hit_a_few_times();
    assert!(pumped.files.resize(Path::new("f"), 50_000));
    let error = pumped.read(49_000, 2000).wait().expect_err("truncated");
    assert_eq!(error.kind(), ErrorKind::PastEnd);
    let left = pumped.read(48_000, 2000).wait().expect("what is left");
    assert_eq!(&*left, &pumped.content[48_000..50_000]);
}

/// Memory that is looked at when everything has completed.
struct Lent(Vec<u8>);

impl Lent {
    #[expect(
        unsafe_code,
        reason = "requests over borrowed memory are what is tested"
    )]
    fn read(&mut self, file: FileId, offset: usize, len: usize) -> Read<()> {
        let memory = &mut self.0[offset..offset + len];
        let request = Read::range(file, offset as u64, len as u64);
        // SAFETY: the tests keep the memory until the storage is closed or all its requests have
        // completed, and do not look at it before.
        unsafe { request.borrowed(memory.as_mut_ptr(), len) }
    }
}

#[test]
fn many_cached_reads_of_all_sizes_bring_the_right_bytes() {
    each_backend_with(buffered, |bench| {
        let content = bench.bytes(8 << 20);
        let file = bench.file("f", content.len());
        bench
            .storage
            .opened(file)
            .expect("room")
            .wait()
            .expect("open");
        let queue = bench.queue();
        let mut batch = queue.batch();
        for size in [4 << 10, 60_001, 300_000, 3 << 20] {
            let mut lent = Lent(vec![0; content.len()]);
            for offset in (0..content.len()).step_by(size) {
                let len = size.min(content.len() - offset);
                let priority = Priority::ALL[offset / size % 4];
                let request = lent.read(file, offset, len).priority(priority);
                batch.detach(request).expect("room");
            }
            batch.submit();
            assert!(queue.drain(None).expect("may wait"));
            assert!(lent.0 == content, "reads of {size}");
        }
        let (count, first) = queue.take_errors();
        assert_eq!(count, 0, "{first:?}");
        let stats = bench.storage.stats();
        if stats.copied_operations == 0 {
            println!("SKIP: this file system reads nothing without waiting, or drops its cache");
        }
        assert!(stats.copied_operations <= stats.operations);
    });
}

#[test]
fn encoded_bytes_that_are_cached_are_decoded_like_others() {
    each_backend(|bench| {
        let raw = bench.bytes(6 << 20);
        for codec in [CodecId::LZ4, CodecId::ZLIB, CodecId::STORED] {
            let stored = crate::support::encoded(codec, &raw);
            let file = bench.file_of(&format!("{codec:?}"), &stored);
            let queue = bench.queue();
            for _ in 0..2 {
                let decode = Decode::codec(codec).raw_len(raw.len() as u64);
                let request = Read::whole(file).decode(decode);
                let mut ticket = queue.submit(request).expect("room");
                assert!(*ticket.wait().expect("decoded") == raw, "{codec:?}");
            }
        }
    });
}

/// Cancels every second of many reads at a moment that depends on `round`, and looks at the memory
/// of the canceled ones once nothing is under way.
fn cancel_some(queue: &Queue, file: FileId, content: &[u8], round: usize) {
    const SIZE: usize = 16 << 10;
    let mut lent = Lent(vec![0; content.len()]);
    let mut batch = queue.batch();
    let tickets: Vec<Ticket<()>> = (0..content.len() / SIZE)
        .map(|index| {
            let request = lent.read(file, index * SIZE, SIZE);
            batch.add(request.tag(index as u64 % 2)).expect("room")
        })
        .collect();
    batch.submit();
    for _ in 0..round * 50 {
        std::hint::spin_loop();
    }
    queue.cancel_tagged(1, 1);
    let mut canceled = Vec::new();
    for (index, mut ticket) in tickets.into_iter().enumerate() {
        let part = index * SIZE..(index + 1) * SIZE;
        match ticket.wait() {
            Ok(()) => assert!(lent.0[part.clone()] == content[part]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Canceled);
                assert_eq!(index % 2, 1, "others are not touched");
                lent.0[part.clone()].fill(0xc5);
                canceled.push(part);
            }
        }
    }
    assert!(queue.drain(None).expect("may wait"));
    for part in canceled {
        let untouched = lent.0[part].iter().all(|&byte| byte == 0xc5);
        assert!(untouched, "written after the completion");
    }
}

#[test]
fn a_canceled_copy_completes_once_and_nothing_is_written_afterwards() {
    each_backend_with(buffered, |bench| {
        let content = bench.bytes(4 << 20);
        let file = bench.file("f", content.len());
        bench
            .storage
            .opened(file)
            .expect("room")
            .wait()
            .expect("open");
        let queue = bench.queue();
        for round in 0..20 {
            cancel_some(&queue, file, &content, round);
        }
    });
}

#[test]
fn a_storage_that_closes_takes_its_copies_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = crate::support::bytes(16 << 20);
    let path = folder.path().join("f");
    std::fs::write(&path, &content).expect("written");
    let mut completed = 0;
    for wait in [Duration::ZERO, Duration::from_secs(20)] {
        let storage = Storage::new(buffered()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open(&path, FileOptions::default());
        storage.opened(file).expect("room").wait().expect("open");
        // Of the storage's own: what a report counts is never used again.
        let mut batch = queue.batch();
        let tickets: Vec<Ticket<Buffer>> = (0..512)
            .map(|index| Read::range(file, index * 32_768, 32_768))
            .map(|request| batch.add(request).expect("room"))
            .collect();
        batch.submit();
        let report = storage.close(wait);
        assert!(wait.is_zero() || report.operations == 0, "{report:?}");
        for mut ticket in tickets {
            match ticket.wait() {
                Ok(buffer) => assert_eq!(buffer.len(), 32_768),
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Canceled | ErrorKind::Closed),
                    "{error:?}"
                ),
            }
            completed += 1;
        }
    }
    assert_eq!(completed, 1024);
}

#[test]
fn a_long_read_that_is_not_cached_is_not_split_small() {
    const MIB: usize = 1 << 20;
    let pumped = Pumped::new(6 * MIB, SimOptions::default(), cached(0));
    let lengths = |pumped: &Pumped| -> Vec<usize> {
        let log = pumped.files.take_log();
        log.iter().map(|operation| operation.len).collect()
    };
    pumped.read_all(6 * MIB);
    assert_eq!(lengths(&pumped), [4 * MIB, 2 * MIB]);
    let urgent = Read::range(pumped.file, 0, 4096).priority(Priority::Realtime);
    let mut urgent = pumped.queue.submit(urgent).expect("room");
    urgent.wait().expect("read");
    pumped.read_all(6 * MIB);
    let most = lengths(&pumped).into_iter().max();
    assert_eq!(most, Some(MIB / 4), "a realtime request waits for no more");
}

#[test]
fn a_file_that_is_handed_over_is_read_past_the_page_cache_the_first_time() {
    const MIB: usize = 1 << 20;
    let (sim, files) = Sim::new(SimOptions::default());
    files.add("f", bytes(6 * MIB), SimFileOptions::default());
    let storage = Storage::new(over_sim(sim, &files, Access::Auto)).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let local = storage.open_local("f", FileOptions::default());
    let file = storage.adopt(local.expect("open")).expect("taken");
    let mut ticket = queue.submit(Read::whole(file)).expect("room");
    assert!(ticket.wait().expect("read")[..] == bytes(6 * MIB));
    // Through the page cache an operation may have four blocks.
    let lengths = || -> Vec<usize> {
        let log = files.take_log();
        log.iter().map(|operation| operation.len).collect()
    };
    assert_eq!(lengths(), [MIB; 6]);
    // What is loaded a second time is worth its place in the cache.
    let mut ticket = queue.submit(Read::whole(file)).expect("room");
    ticket.wait().expect("read");
    assert!(lengths().contains(&(4 * MIB)));
}
