//! Reads that the page cache answers: who copies them changes nothing but the time.

mod support;

use std::path::Path;
use std::time::Duration;

use millstream::{
    Access, CodecId, ErrorKind, FileId, Priority, Queue, QueueOptions, Request, Storage,
    StorageOptions, Ticket,
};
use millstream_io::MountKind;
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use support::each_backend_with;

/// A pumped storage over the fake disk with one file of which `cached_bytes` are in the cache.
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
        let content = support::bytes(len);
        files.add("f", content.clone(), file);
        let (storage, queue, file) = support::pumped(sim, &files, Access::Buffered);
        Pumped {
            storage,
            queue,
            file,
            content,
            files,
        }
    }

    fn read(&self, offset: usize, len: usize) -> Ticket {
        let request = Request::read(self.file, offset as u64, len as u64);
        self.queue.enqueue(request).expect("there is room")
    }

    /// Reads pieces of `len` bytes one after the other, and checks them.
    fn read_all(&self, len: usize) {
        for offset in (0..self.content.len()).step_by(len) {
            let len = len.min(self.content.len() - offset);
            let bytes = self.read(offset, len).wait().expect("read").into_buffer();
            assert_eq!(&*bytes, &self.content[offset..offset + len], "at {offset}");
        }
    }
}

fn cached(bytes: u64) -> SimFileOptions {
    SimFileOptions {
        cached_bytes: Some(bytes),
        ..SimFileOptions::default()
    }
}

#[test]
fn what_is_cached_needs_no_device_and_what_is_not_comes_from_it() {
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
    // Some hits, so that the next read is tried without a question.
    for offset in 0..8 {
        pumped.read(offset, 4096).wait().expect("cached");
    }
    let bytes = pumped.read(500_000, 200_000).wait().expect("half of it is");
    assert_eq!(&*bytes.into_buffer(), &pumped.content[500_000..700_000]);
    assert_eq!(pumped.storage.stats().stored_bytes, 8 * 4096 + 200_000);
}

#[test]
fn a_cold_file_is_tried_rarely() {
    let pumped = Pumped::new(1 << 20, SimOptions::default(), cached(0));
    let before = pumped.storage.stats().operations;
    pumped.read_all(1024);
    let stats = pumped.storage.stats();
    assert_eq!((stats.copied_operations, stats.retried_operations), (0, 0));
    assert_eq!(
        stats.operations - before,
        1024,
        "a try in vain is no operation of its own"
    );
    // It is noticed when the file comes into the cache.
    pumped.files.change(Path::new("f"), |options| {
        options.cached_bytes = Some(1 << 20);
    });
    pumped.read_all(1024);
    let copied = pumped.storage.stats().copied_operations;
    assert!(copied >= 1024 - 64, "{copied} of 1024 copied");
}

/// The close fires while the operation is out, so its end is the file's.
#[test]
fn a_file_that_another_queue_has_closed_lives_until_its_last_operation_is_back() {
    for cached_bytes in [0, 100_000] {
        let pumped = Pumped::new(100_000, SimOptions::default(), cached(cached_bytes));
        let other = pumped.storage.queue(QueueOptions::default());
        let other = other.expect("a queue");
        let ticket = pumped.read(1000, 9000);
        pumped.queue.submit();
        other.enqueue_close(pumped.file);
        other.submit();
        let bytes = ticket.wait().expect("it came before the close");
        assert_eq!(&*bytes.into_buffer(), &pumped.content[1000..10_000]);
        let stale = pumped.read(0, 1).wait().expect_err("it is closed");
        assert_eq!(stale.error.kind(), ErrorKind::StaleFile);
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
fn a_file_that_was_cut_says_so_when_it_is_cached_too() {
    let pumped = Pumped::new(100_000, SimOptions::default(), cached(100_000));
    for offset in 0..8 {
        pumped.read(offset, 4096).wait().expect("cached");
    }
    assert!(pumped.files.resize(Path::new("f"), 50_000));
    let failed = pumped.read(49_000, 2000).wait().expect_err("it was cut");
    assert_eq!(failed.error.kind(), ErrorKind::PastEnd);
    pumped
        .read(48_000, 2000)
        .wait()
        .expect("what is left is right");
}

/// Memory that is looked at when all is over.
struct Lent(Vec<u8>);

impl Lent {
    #[expect(
        unsafe_code,
        reason = "requests over borrowed memory are what is tested"
    )]
    fn read(&mut self, file: FileId, offset: usize, place: usize, len: usize) -> Request {
        let memory = &mut self.0[place..place + len];
        let request = Request::read(file, offset as u64, len as u64);
        // SAFETY: the tests keep the memory until the storage is closed or all its requests have
        // ended, and do not look at it before.
        unsafe { request.into_borrowed(memory.as_mut_ptr(), len) }
    }
}

