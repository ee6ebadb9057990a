//! One schedule of what the others do not draw: decoding over many windows of staging, tables with
//! external blocks, job systems, codecs that keep their jobs, device sinks, pauses, bandwidths,
//! priorities and deadlines that change, writes, appends, syncs, status and signal entries, queues
//! and files that go; calls of the engine in which the application does all of that.
//!
//! A ticket says what its request waits for until that completes, and at quiescence the truth. Once
//! nothing holds requests back any more, all of them end, and no stall was counted.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{
    Access, Backend, CloseReport, DeviceMaker, Error, ErrorKind, Fence, FileId, FileOp,
    FileOptions, Group, Priority, Queue, QueueOptions, Read, Request, Stats, StatusArray, Storage,
    StorageOptions, Ticket, WaitsFor, Write,
};
use millstream_io::{Device, FileSystem, IoError, MountKind};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use crate::callbacks::{self, Dropped};
use crate::encodings::{APP_BLOCK, APP_STREAM, Encoded, Outside, XorStream, encoded};
use crate::request::{Landed, Lent, Taken};
use crate::schedule::{chance, file_options};

/// Longest time without progress; real time, since a loaded machine has no other measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Simulated time within which all requests end once nothing holds them back.
const END_NS: u64 = 60_000_000_000;

/// Rounds without work after which a storage is quiescent.
const QUIET_ROUNDS: usize = 4;

const STATUSES: usize = 64;

/// A ticket, whatever its memory is.
trait Pending {
    fn try_take(&mut self) -> Option<Taken>;
    fn cancel(&self);
    fn withdraw(&self);
    fn reprioritize(&self, priority: Priority, deadline: Option<Instant>);
    fn is_complete(&self) -> bool;
    fn waits_for(&self) -> Option<WaitsFor>;
}

impl<D: Landed> Pending for Ticket<D> {
    fn try_take(&mut self) -> Option<Taken> {
        Ticket::try_take(self).map(Taken::from)
    }

    fn cancel(&self) {
        Ticket::cancel(self);
    }

    fn withdraw(&self) {
        Ticket::withdraw(self);
    }

    fn reprioritize(&self, priority: Priority, deadline: Option<Instant>) {
        Ticket::reprioritize(self, priority, deadline);
    }

    fn is_complete(&self) -> bool {
        Ticket::is_complete(self)
    }

    fn waits_for(&self) -> Option<WaitsFor> {
        Ticket::waits_for(self)
    }
}

/// A queue, and what holds its requests back.
struct Limited {
    queue: Queue,
    limits: Rc<Limits>,
}

#[derive(Debug, Default)]
struct Limits {
    is_paused: Cell<bool>,
    has_bandwidth: Cell<bool>,
}

/// Which earlier requests one waits for, or is waited for by.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    #[default]
    None,
    Write,
    /// Waits for writes.
    Sync,
    /// Waits for all of its queue.
    Names,
}

/// What a request may have to wait for.
#[derive(Default)]
struct Needs {
    fences: Vec<(Fence, u64)>,
    on_slow_mount: bool,
    order: Order,
}

/// A request under way.
struct Asked {
    ticket: Box<dyn Pending>,
    /// What it must bring, of requests that bring bytes to memory.
    raw: Option<Vec<u8>>,
    lent: Option<Lent>,
    needs: Needs,
    limits: Rc<Limits>,
    /// It may fail as the seed draws it: a call on a name that is gone.
    may_fail: bool,
}

pub(crate) struct Features {
    random: Rng,
    files: SimFiles,
    encoded: Vec<Encoded>,
    /// Handles of each file.
    ids: Vec<Vec<FileId>>,
    written: [FileId; 2],
    outside: Outside,
    storage: Storage,
    queues: Vec<Limited>,
    depth: usize,
    descriptors: usize,
    /// Whether each of the encoded files is on a mount that can hang.
    slow: Vec<bool>,
    fences: [Fence; 2],
    signal: (Fence, u64),
    statuses: (StatusArray, usize),
    group: Group,
    all: Vec<Asked>,
    /// In how many calls of the engine the application does something.
    calls_left: usize,
}

