//! What serves a rival best, found by short runs ahead of the measurement.

use std::collections::HashMap;

use millstream_peers::{Access, Plan, Read, Rival};

use super::remote::{Remote, Task};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Result};
use crate::memory::Destination;
use crate::requests::cells::{Cell, Mode, random_jobs};
use crate::ring::ReadJob;

/// Why a rival is left out of reads at random places.
pub(super) const NO_SEEKS: &str =
    "its files read ahead after every seek; it reads whole files elsewhere";
/// Threads that are tried.
const THREADS: [usize; 4] = [4, 8, 16, 32];
/// Requests from this size on are large: what serves them best is another number.
const LARGE_BYTES: usize = 256 << 10;
/// Sizes that stand for small and large ones.
const SMALL_TRIAL: (usize, usize) = (4 << 10, 512);
const LARGE_TRIAL: (usize, usize) = (1 << 20, 32);
/// Tries of each: the better one counts.
const TRIES: usize = 2;
/// Seed of the places that trials read.
const SEED: u64 = 0x5EEB;

/// Numbers of threads that were found.
#[derive(Debug, Default)]
pub(super) struct Sweeps(HashMap<(&'static str, &'static str, bool), usize>);

impl Sweeps {
    /// The depth that a rival gets in a cell: the cell's, or less where its reads are threads.
    pub(super) fn depth(&mut self, rival: Rival, file: &CorpusFile, cell: Cell) -> usize {
        if !rival.threads || cell.depth <= THREADS[0] {
            return cell.depth;
        }
        let large = cell.size >= LARGE_BYTES;
        let key = (rival.name, cell.mode.name(), large);
        let best = *self
            .0
            .entry(key)
            .or_insert_with(|| best_threads(rival, file, cell.mode, large));
        best.min(cell.depth)
    }
}

/// A rival that fails here will say why in its case; until then any number does.
fn best_threads(rival: Rival, file: &CorpusFile, mode: Mode, large: bool) -> usize {
    let (size, count) = if large { LARGE_TRIAL } else { SMALL_TRIAL };
    let jobs = random_jobs(file.stored_len, size, count, SEED);
    let trial = |threads: usize| -> Result<f64> {
        let plan = plan_of(file, &jobs)?;
        let mut destination = Destination::new(plan.destination_len())?;
        let mut remote = Remote::start(rival, threads)?;
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            if mode == Mode::Cold {
                cold::drop_path(&file.path)?;
            }
            remote.run(Task::Open(access_of(mode)), &plan, &mut destination)?;
            best = best.min(remote.run(Task::Read, &plan, &mut destination)?.0.wall);
            remote.close()?;
        }
        Ok(best)
    };
    best_of(&THREADS, trial).unwrap_or(THREADS[1])
}

/// The candidate with the least time; none if none ran.
pub(super) fn best_of<T: Copy>(candidates: &[T], trial: impl Fn(T) -> Result<f64>) -> Option<T> {
    candidates
        .iter()
        .filter_map(|candidate| Some((*candidate, trial(*candidate).ok()?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate)
}

pub(super) fn access_of(mode: Mode) -> Access {
    match mode {
        Mode::Direct => Access::Direct,
        Mode::Cold | Mode::Warm => Access::Buffered,
    }
}

/// The requests of a case as the rivals' plan.
pub(super) fn plan_of(file: &CorpusFile, jobs: &[ReadJob]) -> Result<Plan> {
    let reads = jobs.iter().map(|job| Read {
        file: 0,
        offset: job.offset,
        place: job.place,
        len: job.len,
    });
    made(Plan::new(vec![file.path.clone()], reads.collect()))
}

pub(super) fn made(plan: std::io::Result<Plan>) -> Result<Plan> {
    plan.what("plan of a rival")
}
