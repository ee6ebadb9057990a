//! The grid of cells, and heat maps: request size × depth, direct, cold and warm.
//!
//! All cells of one heat map share a case (`heat direct random`); their rows differ in the
//! parameters `size_bytes` and `depth`. A cell of a map reads as many requests as a bare ring reads
//! in a fixed short time, found by a trial; then contenders take turns on them as in every case.
//! The depth is a bound: a cell of 4 MiB × 256 has fewer requests than that, all handed over at
//! once. `ring` shows what the kernel and the device can, with registered memory; the rest are
//! libraries.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use millstream::Access;

use crate::case::{Case, Method, fresh};
use crate::cases::{Bytes, Instance};
use crate::corpus::CorpusFile;
use crate::error::{Context, Result, ensure};
use crate::files::warm_path;
use crate::heat_map::{DEPTH_PARAM, SIZE_PARAM};
use crate::limits::{CELL_BYTES_MAX, CELL_REQUESTS_MAX, HEAT_REQUESTS_MIN, POOL_THREADS};
use crate::memory::Destination;
use crate::ours::{BATCH, Ready, Setup};
use crate::peers::Sweeps;
use crate::requests::cells::{Cell, Mode, PageHashes, random_jobs, work_of};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::session::Session;
use crate::threads;

/// Seeds of the places of requests.
const GRID_SEED: u64 = 0x5EED;
const HEAT_SEED: u64 = 0x4EA7;
/// Requests that a thread of a pool takes at a time: enough that its lock is not contended, few
/// enough that no thread is left with a tail.
const TAKE_COUNT: usize = 4;
/// Staging of our storages, whose reads do not stage: a storage touches all of it when it is made,
/// and hundreds are made here.
const STAGING_BYTES: usize = 4 << 20;

/// Runs the grid, then the maps; warm cells come last in each, and then everything is in the cache.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let mut sweeps = Sweeps::default();
    for instance in session.cases("requests", "grid") {
        grid_cell(session, &instance, file, pages, &mut sweeps)?;
    }
    for instance in session.cases("requests", "heat") {
        let mode: Mode = instance.get("mode");
        if mode == Mode::Warm {
            warm_path(&file.path)?;
        }
        let mut is_first = true;
        for size in instance.get::<Vec<Bytes>>("sizes") {
            for depth in instance.get::<Vec<usize>>("depths") {
                let size = size.len();
                let cell = Cell { mode, size, depth };
                heat_cell(session, &instance, is_first, file, pages, cell, &mut sweeps)?;
                is_first = false;
            }
        }
    }
    Ok(())
}

fn grid_cell(
    session: &mut Session<'_>,
    instance: &Instance,
    file: &CorpusFile,
    pages: &PageHashes,
    sweeps: &mut Sweeps,
) -> Result<()> {
    let (mode, cell): (Mode, String) = (instance.get("mode"), instance.get("cell"));
    let (size, depth) = cell.split_once(" depth ").expect("a cell of cases.toml");
    let depth = depth.parse()?;
    let size = Bytes::parse(size).expect("a size of cases.toml").len();
    let cell = Cell { mode, size, depth };
    if mode == Mode::Warm {
        warm_path(&file.path)?;
    }
    let most: usize = instance.get(match depth {
        1 => "requests_serial_max",
        _ => "requests_max",
    });
    let count = most.min(instance.get::<Bytes>("bytes_max").len() / size);
    let jobs = random_jobs(file.stored_len, size, count, GRID_SEED);
    let mut case = session.begin(instance);
    let threads = if depth == 1 { 1 } else { POOL_THREADS };
    add_bare(&mut case, instance, file, cell, &jobs, threads);
    sweeps.cell(&mut case, file, cell, &jobs);
    for name in instance
        .contenders()
        .filter(|name| name.starts_with("millstream"))
    {
        if name != "millstream-threads" || depth >= POOL_THREADS {
            add_ours(&mut case, name, file, cell, &jobs);
        }
    }
    measure(session, case, file, pages, cell, &jobs)
}

fn heat_cell(
    session: &mut Session<'_>,
    instance: &Instance,
    is_first: bool,
    file: &CorpusFile,
    pages: &PageHashes,
    cell: Cell,
    sweeps: &mut Sweeps,
) -> Result<()> {
    let random = instance.get::<String>("order") == "random";
    let count = requests_in(instance.get("seconds"), random, cell, file)?;
    let jobs = heat_jobs(random, cell, file, count);
    let mut case = session.begin(instance);
    let threads = cell.depth.min(POOL_THREADS);
    add_bare(&mut case, instance, file, cell, &jobs, threads);
    sweeps.cell(&mut case, file, cell, &jobs);
    add_ours(&mut case, "millstream", file, cell, &jobs);
    for contender in &mut case.contenders {
        contender.with(SIZE_PARAM, cell.size);
        contender.with(DEPTH_PARAM, cell.depth);
    }
    // A contender that cannot run in one cell can run in none: one row is enough.
    if !is_first {
        case.skipped.clear();
    }
    measure(session, case, file, pages, cell, &jobs)
}

/// Runs a case of one cell.
fn measure<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    file: &'a CorpusFile,
    pages: &'a PageHashes,
    cell: Cell,
    jobs: &'a [ReadJob],
) -> Result<()> {
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    case.prepare(move || cell.mode.make_ready(file));
    case.check(jobs.len() * cell.size, move |bytes, work| {
        let all = work.requests == jobs.len() as u64;
        ensure(all, "not every request ended")?;
        pages.check(jobs, bytes)
    });
    session.run(case, &mut destination).map(drop)
}

