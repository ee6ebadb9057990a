//! Requests that share staging: one that holds a window half filled does not wait for one that
//! waits for staging, whatever their deadlines, priorities and queues.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{
    Backend, Buffer, CloseReport, CodecId, Decode, DeviceMaker, ErrorKind, FileId, FileOptions,
    Priority, Queue, QueueOptions, Read, Storage, StorageOptions, Ticket,
};
use millstream_io::{Device, IoError, MountKind};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_testing::{PATIENCE, wait_for};

use crate::decoding::rig::{bytes, encoded};
use crate::support::{landed, noise};

/// Each request needs all its stored bytes at once: one window of more than half of staging.
const RAW_BYTES: usize = 700_000;
const STAGING_BYTES: usize = 1 << 20;

struct Disk {
    storage: Storage,
    raw: Vec<u8>,
}

impl Disk {
    /// A storage over a simulated disk that serves two blocks of 64 KiB at a time.
    fn new() -> Disk {
        let mut raw = bytes(RAW_BYTES);
        fastrand::Rng::with_seed(1).fill(&mut raw);
        let (sim, files) = Sim::new(SimOptions {
            depth: 2,
            ..SimOptions::default()
        });
        let stored = encoded(CodecId::LZ4_BLOCK, &raw);
        files.add("wall", stored, SimFileOptions::default());
        let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(files));
        options.staging_bytes = STAGING_BYTES;
        options.block_bytes = 64 << 10;
        options.threads.pumped = true;
        options.abort_on_stall = true;
        let storage = Storage::new(options).expect("a storage");
        Disk { storage, raw }
    }

    fn queue(&self, priority: Priority) -> Queue {
        let mut options = QueueOptions::default();
        options.priority = priority;
        self.storage.queue(options).expect("a queue")
    }

    fn read(&self) -> Read<Buffer> {
        let file = self.storage.open("wall", FileOptions::default());
        let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(RAW_BYTES as u64);
        Read::whole(file).decode(decode)
    }

    /// Submits a request whose window is half filled when this returns.
    fn half_filled(&self, queue: &Queue) -> Ticket<Buffer> {
        let ticket = queue.submit(self.read()).expect("accepted");
        while self.storage.stats().operations < 4 {
            self.storage.pump();
        }
        let stats = self.storage.stats();
        assert!(stats.staging_bytes > RAW_BYTES as u64 && stats.operations < 8);
        ticket
    }

    /// Waits for a request, and checks its bytes.
    fn complete(&self, mut ticket: Ticket<Buffer>) {
        let landed = ticket.wait_timeout(Duration::from_secs(20));
        let landed = landed.expect("not claimed").expect("it ends");
        let landed = landed.memory.expect("its bytes");
        assert!(landed[..] == self.raw[..]);
        assert_eq!(self.storage.stats().stalls, 0);
    }
}

#[test]
fn an_earlier_deadline_waits_for_a_window_that_is_half_filled() {
    let disk = Disk::new();
    let queue = disk.queue(Priority::Normal);
    let first = disk.half_filled(&queue);
    let urgent = disk.read().deadline(Instant::now());
    let urgent = queue.submit(urgent).expect("accepted");
    disk.complete(urgent);
    disk.complete(first);
}

#[test]
fn requests_that_are_made_ever_more_urgent_end() {
    let disk = Disk::new();
    let queue = disk.queue(Priority::Low);
    let first = disk.half_filled(&queue);
    let others: Vec<_> = (0..8)
        .map(|_| queue.submit(disk.read()).expect("accepted"))
        .collect();
    for (other, priority) in others.iter().rev().zip(Priority::ALL.into_iter().cycle()) {
        other.reprioritize(priority, Some(Instant::now()));
        disk.storage.pump();
        first.reprioritize(priority, None);
        disk.storage.pump();
    }
    others.into_iter().for_each(|other| disk.complete(other));
    disk.complete(first);
}

#[test]
fn a_realtime_read_waits_for_no_queue_that_is_paused_with_a_window_half_filled() {
    let disk = Disk::new();
    let slow = disk.queue(Priority::Low);
    let first = disk.half_filled(&slow);
    slow.pause();
    let urgent = disk.queue(Priority::Realtime).submit(disk.read());
    disk.complete(urgent.expect("accepted"));
    slow.resume();
    disk.complete(first);
}

#[test]
fn a_realtime_read_waits_for_no_bandwidth_of_a_window_half_filled() {
    let disk = Disk::new();
    let slow = disk.queue(Priority::Low);
    let first = disk.half_filled(&slow);
    // A day for one byte.
    slow.set_bandwidth(Some(1));
    let urgent = disk.queue(Priority::Realtime).submit(disk.read());
    disk.complete(urgent.expect("accepted"));
    disk.complete(first);
}

/// A storage of 1 MiB of staging over a disk that is well, and one that hangs.
struct Disks {
    storage: Storage,
    queue: Queue,
    files: SimFiles,
}