fn disk(seed: u64, random: &mut Rng) -> (Sim, SimFiles, usize) {
    let mut rarely = |chance| if random.u8(0..6) == 0 { chance } else { 0.0 };
    let (io_error_chance, hang_chance) = (rarely(0.02), rarely(0.02));
    let depth = random.usize(1..40);
    let (sim, files) = Sim::new(SimOptions {
        seed,
        depth,
        reorder: random.bool(),
        short_chance: chance(random, 0.4),
        interrupted_chance: chance(random, 0.2),
        again_chance: chance(random, 0.2),
        io_error_chance,
        hang_chance,
        call_ns: [2_000, 20_000, 100_000][random.usize(0..3)],
        ..SimOptions::default()
    });
    (sim, files, depth)
}

fn storage(random: &mut Rng, sim: Sim, files: &SimFiles, outside: &Outside) -> (Storage, usize) {
    let file_system: Arc<dyn FileSystem> = Arc::new(files.clone());
    let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
    let mut options = StorageOptions::default();
    options.backend = Backend::Custom(DeviceMaker::new(make), file_system);
    options.block_bytes = 4096 << random.u32(0..6);
    options.staging_bytes = 1 << (17 + random.u32(0..5));
    let descriptors = random.usize(2..12);
    options.descriptors = descriptors;
    options.merge = random.bool();
    if random.u8(0..3) == 0 {
        options.access = Access::Buffered;
    }
    options.threads.pumped = true;
    options.abort_on_stall = true;
    options.codec(APP_BLOCK, outside.codec(random.bool()));
    options.codec(APP_STREAM, XorStream);
    if random.u8(0..3) == 0 {
        options.job_system = Some(Arc::new(outside.clone()));
    }
    (Storage::new(options).expect("a storage"), descriptors)
}

fn queue(random: &mut Rng, storage: &Storage) -> Limited {
    let mut options = QueueOptions::default();
    options.priority = Priority::ALL[random.usize(0..4)];
    options.bandwidth = (random.u8(0..4) == 0).then(|| random.u64(50_000_000..2_000_000_000));
    options.bytes = (random.u8(0..4) == 0).then(|| random.u64(1..2_000_000));
    options.capacity = random.u32(8..300);
    let limits = Rc::new(Limits::default());
    limits.has_bandwidth.set(options.bandwidth.is_some());
    let queue = storage.queue(options).expect("a queue");
    Limited { queue, limits }
}

impl Features {
    pub(crate) fn new(seed: u64) -> Features {
        let mut random = Rng::with_seed(seed);
        let (sim, files, depth) = disk(seed, &mut random);
        let count = random.usize(3..9);
        let encoded: Vec<Encoded> = (0..count)
            .map(|index| encoded(&mut random, format!("file{index}")))
            .collect();
        let mut slow = Vec::new();
        for file in &encoded {
            let mut options = file_options(&mut random, file.stored.len());
            if options.mount_kind == MountKind::Slow {
                options.mount += random.u64(0..3);
            }
            slow.push(options.mount_kind == MountKind::Slow);
            files.add(file.name.as_str(), file.stored.clone(), options);
        }
        files.add("written", Vec::new(), SimFileOptions::default());
        let outside = Outside::default();
        let (storage, descriptors) = storage(&mut random, sim, &files, &outside);
        let open = |file: &Encoded| vec![storage.open(&file.name, FileOptions::default())];
        let writing = FileOptions {
            write: true,
            ..FileOptions::default()
        };
        Features {
            ids: encoded.iter().map(open).collect(),
            written: [0, 1].map(|_| storage.open("written", writing)),
            depth,
            descriptors,
            slow,
            queues: (0..3).map(|_| queue(&mut random, &storage)).collect(),
            fences: [Fence::new(0), Fence::new(0)],
            signal: (Fence::new(0), 0),
            statuses: (StatusArray::new(STATUSES), 0),
            group: Group::new(),
            all: Vec::new(),
            calls_left: random.usize(0..4) * random.usize(0..15),
            random,
            files,
            encoded,
            outside,
            storage,
        }
    }

