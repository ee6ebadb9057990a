//! The rivals as realtime readers beside bulk.
//!
//! None of them has priorities, so each is set up as well as a program could without: every reader
//! has an instance of its own on its own thread, which waits behind no bulk but the device's, and
//! the bulk has the smallest depth that still gives nearly the rate of its best.

use millstream_peers::{Access, Plan, Read, Rival, rivals};

use super::{NO_SEEKS, TRIES, plan_of, read_time};
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result, ensure};
use crate::files::open_buffered;
use crate::requests::cells::Mode;
use crate::requests::systems::{Bulk, Reader, System};
use crate::ring::ReadJob;
use crate::rows::Params;

/// Depths that are tried for the bulk.
const BULK_DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// A depth is good enough with so much of the best one's rate.
const ENOUGH: f64 = 0.95;
/// Every rival, or why it cannot run here.
pub(crate) fn systems<'a>(
    file: &'a CorpusFile,
    bulk: &[ReadJob],
) -> Vec<(&'static str, Result<Box<dyn System + 'a>>)> {
    let system = |rival: Rival| {
        ensure(rival.seeks, NO_SEEKS)?;
        let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
        let mode = if access == Access::Direct {
            Mode::Direct
        } else {
            Mode::Cold
        };
        let time = |depth| read_time(rival, file, mode, bulk, depth, TRIES);
        let times: Vec<f64> = BULK_DEPTHS.into_iter().map(time).collect::<Result<_>>()?;
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let good = times.iter().position(|time| *time <= best / ENOUGH);
        let depth = BULK_DEPTHS[good.unwrap_or(0)];
        let system = Realtime {
            rival,
            access,
            depth,
            file,
        };
        Ok(Box::new(system) as Box<dyn System + 'a>)
    };
    rivals()
        .into_iter()
        .map(|rival| (rival.name, system(rival)))
        .collect()
}

struct Realtime<'a> {
    rival: Rival,
    access: Access,
    depth: usize,
    file: &'a CorpusFile,
}

impl System for Realtime<'_> {
    fn params(&self) -> Params {
        Params::from([
            ("version".into(), self.rival.version.into()),
            ("bulk_depth".into(), self.depth.into()),
        ])
    }

    fn reader(&self, _: usize) -> Result<Reader<'_>> {
        let mut peer = self.rival.start(1)?;
        peer.open(&plan_of(self.file, &[])?, self.access)?;
        Ok(Box::new(move |job, into| {
            let read = Read {
                file: 0,
                offset: job.offset,
                place: 0,
                len: job.len,
            };
            let plan = Plan::new(vec![self.file.path.clone()], vec![read])?;
            peer.read(&plan, into).map_err(Error::from)
        }))
    }

    fn bulk(&self, bulk: &Bulk<'_>, into: &mut [u8]) -> Result<()> {
        let plan = plan_of(self.file, bulk.jobs)?;
        let none = Plan::new(Vec::new(), Vec::new())?;
        let mut peer = self.rival.start(self.depth)?;
        while bulk.goes_on() {
            peer.open(&plan, self.access)?;
            peer.read(&plan, into)?;
            bulk.arrived(bulk.batch_bytes());
            peer.open(&none, self.access)?;
            if self.access == Access::Buffered {
                // As cold as the others' reads. The readers may have some of the other half of the
                // file mapped, so it is not checked that all of it is gone.
                let (path, advice) = (&self.file.path, rustix::fs::Advice::DontNeed);
                rustix::fs::fadvise(open_buffered(path)?, 0, None, advice).on("fadvise", path)?;
            }
        }
        Ok(())
    }
}
