//! The heat map: request size × depth, direct, warm and cold, at random places and in order.
//!
//! All cells of one map share a case (`heat direct random`); their rows differ in the parameters
//! `size_bytes` and `depth`. A cell reads as many requests as a bare ring reads in a fixed short
//! time, found by a trial; then contenders take turns on them as in every case. The depth is a
//! bound: a cell of 4 MiB × 256 has fewer requests than that, all handed over at once. `ring` and
//! `fio` show what the kernel and the device can, with registered memory; the rest are libraries.

use std::time::Instant;

use super::ring_reads::{RingReads, Style};
use super::{CPU, Cell, IOPS, Mode, PageHashes, WORKLOAD, pool, random_jobs};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours;
use crate::ring::ReadJob;
use crate::rows::{Metric, Params};
use crate::workload::{Field, Session};

/// Bytes by the wall.
pub(crate) const RATE: Metric = Metric::higher("rate", "MB/s");
/// Stands for the digest of who delivers no bytes to look at.
pub(crate) const UNSEEN: u64 = 0xF10;
/// How a case of this kind begins.
pub(crate) const PREFIX: &str = "heat ";
/// Parameters of a row that say which cell it is of.
pub(crate) const SIZE_PARAM: &str = "size_bytes";
/// See [`SIZE_PARAM`].
pub(crate) const DEPTH_PARAM: &str = "depth";

const SIZES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 256];
const QUICK_SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const QUICK_DEPTHS: [usize; 3] = [1, 16, 256];
/// Seed of the places.
const SEED: u64 = 0x4EA7;
/// Time of a run, with what goes on around it, over the time that a bare ring takes: from short
/// measurements of whole maps; only for the announcement.
const OVERHEAD: f64 = 2.5;
/// Contenders of a cell, for the announcement.
const CONTENDERS: f64 = if cfg!(feature = "peers") { 10.0 } else { 4.0 };

/// One map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Map {
    mode: Mode,
    random: bool,
}

impl Map {
    fn name(self) -> String {
        let order = if self.random { "random" } else { "sequential" };
        format!("{PREFIX}{} {order}", self.mode.name())
    }
}

/// Warm maps last: then everything is in the cache.
fn maps(quick: bool) -> Vec<Map> {
    let modes = [Mode::Direct, Mode::Cold, Mode::Warm];
    let both = modes
        .into_iter()
        .flat_map(|mode| [true, false].map(|random| Map { mode, random }));
    both.filter(|map| !quick || (map.random && map.mode != Mode::Cold))
        .collect()
}

/// Names of the cases.
pub(super) fn case_names(quick: bool) -> Vec<String> {
    maps(quick).into_iter().map(Map::name).collect()
}

/// Runs the maps.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let quick = session.options.quick;
    let wanted: Vec<Map> = maps(quick)
        .into_iter()
        .filter(|map| session.wants(&map.name()))
        .collect();
    let (sizes, depths): (&[usize], &[usize]) = if quick {
        (&QUICK_SIZES, &QUICK_DEPTHS)
    } else {
        (&SIZES, &DEPTHS)
    };
    let cells = (wanted.len() * sizes.len() * depths.len()) as f64;
    let runs = (runs(session) + 1) as f64;
    let seconds = cells * runs * CONTENDERS * run_seconds(session) * OVERHEAD;
    session.say(&format!(
        "{WORKLOAD}: {cells} cells of heat maps, about {seconds:.0} s"
    ));
    for map in wanted {
        let start = Instant::now();
        if map.mode == Mode::Warm {
            cold::warm_path(&file.path)?;
        }
        for size in sizes {
            for depth in depths {
                let mode = map.mode;
                let (size, depth) = (*size, *depth);
                cell(session, map, Cell { mode, size, depth }, file, pages)?;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        session.say(&format!("{WORKLOAD}: {}: {seconds:.0} s", map.name()));
    }
    Ok(())
}

fn runs(session: &Session<'_>) -> usize {
    session.runs().min(limits::HEAT_RUNS_MAX)
}

fn run_seconds(session: &Session<'_>) -> f64 {
    session.size(limits::HEAT_SECONDS, limits::QUICK_HEAT_SECONDS)
}

/// A contender whose rows say of which cell they are.
struct InCell(Box<dyn Contender>, Cell);

impl Contender for InCell {
    fn name(&self) -> String {
        self.0.name()
    }

    fn params(&self) -> Params {
        let mut params = self.0.params();
        params.insert(SIZE_PARAM.into(), self.1.size.into());
        params.insert(DEPTH_PARAM.into(), self.1.depth.into());
        params
    }

    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        self.0.run(destination)
    }
}

