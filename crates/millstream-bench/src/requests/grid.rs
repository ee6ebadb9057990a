//! The grid of size × depth × (direct, cold, warm): each cell is a case, and the cells of a mode
//! are a map on the page.
//!
//! The depth is a bound: a cell of 4 MiB × 128 has fewer requests than that, all handed over at
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
use crate::limits::POOL_THREADS;
use crate::memory::Destination;
use crate::ours::{BATCH, Ready, Setup};
use crate::peers::Sweeps;
use crate::requests::cells::{Cell, Mode, PageHashes, random_jobs, work_of};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::session::Session;
use crate::threads;

/// Seed of the places of requests.
const SEED: u64 = 0x5EED;
/// Requests that a thread of a pool takes at a time: enough that its lock is not contended, few
/// enough that no thread is left with a tail.
const TAKE_COUNT: usize = 4;
/// Staging of our storages, whose reads do not stage: a storage touches all of it when it is made,
/// and hundreds are made here.
const STAGING_BYTES: usize = 4 << 20;

/// Runs the grid; warm cells come last, and then everything is in the cache.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let mut sweeps = Sweeps::default();
    for instance in session.cases("requests", "grid") {
        let (mode, size): (Mode, Bytes) = (instance.get("mode"), instance.get("size"));
        let (size, depth) = (size.len(), instance.get("depth"));
        let cell = Cell { mode, size, depth };
        if mode == Mode::Warm {
            warm_path(&file.path)?;
        }
        let most: usize = instance.get(match depth {
            1 => "requests_serial_max",
            _ => "requests_max",
        });
        let count = most.min(instance.get::<Bytes>("bytes_max").len() / size);
        let jobs = random_jobs(file.stored_len, size, count, SEED);
        let mut case = session.begin(&instance);
        add_bare(&mut case, &instance, file, cell, &jobs);
        sweeps.cell(&mut case, file, cell, &jobs);
        for name in instance.contenders() {
            let is_ours = name.starts_with("millstream");
            if is_ours && (name != "millstream-threads" || depth >= POOL_THREADS) {
                add_ours(&mut case, name, file, cell, &jobs);
            }
        }
        case.prepare(|| mode.make_ready(file));
        case.check(jobs.len() * size, |bytes, work| {
            let all = work.requests == jobs.len() as u64;
            ensure(all, "not every request ended")?;
            pages.check(&jobs, bytes)
        });
        session.run(case, &mut Destination::new(jobs.len() * size)?)?;
    }
    Ok(())
}

/// Adds the contenders of `cases.toml` that are no library: rings, and a pool of threads.
fn add_bare<'a>(
    case: &mut Case<'a>,
    instance: &Instance,
    file: &CorpusFile,
    cell: Cell,
    jobs: &'a [ReadJob],
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
            let (name, threads) = match cell.depth {
                1 => ("pread".into(), 1),
                _ => (format!("pread-{POOL_THREADS}"), POOL_THREADS),
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
