//! What a case of workload `streams` moves, its contenders, and how it is run.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::case::{Case, Contender, Work};
use crate::clock::Moment;
use crate::error::{Context, Result, ensure};
use crate::files::open_buffered;
use crate::limits;
use crate::memory::Destination;
use crate::rows::Metric;
use crate::session::Session;

pub(crate) const WORKLOAD: &str = "streams";
/// By the wall.
const TIME: Metric = Metric::lower("time", "ns/call");
/// Processor time of the whole process.
const CPU: Metric = Metric::lower("cpu", "ns/call");

/// What a case moves: how many bytes, in calls of what size.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) chunk: usize,
    pub(crate) bytes: Arc<[u8]>,
}

impl Load {
    pub(crate) fn new(chunk: usize) -> Load {
        let len = if chunk > limits::STREAM_BYTES / 4 && chunk != limits::STREAM_BYTES {
            limits::STREAM_LARGE_BYTES
        } else {
            limits::STREAM_BYTES
        };
        let mut random = fastrand::Rng::with_seed(7);
        Load {
            chunk,
            bytes: (0..len).map(|_| random.u8(..)).collect(),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.bytes.len().div_ceil(self.chunk) as u64
    }

    /// The same in one call.
    pub(crate) fn in_one_call(&self) -> Load {
        Load {
            chunk: self.bytes.len(),
            bytes: Arc::clone(&self.bytes),
        }
    }

    /// The sum of the words, which readers of four bytes deliver.
    pub(crate) fn digest(&self) -> u64 {
        let words = self.bytes.chunks_exact(4).map(|word| {
            let word = word.first_chunk().expect("four bytes");
            u64::from(u32::from_le_bytes(*word))
        });
        words.fold(0, u64::wrapping_add)
    }

    pub(crate) fn work(&self, digest: Option<u64>) -> Work {
        Work {
            digest,
            ..Work::of(self.bytes.len() as u64, self.calls() as usize)
        }
    }

    /// A file of the load, cached.
    pub(crate) fn file(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("streams-{}", self.bytes.len()));
        std::fs::write(&path, &self.bytes).on("write", &path)?;
        sync(&path)?;
        Ok(path)
    }
}

/// Adds a contender that practises, untimed, right before it counts, as the rivals do that are
/// programs of their own: a run is shorter than it takes to bring back what the contender before it
/// has displaced from the caches.
pub(crate) fn practised<R>(case: &mut Case<'_>, name: &str, mut run: R)
where
    R: FnMut(&mut Destination) -> Result<Work> + 'static,
{
    case.add(name, move |destination| {
        practise(&mut || run(destination))?;
        let start = Moment::now();
        let mut work = run(destination)?;
        work.span.get_or_insert(start.elapsed());
        Ok(work)
    });
}

/// Adds one who moves the load and returns the sum of its words, if it has one.
pub(crate) fn reader<R>(case: &mut Case<'_>, load: &Load, name: &str, mut run: R)
where
    R: FnMut(&Load, &mut [u8]) -> Result<Option<u64>> + 'static,
{
    let load = load.clone();
    practised(case, name, move |into| {
        let digest = run(&load, into)?;
        Ok(load.work(digest))
    });
}

/// Adds one who writes the load to a file, and practises before the case's preparation makes the
/// file what it must be.
pub(crate) fn writer<R>(case: &mut Case<'_>, load: &Load, name: &str, run: R)
where
    R: FnMut(&Load) -> Result<()> + 'static,
{
    let (load, ahead) = (load.clone(), load.clone());
    let run = Rc::new(RefCell::new(run));
    let same = Rc::clone(&run);
    let write = move |_: &mut Destination| {
        (run.borrow_mut())(&load)?;
        Ok(load.work(None))
    };
    case.push(Contender {
        prepare: Box::new(move || practise(&mut || (same.borrow_mut())(&ahead))),
        ..Contender::new(name, write)
    });
}

/// Runs until the machine has done with what the contender before left behind: the pages of a
/// process, say, which it clears away for a while.
fn practise<T>(run: &mut dyn FnMut() -> Result<T>) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < limits::STREAM_PRACTICE {
        run()?;
    }
    Ok(())
}

/// Runs one case of calls.
pub(crate) fn measure<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    load: &'a Load,
    destination: &mut Destination,
) -> Result<()> {
    // A run takes about a millisecond: more of them cost nothing.
    case.runs *= limits::STREAM_RUNS_TIMES;
    let each = 1e9 / load.calls() as f64;
    case.figures(move |span, _| vec![(TIME, span.wall * each), (CPU, span.cpu * each)]);
    case.with_limit();
    session.run(case, destination).map(drop)
}

/// Whether what was read is the load.
pub(crate) fn check_read(load: &Load, bytes: &[u8], work: &Work) -> Result<()> {
    let right = match work.digest {
        Some(sum) => sum == load.digest(),
        None => bytes == &load.bytes[..],
    };
    ensure(right, "other bytes than the file's")
}

pub(crate) fn sync(path: &Path) -> Result<()> {
    open_buffered(path)?.sync_all().on("fsync", path)
}
