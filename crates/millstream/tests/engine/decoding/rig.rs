//! A storage over a folder of generated files, over each backend.

use millstream::{
    Backend, CloseReport, CodecId, Error, FileId, Queue, QueueOptions, Read, Request, Storage,
    StorageOptions,
};
use millstream_testing::{PATIENCE, wait_for};

pub(crate) struct Rig {
    pub(crate) storage: Storage,
    pub(crate) queue: Queue,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Writes a file and opens it.
    pub(crate) fn file_of(&self, name: &str, bytes: &[u8]) -> FileId {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        self.storage.open(path, millstream::FileOptions::default())
    }

    /// The path of a name in its folder.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Submits a request and waits for its memory.
    pub(crate) fn run<R: Request>(&self, request: R) -> Result<R::Output, Error> {
        self.queue.submit(request).expect("accepted").wait()
    }

    /// Submits a read that must fail.
    pub(crate) fn failure<D: 'static>(&self, read: Read<D>) -> Error {
        let mut ticket = self.queue.submit(read).expect("accepted");
        match ticket.outcome().result {
            Ok(bytes) => panic!("the read succeeded with {bytes} bytes"),
            Err(error) => error,
        }
    }
}

/// The first bytes of a fixed sequence: compressible, but not trivial.
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
    if codec == CodecId::STORED {
        return raw.to_vec();
    }
    let mut out = Vec::new();
    let mut scratch = millstream_codec::Scratch::default();
    let level = millstream_codec::default_level(codec);
    millstream_codec::encode_block(codec, level, &mut scratch, raw, &mut out).expect("encoded");
    out
}

/// Runs a test over each backend, and checks that nothing is held afterwards.
pub(crate) fn each_backend(test: impl Fn(&Rig)) {
    each_backend_with(StorageOptions::default, test);
}

/// As [`each_backend`], with options.
pub(crate) fn each_backend_with(options: impl Fn() -> StorageOptions, test: impl Fn(&Rig)) {
    for backend in [Backend::Auto, Backend::Threads] {
        let mut options = options();
        options.backend = backend;
        options.abort_on_stall = true;
        let storage = Storage::new(options).expect("a storage");
        eprintln!("over {:?}", storage.device_kind());
        let rig = Rig {
            queue: storage.queue(QueueOptions::default()).expect("a queue"),
            storage,
            folder: tempfile::tempdir().expect("a folder"),
        };
        test(&rig);
        let is_returned = wait_for(|| rig.storage.stats().staging_bytes == 0);
        assert!(is_returned, "all staging is given back");
        let stats = rig.storage.stats();
        assert!(stats.staging_peak_bytes <= stats.staging_capacity_bytes);
        assert_eq!(stats.stalls, 0);
        let report = rig.storage.close(PATIENCE);
        assert_eq!(report, CloseReport::default());
    }
}
