//! A device under the validation layer, and a storage.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream::{CodecId, Decode, Error, ErrorKind, Queue, Read, Storage};
use millstream_vulkan::{Gpu, GpuBuffer, GpuOptions};

/// A device and a storage; one test has them at a time.
pub(crate) struct Rig {
    pub(crate) gpu: Gpu,
    pub(crate) queue: Queue,
    pub(crate) storage: Storage,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// Held by a test that has a device.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn rig() -> Option<Rig> {
    rig_with(true, true)
}

pub(crate) fn rig_with(decode: bool, validation: bool) -> Option<Rig> {
    let alone = alone();
    let mut options = GpuOptions::default();
    (options.validation, options.decode) = (validation, decode);
    let gpu = match Gpu::create(options) {
        Ok(gpu) => gpu,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIP: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let storage = Storage::new(Default::default()).expect("a storage");
    Some(Rig {
        gpu,
        queue: storage.queue(Default::default()).expect("a queue"),
        storage,
        _alone: alone,
    })
}

impl Rig {
    pub(crate) fn buffer(&self, len: usize) -> Arc<GpuBuffer> {
        let usage = vk::BufferUsageFlags::VERTEX_BUFFER;
        self.gpu.buffer(len as u64, usage).expect("a buffer")
    }

    /// What a request leaves in a buffer of so many bytes.
    pub(crate) fn load(&self, read: Read, len: usize) -> Result<Vec<u8>, Error> {
        let buffer = self.buffer(len.max(1));
        let mut ticket = self
            .queue
            .submit(read.into_device(buffer.clone()))
            .expect("accepted");
        assert_eq!(ticket.outcome().result?, len as u64);
        Ok(buffer.read_back(0..len as u64).expect("read back"))
    }

    /// The validation layer has nothing to say.
    pub(crate) fn end(self) {
        assert_eq!(self.gpu.stats().validation_messages, 0);
    }
}

pub(crate) fn gdeflate(stored: &[u8]) -> Read {
    Read::memory(Arc::from(stored)).decode(Decode::codec(CodecId::GDEFLATE))
}

/// Compressible bytes, different for each seed.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<u32> = (0..200).map(|_| random.u32(..)).collect();
    let mut out = Vec::with_capacity(len + 4);
    while out.len() < len {
        out.extend(words[random.usize(0..200)].to_le_bytes());
    }
    out.truncate(len);
    out
}

pub(crate) fn encoded(raw: &[u8]) -> Vec<u8> {
    gdeflate::compress(raw, gdeflate::Level::DEFAULT, 1).expect("encoded")
}