    pub(crate) fn run(mut self) {
        for _ in 0..self.random.usize(10..80) {
            self.step();
            let calls_left = self.calls_left;
            for _ in 0..[0, 0, 0, 0, 1, 1, 2, 5][self.random.usize(0..8)] {
                (self, _) = callbacks::pump(self);
            }
            // Nothing that a call led to may wait for what comes later.
            let was_called = self.calls_left < calls_left;
            self.check_whether_any_waits();
            if self.random.u8(0..3) == 0 {
                self.look(false);
            }
            if was_called && self.random.bool() {
                self = self.calm();
            }
        }
        self = self.calm();
        self.let_go();
        self.finish();
        self.close();
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The engine calls the application.
    pub(crate) fn called(&mut self) {
        if self.calls_left > 0 && self.random.bool() {
            self.calls_left -= 1;
            self.step();
        }
    }

    fn limited(&mut self) -> &Limited {
        let at = self.random.usize(0..self.queues.len());
        &self.queues[at]
    }

    fn queue(&mut self) -> &Queue {
        &self.limited().queue
    }

    fn priority(&mut self) -> Priority {
        Priority::ALL[self.random.usize(0..4)]
    }

    fn step(&mut self) {
        match self.random.u8(0..30) {
            0..=15 => self.read(),
            16 => {
                let pauses = self.random.bool();
                let Limited { queue, limits } = self.limited();
                limits.is_paused.set(pauses);
                match pauses {
                    true => queue.pause(),
                    false => queue.resume(),
                }
            }
            17 => {
                let rate = self.random.u64(20_000_000..2_000_000_000);
                let limit = self.random.bool().then_some(rate);
                let Limited { queue, limits } = self.limited();
                limits.has_bandwidth.set(limit.is_some());
                queue.set_bandwidth(limit);
            }
            18..=20 => self.change_one(),
            21 => {
                let (tag, priority) = (self.random.u64(0..4), self.priority());
                let deadline = self.random.bool().then(Instant::now);
                match self.random.bool() {
                    true => self.queue().cancel_tagged(3, tag),
                    false => (self.queue()).reprioritize_tagged(3, tag, priority, deadline),
                }
            }
            22 => {
                let new = queue(&mut self.random, &self.storage);
                let at = self.random.usize(0..4 * self.queues.len());
                if let Some(old) = self.queues.get_mut(at) {
                    // A pause ends with the last handle of its queue.
                    old.limits.is_paused.set(false);
                    *old = new;
                }
            }
            23 => self.reopen(),
            24 => {
                let fence = &self.fences[self.random.usize(0..2)];
                fence.signal(fence.value() + 1);
            }
            25 | 26 => self.entries(),
            _ => self.write(),
        }
    }

    /// Closes a handle of a file, and opens others before or after.
    fn reopen(&mut self) {
        let at = self.random.usize(0..self.ids.len());
        let (before, after) = (self.random.usize(0..3), self.random.usize(0..2));
        self.open(at, before);
        let which = self.random.usize(0..self.ids[at].len());
        let id = self.ids[at].swap_remove(which);
        self.queue().close(id).expect("accepted");
        let none = usize::from(self.ids[at].is_empty());
        self.open(at, after.max(none));
    }

    fn open(&mut self, at: usize, times: usize) {
        let name = &self.encoded[at].name;
        for _ in 0..times {
            let file = self.storage.open(name, FileOptions::default());
            assert_eq!(self.storage.find(name), Some(file));
            self.ids[at].push(file);
        }
    }

    /// Entries that take effect in order, where there is room for them.
    fn entries(&mut self) {
        let at = self.random.usize(0..self.queues.len());
        let queue = &self.queues[at].queue;
        if queue.live() + 4 < 8 {
            let mut batch = queue.batch();
            self.signal.1 += 1;
            batch.signal(&self.signal.0, self.signal.1).expect("room");
            let status = self.statuses.1 % STATUSES;
            batch.status(&self.statuses.0, status).expect("room");
            self.statuses.1 += 1;
        }
    }

    /// Cancels a request, or changes its priority and deadline.
    fn change_one(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let at = self.random.usize(0..self.all.len());
        let priority = self.priority();
        let deadline = self.random.bool().then(Instant::now);
        let ticket = &self.all[at].ticket;
        match self.random.u8(0..4) {
            0 => ticket.cancel(),
            1 => ticket.withdraw(),
            _ => ticket.reprioritize(priority, deadline),
        }
    }

    fn read(&mut self) {
        let at = self.random.usize(0..self.encoded.len());
        let id = self.ids[at][self.random.usize(0..self.ids[at].len())];
        let file = &self.encoded[at];
        let in_memory = file.in_memory && self.random.u8(0..8) == 0;
        let len = file.stored.len() as u64;
        let mut read = match self.random.u8(0..3) {
            _ if in_memory => Read::memory(Arc::from(&file.stored[..])),
            0 => Read::whole(id),
            1 => Read::at_most(id, 0, len + self.random.u64(0..9)),
            _ => Read::range(id, 0, len),
        };
        if let Some(decode) = &file.decode {
            read = read.decode(decode.clone());
        }
        let raw = file.raw.clone();
        let len = raw.len();
        let mut needs = Needs {
            on_slow_mount: self.slow[at] && !in_memory,
            ..Needs::default()
        };
        let read = self.with_wishes(read, &mut needs);
        match self.random.u8(0..8) {
            0 => {
                let room = len + self.random.usize(0..5000);
                let buffer = self.storage.buffer(room).expect("a buffer");
                self.submit(read.into(buffer), Some(raw), None, needs);
            }
            1 => {
                let room = len + self.random.usize(0..100);
                self.submit(read.into(vec![0u8; room]), Some(raw), None, needs);
            }
            2 | 3 => {
                let dropped = Dropped;
                let supplied = read.supplied(move |len| {
                    let _dropped = &dropped;
                    callbacks::called();
                    Some(vec![0u8; len])
                });
                self.submit(supplied, Some(raw), None, needs);
            }
            4 => {
                let mut lent = Lent::new(len);
                // SAFETY: kept in `all` until the request has completed, and leaked if the storage
                // does not close.
                #[expect(unsafe_code, reason = "lends memory")]
                let borrowed = unsafe { read.borrowed(lent.pointer(), len) };
                self.submit(borrowed, Some(raw), Some(lent), needs);
            }
            5 => {
                let sink = self.outside.sink(&mut self.random, len as u64);
                self.submit(read.into_device(sink), None, None, needs);
            }
            _ => self.submit(read, Some(raw), None, needs),
        }
    }

    fn with_wishes<D>(&mut self, read: Read<D>, needs: &mut Needs) -> Read<D> {
        let mut read = read.tag(self.random.u64(0..4)).group(&self.group);
        if self.random.bool() {
            read = read.priority(self.priority());
        }
        let fence = &self.fences[self.random.usize(0..2)];
        let value = self.random.u64(1..3);
        let drawn = self.random.u8(0..12);
        if drawn < 3 {
            needs.fences.push((fence.clone(), value));
        }
        match drawn {
            0 => read.after(fence, value),
            1 | 2 => read.write_after(fence, value),
            3 => read.deadline(Instant::now()),
            4 => read.timeout(Duration::from_micros(self.random.u64(0..300))),
            _ => read,
        }
    }

    fn submit<R>(&mut self, request: R, raw: Option<Vec<u8>>, lent: Option<Lent>, needs: Needs)
    where
        R: Request,
        R::Output: Landed,
    {
        let may_fail = raw.is_none();
        let Limited { queue, limits } = self.limited();
        let limits = Rc::clone(limits);
        if let Ok(ticket) = queue.try_submit(request) {
            if self.random.u8(0..4) == 0 {
                ticket.wake_when_complete(&callbacks::waker());
            }
            self.all.push(Asked {
                ticket: Box::new(ticket),
                raw,
                lent,
                needs,
                limits,
                may_fail,
            });
        }
    }

    /// A write, an append, a sync, or a call on names that are gone.
    fn write(&mut self) {
        match self.random.u8(0..7) {
            0..=2 => {
                let bytes = vec![3u8; self.random.usize(0..200_000)];
                let file = self.written[self.random.usize(0..2)];
                let write = match self.random.bool() {
                    true => Write::append(file, bytes),
                    false => Write::at(file, self.random.u64(0..100_000), bytes),
                };
                let timeout = Duration::from_micros(self.random.u64(0..200));
                let mut needs = Needs::of(Order::Write);
                let write = match self.random.u8(0..4) {
                    0 => {
                        needs.fences.push((self.fences[0].clone(), 1));
                        write.after(&self.fences[0], 1)
                    }
                    1 => write.timeout(timeout),
                    _ => write,
                };
                self.submit(write, None, None, needs);
            }
            3..=5 => {
                let needs = Needs::of(Order::Sync);
                let file = self.written[self.random.usize(0..2)];
                self.submit(FileOp::sync(file), None, None, needs);
            }
            _ => {
                let call = match self.random.u8(0..3) {
                    0 => FileOp::remove("gone"),
                    1 => FileOp::rename("gone", "there"),
                    _ => FileOp::remove("there"),
                };
                let call = call.timeout(Duration::from_secs(100));
                self.submit(call, None, None, Needs::of(Order::Names));
            }
        }
    }

    /// Runs jobs and parts, and takes what has completed; returns whether there was any.
    fn look(&mut self, all: bool) -> bool {
        self.outside.run(&mut self.random, all) | self.take()
    }

    /// Takes what has completed; returns whether there was any.
    fn take(&mut self) -> bool {
        let mut any = false;
        self.all.retain_mut(|asked| {
            let Some(taken) = asked.ticket.try_take() else {
                return true;
            };
            any = true;
            asked.check(taken);
            false
        });
        any
    }

    /// Pumps until nothing more happens by itself: operations that hang, fences, pauses,
    /// bandwidths and the application are left. Checks what requests wait for then.
    fn calm(mut self) -> Features {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            let mut worked;
            (self, worked) = callbacks::pump(self);
            worked |= self.take();
            // The disk takes nothing more if operations that hang fill it.
            let hung = self.files.hung_count();
            let moves = |stats: Stats| hung < self.depth && stats.in_flight > hung as u64;
            if worked {
                quiet = 0;
            } else if moves(self.storage.stats()) {
                quiet = 0;
                self.pass_time();
            } else {
                quiet += 1;
            }
        }
        self.check_causes();
        self
    }

