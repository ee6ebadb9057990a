//! What the cases of workload `requests` share: cells of the grid, the requests of a cell, and the
//! hashes that results are checked with.

use std::os::unix::fs::FileExt;
use std::path::Path;

use fastrand::Rng;
use millstream_peers::{Access, Plan, Read};
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::prelude::*;
use crate::stats;

/// Bytes of a page: the unit of hashes, and the smallest request.
pub(crate) const PAGE_BYTES: usize = 4096;

/// How the file is read, and its state in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Bypassing the page cache.
    Direct,
    /// Through the page cache, with no page of the file in it.
    Cold,
    /// Through the page cache, with the whole file in it.
    Warm,
}

impl Mode {
    /// Drops the file from the page cache if it must not be there. A warm file is read once, before
    /// the cases that find it warm.
    pub(crate) fn make_ready(self, file: &CorpusFile) -> Result<()> {
        match self {
            Mode::Warm => Ok(()),
            Mode::Direct | Mode::Cold => drop_path(&file.path),
        }
    }

    pub(crate) fn access(self) -> Access {
        match self {
            Mode::Direct => Access::Direct,
            Mode::Cold | Mode::Warm => Access::Buffered,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) mode: Mode,
    pub(crate) size: usize,
    pub(crate) depth: usize,
}

/// Returns up to `count` requests of `size` bytes at distinct offsets of a file, in random order,
/// with consecutive ranges in the destination.
pub(crate) fn random_reads(
    file: &CorpusFile,
    size: usize,
    count: usize,
    seed: u64,
) -> Result<Plan> {
    random_reads_below(file, file.stored_len, size, count, seed)
}

/// As [`random_reads`], in the first `end` bytes of the file.
pub(crate) fn random_reads_below(
    file: &CorpusFile,
    end: u64,
    size: usize,
    count: usize,
    seed: u64,
) -> Result<Plan> {
    let mut places: Vec<u64> = (0..end / size as u64).collect();
    Rng::with_seed(seed).shuffle(&mut places);
    let places = places.iter().take(count).enumerate();
    let read = |(index, place): (usize, &u64)| Read {
        file: 0,
        offset: place * size as u64,
        place: index * size,
        len: size as u32,
    };
    Ok(Plan::new(
        vec![file.path.clone()],
        places.map(read).collect(),
    )?)
}

/// XXH3-64 of every whole page of a file.
pub(crate) struct PageHashes(Vec<u64>);

impl PageHashes {
    pub(crate) fn of(path: &Path) -> Result<PageHashes> {
        let (file, pages) = (open_buffered(path)?, len_of(path)? / PAGE_BYTES as u64);
        let mut page = vec![0; PAGE_BYTES];
        let hash = |nth: u64| {
            let read = file.read_exact_at(&mut page, nth * PAGE_BYTES as u64);
            read.on("read", path)?;
            Ok(xxh3_64(&page))
        };
        Ok(PageHashes((0..pages).map(hash).collect::<Result<_>>()?))
    }

    pub(crate) fn check(&self, reads: &[Read], bytes: &[u8]) -> Result<()> {
        for read in reads {
            let first = read.offset as usize / PAGE_BYTES;
            let pages = bytes[read.range()].chunks_exact(PAGE_BYTES).enumerate();
            for (index, page) in pages {
                if self.0.get(first + index) != Some(&xxh3_64(page)) {
                    let at = read.offset + (index * PAGE_BYTES) as u64;
                    return Err(Error::new(format!("other bytes than the file has at {at}")));
                }
            }
        }
        Ok(())
    }
}

/// Figures of calls that held their caller for the given times: their sum and 99th percentile.
pub(crate) fn held(mut held_ns: Vec<u64>) -> Figures {
    let total = held_ns.iter().sum::<u64>() as f64 / 1e6;
    let p99 = stats::percentile(&mut held_ns, 0.99) as f64 / 1e3;
    let [all, one] = ["held ms", "held-p99 us"].map(Metric::of);
    vec![(all, total), (one, p99)]
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
        let corpus = crate::corpus::Corpus::open(Some(folder.path())).unwrap();
        let len = 64 * PAGE_BYTES as u64 + 100;
        let file = corpus.big(len, crate::corpus::Form::Stored).unwrap();
        let content = std::fs::read(&file.path).unwrap();
        let pages = PageHashes::of(&file.path).unwrap();
        let plan = random_reads(&file, 2 * PAGE_BYTES, 8, 1).unwrap();
        let mut offsets: Vec<u64> = plan.reads().iter().map(|read| read.offset).collect();
        offsets.sort_unstable();
        let apart = |pair: &[u64]| pair[1] - pair[0] >= 2 * PAGE_BYTES as u64;
        assert!(offsets.windows(2).all(apart));
        let mut bytes = vec![0; 16 * PAGE_BYTES];
        for read in plan.reads() {
            let source = &content[read.offset as usize..][..read.len as usize];
            bytes[read.range()].copy_from_slice(source);
        }
        pages.check(plan.reads(), &bytes).unwrap();
        bytes[5 * PAGE_BYTES + 17] ^= 1;
        assert!(pages.check(plan.reads(), &bytes).is_err());
    }
}
