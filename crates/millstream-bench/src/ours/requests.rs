//! Workload `requests`: the grid, the single request, realtime beside bulk, and the caller's time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use millstream::{Access, FileId, FileOptions, Priority, Queue, Read, Storage, Ticket};

use super::lend::one;
use super::{Loan, LoanBatch, Setup, opened, queue_for};
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::requests::latency::SingleReader;
use crate::requests::realtime::RealtimeSystem;
use crate::requests::{Cell, Mode, held};
use crate::ring::ReadJob;
use crate::rows::Params;
use crate::workload::Field;

/// Requests of a batch.
const BATCH: usize = 256;

/// Staging of the storages of the grid, whose reads do not stage: a storage touches all of it when
/// it is made, and hundreds are made here.
const GRID_STAGING_BYTES: usize = 4 << 20;

/// Contenders of a cell of the grid.
pub(crate) fn request_contenders(
    field: &mut Field,
    file: &CorpusFile,
    cell: Cell,
    jobs: &[ReadJob],
) {
    let setup = grid_setup(cell);
    field.add(Grid::new("millstream", file, jobs, setup));
    let auto = Setup {
        access: Access::Auto,
        ..setup
    };
    field.add(Grid::new("millstream-auto", file, jobs, auto));
    if cell.depth >= limits::POOL_THREADS {
        let threads = Setup {
            threads: true,
            ..setup
        };
        field.add(Grid::new("millstream-threads", file, jobs, threads));
    }
}

/// The contender of a cell of a heat map.
pub(crate) fn heat_contender(field: &mut Field, file: &CorpusFile, cell: Cell, jobs: &[ReadJob]) {
    field.add(Grid::new("millstream", file, jobs, grid_setup(cell)));
}

fn grid_setup(cell: Cell) -> Setup {
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
    storage: Storage,
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
            file: opened(&storage, path, options)?,
            queue: queue_for(&storage, requests)?,
            storage,
        })
    }
}

struct Grid {
    name: &'static str,
    path: PathBuf,
    jobs: Vec<ReadJob>,
    setup: Setup,
    ready: Option<Ready>,
}

impl Grid {
    fn new(name: &'static str, file: &CorpusFile, jobs: &[ReadJob], setup: Setup) -> Grid {
        Grid {
            name,
            path: file.path.clone(),
            jobs: jobs.to_vec(),
            setup,
            ready: None,
        }
    }
}

impl Contender for Grid {
    fn name(&self) -> String {
        self.name.into()
    }

    fn params(&self) -> Params {
        Params::from([("batch".into(), BATCH.into())])
    }

    fn prepare(&mut self) -> Result<()> {
        self.ready = None;
        // Many small reads of one file at depth: what the engine calls a package. The queue is
        // there before the clock starts, as the rivals' threads and rings are.
        self.ready = Some(Ready::new(&self.path, self.setup, true, self.jobs.len())?);
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let ready = self.ready.as_ref();
        let ready = ready.ok_or_else(|| Error::new("run without a preparation"))?;
        let loan = Loan::new(destination, vec![ready.queue.clone()]);
        let mut batch = loan.batch(0);
        for jobs in self.jobs.chunks(BATCH) {
            for job in jobs {
                batch.detach(read_of(ready.file, job), job.range())?;
            }
            batch.submit();
        }
        drop(batch);
        loan.finish()?;
        Ok(Work {
            bytes: self.jobs.iter().map(|job| u64::from(job.len)).sum(),
            requests: self.jobs.len() as u64,
            ..Work::default()
        })
    }
}

/// The request of a job.
pub(crate) fn read_of(file: FileId, job: &ReadJob) -> Read {
    Read::range(file, job.offset, u64::from(job.len))
}

/// Readers of single requests.
pub(crate) fn single_readers(
    readers: &mut Vec<Box<dyn SingleReader>>,
    file: &CorpusFile,
) -> Result<()> {
    for (name, threads, preempting) in [
        ("millstream", false, false),
        ("millstream-threads", true, false),
        ("millstream-preempting", false, true),
    ] {
        let setup = Setup {
            threads,
            preempting,
            ..Setup::default()
        };
        let ready = Ready::new(&file.path, setup, false, 1)?;
        readers.push(Box::new(Single { name, ready }));
    }
    Ok(())
}

struct Single {
    name: &'static str,
    ready: Ready,
}

impl SingleReader for Single {
    fn name(&self) -> String {
        self.name.into()
    }