/// Adds the contenders of `cases.toml` that are no library: rings, and a pool of threads.
fn add_bare<'a>(
    case: &mut Case<'a>,
    instance: &Instance,
    file: &CorpusFile,
    cell: Cell,
    jobs: &'a [ReadJob],
    threads: usize,
) {
    for name in instance.contenders() {
        // To push reads off to a helper thread of the kernel pays for large copies out of the
        // cache only.
        let offload = name == "ring-async";
        let pays = cell.mode == Mode::Warm && cell.size >= 64 << 10;
        if name.starts_with("ring") && (pays || !offload) {
            let style = ReadStyle {
                depth: cell.depth,
                registered: name == "ring",
                offload,
            };
            let ring = BareRing::new(cell.depth);
            let flags = ring.as_ref().map_or("", BareRing::flags);
            let method = ring.and_then(|ring| bare_ring(ring, cell.mode.open(file)?, jobs, style));
            if let Some(contender) = case.try_push(name, method) {
                contender.with("flags", flags);
            }
        }
        if name == "pread" {
            let name = match threads {
                1 => "pread".into(),
                threads => format!("pread-{threads}"),
            };
            let opened = cell.mode.open(file);
            let method = opened.map(|fd| pread_pool(fd, cell, jobs, threads));
            if let Some(contender) = case.try_push(&name, method) {
                contender.with("threads", threads);
            }
        }
    }
}

fn bare_ring(
    mut ring: BareRing,
    fd: File,
    jobs: &[ReadJob],
    style: ReadStyle,
) -> Result<impl Method> {
    Ok(move |into: &mut Destination| {
        let span = ring.read_all(fd.as_raw_fd(), jobs, into, style)?;
        Ok(work_of(jobs).took(span))
    })
}

/// A pool of threads in `pread`: what most programs have. With one thread it is the plain
/// sequential reader.
fn pread_pool(fd: File, cell: Cell, jobs: &[ReadJob], threads: usize) -> impl Method {
    move |into: &mut Destination| {
        // Places follow each other in the order of the jobs, so pieces of the destination belong
        // to pieces of the list.
        let pieces = into.chunks_mut(TAKE_COUNT * cell.size);
        let pieces = jobs.chunks(TAKE_COUNT).zip(pieces);
        let serve = |(): &mut (), (jobs, memory): (&[ReadJob], &mut [u8])| {
            let mut jobs = jobs.iter().zip(memory.chunks_mut(cell.size));
            jobs.try_for_each(|(job, into)| fd.read_exact_at(into, job.offset).what("pread"))
        };
        let span = threads::each(threads, pieces, || (), serve)?;
        Ok(work_of(jobs).took(span))
    }
}

/// Adds a variant of ours: all requests of a cell, in batches.
fn add_ours<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    file: &'a CorpusFile,
    cell: Cell,
    jobs: &'a [ReadJob],
) {
    let setup = Setup {
        access: match cell.mode {
            _ if name == "millstream-auto" => Access::Auto,
            Mode::Direct => Access::Direct,
            Mode::Cold | Mode::Warm => Access::Buffered,
        },
        depth: Some(cell.depth as u32),
        staging_bytes: Some(STAGING_BYTES),
        ..Setup::named(name)
    };
    // Many small reads of one file at depth: what the engine calls a package. The queue is there
    // before the clock starts, as the rivals' threads and rings are.
    let make = move || Ready::new(&file.path, setup, true, jobs.len());
    let run = move |ready: &mut Ready, into: &mut Destination| {
        ready.read(jobs, into)?;
        Ok(work_of(jobs))
    };
    case.push(name, fresh(make, run)).with("batch", BATCH);
}

/// How many requests a bare ring, or threads where there is none, reads in `seconds`.
fn requests_in(seconds: f64, random: bool, cell: Cell, file: &CorpusFile) -> Result<usize> {
    let bytes_max = CELL_BYTES_MAX.min(file.stored_len);
    let most = CELL_REQUESTS_MAX.min(bytes_max as usize / cell.size);
    let trial = (cell.depth * 2).clamp(HEAT_REQUESTS_MIN, most.max(1));
    let jobs = heat_jobs(random, cell, file, trial);
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    let fd = cell.mode.open(file)?;
    cell.mode.make_ready(file)?;
    let style = ReadStyle {
        depth: cell.depth,
        registered: true,
        offload: false,
    };
    let threads = cell.depth.min(POOL_THREADS);
    let work = match BareRing::new(cell.depth) {
        Ok(ring) => bare_ring(ring, fd, &jobs, style)?.run(&mut destination)?,
        Err(_) => pread_pool(fd, cell, &jobs, threads).run(&mut destination)?,
    };
    let wall = work.span.map_or(seconds, |span| span.wall);
    let count = (seconds / wall * jobs.len() as f64) as usize;
    Ok(count.max(HEAT_REQUESTS_MIN).min(most))
}

/// The requests of a cell, at random places or one after the other.
fn heat_jobs(random: bool, cell: Cell, file: &CorpusFile, count: usize) -> Vec<ReadJob> {
    if random {
        return random_jobs(file.stored_len, cell.size, count, HEAT_SEED);
    }
    let place = |index: usize| index * cell.size;
    let job = |index| ReadJob::new(place(index) as u64, place(index), cell.size);
    (0..count).map(job).collect()
}