    /// What is in flight completes in simulated time.
    fn pass_time(&self) {
        let never = Fence::new(0).at(1);
        let _ = self.storage.wait(never, Some(Duration::from_micros(50)));
    }

    fn check_whether_any_waits(&self) {
        for asked in &self.all {
            let cause = asked.ticket.waits_for();
            assert_eq!(cause.is_none(), asked.ticket.is_complete(), "{cause:?}");
        }
    }

    /// Checks what requests wait for at quiescence.
    fn check_causes(&self) {
        self.check_whether_any_waits();
        let hangs = self.files.hung_count() > 0;
        let keeps = !self.outside.is_empty();
        let causes: Vec<_> = self.all.iter().map(|one| one.ticket.waits_for()).collect();
        let is_gated = causes.contains(&Some(WaitsFor::Fence));
        let is_full = self.storage.stats().descriptors as usize + 2 > self.descriptors;
        for (at, (asked, cause)) in self.all.iter().zip(&causes).enumerate() {
            let cause = cause.expect("what has completed was taken");
            let needs = &asked.needs;
            let is_true = match cause {
                WaitsFor::Earlier => match needs.order {
                    // Queues are taken in by priority: a write may come before it, submitted later.
                    Order::Sync => {
                        hangs || self.all.iter().any(|one| one.needs.order == Order::Write)
                    }
                    Order::Names => {
                        let is_of_queue = |one: &Asked| Rc::ptr_eq(&one.limits, &asked.limits);
                        self.all[..at].iter().any(is_of_queue)
                    }
                    // An append waits for the one before it in the file, which hangs and may have
                    // timed out.
                    Order::Write => hangs,
                    Order::None => false,
                },
                WaitsFor::Fence => needs.is_gated(),
                WaitsFor::Pause => asked.limits.is_paused.get(),
                WaitsFor::Bandwidth => {
                    !asked.limits.is_paused.get() && asked.limits.has_bandwidth.get()
                }
                // Files are open only as long as a device has operations on them.
                WaitsFor::Descriptor => is_full && hangs,
                WaitsFor::Mount => needs.on_slow_mount && hangs,
                // Ordinary windows are free unless an operation hangs.
                WaitsFor::Device | WaitsFor::Staging => hangs,
                // It has jobs of the request, or holds up who holds staging, as fences and mounts
                // do.
                WaitsFor::Application => keeps || is_gated || hangs,
                // Opens, calls and jobs of the library end in the rounds that begin them.
                _ => false,
            };
            assert!(
                is_true,
                "request {at} of {causes:?} does not wait for {cause}"
            );
        }
    }