impl Disks {
    fn new() -> Disks {
        let (sim, files) = Sim::new(SimOptions::default());
        let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(files.clone()));
        options.staging_bytes = STAGING_BYTES;
        options.block_bytes = 64 << 10;
        options.threads.pumped = true;
        options.abort_on_stall = true;
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        Disks {
            storage,
            queue,
            files,
        }
    }

    /// Adds a file; on the mount that can hang, the bytes `hangs` of it do not come.
    fn add(&self, name: &str, stored: Vec<u8>, hangs: Option<Range<u64>>) -> FileId {
        let mut options = SimFileOptions::default();
        if hangs.is_some() {
            options.mount_kind = MountKind::Slow;
            options.mount = 2;
            options.direct = None;
        }
        self.files.add(name, stored, options);
        if let Some(range) = hangs {
            self.files.hang(Path::new(name), range, None);
        }
        self.storage.open(name, FileOptions::default())
    }

    fn submit(&self, file: FileId, codec: CodecId, len: usize, timeout: bool) -> Ticket<Buffer> {
        let read = Read::whole(file).decode(Decode::codec(codec).raw_len(len as u64));
        let read = match timeout {
            true => read.timeout(Duration::from_millis(250)),
            false => read,
        };
        self.queue.submit(read).expect("accepted")
    }

    fn close(self) {
        self.files.release_hung();
        let is_back = wait_for(|| {
            self.storage.pump();
            self.storage.stats().staging_bytes == 0
        });
        assert!(is_back);
        assert_eq!(self.storage.stats().stalls, 0);
        drop(self.queue);
        assert_eq!(self.storage.close(PATIENCE), CloseReport::default());
    }
}

fn kind_of(mut ticket: Ticket<Buffer>) -> ErrorKind {
    let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
    let outcome = outcome.unwrap_or_else(|| panic!("it waits for {:?}", ticket.waits_for()));
    let error = outcome.result.expect_err("it hangs");
    error.kind()
}

#[test]
fn windows_in_quarantine_leave_staging_for_another_disk() {
    let disks = Disks::new();
    let raw = noise(1, 900_000);
    let block = |len: usize| encoded(CodecId::LZ4_BLOCK, &raw[..len]);
    let all = Some(0..1 << 40);
    let hung = disks.add("hung", block(900_000), all.clone());
    let half = disks.add("half", block(480_000), all);
    let good = disks.add("good", block(700_000), None);
    for round in 0..4 {
        for (file, len) in [(hung, 900_000), (half, 480_000), (half, 480_000)] {
            let ticket = disks.submit(file, CodecId::LZ4_BLOCK, len, true);
            assert_eq!(kind_of(ticket), ErrorKind::TimedOut, "{round}");
        }
        assert!(disks.storage.stats().staging_bytes <= STAGING_BYTES as u64 / 2);
        let ticket = disks.submit(good, CodecId::LZ4_BLOCK, 700_000, false);
        assert!(landed(ticket)[..] == raw[..700_000]);
    }
    disks.close();
}

#[test]
fn two_windows_that_hang_leave_staging_for_another_disk() {
    let disks = Disks::new();
    let raw = noise(2, 700_000);
    let block = |len: usize| encoded(CodecId::LZ4_BLOCK, &raw[..len]);
    let hung = disks.add("hung", block(500_000), Some(0..1 << 40));
    let good = disks.add("good", block(700_000), None);
    let late = [0; 2].map(|_| disks.submit(hung, CodecId::LZ4_BLOCK, 500_000, false));
    for _ in 0..4 {
        let ticket = disks.submit(good, CodecId::LZ4_BLOCK, 700_000, false);
        assert!(landed(ticket)[..] == raw[..]);
    }
    assert!(late.iter().all(|ticket| !ticket.is_complete()));
    disks.files.release_hung();
    for ticket in late {
        // What was not read yet hangs, too, until it is released.
        let is_complete = wait_for(|| {
            disks.files.release_hung();
            disks.storage.pump();
            ticket.is_complete()
        });
        assert!(is_complete);
        assert!(landed(ticket)[..] == raw[..500_000]);
    }
    disks.close();
}

#[test]
fn a_request_in_quarantine_gives_back_its_windows_that_do_not_hang() {
    let disks = Disks::new();
    // A quarter of staging is the most memory of requests in quarantine.
    let raw = noise(3, 200_000);
    let window = 64 << 10;
    let hangs = window..window + 4096;
    let hung = disks.add("hung", encoded(CodecId::ZLIB, &raw), Some(hangs));
    let ticket = disks.submit(hung, CodecId::ZLIB, raw.len(), true);
    // The others are read by then: what is in flight stays in quarantine with it.
    assert_eq!(kind_of(ticket), ErrorKind::TimedOut);
    disks.storage.pump();
    let stats = disks.storage.stats();
    assert_eq!(stats.staging_bytes, window, "{stats:?}");
    disks.close();
}
