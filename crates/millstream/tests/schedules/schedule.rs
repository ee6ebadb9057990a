//! One schedule: a storage over a simulated disk, requests drawn from a seed, and the checks.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{
    Access, Backend, Batch, CloseReport, CodecId, Completion, Decode, DeviceMaker, ErrorKind,
    Fence, FileId, FileOptions, Group, Priority, Queue, QueueOptions, Read, Storage,
    StorageOptions, Ticket,
};
use millstream_io::{Device, Errno, FileSystem, IoError, MountKind};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use crate::names::{NAMES, Names};
use crate::request::{Asked, Expected, Landed, Lent, State, Taken};

/// Longest time without progress; real time, since a loaded machine has no other measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// As above, for requests whose borrowed memory a broken device may hold for ever.
const BROKEN_PATIENCE: Duration = Duration::from_millis(10);

/// The files' bytes are parts of these.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; 1 << 20];
    Rng::with_seed(1).fill(&mut bytes);
    bytes
});

pub(crate) struct Schedule {
    random: Rng,
    files: SimFiles,
    contents: Vec<&'static [u8]>,
    /// The names come after the contents.
    ids: Vec<FileId>,
    options: Vec<FileOptions>,
    storage: Storage,
    /// Never full: entries that block if there is no room go here.
    roomy: Queue,
    /// Few entries and bytes; `None` once dropped.
    tight: Option<Queue>,
    tight_capacity: u64,
    /// Batches held for a while, of `roomy` and of `tight`.
    held: [Option<Batch>; 2],
    gate: Fence,
    group: Group,
    all: Vec<Asked>,
    names: Names,
    /// Operations and calls fail, and hang.
    faulty: bool,
    /// The device breaks.
    breaks: bool,
    /// The completion queue is never drained.
    ignores_posted: bool,
}

pub(crate) fn chance(random: &mut Rng, most: f64) -> f64 {
    match random.bool() {
        true => 0.0,
        false => random.f64() * most,
    }
}

fn disk(seed: u64, random: &mut Rng, faulty: bool, breaks: bool) -> (Sim, SimFiles) {
    let fault_chance = if faulty { 0.03 } else { 0.0 };
    Sim::new(SimOptions {
        seed,
        depth: random.usize(1..40),
        reorder: random.bool(),
        short_chance: chance(random, 0.5),
        interrupted_chance: chance(random, 0.2),
        again_chance: chance(random, 0.2),
        io_error_chance: fault_chance,
        hang_chance: fault_chance,
        call_ns: [2_000, 20_000, 100_000][random.usize(0..3)],
        break_after: breaks.then(|| random.u64(0..30)),
        ..SimOptions::default()
    })
}

pub(crate) fn file_options(random: &mut Rng, len: usize) -> SimFileOptions {
    let mut options = SimFileOptions::default();
    let slow = random.u8(0..5) == 0;
    if slow {
        options.mount_kind = MountKind::Slow;
        options.mount = 2;
    }
    if slow || random.bool() {
        options.direct = None;
    }
    options.rotating = random.u8(0..4) == 0;
    options.position = random.bool().then(|| random.u64(0..1 << 30));
    options.cached_bytes = Some(match random.u8(0..4) {
        0 | 1 => 0,
        2 => random.u64(0..=len as u64),
        _ => len as u64,
    });
    options
}

fn storage(random: &mut Rng, sim: Sim, files: &SimFiles) -> Storage {
    let file_system: Arc<dyn FileSystem> = Arc::new(files.clone());
    let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
    let mut options = StorageOptions::default();
    options.backend = Backend::Custom(DeviceMaker::new(make), file_system);
    options.block_bytes = 4096 << random.u32(0..5);
    options.staging_bytes = 64 << (10 + random.u32(0..4));
    options.descriptors = random.usize(2..12);
    options.merge = random.bool();
    if random.bool() {
        options.access = Access::Buffered;
    }
    options.threads.pumped = true;
    options.abort_on_stall = true;
    Storage::new(options).expect("a storage")
}

