//! Workload `requests`: many small requests. A grid of size × depth × (direct, cold, warm), the
//! time of a single request, realtime readers beside bulk, the frame thread of a busy machine, and
//! how long the caller is held.
//!
//! Every request of a cell has a place of its own in the file and in the destination, so that
//! every one can be checked: by the hashes of the file's pages. Depth is the number of reads in
//! flight at the device; everyone has all requests of the cell at hand.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::cold;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::Case;
use crate::memory::Destination;
use crate::ring::ReadJob;
use crate::rows::Metric;
use crate::workload::{Field, Session};
use crate::{engine, ours};

pub(crate) mod frame;
pub(crate) mod heat;
pub(crate) mod held;
pub(crate) mod latency;
mod pool;
pub(crate) mod realtime;
mod ring_reads;
pub(crate) mod scale;
mod staging;

pub(crate) const WORKLOAD: &str = "requests";
/// Requests completed by the wall.
pub(crate) const IOPS: Metric = Metric::higher("iops", "1/s");
/// Processor time of the whole process per request.
pub(crate) const CPU: Metric = Metric::lower("cpu", "us/request");

/// Bytes of a page: the unit of hashes, and the smallest request.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Seed of the order of requests.
const ORDER_SEED: u64 = 0x5EED;

/// How the file is read, and in what state of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Past the cache.
    Direct,
    /// Through the cache, which has none of it.
    Cold,
    /// Through the cache, which has all of it.
    Warm,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Cold => "cold",
            Mode::Warm => "warm",
        }
    }
}

/// In this order: the warm cells come last, and then everything is in the cache.
const MODES: [Mode; 3] = [Mode::Direct, Mode::Cold, Mode::Warm];

/// One cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) mode: Mode,
    pub(crate) size: usize,
    pub(crate) depth: usize,
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        format!(
            "{} {} depth {}",
            self.mode.name(),
            size_name(self.size),
            self.depth
        )
    }
}

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    engine::run(session)?;
    scale::run(session)?;
    staging::run(session)?;
    if !case_names(session.options.quick)
        .iter()
        .any(|name| session.wants(name))
    {
        return Ok(());
    }
    let len = session.size(limits::RANDOM_BYTES, limits::QUICK_RANDOM_BYTES);
    session.say("corpus: a file for random reads");
    let file = session.corpus.big(len, Form::Stored)?;
    let pages = PageHashes::of(&file.path)?;
    for mode in MODES {
        if mode == Mode::Warm {
            cold::warm_path(&file.path)?;
        }
        for (size, depth) in grid(session.options.quick) {
            let it = Cell { mode, size, depth };
            if session.wants(&it.name()) {
                cell(session, it, &file, &pages)?;
            }
        }
    }
    heat::run(session, &file, &pages)?;
    latency::run(session, &file, &pages)?;
    realtime::run(session, &file, &pages)?;
    frame::run(session, &file, &pages)?;
    held::run(session, &file, &pages)
}

/// Names of all cases that read the file.
fn case_names(quick: bool) -> Vec<String> {
    let cells = MODES.into_iter().flat_map(|mode| {
        let named = move |(size, depth)| Cell { mode, size, depth }.name();
        grid(quick).into_iter().map(named)
    });
    let mut names: Vec<String> = cells.collect();
    names.extend(MODES.map(latency::case_name));
    names.extend(held::case_names(quick));
    names.extend(heat::case_names(quick));
    names.push(realtime::CASE.into());
    names.push(frame::CASE.into());
    names
}

/// Sizes and depths.
fn grid(quick: bool) -> Vec<(usize, usize)> {
    let (sizes, depths): (&[usize], &[usize]) = if quick {
        (&[4 << 10, 64 << 10, 1 << 20], &[1, 32, 128])
    } else {
        let sizes = &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        (sizes, &[1, 8, 32, 128])
    };
    let mut cells = Vec::new();
    for size in sizes {
        for depth in depths {
            // Quick: the corners that matter. Large requests fill a device at a small depth, and
            // at depth 1 only the round trip of a small one tells anything new.
            let dull =
                quick && ((*size > 4 << 10 && *depth != 32) || (*size >= 1 << 20 && *depth > 32));
            if !dull {
                cells.push((*size, *depth));
            }
        }
    }
    cells
}

fn cell(
    session: &mut Session<'_>,
    cell: Cell,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    let jobs = jobs_of(cell, file.stored_len, session.options.quick);
    let mut destination = Destination::new(jobs.len() * cell.size)?;
    let name = cell.name();
    let mut field = Field::new(WORKLOAD, &name);
    for style in ring_reads::Style::of(cell) {
        let ring = ring_reads::RingReads::new(file, cell, &jobs, style);
        field.try_add(style.name(), ring);
    }
    let threads = if cell.depth == 1 {
        1
    } else {
        limits::POOL_THREADS
    };
    field.try_add("pread", pool::PreadPool::new(file, cell, &jobs, threads));
    session.peers.cell(&mut field, file, cell, &jobs);
    ours::request_contenders(&mut field, file, cell, &jobs);
    let case = Case {
        workload: WORKLOAD,
        name,
        runs: session.runs(),
        warm_up: true,
        destination_len: jobs.len() * cell.size,
        prepare: &|| match cell.mode {
            Mode::Warm => Ok(()),
            Mode::Direct | Mode::Cold => cold::drop_path(&file.path),
        },
        check: &|bytes, work| {
            if work.requests != jobs.len() as u64 {
                return Err(Error::new(format!(
                    "{} of {} requests",
                    work.requests,
                    jobs.len()
                )));
            }
            pages.check(&jobs, bytes)
        },
        figures: &|span, work| {
            let count = work.requests as f64;
            vec![(IOPS, count / span.wall), (CPU, span.cpu * 1e6 / count)]
        },
        limit_by: Some(IOPS),
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, &mut destination)
}

