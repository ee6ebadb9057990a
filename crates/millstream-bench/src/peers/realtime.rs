//! The rivals as realtime readers beside bulk.
//!
//! None of them has priorities, so each is set up as well as a program could without: every reader
//! has an instance of its own on its own thread, which waits behind no bulk but the device's, and
//! the bulk has the smallest depth that still gives nearly the rate of its best.

use std::cell::RefCell;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream_peers::{Access, Peer, Plan, Read, Rival, rivals};

use super::NO_SEEKS;
use super::remote::{Remote, Task};
use super::sweep::plan_of;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::requests::WORKLOAD;
use crate::requests::realtime::{CASE, RealtimeSystem};
use crate::ring::ReadJob;
use crate::rows::{Params, Row};

/// Depths that are tried for the bulk.
const BULK_DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// A depth is good enough with so much of the best one's rate.
const ENOUGH: f64 = 0.95;
/// Tries of each: the better one counts.
const TRIES: usize = 3;

/// Every rival that runs here, and rows of the others.
pub(super) fn systems(
    systems: &mut Vec<Arc<dyn RealtimeSystem>>,
    file: &CorpusFile,
    bulk: &[ReadJob],
) -> Vec<Row> {
    let mut skipped = Vec::new();
    for rival in rivals() {
        if !rival.seeks {
            skipped.push(Row::skipped(WORKLOAD, CASE, rival.name, NO_SEEKS));
            continue;
        }
        let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
        match bulk_depth(rival, access, file, bulk) {
            Ok(depth) => systems.push(Arc::new(System {
                rival,
                access,
                depth,
                file: file.clone(),
            })),
            Err(error) => {
                let why = error.to_string();
                skipped.push(Row::skipped(WORKLOAD, CASE, rival.name, &why));
            }
        }
    }
    skipped
}

/// The smallest depth that serves the bulk nearly as well as the best one.
fn bulk_depth(rival: Rival, access: Access, file: &CorpusFile, bulk: &[ReadJob]) -> Result<usize> {
    let plan = plan_of(file, bulk)?;
    let mut destination = Destination::new(plan.destination_len())?;
    let mut times = Vec::new();
    for depth in BULK_DEPTHS {
        let mut remote = Remote::start(rival, depth)?;
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            cold::drop_path(&file.path)?;
            remote.run(Task::Open(access), &plan, &mut destination)?;
            best = best.min(remote.run(Task::Read, &plan, &mut destination)?.0.wall);
            remote.close()?;
        }
        times.push((depth, best));
    }
    let best = times
        .iter()
        .map(|(_, time)| *time)
        .fold(f64::INFINITY, f64::min);
    let good = times.iter().find(|(_, time)| *time <= best / ENOUGH);
    Ok(good.map_or(BULK_DEPTHS[0], |(depth, _)| *depth))
}

struct System {
    rival: Rival,
    access: Access,
    depth: usize,
    file: CorpusFile,
}

thread_local! {
    /// The reader of this thread: a rival's instance stays on the thread that started it.
    static READER: RefCell<Option<Box<dyn Peer>>> = const { RefCell::new(None) };
}

fn told(error: std::io::Error) -> Error {
    Error::new(error.to_string())
}

impl System {
    fn open(&self, depth: usize, plan: &Plan) -> Result<Box<dyn Peer>> {
        let mut peer = self.rival.start(depth).map_err(told)?;
        peer.open(plan, self.access).map_err(told)?;
        Ok(peer)
    }
}

impl System {
    /// Drops the bulk's half of the file from the cache. The readers may have some of the other
    /// half mapped, so nobody checks that all of it is gone.
    fn make_cold(&self) -> Result<()> {
        let file = File::open(&self.file.path)
            .map_err(|error| Error::file("open", &self.file.path, error))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| Error::file("fadvise", &self.file.path, error))
    }
}

impl RealtimeSystem for System {
    fn name(&self) -> String {
        self.rival.name.into()
    }

    fn params(&self) -> Params {
        Params::from([
            ("version".into(), self.rival.version.into()),
            ("bulk_depth".into(), self.depth.into()),
        ])
    }

    fn begin(&self) -> Result<()> {
        let peer = self.open(1, &plan_of(&self.file, &[])?)?;
        READER.set(Some(peer));
        Ok(())
    }

    fn read(&self, _reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        let read = Read {
            file: 0,
            offset: job.offset,
            place: 0,
            len: job.len,
        };
        let plan = Plan::new(vec![self.file.path.clone()], vec![read]).map_err(told)?;
        READER.with_borrow_mut(|reader| match reader {
            Some(reader) => reader.read(&plan, into).map_err(told),
            None => Err(Error::new("a read before its begin")),
        })
    }

    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()> {
        let plan = plan_of(&self.file, jobs)?;
        let none = Plan::new(Vec::new(), Vec::new()).map_err(told)?;
        let mut peer = self.rival.start(self.depth).map_err(told)?;
        let batch: u64 = jobs.iter().map(|job| u64::from(job.len)).sum();
        while !stop.load(Ordering::Relaxed) {
            peer.open(&plan, self.access).map_err(told)?;
            peer.read(&plan, destination).map_err(told)?;
            bytes.fetch_add(batch, Ordering::Relaxed);
            peer.open(&none, self.access).map_err(told)?;
            if self.access == Access::Buffered {
                // As cold as the others' reads.
                self.make_cold()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Form};
    use crate::requests::random_jobs;

    #[test]
    fn every_rival_that_starts_gets_a_depth_for_its_bulk() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let file = corpus.big(4 << 20, Form::Stored).unwrap();
        if let Err(error) = cold::drop_path(&file.path) {
            println!("SKIP: {error}");
            return;
        }
        let jobs = random_jobs(2 << 20, 256 << 10, 8, 1);
        let mut all = Vec::new();
        let skipped = systems(&mut all, &file, &jobs);
        for row in &skipped {
            println!("SKIP: {row:?}");
        }
        assert_eq!(all.len() + skipped.len(), rivals().len());
    }
}
