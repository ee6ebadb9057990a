//! Storages, queues and requests of our contenders.

use std::ops::Range;
use std::path::Path;

use millstream::{
    Access, Backend, FileId, FileOptions, Queue, QueueOptions, Read, Scheduling, Storage,
    StorageOptions, limits,
};

use crate::error::Result;
use crate::lend::{Loan, LoanBatch};
use crate::ring::ReadJob;

/// Requests of a batch.
pub(crate) const BATCH: usize = 256;

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
    /// The setup of a variant of our contender, by the end of its name.
    pub(crate) fn named(contender: &str) -> Setup {
        let word = contender.strip_prefix("millstream-").unwrap_or_default();
        Setup {
            access: match word {
                "direct" => Access::Direct,
                "buffered" => Access::Buffered,
                _ => Access::Auto,
            },
            threads: word == "threads",
            preempting: word == "preempting",
            ..Setup::default()
        }
    }

    /// Past the page cache.
    pub(crate) fn direct() -> Setup {
        Setup::named("millstream-direct")
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

/// A storage with an open file and a queue, before the clock starts.
///
/// Every run has one of its own: an engine that lives on reads a range through the page cache once
/// it is loaded for the second time, and each run stands for a first load.
pub(crate) struct Ready {
    pub(crate) storage: Storage,
    pub(crate) file: FileId,
    pub(crate) queue: Queue,
}

impl Ready {
    /// Opens `path` in a storage of its own, with a queue for so many requests.
    pub(crate) fn new(path: &Path, setup: Setup, package: bool, requests: usize) -> Result<Ready> {
        let storage = setup.storage()?;
        let options = FileOptions {
            access: Some(setup.access),
            package,
            ..FileOptions::default()
        };
        Ok(Ready {
            queue: queue_for(&storage, requests)?,
            file: opened(&storage, path, options)?,
            storage,
        })
    }

    /// Reads everything that the jobs say.
    pub(crate) fn read(&self, jobs: &[ReadJob], into: &mut [u8]) -> Result<()> {
        let requests = jobs
            .iter()
            .map(|job| (read_of(self.file, job), job.range()));
        serve(&self.queue, into, requests)
    }
}

/// The request of a job.
pub(crate) fn read_of(file: FileId, job: &ReadJob) -> Read {
    Read::range(file, job.offset, u64::from(job.len))
}

/// Adds requests without tickets, and submits every so many of them.
pub(crate) fn submit_all(
    batch: &mut LoanBatch<'_>,
    requests: impl Iterator<Item = (Read, Range<usize>)>,
) -> Result<()> {
    for (number, (request, place)) in requests.enumerate() {
        batch.detach(request, place)?;
        if number % BATCH == BATCH - 1 {
            batch.submit();
        }
    }
    batch.submit();
    Ok(())
}

/// Serves requests, each into its place, and waits for all.
pub(crate) fn serve(
    queue: &Queue,
    into: &mut [u8],
    requests: impl IntoIterator<Item = (Read, Range<usize>)>,
) -> Result<()> {
    let loan = Loan::new(into, vec![queue.clone()]);
    submit_all(&mut loan.batch(0), requests.into_iter())?;
    loan.finish()
}