fn open_options(random: &mut Rng) -> FileOptions {
    FileOptions {
        package: random.bool(),
        access: (random.u8(0..4) == 0).then_some(Access::Buffered),
        ..FileOptions::default()
    }
}

fn tight_options(random: &mut Rng) -> QueueOptions {
    let mut options = QueueOptions::default();
    options.capacity = random.u32(1..24);
    options.auto_submit = random.bool();
    options.bytes = random.bool().then(|| random.u64(1..200_000));
    options.priority = Priority::ALL[random.usize(0..4)];
    options
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Schedule {
        let mut random = Rng::with_seed(seed);
        let faulty = random.u8(0..4) == 0;
        let breaks = random.u8(0..8) == 0;
        let (sim, files) = disk(seed, &mut random, faulty, breaks);
        let mut contents = Vec::new();
        for index in 0..random.usize(3..14) {
            let len_max = [2_000, 20_000, 200_000][random.usize(0..3)];
            let len = random.usize(0..len_max);
            let start = random.usize(0..BYTES.len() - len);
            let bytes = &BYTES[start..start + len];
            let options = file_options(&mut random, len);
            files.add(format!("f{index}"), bytes.to_vec(), options);
            contents.push(bytes);
        }
        let names = Names::new(&files, &mut random);
        if faulty && random.bool() {
            files.fail_call(random.u64(0..60), Errno::IO);
        }
        let storage = storage(&mut random, sim, &files);
        let count = contents.len() + NAMES.len();
        let options: Vec<_> = (0..count).map(|_| open_options(&mut random)).collect();
        let mut roomy = QueueOptions::default();
        roomy.capacity = 256;
        let tight = tight_options(&mut random);
        let mut schedule = Schedule {
            files,
            contents,
            ids: Vec::new(),
            roomy: storage.queue(roomy).expect("a queue"),
            tight_capacity: u64::from(tight.capacity),
            tight: Some(storage.queue(tight).expect("a queue")),
            storage,
            options,
            held: [None, None],
            gate: Fence::new(0),
            group: Group::new(),
            all: Vec::new(),
            names,
            faulty,
            breaks,
            ignores_posted: random.u8(0..16) == 0,
            random,
        };
        schedule.ids = (0..count).map(|which| schedule.open(which)).collect();
        schedule
    }

    fn open(&self, which: usize) -> FileId {
        let path = match which.checked_sub(self.contents.len()) {
            Some(name) => NAMES[name].to_owned(),
            None => format!("f{which}"),
        };
        self.storage.open(path, self.options[which])
    }

    /// Draws a request and submits it, or adds it to a batch.
    fn ask(&mut self) {
        let which = self.random.usize(0..self.ids.len());
        let file = self.ids[which];
        let Some(&bytes) = self.contents.get(which) else {
            let mut asked = Asked::new(Expected::Version);
            // The name may be missing, or mean another file when it is opened again.
            asked.allowed = vec![ErrorKind::NotFound, ErrorKind::StaleFile];
            asked.held = Some(file);
            return self.give(Read::whole(file), asked);
        };
        let start = self.random.usize(0..=bytes.len());
        let rest = bytes.len() - start;
        let len = match self.random.u8(0..4) {
            0 => rest,
            1 => self.random.usize(0..=rest),
            _ => self.random.usize(0..=rest.min(9000)),
        };
        if self.random.u8(0..12) == 0 {
            let read = Read::range(file, start as u64, rest as u64 + 1);
            let mut asked = Asked::new(Expected::Failure(ErrorKind::PastEnd));
            asked.held = Some(file);
            return self.give(read, asked);
        }
        let raw = &bytes[start..start + len];
        let mut asked = Asked::new(Expected::Bytes(raw.to_vec()));
        if self.random.u8(0..6) == 0 {
            return self.land(memory_of(raw), len, asked);
        }
        asked.held = Some(file);
        self.land(Read::range(file, start as u64, len as u64), len, asked);
    }

    /// Draws a destination.
    fn land(&mut self, read: Read, len: usize, mut asked: Asked) {
        match self.random.u8(0..8) {
            0..3 => {
                let lent = asked.lent.insert(Lent::new(len));
                let pointer = lent.pointer();
                #[expect(unsafe_code, reason = "borrowed memory is what the guards are in")]
                // SAFETY: `Asked` keeps the memory until the schedule is over, the storage closed
                // and the disk has released what it held.
                let read = unsafe { read.borrowed(pointer, len) };
                self.give(read, asked);
            }
            3 => {
                let room = len + self.random.usize(0..=5000);
                let buffer = self.storage.buffer(room).expect("memory");
                self.give(read.into(buffer), asked);
            }
            4 => self.give(read.into(vec![0u8; len]), asked),
            5 if len > 0 && self.random.u8(0..4) == 0 => {
                asked.expected = Expected::Failure(ErrorKind::Application);
                self.give(read.supplied(|_| None::<Vec<u8>>), asked);
            }
            5 => self.give(read.supplied(|len| Some(vec![0u8; len])), asked),
            _ => self.give(read, asked),
        }
    }

    /// Draws the request's properties.
    fn decorated<D: Landed>(&mut self, mut read: Read<D>, asked: &mut Asked) -> Read<D> {
        let random = &mut self.random;
        read = read.tag(random.u64(0..4)).group(&self.group);
        read = read.user_data(self.all.len() as u64);
        if random.bool() {
            read = read.priority(Priority::ALL[random.usize(0..4)]);
        }
        match random.u8(0..16) {
            0 => read = read.after(&self.gate, 1),
            1 => read = read.write_after(&self.gate, 1),
            2 | 3 => read = read.deadline(Instant::now()),
            4 => {
                read = read.timeout(Duration::ZERO);
                asked.allowed.push(ErrorKind::TimedOut);
            }
            5 => read = read.timeout(Duration::from_secs(3600)),
            _ => {}
        }
        if self.faulty || self.breaks {
            asked.allowed.push(ErrorKind::Io);
        }
        if self.breaks {
            asked.allowed.push(ErrorKind::Broken);
        }
        asked.memory = |completion| completion.take_memory::<D>().and_then(Landed::bytes);
        read
    }

    /// Gives a request to a queue or a batch, to be received in one of the three ways.
    fn give<D: Landed>(&mut self, read: Read<D>, mut asked: Asked) {
        let read = self.decorated(read, &mut asked);
        let tight = self.random.u8(0..3) == 0;
        let batch = &mut self.held[usize::from(tight)];
        if batch.is_none() {
            asked.held = None;
        }
        asked.state = match (self.random.u8(0..8), batch) {
            _ if tight => match self.offer(read) {
                Some(ticket) => State::Ticket(Box::new(ticket)),
                None => return,
            },
            (0 | 1, Some(batch)) => {
                batch.post(read).expect("accepted");
                State::Posted
            }
            (0 | 1, None) => {
                self.roomy.post(read).expect("accepted");
                State::Posted
            }
            // An outcome that is not received cannot be checked: its memory is not borrowed.
            (2, Some(batch)) if asked.lent.is_none() => {
                batch.detach(read).expect("accepted");
                State::Detached
            }
            (_, Some(batch)) => State::Ticket(Box::new(batch.add(read).expect("accepted"))),
            (_, None) => State::Ticket(Box::new(self.roomy.submit(read).expect("accepted"))),
        };
        if let State::Ticket(claim) = &asked.state
            && self.random.u8(0..6) == 0
        {
            asked.allowed.push(ErrorKind::Canceled);
            match self.random.bool() {
                true => claim.cancel(),
                false => claim.withdraw(),
            }
        }
        self.all.push(asked);
    }

    /// Offers a request to the tight queue; gives up if there is no room.
    fn offer<D: Landed>(&mut self, mut read: Read<D>) -> Option<Ticket<D>> {
        let tight = self.tight.as_ref()?;
        for _ in 0..20 {
            let offered = match &mut self.held[1] {
                Some(batch) => batch.try_add(read),
                None => tight.try_submit(read),
            };
            match offered {
                Ok(ticket) => return Some(ticket),
                Err(refused) => {
                    assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
                    read = refused.request;
                    self.storage.pump();
                }
            }
        }
        None
    }

    /// Begins, submits or drops a batch that is held for a while.
    fn hold(&mut self) {
        let which = self.random.usize(0..2);
        match (&mut self.held[which], self.random.bool()) {
            (Some(batch), true) => batch.submit(),
            (held @ Some(_), false) => *held = None,
            (held @ None, _) => {
                let queues = [Some(&self.roomy), self.tight.as_ref()];
                *held = queues[which].map(Queue::batch);
            }
        }
    }

    /// Closes a file by any queue, and opens it again, maybe with other options. What was submitted
    /// before has begun or waits for a fence, and completes; what a batch holds may find the file
    /// closed.
    fn reopen(&mut self) {
        self.storage.pump();
        let which = self.random.usize(0..self.ids.len());
        let file = self.ids[which];
        let has_room = |queue: &&Queue| queue.live() < self.tight_capacity;
        let tight = self.tight.as_ref().filter(has_room);
        let queue = match self.random.bool() {
            true => tight.unwrap_or(&self.roomy),
            false => &self.roomy,
        };
        queue.batch().close(file).expect("there is room");
        for asked in &mut self.all {
            if asked.held == Some(file) {
                asked.allowed.push(ErrorKind::StaleFile);
            }
        }
        if self.random.bool() {
            self.options[which] = open_options(&mut self.random);
        }
        self.ids[which] = self.open(which);
    }

    /// Draws everything that the schedule does.
    fn draw(&mut self) {
        for _ in 0..self.random.usize(3..30) {
            self.ask();
            if self.random.u8(0..4) == 0 {
                self.storage.pump();
            }
            match self.random.u8(0..16) {
                0 | 1 => self.reopen(),
                2..5 => self.hold(),
                5 | 6 => {
                    let (group, gate) = (&self.group, &self.gate);
                    let random = &mut self.random;
                    self.names.submit(&self.roomy, group, gate, random);
                }
                7 => {
                    self.receive();
                }
                _ => {}
            }
        }
        match self.random.u8(0..8) {
            0 | 1 => {
                let value = self.random.u64(0..4);
                self.roomy.cancel_tagged(3, value);
                self.allow(ErrorKind::Canceled);
            }
            2 => {
                self.roomy.cancel_group(&self.group);
                self.allow(ErrorKind::Canceled);
            }
            3 => {
                // Cancels what waits for the fence.
                (self.held[1], self.tight) = (None, None);
                self.allow(ErrorKind::Canceled);
            }
            _ => {}
        }
        self.held = [None, None];
    }

    fn allow(&mut self, kind: ErrorKind) {
        let all = self.all.iter_mut();
        all.for_each(|asked| asked.allowed.push(kind));
    }

    /// Receives completions that have arrived; whether there was one.
    fn receive(&mut self) -> bool {
        let mut any = self.names.look();
        for asked in &mut self.all {
            let State::Ticket(claim) = &mut asked.state else {
                continue;
            };
            let taken = match self.random.u8(0..64) {
                // Waiting pumps.
                0 if self.held.iter().all(Option::is_none) => {
                    let waited = claim.wait(Duration::from_micros(50));
                    waited.expect("it can be waited for")
                }
                _ => claim.take(),
            };
            if let Some(taken) = taken {
                asked.complete(taken, &self.names);
                any = true;
            }
        }
        any | (!self.ignores_posted && self.drain())
    }

    fn drain(&mut self) -> bool {
        let mut completions = Vec::new();
        completions.resize_with(self.random.usize(1..8), Completion::default);
        let count = self.roomy.drain_completions(&mut completions);
        for mut completion in completions.drain(..count) {
            let index = usize::try_from(completion.user_data).expect("an index");
            let asked = &mut self.all[index];
            let posted = matches!(asked.state, State::Posted);
            assert!(posted, "a completion of a request that was not posted");
            let taken = Taken {
                bytes: (asked.memory)(&mut completion),
                result: completion.result,
            };
            asked.complete(taken, &self.names);
        }
        count > 0
    }

    /// Whether there is nothing more to receive.
    fn all_received(&self) -> bool {
        let received = |asked: &Asked| match asked.state {
            State::Ticket(_) => false,
            State::Posted => self.ignores_posted,
            State::Detached | State::Completed => true,
        };
        self.all.iter().all(received) && self.names.left() == 0
    }

    /// Pumps until everything has completed, or only a broken device could complete the rest.
    fn finish(&mut self) {
        let mut progress = Instant::now();
        while !self.all_received() || self.group.remaining() > 0 {
            let pumped = self.storage.pump();
            if self.receive() || pumped {
                progress = Instant::now();
            } else {
                // A wait lets the disk's time go on.
                let never = Fence::new(0).at(1);
                let waited = self.storage.wait(never, Some(Duration::from_micros(50)));
                assert!(waited.is_ok_and(|reached| reached.is_none()));
            }
            if self.faulty {
                self.files.release_hung();
            }
            let idle = progress.elapsed();
            if idle > BROKEN_PATIENCE && self.breaks && self.only_lent_is_left() {
                return;
            }
            assert!(idle < PATIENCE, "requests do not complete");
        }
    }

    /// Whether all that has not completed has borrowed memory that a broken device may hold, or
    /// waits for such requests.
    fn only_lent_is_left(&self) -> bool {
        let left = |asked: &&Asked| match asked.state {
            State::Ticket(_) => true,
            State::Posted => !self.ignores_posted || asked.lent.is_some(),
            State::Detached | State::Completed => false,
        };
        let (mut count, mut lent) = (0, 0);
        for asked in self.all.iter().filter(left) {
            count += 1;
            lent += u64::from(asked.lent.is_some());
        }
        let names = self.names.left();
        // A name whose outcome was not looked at yet is no longer in the group.
        let Some(held) = self.group.remaining().checked_sub(names) else {
            return false;
        };
        let exact = held == lent || self.ignores_posted && held < lent;
        (names == 0 || lent > 0) && count == lent && exact
    }

    pub(crate) fn run(mut self) {
        self.draw();
        self.gate.signal(1);
        self.finish();
        self.names.check(&self.files, self.faulty);
        let held = self.group.remaining();
        let stats = self.storage.stats();
        let submitted = (self.all.len() + self.names.count()) as u64;
        let completed = stats.done + stats.failed + stats.canceled;
        assert_eq!(completed + held, submitted, "{stats:?}");
        // What a device has of a canceled request stays in quarantine, and for ever if it broke.
        let out = stats.in_flight > 0 || self.breaks;
        assert!(out || stats.staging_bytes == 0, "{stats:?}");
        assert!(held == 0 || self.breaks, "{stats:?}");
        self.close(if held > 0 { BROKEN_PATIENCE } else { PATIENCE });
    }

    fn close(mut self, timeout: Duration) {
        let report = self.storage.close(timeout);
        if !self.breaks {
            assert_eq!(report, CloseReport::default());
        }
        if report.operations == 0 {
            assert_eq!(self.files.open_count(), 0, "descriptors are left open");
        }
        let closed = [ErrorKind::Closed, ErrorKind::Canceled];
        for asked in &mut self.all {
            let State::Ticket(claim) = &mut asked.state else {
                continue;
            };
            match claim.wait(Duration::from_secs(1)) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::StillHeld, "{error}"),
                Ok(taken) => {
                    asked.allowed.extend(closed);
                    let taken = taken.expect("no ticket of a closed storage can be waited for");
                    asked.complete(taken, &self.names);
                }
            }
        }
        let untouched = || self.all.iter().all(Asked::is_untouched);
        assert!(untouched(), "written after completion");
        // What the disk was left holding, it writes now.
        self.files.release_hung();
        assert!(untouched(), "written after completion, by a broken device");
    }
}

/// A request that decodes `raw` from memory.
fn memory_of(raw: &[u8]) -> Read {
    let mut stored = Vec::new();
    let mut scratch = millstream_codec::Scratch::default();
    millstream_codec::encode_block(CodecId::LZ4, 1, &mut scratch, raw, &mut stored)
        .expect("encoded");
    let decode = Decode::codec(CodecId::LZ4).raw_len(raw.len() as u64);
    Read::memory(stored.into()).decode(decode)
}
