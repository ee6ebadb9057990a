//! Options of a storage and its queues: limits, threads, hooks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_codec::CodecId;
use millstream_io::device::FeatureMask;
use millstream_io::log::LogHook;
use millstream_io::memory::RegionAllocator;
use millstream_io::{Access, Backend, DiskModel, ThreadSettings};

use crate::decode::jobs::{Codec, Job};
use crate::decode::plan::{Codecs, Registered};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::priority::Priority;

/// The application's job system: takes decode jobs instead of the storage's workers. `spawn` is
/// called on the engine thread and must not block; a panic in it fails the job's request.
pub trait JobSystem: Send + Sync {
    /// Schedules the job to run soon, on any thread.
    fn spawn(&self, job: Job);
}

/// Threads of a storage; see [how options are set](crate#options).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ThreadOptions {
    /// Worker threads, 1 to 256, which decode; `None` (the default): cores less two, at least two.
    pub workers: Option<usize>,
    /// Number of threads of the `threads` device; `None` (the default) for 8.
    pub io_threads: Option<usize>,
    /// Start no threads (default: false): the application calls
    /// [`Storage::pump`](crate::Storage::pump). Waiting for a ticket or a full queue pumps, and
    /// [`Storage::wait`](crate::Storage::wait) does for everything else.
    pub pumped: bool,
    /// The engine thread. It runs for microseconds at a time.
    pub engine: ThreadSettings,
    /// The worker threads and those of devices.
    pub worker: ThreadSettings,
}

impl ThreadOptions {
    pub(crate) fn worker_count(&self) -> usize {
        let cores = millstream_io::thread::available_cores();
        let least = if self.workers.is_some() { 1 } else { 2 };
        self.workers
            .unwrap_or(cores.saturating_sub(2))
            .clamp(least, limits::WORKERS_MAX)
    }
}

/// Options of a storage; see [how options are set](crate#options). The defaults suit a game.
#[non_exhaustive]
pub struct StorageOptions {
    /// The device. Default: io_uring, or threads where it is refused.
    pub backend: Backend,
    /// Maximum number of operations in flight, 1 to 4096. Default: 128.
    pub depth: u32,
    /// Block size of operations in bytes, a power of two from 4 KiB to 64 MiB. Default: 1 MiB.
    pub block_bytes: usize,
    /// Limit of staging memory in bytes, 16 KiB to 64 GiB. Default: 128 MiB.
    pub staging_bytes: usize,
    /// Limit of open descriptors, at least 2. Default: 512, at most half of the process's limit.
    /// Files that were written to, and those whose path leads to another file, stay open until
    /// their close and are not counted.
    pub descriptors: usize,
    /// Bytes of free destination memory kept for reuse. Default: 256 MiB.
    pub retained_bytes: usize,
    /// Whether reads go through the page cache. Default: decided for each block.
    pub access: Access,
    /// Whether adjacent small reads are merged into one operation, where they bypass the page cache
    /// or are copied from it. Default: true.
    pub merge: bool,
    /// The time for which low-priority reads in flight may delay another request. For a second
    /// after a request of normal or high priority found such reads in flight, no further block of
    /// low priority is started while the bytes in flight of such blocks, of 256 KiB, are more than
    /// the device transfers in this time (at least 512 KiB). Set it to the device's latency if that
    /// is longer (network disks): low priority cannot fill such a device with less. Default:
    /// 300 µs.
    pub low_wait: Duration,
    /// A slower disk to imitate. Default: none.
    pub disk_model: Option<DiskModel>,
    /// Threads.
    pub threads: ThreadOptions,
    /// Receives log messages, on a thread of its own. Default: none.
    pub log: Option<LogHook>,
    /// Allocates the memory for staging and buffers, and for what libraries above keep of a
    /// storage's bytes (slots of experts). Default: the system.
    pub allocator: Option<Arc<dyn RegionAllocator>>,
    /// Runs decode jobs instead of the workers. Default: none.
    pub job_system: Option<Arc<dyn JobSystem>>,
    /// Whether a stall ([`Stats::stalls`](crate::Stats::stalls)) ends the process, for tests.
    /// Default: false.
    pub abort_on_stall: bool,
    /// Kernel features not to use, to test the code for old kernels. Default: none.
    pub masked_features: FeatureMask,
    pub(crate) codecs: Codecs,
}

