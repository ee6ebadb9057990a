//! One schedule of appends by several queues and handles to one file: short, hung, canceled and
//! timed out ones, pauses and bandwidths.
//!
//! Once all have ended, the file holds every record that was appended, once and whole, and the
//! records of each queue are in the order of their submission. Of a record whose append did not
//! succeed there may be a part.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{
    Access, Backend, DeviceMaker, Fence, FileId, FileOptions, Priority, Queue, QueueOptions,
    Storage, StorageOptions, Ticket, Write,
};
use millstream_io::{Device, IoError, MountKind};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use crate::schedule::chance;

const LOG: &str = "log";

/// Begins a record; no other byte of one has this value.
const BEGIN: u8 = 0xb0;

const FILLER: u8 = 0xee;

const HEADER: usize = 8;

/// Longest time without progress; real time, since a loaded machine has no other measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A record: its begin, its queue, and its number and length in digits of seven bits.
fn record(queue: usize, number: usize, len: usize) -> Vec<u8> {
    let digit = |value: usize, at: u32| (value >> (7 * at) & 0x7f) as u8;
    let mut bytes = vec![BEGIN, queue as u8, digit(number, 1), digit(number, 0)];
    bytes.extend((0..4).rev().map(|at| digit(len, at)));
    bytes.resize(HEADER + len, FILLER);
    bytes
}

/// Queue and number of a record.
type Name = (usize, usize);

/// The whole records of a file, in order.
fn records(mut bytes: &[u8]) -> Vec<Name> {
    let mut found = Vec::new();
    while let Some(at) = bytes.iter().position(|byte| *byte == BEGIN) {
        bytes = &bytes[at..];
        let next = bytes[1..].iter().position(|byte| *byte == BEGIN);
        let own = &bytes[..next.map_or(bytes.len(), |next| next + 1)];
        bytes = &bytes[own.len()..];
        if own.len() < HEADER {
            continue;
        }
        let number = |digits: &[u8]| {
            let add = |value, digit: &u8| value << 7 | usize::from(*digit);
            digits.iter().fold(0, add)
        };
        let (queue, len) = (usize::from(own[1]), number(&own[4..8]));
        // Behind a whole one a part of a record without its begin may stand.
        let is_whole = own.len() >= HEADER + len;
        if is_whole && own[HEADER..].iter().all(|byte| *byte == FILLER) {
            found.push((queue, number(&own[2..4])));
        }
    }
    found
}

struct Writer {
    queue: Queue,
    /// How many records were submitted.
    count: usize,
}

pub(crate) struct Appends {
    random: Rng,
    files: SimFiles,
    storage: Storage,
    handles: Vec<FileId>,
    writers: Vec<Writer>,
    all: Vec<(Ticket<Vec<u8>>, Name)>,
    appended: HashSet<Name>,
}

fn storage(random: &mut Rng, seed: u64) -> (Storage, SimFiles) {
    let (sim, files) = Sim::new(SimOptions {
        seed,
        depth: random.usize(1..8),
        reorder: random.bool(),
        short_chance: chance(random, 0.4),
        interrupted_chance: chance(random, 0.2),
        again_chance: chance(random, 0.2),
        hang_chance: chance(random, 0.3),
        ..SimOptions::default()
    });
    let mut file = SimFileOptions::default();
    if random.u8(0..3) == 0 {
        file.mount_kind = MountKind::Slow;
    }
    files.add(LOG, Vec::new(), file);
    let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
    let file_system = std::sync::Arc::new(files.clone());
    let mut options = StorageOptions::default();
    options.backend = Backend::Custom(DeviceMaker::new(make), file_system);
    options.access = Access::Buffered;
    options.block_bytes = 4096 << random.u32(0..6);
    options.threads.pumped = true;
    options.abort_on_stall = true;
    (Storage::new(options).expect("a storage"), files)
}

