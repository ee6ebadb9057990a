//! The grid of cells, and heat maps: request size × depth, direct, cold and warm.
//!
//! All cells of one heat map share a case (`heat direct random`); their rows differ in the
//! parameters `size_bytes` and `depth`. A cell of a map reads as many requests as a bare ring reads
//! in a fixed short time, found by a trial; then contenders take turns on them as in every case.
//! The depth is a bound: a cell of 4 MiB × 256 has fewer requests than that, all handed over at
//! once. `ring` and `fio` show what the kernel and the device can, with registered memory; the rest
//! are libraries.

use millstream::Access;

use super::{ours, rivals};
use crate::case::Case;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Result, ensure};
use crate::limits;
use crate::memory::Destination;
use crate::requests::cells::{
    CPU, Cell, DEPTH_PARAM, IOPS, MODES, Mode, PREFIX, PageHashes, RATE, SIZE_PARAM, UNSEEN,
    WORKLOAD, random_jobs,
};
use crate::ring::ReadJob;
use crate::session::Session;
use crate::setup::Setup;

/// Seeds of the places of requests.
const GRID_SEED: u64 = 0x5EED;
const HEAT_SEED: u64 = 0x4EA7;
const GRID_SIZES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const GRID_DEPTHS: [usize; 4] = [1, 8, 32, 128];
/// In a quick run the corners that matter. Large requests fill a device at a small depth, and at
/// depth 1 only the round trip of a small one tells anything new.
const QUICK_GRID: [(usize, usize); 5] = [
    (4 << 10, 1),
    (4 << 10, 32),
    (4 << 10, 128),
    (64 << 10, 32),
    (1 << 20, 32),
];
const HEAT_SIZES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const HEAT_DEPTHS: [usize; 5] = [1, 4, 16, 64, 256];
const QUICK_HEAT_SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const QUICK_HEAT_DEPTHS: [usize; 3] = [1, 16, 256];

/// Every size at every depth.
fn product(sizes: &[usize], depths: &[usize]) -> Vec<(usize, usize)> {
    let sizes = sizes.iter();
    let cells = sizes.flat_map(|&size| depths.iter().map(move |&depth| (size, depth)));
    cells.collect()
}

/// Runs the grid. The warm cells come last, and then everything is in the cache.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let grid = match session.options.quick {
        true => QUICK_GRID.to_vec(),
        false => product(&GRID_SIZES, &GRID_DEPTHS),
    };
    for mode in MODES {
        if mode == Mode::Warm {
            cold::warm_path(&file.path)?;
        }
        for &(size, depth) in &grid {
            let cell = Cell { mode, size, depth };
            let Some(mut case) = session.begin(WORKLOAD, cell.name()) else {
                continue;
            };
            let count = requests_of_grid(cell, session.options.quick);
            let jobs = random_jobs(file.stored_len, size, count, GRID_SEED);
            for style in rivals::ring_styles(cell) {
                case.try_push(style.0, rivals::ring(style, file, cell, &jobs));
            }
            let threads = if depth == 1 { 1 } else { limits::POOL_THREADS };
            case.try_push("pread", rivals::pread_pool(file, cell, &jobs, threads));
            session.peers.cell(&mut case, file, cell, &jobs);
            let setup = ours::grid_setup(cell);
            let auto = Setup {
                access: Access::Auto,
                ..setup
            };
            let on_threads = Setup {
                threads: true,
                ..setup
            };
            case.push(ours::grid("millstream", file, &jobs, setup));
            case.push(ours::grid("millstream-auto", file, &jobs, auto));
            if depth >= limits::POOL_THREADS {
                case.push(ours::grid("millstream-threads", file, &jobs, on_threads));
            }
            case.figures(|span, work| {
                let count = work.requests as f64;
                vec![(IOPS, count / span.wall), (CPU, span.cpu * 1e6 / count)]
            });
            measure(session, case, file, pages, cell, &jobs)?;
        }
    }
    Ok(())
}

/// How many requests a cell of the grid has.
fn requests_of_grid(cell: Cell, quick: bool) -> usize {
    let (bytes_part, count_part, serial_max) = match quick {
        true => (
            limits::QUICK_CELL_BYTES_PART,
            limits::QUICK_CELL_REQUESTS_PART,
            limits::QUICK_CELL_REQUESTS_SERIAL_MAX,
        ),
        false => (1, 1, limits::CELL_REQUESTS_SERIAL_MAX),
    };
    let count_max = match cell.depth {
        1 => serial_max,
        _ => limits::CELL_REQUESTS_MAX / count_part,
    };
    let bytes_max = limits::CELL_BYTES_MAX / bytes_part;
    count_max.min(bytes_max as usize / cell.size)
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
        if work.digest == Some(UNSEEN) {
            return Ok(());
        }
        ensure(
            work.requests == jobs.len() as u64,
            "not every request ended",
        )?;
        pages.check(jobs, bytes)
    });
    case.with_limit();
    session.run(case, &mut destination).map(drop)
}

