//! Rounds in which several threads of an application use one storage at the same time, as do
//! suppliers and drops on the storage's own threads: reads of every encoding, writes, appends,
//! syncs, opens, closes, cancels, pauses, priorities and fences that change.
//!
//! Once a round has let go of what holds requests back, nothing more is asked for: nothing wakes
//! the engine but what the round has left. Every request ends then, with its bytes or with an error
//! of its own, and nothing of it is left. On busy cores threads meet in more orders.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{
    Backend, CloseReport, Error, ErrorKind, Fence, FileId, FileOp, FileOptions, Priority, Queue,
    QueueOptions, Read, Storage, StorageOptions, Ticket, Write,
};
use millstream_testing::wait_for;
use tempfile::TempDir;

use crate::encodings::{APP_BLOCK, APP_STREAM, Encoded, Outside, XorStream, encoded};
use crate::request::{Landed, Taken};

/// Threads of the application.
const THREADS: usize = 3;

/// Longest time in which a round ends; a loaded machine has no other measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The files of all schedules.
pub(crate) struct Disk {
    folder: TempDir,
    /// Where a sync takes no time, if there is such a place.
    memory: TempDir,
    files: Vec<Encoded>,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let mut random = Rng::with_seed(2);
        let files = (0..16).map(|at| encoded(&mut random, format!("file{at}")));
        let disk = Disk {
            files: files.collect(),
            folder: tempfile::tempdir().expect("a folder"),
            memory: (tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()))
                .expect("a folder"),
        };
        for file in &disk.files {
            std::fs::write(disk.path(&file.name), &file.stored).expect("written");
        }
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// What the threads of a schedule use together.
struct Rig<'a> {
    disk: &'a Disk,
    storage: Storage,
    queues: Vec<Queue>,
    outside: Outside,
    fence: Fence,
    written: FileId,
}

fn rig<'a>(random: &mut Rng, disk: &'a Disk, seed: u64) -> Rig<'a> {
    let mut options = StorageOptions::default();
    options.backend = match random.bool() {
        true => Backend::Auto,
        false => Backend::Threads,
    };
    options.block_bytes = 4096 << random.u32(0..6);
    options.staging_bytes = 1 << (17 + random.u32(0..5));
    options.descriptors = random.usize(2..12);
    options.threads.workers = Some(random.usize(1..3));
    let outside = Outside::default();
    options.codec(APP_BLOCK, outside.codec(random.u8(0..3) == 0));
    options.codec(APP_STREAM, XorStream);
    if random.u8(0..3) == 0 {
        options.job_system = Some(Arc::new(outside.clone()));
    }
    let storage = Storage::new(options).expect("a storage");
    let queues = Priority::ALL.map(|priority| {
        let mut options = QueueOptions::default();
        options.priority = priority;
        options.capacity = random.u32(16..600);
        storage.queue(options).expect("a queue")
    });
    let written = disk.memory.path().join(seed.to_string());
    let options = FileOptions {
        write: true,
        create: true,
        ..FileOptions::default()
    };
    Rig {
        disk,
        written: storage.open(&written, options),
        queues: queues.into(),
        outside,
        fence: Fence::new(0),
        storage,
    }
}

/// A ticket, whatever its memory is.
trait Pending: Send {
    fn wait_for(&mut self, timeout: Duration) -> Option<Taken>;
    fn cancel(&self);
    fn reprioritize(&self, priority: Priority);
    fn describe(&self) -> String;
}

impl<D: Landed> Pending for Ticket<D> {
    fn wait_for(&mut self, timeout: Duration) -> Option<Taken> {
        let waited = self.wait_timeout(timeout).expect("it may wait");
        waited.map(Taken::from)
    }

    fn cancel(&self) {
        Ticket::cancel(self);
    }

    fn reprioritize(&self, priority: Priority) {
        Ticket::reprioritize(self, priority, None);
    }

    fn describe(&self) -> String {
        format!("it waits for {:?}", self.waits_for())
    }
}

/// A request under way, and the bytes that it must bring.
type Asked<'a> = (Box<dyn Pending>, Option<&'a [u8]>);

/// A thread of the application, and what it has asked for.
struct Caller<'a> {
    random: Rng,
    rig: &'a Rig<'a>,
    /// The handle that it has of each file.
    ids: Vec<FileId>,
    asked: Vec<Asked<'a>>,
}

