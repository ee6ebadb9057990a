//! How a storage is made: bounds, threads, hooks.

use std::sync::{Arc, Mutex};

use millstream_io::memory::RegionAllocator;
use millstream_io::{Device, FileSystem, IoError};

use crate::codec::Codecs;
use crate::error::{Error, ErrorKind};
use crate::files::Access;
use crate::job::{self, Job};
use crate::limits;
use crate::storage::Shared;

/// Which device serves a storage.
#[derive(Default)]
#[non_exhaustive]
pub enum Backend {
    /// io_uring, or threads where it is refused.
    #[default]
    Auto,
    /// io_uring; making the storage fails where it is refused.
    Uring,
    /// A pool of threads.
    Threads,
    /// A device of the caller's (the simulator), made on the thread that will own it, with its file
    /// system.
    Custom(DeviceMaker, Arc<dyn FileSystem>),
}

type MakeDevice = dyn FnOnce() -> Result<Box<dyn Device>, IoError> + Send;

/// Makes a device on the engine's thread, once.
pub struct DeviceMaker(Mutex<Box<MakeDevice>>);

impl DeviceMaker {
    /// A maker from a function.
    pub fn new(
        make: impl FnOnce() -> Result<Box<dyn Device>, IoError> + Send + 'static,
    ) -> DeviceMaker {
        DeviceMaker(Mutex::new(Box::new(make)))
    }

    pub(crate) fn make(self) -> Result<Box<dyn Device>, IoError> {
        let make = self
            .0
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        make()
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backend::Auto => "Auto",
            Backend::Uring => "Uring",
            Backend::Threads => "Threads",
            Backend::Custom(..) => "Custom",
        })
    }
}

/// Importance of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something was lost or will be slow.
    Warning,
    /// A decision worth knowing (which backend and why).
    Info,
}

/// Receives log messages; may be called on any thread of the storage, must not block long.
pub type LogHook = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// A decode job for the application's job system; `run` it on any thread, once.
#[must_use = "a job that is not run never ends its request"]
pub struct PortableJob {
    job: Job,
    shared: Arc<Shared>,
}

impl PortableJob {
    pub(crate) fn new(job: Job, shared: Arc<Shared>) -> PortableJob {
        PortableJob { job, shared }
    }

    /// Runs the job on the calling thread.
    pub fn run(self) {
        let mut scratch = millstream_codec::Scratch::default();
        if let Some(result) = job::run(self.job, self.shared.fs.as_ref(), &mut scratch) {
            self.shared.job_result(result);
        }
    }
}

/// The application's job system: takes decode jobs instead of the storage's workers. `spawn` is
/// called on the engine's thread and must not block.
pub trait JobSystem: Send + Sync {
    /// Runs the job soon, on any thread.
    fn spawn(&self, job: PortableJob);
}

/// Settings of one kind of thread.
#[derive(Debug, Clone, Default)]
pub struct ThreadSettings {
    /// Added to the nice value (a positive one makes the thread give way). Not an error where the
    /// system refuses.
    pub nice: i32,
    /// Processors the thread may run on; empty for all. Workers take them in turn.
    pub affinity: Vec<usize>,
}

/// Threads of a storage.
#[derive(Debug, Clone)]
pub struct ThreadOptions {
    /// Workers; `None` for the cores less two, at least two.
    pub workers: Option<usize>,
    /// Threads of the `threads` device; `None` for 8.
    pub io_threads: Option<usize>,
    /// No threads at all: the application calls [`Storage::pump`](crate::Storage::pump). Waiting
    /// for a ticket, an open or a queue pumps; groups, counters, fences and events know no storage,
    /// and only the application's pumping brings them on.
    pub pumped: bool,
    /// The engine's thread.
    pub engine: ThreadSettings,
    /// The workers.
    pub worker: ThreadSettings,
}

impl Default for ThreadOptions {
    fn default() -> ThreadOptions {
        ThreadOptions {
            workers: None,
            io_threads: None,
            pumped: false,
            engine: ThreadSettings::default(),
            worker: ThreadSettings {
                nice: 1,
                affinity: Vec::new(),
            },
        }
    }
}

impl ThreadOptions {
    pub(crate) fn worker_count(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        self.workers
            .unwrap_or(cores.saturating_sub(2))
            .max(if self.workers.is_some() { 1 } else { 2 })
    }

    /// Applies settings to the calling thread.
    pub(crate) fn settle(&self, settings: &ThreadSettings, index: usize) {
        if settings.nice != 0
            && let Ok(now) = rustix::process::getpriority_process(None)
        {
            // On Linux the nice value is the thread's. Refusal (raising it needs rights) changes
            // nothing but speed.
            let wanted = now + settings.nice;
            let _ = rustix::process::setpriority_process(None, wanted.clamp(-20, 19));
        }
        if !settings.affinity.is_empty() {
            let mut set = rustix::thread::CpuSet::new();
            let cpu = settings.affinity[index % settings.affinity.len()];
            if cpu < rustix::thread::CpuSet::MAX_CPU {
                set.set(cpu);
                let _ = rustix::thread::sched_setaffinity(None, &set);
            }
        }
    }
}

/// How a storage is made. The defaults suit a game.
pub struct StorageOptions {
    /// The device.
    pub backend: Backend,
    /// Operations in flight.
    pub depth: u32,
    /// Bytes of one operation; a power of two.
    pub block_bytes: usize,
    /// Bound of staging memory.
    pub staging_bytes: usize,
    /// Bound of open descriptors.
    pub descriptors: usize,
    /// Free destination memory kept for reuse.
    pub retained_bytes: usize,
    /// How reads go that say nothing else.
    pub access: Access,
    /// Merge adjacent small reads.
    pub merge: bool,
    /// Threads.
    pub threads: ThreadOptions,
    /// Codecs of the application.
    pub codecs: Codecs,
    /// Receives log messages.
    pub log: Option<LogHook>,
    /// Memory for staging and buffers, instead of the system's.
    pub allocator: Option<Arc<dyn RegionAllocator>>,
    /// Runs decode jobs instead of the workers.
    pub job_system: Option<Arc<dyn JobSystem>>,
    /// Kernel features to do without, for tests of old kernels' paths.
    pub masked_features: millstream_io::device::uring::FeatureMask,
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
            threads: ThreadOptions::default(),
            codecs: Codecs::default(),
            log: None,
            allocator: None,
            job_system: None,
            masked_features: Default::default(),
        }
    }
}

impl StorageOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |cause| Err(Error::new(ErrorKind::InvalidArgument, cause));
        if self.depth == 0 || self.depth > 4096 {
            return wrong("the depth must be from 1 to 4096");
        }
        let block = limits::BLOCK_BYTES_MIN..=limits::BLOCK_BYTES_MAX;
        if !block.contains(&self.block_bytes) || !self.block_bytes.is_power_of_two() {
            return wrong("the block size must be a power of two from 4 KiB to 64 MiB");
        }
        if self.staging_bytes < limits::STAGING_BYTES_MIN {
            return wrong("staging must have at least 16 KiB");
        }
        if self.staging_bytes > limits::STAGING_BYTES_MAX {
            return wrong("staging must have at most 64 GiB");
        }
        if self.descriptors < 2 {
            return wrong("at least two descriptors are needed");
        }
        Ok(())
    }
}
