//! What all cases of workload `requests` share: cells of the grid, the requests of a cell, and the
//! hashes by which results are checked.

use std::os::fd::OwnedFd;
use std::path::Path;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Figures, Work};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::{open_buffered, open_direct, read_up_to};
use crate::ring::ReadJob;
use crate::rows::Metric;
use crate::stats;

pub(crate) const WORKLOAD: &str = "requests";
/// Requests completed by the wall.
pub(crate) const IOPS: Metric = Metric::higher("iops", "1/s");
/// Processor time of the whole process per request.
pub(crate) const CPU: Metric = Metric::lower("cpu", "us/request");
/// Bytes of a page: the unit of hashes, and the smallest request.
pub(crate) const PAGE_BYTES: usize = 4096;

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
    /// Drops the file from the cache where it must not be there.
    pub(crate) fn make_ready(self, file: &CorpusFile) -> Result<()> {
        match self {
            Mode::Warm => Ok(()),
            Mode::Direct | Mode::Cold => cold::drop_path(&file.path),
        }
    }

    /// Opens a file the way that the mode reads it.
    pub(crate) fn open(self, file: &CorpusFile) -> Result<OwnedFd> {
        match self {
            Mode::Direct => open_direct(&file.path),
            Mode::Cold | Mode::Warm => open_buffered(&file.path).map(OwnedFd::from),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Cold => "cold",
            Mode::Warm => "warm",
        }
    }
}

/// In this order: the warm cells come last, and then everything is in the cache.
pub(crate) const MODES: [Mode; 3] = [Mode::Direct, Mode::Cold, Mode::Warm];

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

/// Up to `count` requests of `size` bytes at distinct places, in random order, results one after
/// the other.
pub(crate) fn random_jobs(file_len: u64, size: usize, count: usize, seed: u64) -> Vec<ReadJob> {
    let mut places: Vec<u64> = (0..file_len / size as u64).collect();
    Rng::with_seed(seed).shuffle(&mut places);
    places.truncate(count);
    places
        .iter()
        .enumerate()
        .map(|(index, place)| ReadJob::new(place * size as u64, index * size, size))
        .collect()
}

/// XXH3-64 of every whole page of a file.
#[derive(Clone)]
pub(crate) struct PageHashes(Vec<u64>);

impl PageHashes {
    pub(crate) fn of(path: &Path) -> Result<PageHashes> {
        let mut file = open_buffered(path)?;
        let mut piece = vec![0; 256 * PAGE_BYTES];
        let mut hashes = Vec::new();
        loop {
            let filled = read_up_to(&mut file, &mut piece).on("read", path)?;
            hashes.extend(piece[..filled].chunks_exact(PAGE_BYTES).map(xxh3_64));
            if filled < piece.len() {
                return Ok(PageHashes(hashes));
            }
        }
    }

    /// Checks results of page-aligned requests.
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

/// All calls that hold their caller together.
pub(crate) const HELD: Metric = Metric::lower("held", "ms");
/// 99th percentile of one call.
const CALL_P99: Metric = Metric::lower("held-p99", "us");
/// Longest call.
const CALL_MAX: Metric = Metric::lower("held-max", "us");

/// Figures of calls that held their caller for so long.
pub(crate) fn held(mut held_ns: Vec<u64>) -> Figures {
    let total = held_ns.iter().sum::<u64>() as f64 / 1e6;
    let p99 = stats::percentile(&mut held_ns, 0.99) as f64 / 1e3;
    let max = held_ns.last().copied().unwrap_or(0) as f64 / 1e3;
    vec![(HELD, total), (CALL_P99, p99), (CALL_MAX, max)]
}

/// The work of a contender whose calls took these times.
pub(crate) fn held_work(held_ns: Vec<u64>, requests: usize) -> Work {
    Work {
        extra: held(held_ns),
        ..Work::of(0, requests)
    }
}

/// Median and 99th percentile of times in nanoseconds, as figures in microseconds.
pub(crate) fn percentiles(p50: Metric, p99: Metric, times_ns: &mut [u64]) -> Figures {
    let us = |quantile, times: &mut [u64]| stats::percentile(times, quantile) as f64 / 1e3;
    vec![(p50, us(0.5, times_ns)), (p99, us(0.99, times_ns))]
}

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
