//! Workload `streams`: 1.2 MB through streams, four bytes at a time and in larger pieces, to memory
//! and to files; and objects, written, parsed and used in place.
//!
//! The study wrote and read 100,000 vectors of three floats in 300,000 calls. Each case here moves
//! the same bytes in calls of one size; the figures are nanoseconds a call, by the wall and of
//! processor time. A file's case counts everything from its open to its close; all is cached.
//! Contenders that read four bytes at a time add the words up, so that nobody can leave a call out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours::Setup;
use crate::rows::Metric;
use crate::workload::{Field, Session};

mod calls;
mod cpp;
mod disturb;
mod files;
mod objects;

pub(crate) const WORKLOAD: &str = "streams";
/// By the wall.
pub(crate) const TIME: Metric = Metric::lower("time", "ns/call");
/// Processor time of the whole process.
pub(crate) const CPU: Metric = Metric::lower("cpu", "ns/call");

pub(crate) use objects::TIME as OBJECTS_TIME;

/// Sizes of calls: from a field to a texture.
const CHUNKS: [usize; 11] = [
    4,
    16,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
const QUICK_CHUNKS: [usize; 3] = [4, 1 << 10, 256 << 10];

/// What a case moves: how many bytes, in calls of what size.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    chunk: usize,
    bytes: Arc<[u8]>,
}

impl Load {
    fn new(chunk: usize) -> Load {
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

    fn calls(&self) -> u64 {
        self.bytes.len().div_ceil(self.chunk) as u64
    }

    /// The sum of the words, which readers of four bytes deliver.
    fn digest(&self) -> u64 {
        calls::sum_of(&self.bytes)
    }

    fn work(&self, digest: Option<u64>) -> Work {
        Work {
            bytes: self.bytes.len() as u64,
            requests: self.calls(),
            digest,
            ..Work::default()
        }
    }

    /// A file of the load, cached.
    fn file(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("streams-{}", self.bytes.len()));
        std::fs::write(&path, &self.bytes).map_err(|error| Error::file("write", &path, error))?;
        sync(&path)?;
        Ok(path)
    }
}

/// A contender made of functions. It practises, untimed, right before it counts, as the
/// rivals do that are programs of their own: a run is shorter than it takes to bring back what the
/// contender before it has displaced from the caches.
struct Runner<R> {
    name: String,
    run: R,
    practice: Practice,
}

/// When it practises.
enum Practice {
    /// Right before the counted one.
    Before,
    /// Of writers: before the case's preparation makes the file what it must be.
    Ahead(Destination),
    /// Never: what is read must stay cold.
    Never,
}

impl<R: FnMut(&mut Destination) -> Result<Work>> Contender for Runner<R> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&mut self) -> Result<()> {
        match &mut self.practice {
            Practice::Ahead(unused) => practise(&mut self.run, unused),
            Practice::Before | Practice::Never => Ok(()),
        }
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        if matches!(self.practice, Practice::Before) {
            practise(&mut self.run, destination)?;
        }
        let start = Moment::now();
        let mut work = (self.run)(destination)?;
        work.span.get_or_insert(start.elapsed());
        Ok(work)
    }
}

/// Runs until the machine has done with what the contender before left behind: the pages of a
/// process, say, which it clears away for a while.
fn practise<R>(run: &mut R, destination: &mut Destination) -> Result<()>
where
    R: FnMut(&mut Destination) -> Result<Work>,
{
    let start = Instant::now();
    while start.elapsed() < limits::STREAM_PRACTICE {
        run(destination)?;
    }
    Ok(())
}

fn add<R>(field: &mut Field, name: &str, run: R)
where
    R: FnMut(&mut Destination) -> Result<Work> + 'static,
{
    add_with(field, name, Practice::Before, run);
}

/// As `add`, of one who writes a file and nothing to the destination.
fn add_writer<R>(field: &mut Field, name: &str, run: R) -> Result<()>
where
    R: FnMut(&mut Destination) -> Result<Work> + 'static,
{
    let practice = Practice::Ahead(Destination::new(1)?);
    add_with(field, name, practice, run);
    Ok(())
}