impl Default for StorageOptions {
    fn default() -> StorageOptions {
        StorageOptions {
            backend: Backend::Auto,
            depth: limits::DEPTH_DEFAULT,
            block_bytes: limits::BLOCK_BYTES_DEFAULT,
            staging_bytes: limits::STAGING_BYTES_DEFAULT,
            descriptors: limits::DESCRIPTORS_DEFAULT,
            retained_bytes: limits::RETAINED_BYTES_DEFAULT,
            access: Access::Auto,
            merge: true,
            low_wait: limits::LOW_WAIT,
            disk_model: None,
            threads: ThreadOptions::default(),
            log: None,
            allocator: None,
            job_system: None,
            abort_on_stall: false,
            masked_features: FeatureMask::default(),
            codecs: BTreeMap::new(),
        }
    }
}

impl StorageOptions {
    /// Registers a codec of the application.
    ///
    /// # Panics
    /// If the id is below 0x80, or taken.
    pub fn codec(&mut self, id: CodecId, codec: impl Codec + 'static) {
        assert!(
            id >= CodecId::APPLICATION,
            "codec ids below 0x80 are the library's"
        );
        let registered = Registered {
            is_stream: codec.is_stream(),
            codec: Arc::new(codec),
        };
        let before = self.codecs.insert(id.0, registered);
        assert!(before.is_none(), "codec {:#x} is taken", id.0);
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |cause: &'static str| Err(Error::new(ErrorKind::InvalidArgument, cause));
        if self.depth == 0 || self.depth > limits::DEPTH_MAX {
            return wrong("the depth must be from 1 to 4096");
        }
        let block = limits::BLOCK_BYTES_MIN..=limits::BLOCK_BYTES_MAX;
        if !block.contains(&self.block_bytes) || !self.block_bytes.is_power_of_two() {
            return wrong("the block size must be a power of two from 4 KiB to 64 MiB");
        }
        let staging = limits::STAGING_BYTES_MIN..=limits::STAGING_BYTES_MAX;
        if !staging.contains(&self.staging_bytes) {
            return wrong("staging must have from 16 KiB to 64 GiB");
        }
        if self.descriptors < 2 {
            return wrong("at least two descriptors are needed");
        }
        Ok(())
    }
}

/// Options of a queue; see [how options are set](crate#options).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueOptions {
    /// Name for messages and traces. Default: empty.
    pub name: String,
    /// Maximum number of entries that have not completed, 1 to `limits::QUEUE_CAPACITY_MAX`.
    /// Default: 8192.
    pub capacity: u32,
    /// Maximum number of completed requests whose tickets were neither claimed nor dropped, or that
    /// wait in the completion queue. Default: 65,536.
    pub unclaimed: u32,
    /// Limit of destination bytes of requests that have not completed; `None` (the default) for
    /// none. A whole file counts once its length is known. A request above the limit is accepted
    /// while no other bytes are counted.
    pub bytes: Option<u64>,
    /// Priority of requests that have none of their own. Default: normal.
    pub priority: Priority,
    /// Whether a batch submits itself when it holds half of the capacity. Default: true.
    pub auto_submit: bool,
    /// Bytes per second that the queue's requests may move; `None` (the default) for no limit.
    pub bandwidth: Option<u64>,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            name: String::new(),
            capacity: limits::QUEUE_CAPACITY_DEFAULT,
            unclaimed: limits::UNCLAIMED_DEFAULT,
            bytes: None,
            priority: Priority::Normal,
            auto_submit: true,
            bandwidth: None,
        }
    }
}

impl QueueOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.capacity == 0 || self.capacity > limits::QUEUE_CAPACITY_MAX {
            let cause = "the capacity of a queue must be from 1 to 524,288";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        Ok(())
    }
}