fn cell(
    session: &mut Session<'_>,
    map: Map,
    cell: Cell,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    let count = requests_of(run_seconds(session), map, cell, file)?;
    let jobs = jobs_of(map, cell, file, count);
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    let name = map.name();
    let field = field_of(session, map, cell, file, &jobs);
    let contenders = field.contenders.into_iter();
    let contenders = contenders
        .map(|it| Box::new(InCell(it, cell)) as Box<dyn Contender>)
        .collect();
    let case = Case {
        workload: WORKLOAD,
        name,
        runs: runs(session),
        warm_up: true,
        destination_len: jobs.len() * cell.size,
        prepare: &|| match cell.mode {
            Mode::Warm => Ok(()),
            Mode::Direct | Mode::Cold => cold::drop_path(&file.path),
        },
        check: &|bytes, work| match work.digest {
            Some(UNSEEN) => Ok(()),
            _ if work.requests != jobs.len() as u64 => Err(Error::new("not every request ended")),
            _ => pages.check(&jobs, bytes),
        },
        figures: &|span, work| {
            let count = work.requests as f64;
            vec![
                (RATE, work.bytes as f64 / 1e6 / span.wall),
                (IOPS, count / span.wall),
                (CPU, span.cpu * 1e6 / count),
            ]
        },
        limit_by: Some(RATE),
    };
    // Who cannot run in one cell can in none: once is enough.
    let first = cell.size == SIZES[0] && cell.depth == DEPTHS[0];
    session.keep(if first { field.skipped } else { Vec::new() })?;
    session.case_quietly(&case, contenders, &mut destination)
}

/// Everyone in a cell.
fn field_of(
    session: &mut Session<'_>,
    map: Map,
    cell: Cell,
    file: &CorpusFile,
    jobs: &[ReadJob],
) -> Field {
    let mut field = Field::new(WORKLOAD, &map.name());
    for style in Style::of(cell)
        .into_iter()
        .filter(|style| *style != Style::Plain)
    {
        let ring = RingReads::new(file, cell, jobs, style);
        field.try_add(style.name(), ring);
    }
    let threads = cell.depth.min(limits::POOL_THREADS);
    field.try_add("pread", pool::PreadPool::new(file, cell, jobs, threads));
    session.peers.cell(&mut field, file, cell, jobs);
    if !session.options.quick {
        let count = jobs.len() as u64;
        session
            .peers
            .fio(&mut field, &file.path, cell, count, map.random);
    }
    ours::heat_contender(&mut field, file, cell, jobs);
    field
}

/// How many requests a bare ring reads in `seconds`.
fn requests_of(seconds: f64, map: Map, cell: Cell, file: &CorpusFile) -> Result<usize> {
    let most = (limits::CELL_BYTES_MAX / cell.size as u64).min(limits::CELL_REQUESTS_MAX as u64);
    let most = (most as usize).min(file.stored_len as usize / cell.size);
    let trial = (cell.depth * 2).clamp(limits::HEAT_REQUESTS_MIN, most.max(1));
    let jobs = jobs_of(map, cell, file, trial);
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    let mut contender: Box<dyn Contender> =
        match RingReads::new(file, cell, &jobs, Style::Registered) {
            Ok(ring) => Box::new(ring),
            Err(_) => {
                let threads = cell.depth.min(limits::POOL_THREADS);
                Box::new(pool::PreadPool::new(file, cell, &jobs, threads)?)
            }
        };
    if cell.mode != Mode::Warm {
        cold::drop_path(&file.path)?;
    }
    let work = contender.run(&mut destination)?;
    let wall = work.span.map_or(seconds, |span| span.wall);
    let count = (seconds / wall * jobs.len() as f64) as usize;
    Ok(count.max(limits::HEAT_REQUESTS_MIN).min(most))
}

/// The requests of a cell, at random places or one after the other.
fn jobs_of(map: Map, cell: Cell, file: &CorpusFile, count: usize) -> Vec<ReadJob> {
    if map.random {
        return random_jobs(file.stored_len, cell.size, count, SEED);
    }
    let len = cell.size as u32;
    (0..count)
        .map(|index| ReadJob {
            file: 0,
            offset: (index * cell.size) as u64,
            place: index * cell.size,
            len,
            need: len,
        })
        .collect()
}