#[test]
fn many_cached_reads_of_all_sizes_bring_the_right_bytes() {
    let options = || StorageOptions {
        access: Access::Buffered,
        ..StorageOptions::default()
    };
    each_backend_with(options, |bench| {
        let content = bench.bytes(8 << 20);
        let file = bench.file("f", content.len());
        bench.storage.opened(file).wait().expect("it is there");
        let queue = bench.queue();
        for size in [4 << 10, 60_001, 300_000, 3 << 20] {
            let mut lent = Lent(vec![0; content.len()]);
            for offset in (0..content.len()).step_by(size) {
                let len = size.min(content.len() - offset);
                let class = Priority::ALL[offset / size % 4];
                let request = lent.read(file, offset, offset, len).priority(class);
                queue.enqueue_detached(request).expect("there is room");
            }
            queue.drain();
            assert!(lent.0 == content, "reads of {size}");
        }
        let errors = queue.take_errors();
        assert_eq!(errors.count, 0, "{errors:?}");
        let stats = bench.storage.stats();
        if stats.copied_operations == 0 {
            println!("SKIP: this file system reads nothing without waiting, or drops its cache");
        }
        assert!(stats.copied_operations <= stats.operations);
    });
}

#[test]
fn encoded_bytes_that_are_cached_are_decoded_as_ever() {
    each_backend_with(StorageOptions::default, |bench| {
        let raw = bench.bytes(6 << 20);
        for codec in [CodecId::LZ4, CodecId::ZLIB, CodecId::STORED] {
            let stored = support::encoded(codec, &raw);
            let file = bench.file_of(&format!("{codec:?}"), &stored);
            let queue = bench.queue();
            for _ in 0..2 {
                let request = Request::read_file(file)
                    .codec(codec)
                    .raw_len(raw.len() as u64);
                let ticket = queue.enqueue(request).expect("there is room");
                queue.submit();
                assert!(
                    *ticket.wait().expect("decoded").into_buffer() == raw,
                    "{codec:?}"
                );
            }
        }
    });
}

#[test]
fn a_cancelled_copy_ends_once_and_nobody_writes_afterwards() {
    const SIZE: usize = 16 << 10;
    let options = || StorageOptions {
        access: Access::Buffered,
        ..StorageOptions::default()
    };
    each_backend_with(options, |bench| {
        let content = bench.bytes(4 << 20);
        let file = bench.file("f", content.len());
        bench.storage.opened(file).wait().expect("it is there");
        let queue = bench.queue();
        let count = content.len() / SIZE;
        for round in 0..20 {
            let mut lent = Lent(vec![0; content.len()]);
            let tickets: Vec<Ticket> = (0..count)
                .map(|index| {
                    let at = index * SIZE;
                    let request = lent.read(file, at, at, SIZE).tag(index as u64 % 2);
                    queue.enqueue(request).expect("there is room")
                })
                .collect();
            queue.submit();
            for _ in 0..round * 50 {
                std::hint::spin_loop();
            }
            queue.cancel_tagged(1, 1);
            let mut cancelled = Vec::new();
            for (index, ticket) in tickets.into_iter().enumerate() {
                let place = index * SIZE..(index + 1) * SIZE;
                match ticket.wait() {
                    Ok(_) => assert!(lent.0[place.clone()] == content[place]),
                    Err(failed) => {
                        assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
                        assert_eq!(index % 2, 1, "others are not touched");
                        lent.0[place.clone()].fill(0xc5);
                        cancelled.push(place);
                    }
                }
            }
            queue.drain();
            for place in cancelled {
                assert!(
                    lent.0[place].iter().all(|&byte| byte == 0xc5),
                    "written later"
                );
            }
        }
    });
}

#[test]
fn a_storage_that_closes_takes_its_copies_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = support::bytes(16 << 20);
    let path = folder.path().join("f");
    std::fs::write(&path, &content).expect("written");
    let mut ended = 0;
    for wait in [Duration::ZERO, Duration::from_secs(20)] {
        let options = StorageOptions {
            access: Access::Buffered,
            ..StorageOptions::default()
        };
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open(&path);
        storage.opened(file).wait().expect("it is there");
        // Of the storage's own: what a report counts is never used again.
        let tickets: Vec<Ticket> = (0..512)
            .map(|index| Request::read(file, index * 32_768, 32_768))
            .map(|request| queue.enqueue(request).expect("there is room"))
            .collect();
        queue.submit();
        let report = storage.close(wait);
        assert!(wait.is_zero() || report.operations == 0, "{report:?}");
        for ticket in tickets {
            match ticket.wait() {
                Ok(done) => assert_eq!(done.bytes, 32_768),
                Err(failed) => assert!(
                    matches!(
                        failed.error.kind(),
                        ErrorKind::Cancelled | ErrorKind::Closed
                    ),
                    "{failed:?}"
                ),
            }
            ended += 1;
        }
    }
    assert_eq!(ended, 1024);
}

#[test]
fn a_long_read_that_is_not_cached_is_not_cut_small() {
    const MIB: usize = 1 << 20;
    let pumped = Pumped::new(6 * MIB, SimOptions::default(), cached(0));
    let asked = |pumped: &Pumped| -> Vec<usize> {
        let log = pumped.files.take_log();
        log.iter().map(|operation| operation.len).collect()
    };
    pumped.read_all(6 * MIB);
    assert_eq!(asked(&pumped), [4 * MIB, 2 * MIB]);
    let urgent = Request::read(pumped.file, 0, 4096).priority(Priority::Realtime);
    let urgent = pumped.queue.enqueue(urgent).expect("there is room");
    urgent.wait().expect("read");
    pumped.read_all(6 * MIB);
    let most = asked(&pumped).into_iter().max();
    assert_eq!(most, Some(MIB / 4), "nobody in a hurry waits for more");
}
