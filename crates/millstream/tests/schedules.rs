//! Ten thousand seeded schedules over the simulated disk: reordering, short reads, interruptions,
//! I/O errors, hangs, cancellation, gates, timeouts, few descriptors, little staging, and files
//! that any queue closes while requests of others are out.
//!
//! For every schedule: each request ends exactly once and with the right outcome; its bytes are
//! right; nobody writes to borrowed memory after the request has ended (the memory is poisoned then
//! and looked at when everything is over), nor ever outside of it; every descriptor is closed; no
//! staging is kept. A failure prints its seed.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use millstream::options::DeviceMaker;
use millstream::{
    Access, Backend, CodecId, ErrorKind, Fence, FileId, FileOptions, Gate, Group, Landed, Priority,
    Queue, QueueOptions, Request, Storage, StorageOptions, Ticket,
};
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_io::{Device, FileSystem, MountKind};

const SCHEDULES: u64 = 10_000;
const GUARD: usize = 64;
const POISON: u8 = 0xc5;

/// Borrowed memory with guards on both sides.
struct Lent {
    memory: Box<[u8]>,
    len: usize,
}

impl Lent {
    fn new(len: usize) -> Lent {
        Lent {
            memory: vec![POISON; len + 2 * GUARD].into(),
            len,
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.memory[GUARD..].as_mut_ptr()
    }

    fn body(&self) -> &[u8] {
        &self.memory[GUARD..GUARD + self.len]
    }

    fn poison(&mut self) {
        self.memory.fill(POISON);
    }

    fn guards_intact(&self) -> bool {
        let (front, rest) = self.memory.split_at(GUARD);
        front
            .iter()
            .chain(&rest[self.len..])
            .all(|&byte| byte == POISON)
    }
}

/// A request, what it should bring, and where.
struct Asked {
    ticket: Option<Ticket>,
    lent: Option<Lent>,
    expected: Option<Vec<u8>>,
    may_cancel: bool,
    must_fail: Option<ErrorKind>,
}

struct Schedule {
    seed: u64,
    random: Rng,
    files: SimFiles,
    contents: Vec<Vec<u8>>,
    ids: Vec<FileId>,
    options: Vec<FileOptions>,
    storage: Storage,
    queues: Vec<Queue>,
    gate: Fence,
    group: Group,
    faulty: bool,
}

fn chance(random: &mut Rng, most: f64) -> f64 {
    if random.bool() {
        0.0
    } else {
        random.f64() * most
    }
}

fn content(random: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut random = Rng::with_seed(seed);
        let faulty = random.u8(0..4) == 0;
        let hang_chance = if faulty { 0.03 } else { 0.0 };
        let (sim, files) = Sim::new(SimOptions {
            seed,
            depth: random.usize(1..40),
            reorder: random.bool(),
            short_chance: chance(&mut random, 0.5),
            interrupted_chance: chance(&mut random, 0.2),
            again_chance: chance(&mut random, 0.2),
            io_error_chance: if faulty { 0.03 } else { 0.0 },
            hang_chance,
            ..SimOptions::default()
        });
        let mut contents = Vec::new();
        for index in 0..4 {
            let len = random.usize(0..200_000);
            let bytes = content(&mut random, len);
            let slow = random.u8(0..5) == 0;
            let mut options = SimFileOptions::default();
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
            files.add(format!("f{index}"), bytes.clone(), options);
            contents.push(bytes);
        }
        let file_system: Arc<dyn FileSystem> = Arc::new(files.clone());
        let make = move || -> Result<Box<dyn Device>, millstream_io::IoError> { Ok(Box::new(sim)) };
        let mut options = StorageOptions {
            backend: Backend::Custom(DeviceMaker::new(make), file_system),
            block_bytes: 4096 << random.u32(0..5),
            staging_bytes: 64 << (10 + random.u32(0..4)),
            descriptors: random.usize(2..12),
            merge: random.bool(),
            access: if random.bool() {
                Access::Auto
            } else {
                Access::Buffered
            },
            ..StorageOptions::default()
        };
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        let options: Vec<FileOptions> = (0..4)
            .map(|_| FileOptions {
                package: random.bool(),
                ..FileOptions::default()
            })
            .collect();
        let open = |(index, options): (usize, &FileOptions)| {
            storage.open_with(format!("f{index}"), *options)
        };
        let ids = options.iter().enumerate().map(open).collect();
        let queues = (0..2)
            .map(|_| {
                let options = QueueOptions {
                    capacity: 64,
                    ..QueueOptions::default()
                };
                storage.queue(options).expect("a queue")
            })
            .collect();
        Schedule {
            seed,
            random,
            files,
            contents,
            ids,
            options,
            storage,
            queues,
            gate: Fence::new(0),
            group: Group::new(),
            faulty,
        }
    }