    /// Ends everything that holds requests back.
    fn let_go(&mut self) {
        self.fences.iter().for_each(|fence| fence.signal(10));
        for Limited { queue, limits } in &self.queues {
            limits.is_paused.set(false);
            limits.has_bandwidth.set(false);
            queue.resume();
            queue.set_bandwidth(None);
        }
    }

    fn finish(&mut self) {
        let mut progress = Instant::now();
        let end_ns = self.files.now_ns() + END_NS;
        while !self.all.is_empty() || self.group.remaining() > 0 {
            let pumped = self.storage.pump();
            if self.look(true) || pumped {
                progress = Instant::now();
                continue;
            }
            self.pass_time();
            self.files.release_hung();
            // A bandwidth is of real time.
            let is_limited = |asked: &Asked| asked.limits.has_bandwidth.get();
            assert!(
                self.files.now_ns() < end_ns || self.all.iter().any(is_limited),
                "{} requests do not end; {:?}",
                self.all.len(),
                self.storage.stats()
            );
            assert!(
                progress.elapsed() < PATIENCE,
                "{} requests never end; {:?}",
                self.all.len(),
                self.storage.stats()
            );
        }
    }

    fn close(mut self) {
        for _ in 0..100 {
            self.files.release_hung();
            self.pass_time();
            self.storage.pump();
            self.look(true);
        }
        let stats = self.storage.stats();
        assert_eq!(stats.in_flight, 0, "nothing is in flight");
        assert_eq!(stats.staging_bytes, 0, "staging is given back");
        assert_eq!(stats.stalls, 0, "requests waited for nothing");
        drop(self.queues);
        let report = self.storage.close(Duration::from_secs(5));
        assert_eq!(report, CloseReport::default());
        assert_eq!(self.files.open_count(), 0, "every descriptor is closed");
        let counts = self.files.counts();
        assert_eq!(counts.closes_in_flight + counts.stale_operations, 0);
    }
}

impl Needs {
    fn of(order: Order) -> Needs {
        Needs {
            order,
            ..Needs::default()
        }
    }

    /// Whether one of its fences has not reached its value.
    fn is_gated(&self) -> bool {
        let is_shut = |(fence, value): &(Fence, u64)| !fence.has_reached(*value);
        self.fences.iter().any(is_shut)
    }
}

impl Asked {
    fn check(&mut self, taken: Taken) {
        if let Err(error) = taken.result {
            return self.check_error(&error);
        }
        let landed = match &self.lent {
            Some(lent) => Some(lent.landed().to_vec()),
            None => taken.bytes,
        };
        if let (Some(raw), Some(landed)) = (&self.raw, landed) {
            assert!(landed[..raw.len()] == *raw, "other bytes landed");
        }
    }

    fn check_error(&self, error: &Error) {
        let expected = matches!(
            error.kind(),
            ErrorKind::Canceled
                | ErrorKind::TimedOut
                | ErrorKind::Io
                | ErrorKind::Application
                | ErrorKind::StaleFile
                | ErrorKind::Limit
        );
        assert!(expected || self.may_fail, "a read failed: {error}");
    }
}
