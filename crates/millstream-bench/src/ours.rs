//! Storages, queues and requests of our contenders.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use millstream::{
    Access, Backend, FileId, FileOptions, Priority, Queue, QueueOptions, Read, Scheduling, Storage,
    StorageOptions, limits,
};
use millstream_peers::{Peer, Plan};

use crate::error::{Error, Result};
use crate::lend::{Loan, one};

const BATCH: usize = 256;

/// How a storage differs from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Setup {
    pub(crate) access: Access,
    /// Uses the threads backend instead of io_uring.
    pub(crate) threads: bool,
    pub(crate) depth: Option<u32>,
    pub(crate) staging_bytes: Option<usize>,
    /// Free destination memory retained for reuse, in bytes.
    pub(crate) retained_bytes: Option<usize>,
    /// Whether the file gets many small reads.
    pub(crate) package: bool,
    /// Scheduling policy of the engine's thread and of the workers.
    pub(crate) scheduling: Option<Scheduling>,
}

impl Setup {
    /// Returns the setup of a variant of our contender, by the suffix of its name.
    pub(crate) fn named(contender: &str) -> Setup {
        let word = contender.strip_prefix("millstream-").unwrap_or_default();
        Setup {
            access: match word {
                "direct" => Access::Direct,
                "buffered" => Access::Buffered,
                _ => Access::Auto,
            },
            threads: word == "threads",
            scheduling: match word {
                "batch" => Some(Scheduling::Batch),
                "normal" => Some(Scheduling::Normal),
                _ => None,
            },
            ..Setup::default()
        }
    }

    pub(crate) fn direct() -> Setup {
        Setup::named("millstream-direct")
    }

    pub(crate) fn storage(self) -> Result<Storage> {
        let mut options = StorageOptions::default();
        if self.threads {
            options.backend = Backend::Threads;
        }
        if let Some(scheduling) = self.scheduling {
            options.threads.engine.scheduling = scheduling;
            options.threads.worker.scheduling = scheduling;
        }
        options.access = self.access;
        options.depth = self.depth.unwrap_or(options.depth);
        options.staging_bytes = self.staging_bytes.unwrap_or(options.staging_bytes);
        options.retained_bytes = self.retained_bytes.unwrap_or(options.retained_bytes);
        Ok(Storage::new(options)?)
    }
}

/// Creates a queue for `count` requests, at most a queue's maximum: then adding more blocks.
pub(crate) fn queue_for(storage: &Storage, count: usize) -> Result<Queue> {
    let mut options = QueueOptions::default();
    // Twice as many, so that a batch does not submit early.
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

/// An open file and a queue, with the storage that keeps them alive.
pub(crate) struct Ready {
    pub(crate) file: FileId,
    pub(crate) queue: Queue,
    _storage: Storage,
}

impl Ready {
    /// Opens `path`, with a queue for `requests` requests.
    pub(crate) fn new(
        storage: Storage,
        path: &Path,
        setup: Setup,
        requests: usize,
    ) -> Result<Ready> {
        let options = FileOptions {
            access: Some(setup.access),
            package: setup.package,
            ..FileOptions::default()
        };
        Ok(Ready {
            queue: queue_for(&storage, requests)?,
            file: opened(&storage, path, options)?,
            _storage: storage,
        })
    }

    pub(crate) fn request(&self, read: &millstream_peers::Read) -> Read {
        Read::range(self.file, read.offset, u64::from(read.len))
    }
}

/// Millstream as a [`Peer`] that reads plans of one file.
pub(crate) struct Ours {
    setup: Setup,
    priority: Priority,
    storage: Option<Storage>,
    ready: Option<Ready>,
}

impl Ours {
    /// Uses a new storage for every opening: a long-lived engine reads a range through the page
    /// cache when it is loaded for the second time, and each run stands for a first load.
    pub(crate) fn new(setup: Setup) -> Ours {
        Ours {
            setup,
            priority: Priority::default(),
            storage: None,
            ready: None,
        }
    }

    /// Shares a storage with others, with direct I/O.
    pub(crate) fn sharing(storage: &Storage, priority: Priority) -> Ours {
        Ours {
            priority,
            storage: Some(storage.clone()),
            ..Ours::new(Setup::direct())
        }
    }

    fn open_one(&self, path: &Path, requests: usize) -> Result<Ready> {
        let storage = self
            .storage
            .clone()
            .map_or_else(|| self.setup.storage(), Ok)?;
        Ready::new(storage, path, self.setup, requests)
    }

    fn ready(&self) -> io::Result<&Ready> {
        self.ready
            .as_ref()
            .ok_or_else(|| io::Error::other("no file is open"))
    }
}

fn other(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl Peer for Ours {
    fn open(&mut self, plan: &Plan, _: millstream_peers::Access) -> io::Result<()> {
        // The old one is dropped first: two at once would share the machine.
        self.ready = None;
        if let Some(path) = plan.files().first() {
            let ready = self.open_one(path, plan.reads().len().max(1));
            self.ready = Some(ready.map_err(other)?);
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, into: &mut [u8]) -> io::Result<()> {
        let ready = self.ready()?;
        let request = |read| ready.request(read).priority(self.priority);
        let served = match plan.reads() {
            [read] => one(&ready.queue, request(read), &mut into[read.range()]),
            reads => {
                let requests = reads.iter().map(|read| (request(read), read.range()));
                serve(&ready.queue, into, requests)
            }
        };
        served.map_err(other)
    }

    fn hand_over(&mut self, plan: &Plan, into: &mut [u8]) -> io::Result<Vec<u64>> {
        let ready = self.ready()?;
        let loan = Loan::new(into, vec![ready.queue.clone()]);
        let mut batch = loan.batch(0);
        let mut held_ns = Vec::with_capacity(plan.reads().len() + 1);
        for read in plan.reads() {
            let start = Instant::now();
            let added = batch.detach(ready.request(read), read.range());
            held_ns.push(start.elapsed().as_nanos() as u64);
            added.map_err(other)?;
        }
        let start = Instant::now();
        batch.submit();
        held_ns.push(start.elapsed().as_nanos() as u64);
        drop(batch);
        loan.finish().map(|()| held_ns).map_err(other)
    }
}

/// Serves requests, each into its range, and waits for all of them; submits each full batch.
pub(crate) fn serve(
    queue: &Queue,
    into: &mut [u8],
    requests: impl IntoIterator<Item = (Read, Range<usize>)>,
) -> Result<()> {
    let loan = Loan::new(into, vec![queue.clone()]);
    let mut batch = loan.batch(0);
    for (number, (request, place)) in requests.into_iter().enumerate() {
        batch.detach(request, place)?;
        if number % BATCH == BATCH - 1 {
            batch.submit();
        }
    }
    // Submits the rest.
    drop(batch);
    loan.finish()
}