    fn request(&mut self, asked: &mut Asked) -> Request {
        let random = &mut self.random;
        let which = random.usize(0..self.ids.len());
        let bytes = &self.contents[which];
        let start = random.usize(0..=bytes.len());
        let len = match random.u8(0..4) {
            0 => bytes.len() - start,
            1 => random.usize(0..=bytes.len() - start),
            _ => random.usize(0..=(bytes.len() - start).min(9000)),
        };
        if random.u8(0..12) == 0 {
            asked.must_fail = Some(ErrorKind::PastEnd);
            return Request::read(
                self.ids[which],
                start as u64,
                (bytes.len() - start) as u64 + 1,
            );
        }
        let raw = bytes[start..start + len].to_vec();
        let mut request = Request::read(self.ids[which], start as u64, len as u64);
        if random.u8(0..6) == 0 {
            let mut stored = Vec::new();
            let mut scratch = millstream_codec::Scratch::default();
            millstream_codec::encode_block(CodecId::LZ4, 1, &mut scratch, &raw, &mut stored)
                .expect("encoded");
            request = Request::from_memory(stored.into())
                .codec(CodecId::LZ4)
                .raw_len(len as u64);
        }
        request = match random.u8(0..4) {
            0 | 1 => {
                let lent = asked.lent.insert(Lent::new(len));
                let pointer = lent.pointer();
                #[expect(unsafe_code, reason = "borrowed memory is what the canaries are in")]
                // SAFETY: `Asked` keeps the memory until the schedule is over and the storage
                // closed.
                unsafe {
                    request.into_borrowed(pointer, len)
                }
            }
            2 => {
                let cut = random.usize(0..=len);
                let pieces = [cut, len - cut].map(|len| self.storage.buffer(len).expect("memory"));
                request.into_pieces(pieces.into())
            }
            _ => request,
        };
        asked.expected = Some(raw);
        request
    }

    fn ask(&mut self) -> Asked {
        let mut asked = Asked {
            ticket: None,
            lent: None,
            expected: None,
            may_cancel: false,
            must_fail: None,
        };
        let mut request = self.request(&mut asked);
        request = request.tag(self.random.u64(0..4)).group(&self.group);
        request = request.priority(Priority::ALL[self.random.usize(0..4)]);
        if self.random.u8(0..8) == 0 {
            let kind = if self.random.bool() {
                Gate::Source
            } else {
                Gate::Destination
            };
            request = request.gate(kind, &self.gate, 1);
        }
        if self.random.u8(0..8) == 0 {
            request = request.deadline(std::time::Instant::now());
        }
        let queue = &self.queues[self.random.usize(0..2)];
        let ticket = queue.enqueue(request).expect("enqueued");
        if self.random.u8(0..6) == 0 {
            asked.may_cancel = true;
            ticket.cancel();
        }
        asked.ticket = Some(ticket);
        asked
    }

    /// Closes a file by any queue, and opens it again. What was asked of it before is out, or waits
    /// for a gate, and comes all the same.
    fn reopen(&mut self) {
        self.queues.iter().for_each(Queue::submit);
        self.storage.pump();
        let which = self.random.usize(0..self.ids.len());
        let queue = &self.queues[self.random.usize(0..2)];
        queue.enqueue_close(self.ids[which]);
        queue.submit();
        let options = self.options[which];
        self.ids[which] = self.storage.open_with(format!("f{which}"), options);
    }