impl Appends {
    pub(crate) fn new(seed: u64) -> Appends {
        let mut random = Rng::with_seed(seed);
        let (storage, files) = storage(&mut random, seed);
        let writing = FileOptions {
            write: true,
            ..FileOptions::default()
        };
        let open = || {
            let file = storage.open(LOG, writing);
            storage.opened(file).expect("room").wait().expect("open");
            file
        };
        let mut writer = || {
            let mut options = QueueOptions::default();
            options.priority = Priority::ALL[random.usize(0..4)];
            options.capacity = 512;
            Writer {
                queue: storage.queue(options).expect("a queue"),
                count: 0,
            }
        };
        Appends {
            handles: (0..2).map(|_| open()).collect(),
            writers: (0..3).map(|_| writer()).collect(),
            all: Vec::new(),
            appended: HashSet::new(),
            random,
            files,
            storage,
        }
    }

    pub(crate) fn run(mut self) {
        for _ in 0..self.random.usize(10..60) {
            self.step();
            if self.random.bool() {
                self.storage.pump();
            }
        }
        for writer in &self.writers {
            writer.queue.resume();
            writer.queue.set_bandwidth(None);
        }
        let mut progress = Instant::now();
        while !self.all.is_empty() {
            let before = self.all.len();
            self.files.release_hung();
            self.pass_time();
            self.take();
            if self.all.len() < before {
                progress = Instant::now();
            }
            let left = self.all.iter().map(|(ticket, _)| ticket.waits_for());
            assert!(
                progress.elapsed() < PATIENCE,
                "{:?}",
                left.collect::<Vec<_>>()
            );
        }
        let content = self.files.content(Path::new(LOG)).expect("it is there");
        self.check(&records(&content));
    }

    fn step(&mut self) {
        let at = self.random.usize(0..self.writers.len());
        let queue = &self.writers[at].queue;
        match self.random.u8(0..12) {
            0..=5 => self.append(at),
            6 => queue.pause(),
            7 => queue.resume(),
            8 => {
                let rate = self.random.u64(1_000_000..1_000_000_000);
                queue.set_bandwidth(self.random.bool().then_some(rate));
            }
            9 => {
                if let Some((ticket, _)) = self.random.choice(&self.all) {
                    ticket.cancel();
                }
            }
            10 => self.files.release_hung(),
            _ => self.pass_time(),
        }
        self.take();
    }

    /// Appends some records of a queue.
    fn append(&mut self, at: usize) {
        for _ in 0..self.random.usize(1..5) {
            let file = self.handles[self.random.usize(0..self.handles.len())];
            let len = match self.random.u8(0..6) {
                0 => self.random.usize(0..200_000),
                _ => self.random.usize(0..3000),
            };
            let number = self.writers[at].count;
            self.writers[at].count += 1;
            let mut write = Write::append(file, record(at, number, len));
            if self.random.u8(0..12) == 0 {
                write = write.timeout(Duration::from_micros(self.random.u64(0..100)));
            }
            let ticket = self.writers[at].queue.submit(write).expect("room");
            self.all.push((ticket, (at, number)));
        }
    }

    fn take(&mut self) {
        let appended = &mut self.appended;
        self.all.retain_mut(|(ticket, name)| {
            let Some(outcome) = ticket.try_take() else {
                return true;
            };
            if outcome.result.is_ok() {
                appended.insert(*name);
            }
            false
        });
    }

    /// What is in flight completes in simulated time.
    fn pass_time(&self) {
        let never = Fence::new(0).at(1);
        let _ = self.storage.wait(never, Some(Duration::from_micros(50)));
        self.storage.pump();
    }

    fn check(&self, found: &[Name]) {
        let once: HashSet<_> = found.iter().copied().collect();
        assert_eq!(once.len(), found.len(), "a record is there twice");
        let lost: Vec<_> = self.appended.difference(&once).collect();
        assert!(lost.is_empty(), "records were lost: {lost:?}");
        for at in 0..self.writers.len() {
            let of_queue = found.iter().filter(|(queue, _)| *queue == at);
            let numbers: Vec<_> = of_queue.map(|(_, number)| *number).collect();
            assert!(numbers.is_sorted(), "out of order: {numbers:?}");
        }
    }
}
