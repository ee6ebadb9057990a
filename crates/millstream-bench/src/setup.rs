//! Storages and queues of our contenders.

use crate::error::Result;
use millstream::{
    Access, Backend, FileId, FileOptions, Queue, QueueOptions, Scheduling, Storage, StorageOptions,
    limits,
};
use std::path::Path;

/// How a storage differs from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Setup {
    /// How files are read.
    pub(crate) access: Access,
    /// The threads backend instead of the ring.
    pub(crate) threads: bool,
    /// Threads of the ordinary scheduling policy, which preempt the caller when they are woken.
    pub(crate) preempting: bool,
    /// Operations in flight.
    pub(crate) depth: Option<u32>,
    /// Limit of staging.
    pub(crate) staging_bytes: Option<usize>,
    /// Free destination memory kept for reuse.
    pub(crate) retained_bytes: Option<usize>,
}

impl Setup {
    /// The threads backend.
    pub(crate) fn on_threads() -> Setup {
        Setup {
            threads: true,
            ..Setup::default()
        }
    }

    /// Makes the storage.
    pub(crate) fn storage(self) -> Result<Storage> {
        let mut options = StorageOptions::default();
        if self.threads {
            options.backend = Backend::Threads;
        }
        if self.preempting {
            options.threads.engine.scheduling = Scheduling::Normal;
            options.threads.worker.scheduling = Scheduling::Normal;
        }
        options.access = self.access;
        options.depth = self.depth.unwrap_or(options.depth);
        options.staging_bytes = self.staging_bytes.unwrap_or(options.staging_bytes);
        options.retained_bytes = self.retained_bytes.unwrap_or(options.retained_bytes);
        Ok(Storage::new(options)?)
    }
}

/// A queue for so many requests at once, or as many as a queue can hold: adding more waits then.
pub(crate) fn queue_for(storage: &Storage, count: usize) -> Result<Queue> {
    let mut options = QueueOptions::default();
    // Twice, so that a batch does not submit by itself.
    let capacity = u32::try_from(count * 2).unwrap_or(u32::MAX);
    options.capacity = capacity.clamp(options.capacity, limits::QUEUE_CAPACITY_MAX);
    Ok(storage.queue(options)?)
}

/// Opens a file, and waits until it is open.
pub(crate) fn opened(storage: &Storage, path: &Path, options: FileOptions) -> Result<FileId> {
    let file = storage.open(path, options);
    storage.opened(file)?.wait()?;
    Ok(file)
}