/// The requests of a cell: distinct aligned places of the file in random order.
fn jobs_of(cell: Cell, file_len: u64, quick: bool) -> Vec<ReadJob> {
    let (bytes_max, mut count_max) = if quick {
        (limits::CELL_BYTES_MAX / 8, limits::CELL_REQUESTS_MAX / 4)
    } else {
        (limits::CELL_BYTES_MAX, limits::CELL_REQUESTS_MAX)
    };
    if cell.depth == 1 {
        count_max = count_max.min(limits::CELL_REQUESTS_SERIAL_MAX);
    }
    let count = (bytes_max / cell.size as u64).min(count_max as u64) as usize;
    random_jobs(file_len, cell.size, count, ORDER_SEED)
}

/// Up to `count` requests of `size` bytes at distinct places, in random order, results one after
/// the other.
pub(crate) fn random_jobs(file_len: u64, size: usize, count: usize, seed: u64) -> Vec<ReadJob> {
    let mut places: Vec<u64> = (0..file_len / size as u64).collect();
    Rng::with_seed(seed).shuffle(&mut places);
    places.truncate(count);
    places
        .iter()
        .enumerate()
        .map(|(index, place)| ReadJob {
            file: 0,
            offset: place * size as u64,
            place: index * size,
            len: size as u32,
            need: size as u32,
        })
        .collect()
}

/// XXH3-64 of every whole page of a file.
#[derive(Clone)]
pub(crate) struct PageHashes(Vec<u64>);

impl PageHashes {
    fn of(path: &Path) -> Result<PageHashes> {
        let mut file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        let mut piece = vec![0; 256 * PAGE_BYTES];
        let mut hashes = Vec::new();
        loop {
            let mut filled = 0;
            while filled < piece.len() {
                match file.read(&mut piece[filled..]) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::file("read", path, error)),
                }
            }
            hashes.extend(piece[..filled].chunks_exact(PAGE_BYTES).map(xxh3_64));
            if filled < piece.len() {
                return Ok(PageHashes(hashes));
            }
        }
    }

    /// Checks results of page-aligned requests.
    ///
    /// # Errors
    /// A page has other bytes.
    pub(crate) fn check(&self, jobs: &[ReadJob], bytes: &[u8]) -> Result<()> {
        for job in jobs {
            let result = &bytes[job.range()];
            let first = job.offset as usize / PAGE_BYTES;
            for (index, page) in result.chunks_exact(PAGE_BYTES).enumerate() {
                if self.0.get(first + index) != Some(&xxh3_64(page)) {
                    let at = job.offset + (index * PAGE_BYTES) as u64;
                    return Err(Error::new(format!("other bytes than the file has at {at}")));
                }
            }
        }
        Ok(())
    }
}

/// A request's size as a case names it.
pub(crate) fn size_name(size: usize) -> String {
    if size.is_multiple_of(1 << 20) {
        format!("{}M", size >> 20)
    } else {
        format!("{}K", size >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lie_apart_in_the_file_and_in_the_destination() {
        for (size, count) in [(4096, 1000), (65_536, 100), (1 << 20, 7)] {
            let len = 8 << 20;
            let jobs = random_jobs(len, size, count, 9);
            assert_eq!(jobs.len(), count.min(len as usize / size));
            let mut offsets: Vec<u64> = jobs.iter().map(|job| job.offset).collect();
            offsets.sort_unstable();
            assert!(
                offsets
                    .windows(2)
                    .all(|pair| pair[1] - pair[0] >= size as u64)
            );
            assert!(offsets.iter().all(|offset| offset + size as u64 <= len));
            let places: Vec<usize> = jobs.iter().map(|job| job.place).collect();
            assert!(
                places
                    .iter()
                    .enumerate()
                    .all(|(index, place)| *place == index * size)
            );
        }
    }

    #[test]
    fn a_wrong_page_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut content = vec![0; 64 * PAGE_BYTES + 100];
        crate::corpus::generate::fill(1, &mut content);
        std::fs::write(&path, &content).unwrap();
        let pages = PageHashes::of(&path).unwrap();
        let jobs = random_jobs(content.len() as u64, 2 * PAGE_BYTES, 8, 1);
        let mut bytes = vec![0; 16 * PAGE_BYTES];
        for job in &jobs {
            let source = job.offset as usize;
            let len = job.len as usize;
            bytes[job.place..job.place + len].copy_from_slice(&content[source..source + len]);
        }
        pages.check(&jobs, &bytes).unwrap();
        bytes[5 * PAGE_BYTES + 17] ^= 1;
        assert!(pages.check(&jobs, &bytes).is_err());
    }

    #[test]
    fn the_quick_grid_has_the_corners_that_goals_are_about() {
        let quick = grid(true);
        for corner in [(4 << 10, 1), (4 << 10, 32), (4 << 10, 128), (1 << 20, 32)] {
            assert!(quick.contains(&corner) && grid(false).contains(&corner));
        }
    }
}
