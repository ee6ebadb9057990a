//! A storage over a folder of generated files, over every backend.
#![allow(dead_code, reason = "each test program uses its part of it")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use millstream::options::DeviceMaker;
use millstream::{Access, Backend, CodecId, FileId, Queue, QueueOptions, Storage, StorageOptions};
use millstream_io::device::sim::{Sim, SimFiles};

pub(crate) struct Bench {
    pub(crate) storage: Storage,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn queue(&self) -> Queue {
        self.storage
            .queue(QueueOptions::default())
            .expect("a queue")
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
        self.storage.open(path)
    }

    /// Waits for something that comes soon after; whether it came.
    pub(crate) fn wait_for(&self, mut what: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if what() {
                return true;
            }
            self.storage.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        what()
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

fn backends() -> Vec<Backend> {
    vec![Backend::Auto, Backend::Threads]
}

pub(crate) fn each_backend(test: impl Fn(&Bench)) {
    each_backend_with(StorageOptions::default, test);
}

/// Runs a test over every backend, and checks that nothing is left behind.
pub(crate) fn each_backend_with(options: impl Fn() -> StorageOptions, test: impl Fn(&Bench)) {
    for backend in backends() {
        let options = StorageOptions {
            backend,
            ..options()
        };
        let storage = Storage::new(options).expect("a storage");
        eprintln!("over {:?}", storage.device_kind());
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Bench { storage, folder };
        test(&bench);
        let report = bench.storage.close(Duration::from_secs(20));
        assert_eq!(report.operations, 0, "{report:?}");
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

/// A pumped storage over the fake disk, with its file "f", opened before the first read, so that
/// none is read with the open.
pub(crate) fn pumped(sim: Sim, files: &SimFiles, access: Access) -> (Storage, Queue, FileId) {
    let make = move || -> Result<Box<dyn millstream_io::Device>, _> { Ok(Box::new(sim)) };
    let mut options = StorageOptions {
        backend: Backend::Custom(DeviceMaker::new(make), Arc::new(files.clone())),
        access,
        merge: false,
        ..StorageOptions::default()
    };
    options.threads.pumped = true;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let file = storage.open("f");
    storage.opened(file).wait().expect("it is there");
    (storage, queue, file)
}
