//! The rivals as realtime readers beside bulk.
//!
//! None of them has priorities, so each is set up as well as a program could without: every reader
//! has an instance of its own on its own thread, which waits behind no bulk but the device's, and
//! the bulk has the smallest depth that still gives nearly the rate of its best.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream_peers::{Access, Peer, Plan, Read, Rival, rivals};

use super::remote::{Remote, Task};
use super::sweep::{NO_SEEKS, plan_of};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result, ensure};
use crate::files::open_buffered;
use crate::memory::Destination;
use crate::requests::systems::RealtimeSystem;
use crate::ring::ReadJob;
use crate::rows::Params;

/// Depths that are tried for the bulk.
const BULK_DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// A depth is good enough with so much of the best one's rate.
const ENOUGH: f64 = 0.95;
/// Tries of each: the better one counts.
const TRIES: usize = 3;

/// Every rival, or why it cannot run here.
pub(super) fn systems(
    file: &CorpusFile,
    bulk: &[ReadJob],
) -> Vec<(&'static str, Result<Arc<dyn RealtimeSystem>>)> {
    let system = |rival: Rival| {
        ensure(rival.seeks, NO_SEEKS)?;
        let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
        let depth = bulk_depth(rival, access, file, bulk)?;
        let file = file.clone();
        let system = System {
            rival,
            access,
            depth,
            file,
        };
        Ok(Arc::new(system) as Arc<dyn RealtimeSystem>)
    };
    let all = rivals().into_iter();
    all.map(|rival| (rival.name, system(rival))).collect()
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

impl System {
    fn open(&self, depth: usize, plan: &Plan) -> Result<Box<dyn Peer>> {
        let mut peer = self.rival.start(depth)?;
        peer.open(plan, self.access)?;
        Ok(peer)
    }

    /// Drops the bulk's half of the file from the cache. The readers may have some of the other
    /// half mapped, so it is not checked that all of it is gone.
    fn make_cold(&self) -> Result<()> {
        let (path, advice) = (&self.file.path, rustix::fs::Advice::DontNeed);
        rustix::fs::fadvise(open_buffered(path)?, 0, None, advice).on("fadvise", path)
    }
}

impl RealtimeSystem for System {
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
        let plan = Plan::new(vec![self.file.path.clone()], vec![read])?;
        READER.with_borrow_mut(|reader| match reader {
            Some(reader) => reader.read(&plan, into).map_err(Error::from),
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
        let none = Plan::new(Vec::new(), Vec::new())?;
        let mut peer = self.rival.start(self.depth)?;
        let batch: u64 = jobs.iter().map(|job| u64::from(job.len)).sum();
        while !stop.load(Ordering::Relaxed) {
            peer.open(&plan, self.access)?;
            peer.read(&plan, destination)?;
            bytes.fetch_add(batch, Ordering::Relaxed);
            peer.open(&none, self.access)?;
            if self.access == Access::Buffered {
                // As cold as the others' reads.
                self.make_cold()?;
            }
        }
        Ok(())
    }
}