    fn read(&mut self, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        one(&self.ready.queue, read_of(self.ready.file, job), into)
    }
}

/// Systems of realtime readers beside bulk.
pub(crate) fn realtime_systems(
    systems: &mut Vec<Arc<dyn RealtimeSystem>>,
    file: &CorpusFile,
) -> Result<()> {
    let setup = Setup {
        access: Access::Direct,
        ..Setup::default()
    };
    let ready = Ready::new(&file.path, setup, false, 1)?;
    let readers = (0..crate::requests::realtime::READERS)
        .map(|_| queue_for(&ready.storage, 1))
        .collect::<Result<Vec<Queue>>>()?;
    systems.push(Arc::new(Realtime { ready, readers }));
    Ok(())
}

struct Realtime {
    ready: Ready,
    readers: Vec<Queue>,
}

impl RealtimeSystem for Realtime {
    fn name(&self) -> String {
        "millstream".into()
    }

    fn read(&self, reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        let request = read_of(self.ready.file, job).priority(Priority::Realtime);
        one(&self.readers[reader], request, into)
    }

    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()> {
        let queue = queue_for(&self.ready.storage, jobs.len())?;
        let loan = Loan::new(destination, vec![queue]);
        let mut batch = loan.batch(0);
        let add = |batch: &mut LoanBatch<'_>, job: &ReadJob| {
            let request = read_of(self.ready.file, job).priority(Priority::Low);
            batch.add(request, job.range())
        };
        let mut waiting: VecDeque<(usize, Ticket<()>)> = VecDeque::new();
        for (index, job) in jobs.iter().enumerate() {
            waiting.push_back((index, add(&mut batch, job)?));
        }
        batch.submit();
        while let Some((index, mut ticket)) = waiting.pop_front() {
            bytes.fetch_add(ticket.outcome().result?, Ordering::Relaxed);
            if !stop.load(Ordering::Relaxed) {
                // Its place is free again: the same read once more, so that as much as ever is
                // waiting.
                waiting.push_back((index, add(&mut batch, &jobs[index])?));
                batch.submit();
            }
        }
        drop(batch);
        loan.finish()
    }
}

/// Contenders that add reads one by one.
pub(crate) fn held_contenders(field: &mut Field, file: &CorpusFile, jobs: &[ReadJob]) {
    field.add(Held {
        path: file.path.clone(),
        jobs: jobs.to_vec(),
        ready: None,
    });
}

struct Held {
    path: PathBuf,
    jobs: Vec<ReadJob>,
    ready: Option<Ready>,
}

impl Contender for Held {
    fn name(&self) -> String {
        "millstream".into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.ready = None;
        let ready = Ready::new(&self.path, Setup::default(), false, self.jobs.len())?;
        self.ready = Some(ready);
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let ready = self.ready.as_ref();
        let ready = ready.ok_or_else(|| Error::new("run without a preparation"))?;
        let loan = Loan::new(destination, vec![ready.queue.clone()]);
        let mut batch = loan.batch(0);
        let mut held_ns = Vec::with_capacity(self.jobs.len() + 1);
        for job in &self.jobs {
            let start = Instant::now();
            batch.detach(read_of(ready.file, job), job.range())?;
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        let start = Instant::now();
        batch.submit();
        held_ns.push(start.elapsed().as_nanos() as u64);
        drop(batch);
        loan.finish()?;
        Ok(Work {
            requests: self.jobs.len() as u64,
            extra: held::figures(held_ns),
            ..Work::default()
        })
    }
}

/// Contenders that open many files.
pub(crate) fn open_contenders(field: &mut Field, paths: &[PathBuf]) {
    field.add(Opens {
        paths: paths.to_vec(),
        storage: None,
    });
}

struct Opens {
    paths: Vec<PathBuf>,
    storage: Option<Storage>,
}

impl Contender for Opens {
    fn name(&self) -> String {
        "millstream".into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        self.storage = Some(Setup::default().storage()?);
        Ok(())
    }

    fn run(&mut self, _destination: &mut Destination) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let mut held_ns = Vec::with_capacity(self.paths.len());
        let mut files = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let start = Instant::now();
            files.push(storage.open(path, FileOptions::default()));
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        for file in &files {
            storage.opened(*file)?.wait()?;
        }
        Ok(Work {
            requests: files.len() as u64,
            extra: held::figures(held_ns),
            ..Work::default()
        })
    }
}