fn add_with<R>(field: &mut Field, name: &str, practice: Practice, run: R)
where
    R: FnMut(&mut Destination) -> Result<Work> + 'static,
{
    field.add(Runner {
        name: name.to_owned(),
        run,
        practice,
    });
}

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut destination = Destination::new(limits::STREAM_LARGE_BYTES)?;
    let folder = session.corpus.folder().join("streams");
    std::fs::create_dir_all(&folder).map_err(|error| Error::file("make", &folder, error))?;
    let storage = Setup::default().storage()?;
    let chunks = session.size(CHUNKS.to_vec(), QUICK_CHUNKS.to_vec());
    for chunk in chunks {
        let load = Load::new(chunk);
        let name = size_name(chunk);
        calls::memory(session, &load, &name, &mut destination)?;
        files::reads(session, &load, &name, &folder, &storage, &mut destination)?;
        files::writes(session, &load, &name, &folder, &storage, &mut destination)?;
    }
    let bulk = Load::new(limits::STREAM_BYTES);
    files::reads(session, &bulk, "bulk", &folder, &storage, &mut destination)?;
    files::writes(session, &bulk, "bulk", &folder, &storage, &mut destination)?;
    disturb::run(session, &folder, &storage, &mut destination)?;
    objects::run(session, &folder, &mut destination)?;
    std::fs::remove_dir_all(&folder).map_err(|error| Error::file("remove", &folder, error))
}

/// Runs one case of calls.
fn case(
    session: &mut Session<'_>,
    name: &str,
    load: &Load,
    field: Field,
    prepare: &dyn Fn() -> Result<()>,
    check: &dyn Fn(&[u8], &Work) -> Result<()>,
    destination: &mut Destination,
) -> Result<()> {
    // A run takes about a millisecond: more of them cost nothing.
    let runs = session.runs() * limits::STREAM_RUNS_TIMES;
    let calls = load.calls() as f64;
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs,
        warm_up: true,
        destination_len: load.bytes.len(),
        prepare,
        check,
        figures: &|span, _| {
            vec![
                (TIME, span.wall * 1e9 / calls),
                (CPU, span.cpu * 1e9 / calls),
            ]
        },
        limit_by: Some(TIME),
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, destination)
}

/// Whether what was read is the load.
fn check_read(load: &Load, bytes: &[u8], work: &Work) -> Result<()> {
    let right = match work.digest {
        Some(sum) => sum == load.digest(),
        None => bytes == &load.bytes[..],
    };
    if right {
        Ok(())
    } else {
        Err(Error::new("other bytes than the file's"))
    }
}

fn sync(path: &Path) -> Result<()> {
    let file = std::fs::File::open(path).map_err(|error| Error::file("open", path, error))?;
    file.sync_all()
        .map_err(|error| Error::file("fsync", path, error))
}

/// An error of a stream as one of this crate.
fn failed(error: impl std::error::Error) -> Error {
    Error::new(error.to_string())
}

/// A size as a case names it.
fn size_name(len: usize) -> String {
    match len {
        _ if len.is_multiple_of(1 << 20) => format!("{}M", len >> 20),
        _ if len.is_multiple_of(1 << 10) => format!("{}K", len >> 10),
        _ => len.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Options, Workload, run};

    #[test]
    fn every_contender_moves_every_byte_in_every_case() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            quick: true,
            runs: Some(1),
            corpus: Some(folder.path().to_owned()),
            ..Options::default()
        };
        let report = run(&options, &[Workload::Streams]).unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.goals.len() > 10, "{:?}", report.goals);
    }

    #[test]
    fn a_load_has_as_many_calls_as_the_study() {
        assert_eq!(Load::new(4).calls(), 300_000);
        assert_eq!(Load::new(limits::STREAM_BYTES).calls(), 1);
    }
}
