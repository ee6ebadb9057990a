//! What all cases of workload `requests` share: cells of the grid, the requests of a cell, and the
//! hashes by which results are checked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fastrand::Rng;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Figures, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::{drop_path, len_of, open_buffered, open_direct, warm_path};
use crate::metric::Metric;
use crate::ring::ReadJob;
use crate::stats;

/// Bytes of a page: the unit of hashes, and the smallest request.
pub(crate) const PAGE_BYTES: usize = 4096;

/// How the file is read, and in what state of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
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
            Mode::Direct | Mode::Cold => drop_path(&file.path),
        }
    }

    /// Brings the file into the state of the cache that the mode names.
    pub(crate) fn make_state(self, file: &CorpusFile) -> Result<()> {
        match self {
            Mode::Warm => warm_path(&file.path),
            Mode::Direct | Mode::Cold => drop_path(&file.path),
        }
    }

    /// Opens a file the way that the mode reads it.
    pub(crate) fn open(self, file: &CorpusFile) -> Result<File> {
        match self {
            Mode::Direct => open_direct(&file.path),
            Mode::Cold | Mode::Warm => open_buffered(&file.path),
        }
    }
}

/// One cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) mode: Mode,
    pub(crate) size: usize,
    pub(crate) depth: usize,
}

/// Up to `count` requests of `size` bytes at distinct places, in random order, results one after
/// the other.
pub(crate) fn random_jobs(file_len: u64, size: usize, count: usize, seed: u64) -> Vec<ReadJob> {
    let mut places: Vec<u64> = (0..file_len / size as u64).collect();
    Rng::with_seed(seed).shuffle(&mut places);
    let places = places.iter().take(count).enumerate();
    let job = |(index, place): (usize, &u64)| ReadJob::new(place * size as u64, index * size, size);
    places.map(job).collect()
}

/// The work of having read these.
pub(crate) fn work_of(jobs: &[ReadJob]) -> Work {
    Work::of(jobs.iter().map(|job| u64::from(job.len)).sum(), jobs.len())
}

/// XXH3-64 of every whole page of a file.
pub(crate) struct PageHashes(Vec<u64>);

impl PageHashes {
    pub(crate) fn of(path: &Path) -> Result<PageHashes> {
        let (file, pages) = (open_buffered(path)?, len_of(path)? / PAGE_BYTES as u64);
        let mut page = vec![0; PAGE_BYTES];
        let mut hash = |nth: u64| {
            let read = file.read_exact_at(&mut page, nth * PAGE_BYTES as u64);
            read.on("read", path)?;
            Ok(xxh3_64(&page))
        };
        (0..pages)
            .map(&mut hash)
            .collect::<Result<_>>()
            .map(PageHashes)
    }

    /// Checks results of page-aligned requests.
    pub(crate) fn check(&self, jobs: &[ReadJob], bytes: &[u8]) -> Result<()> {
        for job in jobs {
            let first = job.offset as usize / PAGE_BYTES;
            let pages = bytes[job.range()].chunks_exact(PAGE_BYTES).enumerate();
            for (index, page) in pages {
                if self.0.get(first + index) != Some(&xxh3_64(page)) {
                    let at = job.offset + (index * PAGE_BYTES) as u64;
                    return Err(Error::new(format!("other bytes than the file has at {at}")));
                }
            }
        }
        Ok(())
    }
}

/// Figures of calls that held their caller for so long: all together, the 99th percentile and the
/// longest.
pub(crate) fn held(mut held_ns: Vec<u64>) -> Figures {
    let total = held_ns.iter().sum::<u64>() as f64 / 1e6;
    let p99 = stats::percentile(&mut held_ns, 0.99) as f64 / 1e3;
    let max = held_ns.last().copied().unwrap_or(0) as f64 / 1e3;
    let [all, one, longest] = ["held ms", "held-p99 us", "held-max us"].map(Metric::of);
    vec![(all, total), (one, p99), (longest, max)]
}

/// Median and 99th percentile of times in nanoseconds, as figures in microseconds.
pub(crate) fn percentiles(metrics: [&'static str; 2], times_ns: &mut [u64]) -> Figures {
    let us = |quantile, times: &mut [u64]| stats::percentile(times, quantile) as f64 / 1e3;
    let [p50, p99] = metrics.map(Metric::of);
    vec![(p50, us(0.5, times_ns)), (p99, us(0.99, times_ns))]
}

#[cfg(test)]
mod tests {
    use super::*;

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