    /// Looks at a request that may have ended; what it brought is checked, and its memory poisoned.
    fn look(&self, asked: &mut Asked, wait: Duration) {
        let Some(ticket) = asked.ticket.take() else {
            return;
        };
        let outcome = match ticket.wait_timeout(wait) {
            Ok(outcome) => outcome,
            Err(ticket) => {
                asked.ticket = Some(ticket);
                return;
            }
        };
        let seed = self.seed;
        match outcome {
            Ok(done) => {
                assert!(asked.must_fail.is_none(), "seed {seed}: {done:?}");
                let expected = asked.expected.as_ref().expect("what it should bring");
                let brought = match &done.landed {
                    Landed::Buffer(buffer) => buffer.to_vec(),
                    Landed::Pieces(pieces) => {
                        pieces.iter().flat_map(|piece| piece.to_vec()).collect()
                    }
                    _ => asked.lent.as_ref().expect("borrowed").body().to_vec(),
                };
                assert!(brought == *expected, "seed {seed}: wrong bytes");
            }
            Err(failed) => {
                let kind = failed.error.kind();
                let cancelled = kind == ErrorKind::Cancelled && asked.may_cancel;
                let faulted = kind == ErrorKind::Io && self.faulty;
                let meant = asked.must_fail == Some(kind);
                assert!(cancelled || faulted || meant, "seed {seed}: {failed}");
            }
        }
        if let Some(lent) = &mut asked.lent {
            assert!(
                lent.guards_intact(),
                "seed {seed}: written outside of the destination"
            );
            lent.poison();
        }
    }

    fn run(mut self) {
        let seed = self.seed;
        let mut all = Vec::new();
        for _ in 0..self.random.usize(3..30) {
            let asked = self.ask();
            all.push(asked);
            if self.random.u8(0..4) == 0 {
                self.queues.iter().for_each(Queue::submit);
                self.storage.pump();
            }
            if self.random.u8(0..8) == 0 {
                self.reopen();
            }
        }
        if self.random.u8(0..4) == 0 {
            let value = self.random.u64(0..4);
            self.queues[0].cancel_tagged(3, value);
            all.iter_mut().for_each(|asked| asked.may_cancel = true);
        }
        self.queues.iter().for_each(Queue::submit);
        for asked in &mut all {
            self.look(asked, Duration::from_micros(1));
        }
        self.gate.signal(1);
        for _ in 0..100_000 {
            if all.iter().all(|asked| asked.ticket.is_none()) {
                break;
            }
            for asked in &mut all {
                self.look(asked, Duration::from_micros(1));
            }
            if self.faulty {
                self.files.release_hung();
            }
        }
        let left = all.iter().filter(|asked| asked.ticket.is_some()).count();
        assert_eq!(left, 0, "seed {seed}: requests have not ended");
        assert_eq!(self.group.progress().remaining, 0, "seed {seed}");
        let stats = self.storage.stats();
        let ended = stats.done + stats.failed + stats.cancelled;
        assert_eq!(ended, all.len() as u64, "seed {seed}: {stats:?}");
        assert_eq!(stats.staging_bytes, 0, "seed {seed}: staging is kept");
        let report = self.storage.close(Duration::from_secs(1));
        assert_eq!(report.operations, 0, "seed {seed}: {report:?}");
        assert_eq!(
            self.files.open_count(),
            0,
            "seed {seed}: descriptors are left open"
        );
        for asked in &all {
            let untouched = |lent: &Lent| lent.memory.iter().all(|&byte| byte == POISON);
            let fine = asked.lent.as_ref().is_none_or(untouched);
            assert!(fine, "seed {seed}: written after the request had ended");
        }
    }
}

#[test]
fn ten_thousand_seeded_schedules_end_every_request_once_and_rightly() {
    for seed in 0..SCHEDULES {
        Schedule::new(seed).run();
    }
}
