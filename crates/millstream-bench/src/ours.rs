//! The contender of this project: every workload's way through the engine's public interface.
//!
//! `millstream` is the engine as it comes, told no more than a program would know. Variants carry
//! a suffix: another way of reading (`-direct`, `-buffered`, `-auto`), another backend
//! (`-threads`), another stored form (`-blocks`, `-units`, `-frame`), another bound of staging
//! (`-staging-4M`).
//!
//! Every run has a storage of its own, made before the clock starts. An engine that lives on
//! notices when a range is loaded a second time and reads it through the page cache then; runs
//! that stand for a first load each must not teach it that.

use millstream::{Access, Backend, Queue, QueueOptions, Storage, StorageOptions};

use crate::error::{Error, Result};

mod lend;
mod read;
mod requests;
mod startup;

pub(crate) use lend::Loan;
pub(crate) use read::read_contenders;
pub(crate) use requests::{
    heat_contender, held_contenders, open_contenders, realtime_systems, request_contenders,
    single_readers,
};
pub(crate) use startup::startup_contenders;

/// How a storage differs from the one that comes by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Setup {
    /// How files are read.
    pub(crate) access: Access,
    /// The threads backend instead of the ring.
    pub(crate) threads: bool,
    /// Operations in flight.
    pub(crate) depth: Option<u32>,
    /// Bound of staging.
    pub(crate) staging_bytes: Option<usize>,
    /// Free destination memory that is kept for reuse.
    pub(crate) retained_bytes: Option<usize>,
}

impl Setup {
    /// Makes the storage.
    pub(crate) fn storage(self) -> Result<Storage> {
        let mut options = StorageOptions::default();
        if self.threads {
            options.backend = Backend::Threads;
        }
        options.access = self.access;
        options.depth = self.depth.unwrap_or(options.depth);
        options.staging_bytes = self.staging_bytes.unwrap_or(options.staging_bytes);
        options.retained_bytes = self.retained_bytes.unwrap_or(options.retained_bytes);
        Storage::new(options).map_err(|error| failed(&error))
    }
}

/// A queue for so many requests at once.
pub(crate) fn queue_for(storage: &Storage, count: usize) -> Result<Queue> {
    let least = QueueOptions::default().capacity;
    let options = QueueOptions {
        // Twice, so that handing over half of it early is left to the caller.
        capacity: u32::try_from(count * 2).unwrap_or(u32::MAX).max(least),
        ..QueueOptions::default()
    };
    storage.queue(options).map_err(|error| failed(&error))
}

/// An error of the engine as one of this crate.
pub(crate) fn failed(error: &dyn std::error::Error) -> Error {
    Error::new(error.to_string())
}
