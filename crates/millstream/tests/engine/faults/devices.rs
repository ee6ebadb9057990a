//! Devices with unusual demands, and devices that break: alignments above a page, and a ring that
//! the kernel refuses to enter after it was made.
#![expect(
    unsafe_code,
    reason = "a device that looks at the operations on their way to another"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream::{
    Access, Backend, CloseReport, CodecId, Decode, DeviceMaker, ErrorKind, FileId, FileOptions,
    Queue, QueueOptions, Read, Storage, StorageOptions,
};
use millstream_io::device::Abandoned;
use millstream_io::fs::DirectAlignment;
use millstream_io::{
    Completion, Device, DeviceKind, Doorbell, IoError, Operation, OperationId, Region,
};
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::seccomp;
use millstream_testing::{Child, FaultFs, Unavailable, or_skip, this_test};

use crate::faults::rig::{PATIENCE, Rig, landed, options_with, pattern, result};

/// The simulated device; it notes operations in flight whose memory overlaps.
struct Watch {
    sim: Sim,
    live: HashMap<OperationId, Vec<(usize, usize)>>,
    overlaps: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    fn note(&mut self, operation: &Operation) {
        // SAFETY: called by `push`, from which on the list of segments is in place.
        let segments = unsafe { operation.segments.as_slice() };
        let ranges = segments.iter().map(|segment| {
            let start = segment.pointer() as usize;
            (start, start + segment.len())
        });
        let ranges: Vec<_> = ranges.collect();
        let mut overlaps = self.overlaps.lock().expect("no panic");
        for (start, end) in &ranges {
            let mut others = self.live.iter();
            let other = others.find(|(_, live)| live.iter().any(|(s, e)| start < e && s < end));
            if let Some((id, _)) = other {
                let offset = operation.offset;
                overlaps.push(format!("operation {id} and the one at offset {offset}"));
            }
        }
        self.live.insert(operation.id, ranges);
    }
}

impl Device for Watch {
    fn kind(&self) -> DeviceKind {
        self.sim.kind()
    }

    fn depth(&self) -> usize {
        self.sim.depth()
    }

    fn in_flight(&self) -> usize {
        self.sim.in_flight()
    }

    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        // SAFETY: the caller's promise, passed on.
        let count = unsafe { self.sim.push(operations) };
        for operation in &operations[..count] {
            self.note(operation);
        }
        count
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.sim.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let count = self.sim.reap(completions);
        for completion in &completions[before..] {
            self.live.remove(&completion.id);
        }
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.sim.wait(timeout, awake)
    }

    fn doorbell(&self) -> Doorbell {
        self.sim.doorbell()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        self.sim.register(region)
    }

    fn shutdown(
        self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        Box::new(self.sim).shutdown(deadline, completions)
    }
}

/// Encoded parts of a file at unaligned offsets.
struct Parts {
    file: Vec<u8>,
    /// Offset and length in the file, and the raw bytes.
    parts: Vec<(u64, u64, Vec<u8>)>,
}

impl Parts {
    fn new(seed: u64) -> Parts {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut scratch = millstream_codec::Scratch::default();
        let (mut file, mut parts) = (Vec::new(), Vec::new());
        for index in 0..24 {
            let mut raw = vec![0; 90_000 + index * 2500];
            random.fill(&mut raw);
            let mut stored = Vec::new();
            let codec = CodecId::LZ4_BLOCK;
            millstream_codec::encode_block(codec, 1, &mut scratch, &raw, &mut stored)
                .expect("encoded");
            file.resize(file.len() + 20_000 + index * 777, 0xee);
            parts.push((file.len() as u64, stored.len() as u64, raw));
            file.extend(stored);
        }
        file.resize(file.len() + 400_000, 0xee);
        Parts { file, parts }
    }
}

/// A pumped storage over a simulated disk with an alignment, and what its device notes.
fn aligned(
    seed: u64,
    offset: u32,
    access: Access,
    file: &[u8],
) -> (Storage, Queue, FileId, Arc<Mutex<Vec<String>>>) {
    let (sim, files) = Sim::new(SimOptions {
        seed,
        latency_min_ns: 1_000,
        latency_max_ns: 50_000_000,
        bytes_per_second: 0,
        ..SimOptions::default()
    });
    let direct = Some(DirectAlignment {
        memory: 512,
        offset,
    });
    let with = SimFileOptions {
        direct,
        ..SimFileOptions::default()
    };
    files.add("f", file.to_vec(), with);
    let overlaps = Arc::new(Mutex::new(Vec::new()));
    let watch = Watch {
        sim,
        live: HashMap::new(),
        overlaps: Arc::clone(&overlaps),
    };
    let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(watch)) };
    let mut options = options_with(Backend::Custom(DeviceMaker::new(make), Arc::new(files)));
    options.access = access;
    options.merge = false;
    options.staging_bytes = 4 << 20;
    options.block_bytes = 64 << 10;
    options.threads.pumped = true;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let file = storage.open("f", FileOptions::default());
    (storage, queue, file, overlaps)
}

