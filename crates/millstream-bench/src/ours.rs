//! Millstream's own contenders: every workload through the engine's public interface.
//!
//! `millstream` has the default options. Variants have a suffix: another access (`-direct`,
//! `-buffered`, `-auto`), another backend (`-threads`), another scheduling policy of the threads
//! (`-preempting`), another stored form (`-blocks`, `-units`, `-frame`), another limit of staging
//! (`-staging-4M`).
//!
//! Every run has a storage of its own, made before the clock starts: an engine that lives on reads
//! a range through the page cache once it is loaded for the second time, and each run stands for a
//! first load.

use std::path::Path;

use millstream::{
    Access, Backend, FileId, FileOptions, Queue, QueueOptions, Scheduling, Storage, StorageOptions,
    limits,
};

use crate::error::{Error, Result};

mod lend;
mod read;
mod requests;
mod startup;

pub(crate) use lend::{Loan, LoanBatch};
pub(crate) use read::read_contenders;
pub(crate) use requests::{
    Ready, heat_contender, held_contenders, open_contenders, read_of, realtime_systems,
    request_contenders, single_readers,
};
pub(crate) use startup::startup_contenders;

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

/// Converts an error of a crate on top of the engine.
pub(crate) fn failed(error: &dyn std::error::Error) -> Error {
    Error::new(error.to_string())
}