impl<'a> Caller<'a> {
    fn new(rig: &'a Rig<'a>, seed: u64) -> Caller<'a> {
        let open = |file: &Encoded| {
            let options = FileOptions::default();
            rig.storage.open(rig.disk.path(&file.name), options)
        };
        Caller {
            random: Rng::with_seed(seed),
            ids: rig.disk.files.iter().map(open).collect(),
            asked: Vec::new(),
            rig,
        }
    }

    fn queue(&mut self) -> &'a Queue {
        &self.rig.queues[self.random.usize(0..self.rig.queues.len())]
    }

    fn step(&mut self) {
        match self.random.u8(0..24) {
            0..=12 => self.read(),
            13 | 14 => self.write(),
            15 => {
                let sync = FileOp::sync(self.rig.written);
                self.submit(sync, None);
            }
            16 => self.reopen(),
            17 | 18 => {
                let at = self.random.usize(0..self.asked.len() + 1);
                let priority = Priority::ALL[self.random.usize(0..4)];
                match self.asked.get(at) {
                    Some((ticket, _)) if self.random.bool() => ticket.cancel(),
                    Some((ticket, _)) => ticket.reprioritize(priority),
                    None => {}
                }
            }
            19 => {
                let tag = self.random.u64(0..4);
                self.queue().cancel_tagged(3, tag);
            }
            20 => self.queue().pause(),
            21 => self.queue().resume(),
            22 => {
                let fence = &self.rig.fence;
                fence.signal(fence.value() + 1);
            }
            _ => _ = self.rig.outside.run(&mut self.random, false),
        }
    }

    fn read(&mut self) {
        let at = self.random.usize(0..self.ids.len());
        let file = &self.rig.disk.files[at];
        let mut read = Read::whole(self.ids[at]).tag(self.random.u64(0..4));
        if let Some(decode) = &file.decode {
            read = read.decode(decode.clone());
        }
        let value = self.rig.fence.value() + self.random.u64(0..3);
        read = match self.random.u8(0..10) {
            0 => read.after(&self.rig.fence, value),
            1 => read.write_after(&self.rig.fence, value),
            2 => read.timeout(Duration::from_micros(self.random.u64(0..2000))),
            3 => read.deadline(Instant::now()),
            _ => read,
        };
        let raw = Some(&file.raw[..]);
        match self.random.u8(0..6) {
            0 => self.submit(read.into(vec![0u8; file.raw.len()]), raw),
            1 | 2 => {
                let acts = self.acts();
                let supplied = read.supplied(move |len| {
                    acts.act();
                    Some(vec![0u8; len])
                });
                self.submit(supplied, raw);
            }
            3 => {
                let room = file.raw.len() as u64;
                let sink = self.rig.outside.sink(&mut self.random, room);
                self.submit(read.into_device(sink), None);
            }
            _ => self.submit(read, raw),
        }
    }

    fn write(&mut self) {
        let bytes = vec![3u8; self.random.usize(0..100_000)];
        let write = match self.random.bool() {
            true => Write::append(self.rig.written, bytes),
            false => Write::at(self.rig.written, self.random.u64(0..100_000), bytes),
        };
        self.submit(write, None);
    }

    /// Code of the application that the storage calls.
    fn acts(&mut self) -> Acts {
        let at = self.random.usize(0..self.ids.len());
        Acts {
            which: self.random.u8(0..8),
            file: self.ids[at],
            path: self.rig.disk.path(&self.rig.disk.files[at].name),
            written: self.rig.written,
            queue: self.queue().clone(),
            storage: self.rig.storage.clone(),
        }
    }

    fn reopen(&mut self) {
        let at = self.random.usize(0..self.ids.len());
        let path = self.rig.disk.path(&self.rig.disk.files[at].name);
        let new = self.rig.storage.open(path, FileOptions::default());
        let old = std::mem::replace(&mut self.ids[at], new);
        self.queue().close(old).expect("accepted");
    }

    fn submit<R>(&mut self, request: R, raw: Option<&'a [u8]>)
    where
        R: millstream::Request,
        R::Output: Landed,
    {
        if let Ok(ticket) = self.queue().try_submit(request) {
            self.asked.push((Box::new(ticket), raw));
        }
    }

    /// Waits for all that was asked for.
    fn finish(&mut self, until: Instant) {
        for (mut ticket, raw) in std::mem::take(&mut self.asked) {
            let taken = loop {
                self.rig.outside.run(&mut self.random, true);
                // Jobs may still come to the application's job system.
                if let Some(taken) = ticket.wait_for(Duration::from_micros(200)) {
                    break taken;
                }
                assert!(Instant::now() < until, "{}", ticket.describe());
            };
            match taken.result {
                Ok(_) => {
                    if let (Some(raw), Some(landed)) = (raw, taken.bytes) {
                        assert!(landed == raw, "other bytes landed");
                    }
                }
                Err(error) => check(&error),
            }
        }
    }
}

