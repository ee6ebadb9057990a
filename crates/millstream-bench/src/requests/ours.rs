//! Millstream's contenders in a cell of requests, and its storages with an open file.
//!
//! Every run has a storage of its own, made before the clock starts: an engine that lives on reads
//! a range through the page cache once it is loaded for the second time, and each run stands for a
//! first load.

use std::path::Path;

use millstream::{Access, FileId, FileOptions, Queue, Read, Storage};

use crate::case::{Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::lend::{Loan, LoanBatch};
use crate::memory::Destination;
use crate::requests::cells::{Cell, Mode};
use crate::requests::rivals::work_of;
use crate::ring::ReadJob;
use crate::setup::{Setup, opened, queue_for};

/// Requests of a batch.
pub(super) const BATCH: usize = 256;
/// Staging of the storages of the grid, whose reads do not stage: a storage touches all of it when
/// it is made, and hundreds are made here.
const GRID_STAGING_BYTES: usize = 4 << 20;

/// How a storage reads a cell.
pub(super) fn grid_setup(cell: Cell) -> Setup {
    Setup {
        access: match cell.mode {
            Mode::Direct => Access::Direct,
            Mode::Cold | Mode::Warm => Access::Buffered,
        },
        depth: Some(cell.depth as u32),
        staging_bytes: Some(GRID_STAGING_BYTES),
        ..Setup::default()
    }
}

/// A storage with an open file and a queue, before the clock starts.
pub(crate) struct Ready {
    pub(super) storage: Storage,
    pub(super) file: FileId,
    pub(super) queue: Queue,
}

impl Ready {
    /// Opens `path` in a storage of its own, with a queue for so many requests.
    pub(super) fn new(path: &Path, setup: Setup, package: bool, requests: usize) -> Result<Ready> {
        let storage = setup.storage()?;
        let options = FileOptions {
            access: Some(setup.access),
            package,
            ..FileOptions::default()
        };
        Ok(Ready {
            file: opened(&storage, path, options)?,
            queue: queue_for(&storage, requests)?,
            storage,
        })
    }
}

/// All requests of a cell, in batches.
pub(super) fn grid(name: &str, file: &CorpusFile, jobs: &[ReadJob], setup: Setup) -> Contender {
    let (path, jobs) = (file.path.clone(), jobs.to_vec());
    let count = jobs.len();
    // Many small reads of one file at depth: what the engine calls a package. The queue is there
    // before the clock starts, as the rivals' threads and rings are.
    let make = move || Ready::new(&path, setup, true, count);
    let run = move |ready: &mut Ready, destination: &mut Destination| {
        let loan = Loan::new(destination, vec![ready.queue.clone()]);
        let requests = jobs
            .iter()
            .map(|job| (read_of(ready.file, job), job.range()));
        submit_all(&mut loan.batch(0), requests)?;
        loan.finish()?;
        Ok(work_of(&jobs))
    };
    Contender::prepared(name, make, run).with("batch", BATCH)
}

/// Adds requests without tickets, and submits every so many of them.
pub(super) fn submit_all(
    batch: &mut LoanBatch<'_>,
    requests: impl Iterator<Item = (Read, std::ops::Range<usize>)>,
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

/// The request of a job.
pub(super) fn read_of(file: FileId, job: &ReadJob) -> Read {
    Read::range(file, job.offset, u64::from(job.len))
}

/// One request for `size` bytes of a file.
pub(super) fn one_range(path: &Path, setup: Setup, size: usize) -> Contender {
    let path = path.to_owned();
    let make = move || {
        let storage = setup.storage()?;
        let queue = queue_for(&storage, 1)?;
        Ok((storage, queue))
    };
    let run = move |(storage, queue): &mut (Storage, Queue), destination: &mut Destination| {
        let file = storage.open(&path, FileOptions::default());
        let loan = Loan::new(&mut destination[..size], vec![queue.clone()]);
        let request = Read::range(file, 0, size as u64);
        loan.batch(0).detach(request, 0..size)?;
        loan.finish()?;
        Ok(Work::of(size as u64, 1))
    };
    Contender::prepared("millstream", make, run)
}
