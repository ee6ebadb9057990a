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

use crate::lend::{Loan, one};
use crate::prelude::*;

const BATCH: usize = 256;

/// Returns the default options with the backend that `MILLSTREAM_BACKEND` names.
pub(crate) fn defaults() -> Result<StorageOptions> {
    let mut options = StorageOptions::default();
    let named = std::env::var_os("MILLSTREAM_BACKEND").unwrap_or_default();
    options.backend = match named.to_str() {
        Some("" | "auto") => Backend::Auto,
        Some("uring") => Backend::Uring,
        Some("threads") => Backend::Threads,
        _ => {
            let cause = "is none of auto, uring, threads";
            return Err(Error::new(format!("MILLSTREAM_BACKEND: {named:?} {cause}")));
        }
    };
    Ok(options)
}

/// Returns the options of a variant of our contender, by the suffix of its name.
pub(crate) fn options(contender: &str) -> Result<StorageOptions> {
    let mut options = defaults()?;
    let threads = &mut options.threads;
    match contender.strip_prefix("millstream-") {
        Some("threads") => options.backend = Backend::Threads,
        Some("direct") => options.access = Access::Direct,
        Some("buffered") => options.access = Access::Buffered,
        Some("batch") => {
            threads.engine.scheduling = Scheduling::Batch;
            threads.worker.scheduling = Scheduling::Batch;
        }
        Some("normal") => {
            threads.engine.scheduling = Scheduling::Normal;
            threads.worker.scheduling = Scheduling::Normal;
        }
        _ => {}
    }
    Ok(options)
}

pub(crate) fn storage(contender: &str) -> Result<Storage> {
    Ok(Storage::new(options(contender)?)?)
}

pub(crate) fn direct() -> Result<Storage> {
    storage("millstream-direct")
}

/// Creates a queue for `count` requests, at most a queue's maximum: then adding more blocks.
pub(crate) fn queue_for(storage: &Storage, count: usize) -> Result<Queue> {
    let mut options = QueueOptions::default();
    // Twice as many, so that a batch does not submit early.
    let capacity = u32::try_from(count * 2).unwrap_or(u32::MAX);
    options.capacity = capacity.clamp(options.capacity, limits::QUEUE_CAPACITY_MAX);
    Ok(storage.queue(options)?)
}

/// An open file and a queue, with the storage that keeps them alive.
pub(crate) struct Ready {
    pub(crate) file: FileId,
    pub(crate) queue: Queue,
    pub(crate) storage: Storage,
}

impl Ready {
    /// Opens `path`, with a queue for `requests` requests, and waits until it is open; `package`
    /// says that it gets many small reads.
    pub(crate) fn new(
        storage: Storage,
        path: &Path,
        requests: usize,
        package: bool,
    ) -> Result<Ready> {
        let options = FileOptions {
            package,
            ..FileOptions::default()
        };
        let file = storage.open(path, options);
        storage.opened(file)?.wait()?;
        Ok(Ready {
            queue: queue_for(&storage, requests)?,
            file,
            storage,
        })
    }

    fn read(&self, read: &millstream_peers::Read, into: &mut [u8]) -> Result<()> {
        let end = read.offset + u64::from(read.len);
        let bytes = self.storage.read(self.file, read.offset..end)?;
        into[read.range()].copy_from_slice(&bytes);
        Ok(())
    }

    pub(crate) fn request(&self, read: &millstream_peers::Read) -> Read {
        Read::range(self.file, read.offset, u64::from(read.len))
    }
}

/// Millstream as a [`Peer`] that reads plans of one file.
pub(crate) struct Ours {
    pub(crate) priority: Priority,
    /// Whether the file gets many small reads.
    pub(crate) package: bool,
    /// Whether one read alone is made by [`Storage::read`].
    pub(crate) one_call: bool,
    make: Box<dyn Fn() -> Result<Storage>>,
    ready: Option<Ready>,
}

impl Ours {
    /// Uses what `make` returns for every opening. A long-lived engine reads a range through the
    /// page cache when it is loaded for the second time; a new one stands for a first load.
    pub(crate) fn new(make: impl Fn() -> Result<Storage> + 'static) -> Ours {
        Ours {
            priority: Priority::default(),
            package: false,
            one_call: false,
            make: Box::new(make),
            ready: None,
        }
    }

    fn ready(&self) -> io::Result<&Ready> {
        let ready = self.ready.as_ref();
        ready.ok_or_else(|| io::Error::other("no file is open"))
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
            let (storage, requests) = ((self.make)().map_err(other)?, plan.reads().len().max(1));
            let ready = Ready::new(storage, path, requests, self.package);
            self.ready = Some(ready.map_err(other)?);
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, into: &mut [u8]) -> io::Result<()> {
        let ready = self.ready()?;
        let request = |read| ready.request(read).priority(self.priority);
        let served = match plan.reads() {
            [read] if self.one_call => ready.read(read, into),
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