fn check(error: &Error) {
    let expected = matches!(
        error.kind(),
        ErrorKind::Canceled
            | ErrorKind::TimedOut
            | ErrorKind::Application
            | ErrorKind::StaleFile
            | ErrorKind::Limit
    );
    assert!(expected, "a request failed: {error}");
}

/// What code of the application does when the storage calls or drops it.
struct Acts {
    which: u8,
    file: FileId,
    path: PathBuf,
    written: FileId,
    queue: Queue,
    storage: Storage,
}

impl Acts {
    fn act(&self) {
        // A full queue refuses, here as in threads of the application.
        match self.which {
            0 => _ = self.queue.try_submit(FileOp::sync(self.written)),
            1 => _ = self.queue.try_submit(Read::whole(self.file)),
            2 => {
                _ = self
                    .queue
                    .try_submit(Write::append(self.written, vec![4u8; 99]))
            }
            3 => self.queue.cancel_tagged(3, 1),
            4 => {
                let new = self.storage.open(&self.path, FileOptions::default());
                self.queue.close(new).expect("accepted");
            }
            5 => self
                .queue
                .reprioritize_tagged(3, 2, Priority::Realtime, None),
            _ => {}
        }
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        self.act();
    }
}

/// Runs a storage for some rounds.
pub(crate) fn run(disk: &Disk, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let rig = rig(&mut random, disk, seed);
    let rounds = random.usize(2..8);
    let barrier = Barrier::new(THREADS);
    let thread = |number: usize| {
        let (rig, barrier) = (&rig, &barrier);
        let mut caller = Caller::new(rig, seed * THREADS as u64 + number as u64);
        move || {
            // What panics still comes to each barrier, for which the others wait.
            let mut panic = None;
            for _ in 0..rounds {
                barrier.wait();
                let steps = || (0..caller.random.usize(1..60)).for_each(|_| caller.step());
                panic = panic.or(catch_unwind(AssertUnwindSafe(steps)).err());
                barrier.wait();
                if number == 0 {
                    rig.fence.signal(rig.fence.value() + 3);
                    rig.queues.iter().for_each(Queue::resume);
                }
                barrier.wait();
                let finish = || caller.finish(Instant::now() + PATIENCE);
                panic = panic.or(catch_unwind(AssertUnwindSafe(finish)).err());
            }
            panic
        }
    };
    let panics: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|at| scope.spawn(thread(at))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.filter_map(|ended| ended.expect("caught")).collect()
    });
    if let Some(panic) = panics.into_iter().next() {
        resume_unwind(panic);
    }
    for queue in &rig.queues {
        let is_done = wait_for(|| {
            // Jobs of requests that code asked for which was called.
            rig.outside.run(&mut random, true);
            let short = Duration::from_millis(1);
            queue.drain(Some(short)).expect("it may wait")
        });
        assert!(is_done, "what code asked for that was called does not end");
    }
    // Requests that have timed out end before what is in flight of them.
    let is_quiet = wait_for(|| {
        rig.outside.run(&mut random, true);
        let stats = rig.storage.stats();
        stats.in_flight == 0 && stats.staging_bytes == 0
    });
    assert!(is_quiet, "staging is not given back");
    assert_eq!(rig.storage.stats().stalls, 0, "requests waited for nothing");
    drop(rig.queues);
    let report = rig.storage.close(PATIENCE);
    assert_eq!(report, CloseReport::default());
    let written = disk.memory.path().join(seed.to_string());
    std::fs::remove_file(written).expect("it was made");
}
