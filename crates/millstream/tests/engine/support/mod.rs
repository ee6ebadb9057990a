//! A storage over a folder of generated files, over every backend.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use millstream::{
    Access, Backend, CodecId, DeviceMaker, DevicePart, DeviceSink, FileId, FileOptions, Queue,
    QueueOptions, Storage, StorageOptions, Ticket,
};
use millstream_sim::{Sim, SimFiles};
pub(crate) use millstream_testing::PATIENCE;

pub(crate) struct Bench {
    pub(crate) storage: Storage,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn queue(&self) -> Queue {
        self.queue_with(|_| {})
    }

    pub(crate) fn queue_with(&self, set: impl FnOnce(&mut QueueOptions)) -> Queue {
        let mut options = QueueOptions::default();
        set(&mut options);
        self.storage.queue(options).expect("a queue")
    }

    /// The first bytes of a fixed sequence: compressible, not trivial.
    pub(crate) fn bytes(&self, len: usize) -> Vec<u8> {
        bytes(len)
    }

    pub(crate) fn file(&self, name: &str, len: usize) -> FileId {
        self.file_of(name, &bytes(len))
    }

    pub(crate) fn file_of(&self, name: &str, bytes: &[u8]) -> FileId {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        self.open(name)
    }

    /// Opens a name in the folder, whether there is such a file or not.
    pub(crate) fn open(&self, name: &str) -> FileId {
        let path = self.folder.path().join(name);
        self.storage.open(path, FileOptions::default())
    }

    /// Opens a name in the folder for writing; the file is created if it is missing.
    pub(crate) fn open_for_writing(&self, name: &str) -> FileId {
        let options = FileOptions {
            write: true,
            create: true,
            ..FileOptions::default()
        };
        self.storage.open(self.folder.path().join(name), options)
    }

    /// Waits for something that comes soon after; whether it came.
    pub(crate) fn wait_for(&self, mut what: impl FnMut() -> bool) -> bool {
        millstream_testing::wait_for(|| {
            what() || {
                self.storage.pump();
                false
            }
        })
    }
}

pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let words: Vec<u32> = (0..256).map(|_| random.u32(..)).collect();
    let mut out = Vec::with_capacity(len + 4);
    while out.len() < len {
        out.extend(words[random.usize(0..256)].to_le_bytes());
    }
    out.truncate(len);
    out
}

pub(crate) fn encoded(codec: CodecId, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if codec == CodecId::STORED {
        return raw.to_vec();
    }
    let mut scratch = millstream_codec::Scratch::default();
    let level = millstream_codec::default_level(codec);
    millstream_codec::encode_block(codec, level, &mut scratch, raw, &mut out).expect("encoded");
    out
}

/// The default options with some of them set.
pub(crate) fn options(set: impl FnOnce(&mut StorageOptions)) -> StorageOptions {
    let mut options = StorageOptions::default();
    options.abort_on_stall = true;
    set(&mut options);
    options
}

/// Bytes that no codec makes shorter.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// The memory of a request that must succeed; one that never ends fails the test.
pub(crate) fn landed<T: 'static>(mut ticket: Ticket<T>) -> T {
    let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
    let outcome = outcome.unwrap_or_else(|| panic!("it waits for {:?}", ticket.waits_for()));
    outcome.into_result().expect("it succeeds")
}

/// A device that keeps its parts, with their windows of staging, until it lets them go.
#[derive(Default)]
pub(crate) struct Keeper {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    parts: Vec<DevicePart>,
    lets_go: bool,
}

impl Keeper {
    pub(crate) fn kept(&self) -> usize {
        self.kept.lock().expect("no panic").parts.len()
    }

    /// Finishes the oldest part.
    pub(crate) fn finish_one(&self) {
        let part = self.kept.lock().expect("no panic").parts.remove(0);
        part.finish(Ok(()));
    }

    /// Finishes all parts, and later ones at once.
    pub(crate) fn let_go(&self) {
        let mut kept = self.kept.lock().expect("no panic");
        kept.lets_go = true;
        let parts = std::mem::take(&mut kept.parts);
        drop(kept);
        parts.into_iter().for_each(|part| part.finish(Ok(())));
    }
}

impl DeviceSink for Keeper {
    fn room(&self) -> u64 {
        u64::MAX
    }

    fn take(&self, part: DevicePart) {
        let mut kept = self.kept.lock().expect("no panic");
        if !kept.lets_go {
            return kept.parts.push(part);
        }
        drop(kept);
        part.finish(Ok(()));
    }
}

fn backends() -> Vec<Backend> {
    vec![Backend::Auto, Backend::Threads]
}

pub(crate) fn each_backend(test: impl Fn(&Bench)) {
    each_backend_with(StorageOptions::default, test);
}

/// Runs a test over every backend, and checks that nothing is left behind.
pub(crate) fn each_backend_with(options: impl Fn() -> StorageOptions, test: impl Fn(&Bench)) {
    for backend in backends() {
        let mut options = options();
        options.backend = backend;
        options.abort_on_stall = true;
        let storage = Storage::new(options).expect("a storage");
        eprintln!("over {:?}", storage.device_kind());
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Bench { storage, folder };
        test(&bench);
        let report = bench.storage.close(PATIENCE);
        assert_eq!(report.operations, 0, "{report:?}");
    }
}

/// Runs a test over every backend, with threads and without.
pub(crate) fn each_backend_and_pumped(test: impl Fn(&Bench)) {
    for pumped in [false, true] {
        eprintln!("pumped: {pumped}");
        each_backend_with(|| options(|o| o.threads.pumped = pumped), &test);
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Options of a pumped storage over the simulated disk, which merges nothing.
pub(crate) fn over_sim(sim: Sim, files: &SimFiles, access: Access) -> StorageOptions {
    let make = move || -> Result<Box<dyn millstream_io::Device>, _> { Ok(Box::new(sim)) };
    options(|o| {
        o.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(files.clone()));
        o.access = access;
        o.merge = false;
        o.threads.pumped = true;
    })
}

/// A pumped storage over the simulated disk, with its file "f", opened before the first read, so
/// that none is read with the open.
pub(crate) fn pumped(sim: Sim, files: &SimFiles, access: Access) -> (Storage, Queue, FileId) {
    let storage = Storage::new(over_sim(sim, files, access)).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let file = storage.open("f", FileOptions::default());
    let mut opened = storage.opened(file).expect("room");
    opened.wait().expect("it is there");
    (storage, queue, file)
}