/// Runs the heat maps; warm ones last: then everything is in the cache.
pub(super) fn heat_maps(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    let quick = session.options.quick;
    let cells = match quick {
        true => product(&QUICK_HEAT_SIZES, &QUICK_HEAT_DEPTHS),
        false => product(&HEAT_SIZES, &HEAT_DEPTHS),
    };
    for mode in MODES {
        for random in [true, false] {
            let order = if random { "random" } else { "sequential" };
            let name = format!("{PREFIX}{} {order}", mode.name());
            let is_left_out = quick && (!random || mode == Mode::Cold);
            if is_left_out || session.begin(WORKLOAD, name.as_str()).is_none() {
                continue;
            }
            if mode == Mode::Warm {
                cold::warm_path(&file.path)?;
            }
            for &(size, depth) in &cells {
                let cell = Cell { mode, size, depth };
                heat_cell(session, &name, file, pages, cell, random)?;
            }
        }
    }
    Ok(())
}

fn heat_cell(
    session: &mut Session<'_>,
    name: &str,
    file: &CorpusFile,
    pages: &PageHashes,
    cell: Cell,
    random: bool,
) -> Result<()> {
    let seconds = session.size(limits::HEAT_SECONDS, limits::QUICK_HEAT_SECONDS);
    let count = requests_of_heat(seconds, random, cell, file)?;
    let jobs = heat_jobs(random, cell, file, count);
    let mut case = Case::new(WORKLOAD, name, session.runs().min(limits::HEAT_RUNS_MAX));
    let styles = rivals::ring_styles(cell).into_iter();
    for style in styles.filter(|(name, ..)| *name != "ring-plain") {
        case.try_push(style.0, rivals::ring(style, file, cell, &jobs));
    }
    let threads = cell.depth.min(limits::POOL_THREADS);
    case.try_push("pread", rivals::pread_pool(file, cell, &jobs, threads));
    session.peers.cell(&mut case, file, cell, &jobs);
    if !session.options.quick && cfg!(feature = "peers") {
        let count = jobs.len() as u64;
        session
            .peers
            .fio(&mut case, &file.path, cell, count, random);
    }
    let setup = ours::grid_setup(cell);
    case.push(ours::grid("millstream", file, &jobs, setup));
    let contenders = std::mem::take(&mut case.contenders).into_iter();
    let in_cell = contenders.map(|it| it.with(SIZE_PARAM, cell.size).with(DEPTH_PARAM, cell.depth));
    case.contenders = in_cell.collect();
    // A contender that cannot run in one cell can run in none: one row is enough.
    if (cell.size, cell.depth) != (HEAT_SIZES[0], HEAT_DEPTHS[0]) {
        case.skipped.clear();
    }
    case.figures(|span, work| {
        let count = work.requests as f64;
        vec![
            (RATE, work.bytes as f64 / 1e6 / span.wall),
            (IOPS, count / span.wall),
            (CPU, span.cpu * 1e6 / count),
        ]
    });
    measure(session, case, file, pages, cell, &jobs)
}

/// How many requests a bare ring reads in `seconds`.
fn requests_of_heat(seconds: f64, random: bool, cell: Cell, file: &CorpusFile) -> Result<usize> {
    let bytes_max = limits::CELL_BYTES_MAX.min(file.stored_len);
    let most = limits::CELL_REQUESTS_MAX.min(bytes_max as usize / cell.size);
    let trial = (cell.depth * 2).clamp(limits::HEAT_REQUESTS_MIN, most.max(1));
    let jobs = heat_jobs(random, cell, file, trial);
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    let threads = cell.depth.min(limits::POOL_THREADS);
    let mut contender = rivals::ring(("ring", true, false), file, cell, &jobs)
        .or_else(|_| rivals::pread_pool(file, cell, &jobs, threads))?;
    cell.mode.make_ready(file)?;
    let work = (contender.run)(&mut destination)?;
    let wall = work.span.map_or(seconds, |span| span.wall);
    let count = (seconds / wall * jobs.len() as f64) as usize;
    Ok(count.max(limits::HEAT_REQUESTS_MIN).min(most))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::cells::PAGE_BYTES;

    #[test]
    fn requests_lie_apart_and_a_wrong_page_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut content = vec![0; 64 * PAGE_BYTES + 100];
        crate::corpus::generate::fill(1, &mut content);
        std::fs::write(&path, &content).unwrap();
        let pages = PageHashes::of(&path).unwrap();
        let jobs = random_jobs(content.len() as u64, 2 * PAGE_BYTES, 8, 1);
        let mut offsets: Vec<u64> = jobs.iter().map(|job| job.offset).collect();
        offsets.sort_unstable();
        let apart = |pair: &[u64]| pair[1] - pair[0] >= 2 * PAGE_BYTES as u64;
        assert!(offsets.windows(2).all(apart));
        let mut bytes = vec![0; 16 * PAGE_BYTES];
        for job in &jobs {
            let source = &content[job.offset as usize..][..job.len as usize];
            bytes[job.range()].copy_from_slice(source);
        }
        pages.check(&jobs, &bytes).unwrap();
        bytes[5 * PAGE_BYTES + 17] ^= 1;
        assert!(pages.check(&jobs, &bytes).is_err());
    }
}