/// Reads all parts at once; `refused`: they must all fail with this kind.
fn read_parts(seed: u64, offset: u32, access: Access, refused: Option<ErrorKind>) {
    let context = format!("seed {seed}, alignment {offset}, {access:?}");
    let Parts { file, parts } = Parts::new(seed);
    let (storage, queue, id, overlaps) = aligned(seed, offset, access, &file);
    let mut batch = queue.batch();
    let mut tickets = Vec::new();
    for (at, len, raw) in &parts {
        let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(raw.len() as u64);
        let read = Read::range(id, *at, *len).decode(decode);
        tickets.push((batch.add(read).expect("accepted"), raw));
    }
    drop(batch);
    for (ticket, raw) in tickets {
        match (result(ticket), refused) {
            (Ok(bytes), None) => assert!(bytes[..] == **raw, "{context}"),
            (Err(error), Some(kind)) => assert_eq!(error.kind(), kind, "{context}: {error}"),
            (result, _) => panic!("{context}: {:?}", result.map(|bytes| bytes.len())),
        }
    }
    let overlaps = overlaps.lock().expect("no panic");
    assert!(overlaps.is_empty(), "{context}: share memory: {overlaps:?}");
    let report = storage.close(PATIENCE);
    assert_eq!(report, CloseReport::default(), "{context}");
}

#[test]
fn operations_in_flight_share_no_memory_whatever_the_alignment() {
    for seed in 1..20 {
        for offset in [512, 4096] {
            read_parts(seed, offset, Access::Direct, None);
        }
        for offset in [512, 4096, 65_536] {
            read_parts(seed, offset, Access::Auto, None);
        }
    }
}

#[test]
fn direct_access_with_an_alignment_above_a_page_is_refused() {
    let refused = Some(ErrorKind::NoDirectIo);
    for offset in [8192, 65_536] {
        read_parts(1, offset, Access::Direct, refused);
    }
}

/// Processor time of the process so far, in ticks of 10 ms.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().expect("a number");
    ticks(11) + ticks(12)
}

/// From now on the kernel refuses to enter rings.
fn refuse_enter() -> Result<(), Unavailable> {
    seccomp::refuse(&[libc::SYS_io_uring_enter], seccomp::Refusal::NotPermitted)
}

fn break_the_ring(access: Access) {
    let mut options: StorageOptions = options_with(Backend::Uring);
    options.access = access;
    let storage = or_skip!(
        Storage::new(options)
            .map_err(|error| Unavailable::because(format!("no io_uring here: {error}")))
    );
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let rig = Rig {
        name: "uring",
        storage,
        queue,
    };
    let folder = tempfile::tempdir().expect("a folder");
    let content = pattern(8 << 20);
    let path = folder.path().join("a");
    std::fs::write(&path, &content).expect("written");
    let file = rig.storage.open(&path, FileOptions::default());
    assert!(landed(rig.submit(Read::range(file, 0, 4096)))[..] == content[..4096]);
    let mount = or_skip!(FaultFs::mount(&[("c", &content)]));
    let slow = rig.storage.open(
        mount.path("c"),
        crate::faults::read::with_access(Access::Buffered),
    );
    assert!(landed(rig.submit(Read::range(slow, 0, 4096)))[..] == content[..4096]);
    or_skip!(refuse_enter());
    // The first requests may be with the ring when it breaks; later ones find it replaced.
    for round in 0..2 {
        let reads = (0..8).map(|index| Read::range(file, index << 20, 1 << 20));
        for (index, ticket) in rig.submit_all(reads).into_iter().enumerate() {
            match result(ticket) {
                Ok(bytes) => assert!(bytes[..] == content[index << 20..][..1 << 20]),
                Err(error) => {
                    assert_eq!(round, 0, "{access:?}: threads take over: {error}");
                    let kinds = [ErrorKind::Broken, ErrorKind::Io];
                    assert!(kinds.contains(&error.kind()), "{access:?}: {error}");
                }
            }
        }
    }
    let other = folder.path().join("b");
    std::fs::write(&other, &content).expect("written");
    let other = rig.storage.open(&other, FileOptions::default());
    assert!(landed(rig.submit(Read::whole(other)))[..] == content);
    assert!(landed(rig.submit(Read::whole(slow)))[..] == content);
    let before = processor_ticks();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = processor_ticks() - before;
    assert!(ticks < 50, "{access:?}: {ticks} ticks of 10 ms while idle");
    let begin = Instant::now();
    let _ = rig.storage.close(Duration::from_secs(2));
    let close = begin.elapsed();
    assert!(close < PATIENCE, "{access:?}: close took {close:?}");
}

#[test]
fn a_ring_that_the_kernel_refuses_to_enter_later_is_replaced_by_threads() {
    for (case, access) in [("direct", Access::Direct), ("buffered", Access::Buffered)] {
        let child = Child::of(this_test!()).case(case).leaks_on_purpose();
        or_skip!(child.run(|| break_the_ring(access)));
    }
}
