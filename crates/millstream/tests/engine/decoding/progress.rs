//! Requests that share staging: one that holds a window half filled does not wait for one that
//! waits for staging, whatever their deadlines, priorities and queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{
    Backend, Buffer, CodecId, Decode, DeviceMaker, FileOptions, Priority, Queue, QueueOptions,
    Read, Storage, StorageOptions, Ticket,
};
use millstream_io::device::sim::{Sim, SimFileOptions, SimOptions};
use millstream_io::{Device, IoError};

use crate::decoding::rig::{bytes, encoded};

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
