//! The rivals of a cell of requests: the bare ring, and threads in `pread`.

use std::os::fd::AsRawFd;

use crate::case::{Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::files::pread;
use crate::requests::cells::{Cell, Mode};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::together;

/// Requests that a thread takes at a time: enough that its lock is not contended, few enough
/// that no thread is left with a tail.
const TAKE_COUNT: usize = 4;

/// Variants of the ring that make sense in a cell, with whether they register file and
/// destination and whether they push every read off to a helper thread of the kernel: that pays
/// for large copies out of the cache only.
pub(super) fn ring_styles(cell: Cell) -> Vec<(&'static str, bool, bool)> {
    let mut styles = vec![("ring", true, false), ("ring-plain", false, false)];
    if cell.mode == Mode::Warm && cell.size >= 64 << 10 {
        styles.push(("ring-async", false, true));
    }
    styles
}

/// A bare ring.
pub(super) fn ring(
    (name, registered, offload): (&'static str, bool, bool),
    file: &CorpusFile,
    cell: Cell,
    jobs: &[ReadJob],
) -> Result<Contender> {
    let (fd, jobs) = (cell.mode.open(file)?, jobs.to_vec());
    let mut ring = BareRing::new(cell.depth)?;
    let flags = ring.flags();
    let style = ReadStyle {
        depth: cell.depth,
        registered,
        offload,
    };
    let contender = Contender::new(name, move |destination| {
        let span = ring.read_all(fd.as_raw_fd(), &jobs, destination, style)?;
        Ok(work_of(&jobs).took(span))
    });
    Ok(contender.with("flags", flags))
}

/// A pool of threads in `pread`: what most programs have. With one thread it is the plain
/// sequential reader.
pub(super) fn pread_pool(
    file: &CorpusFile,
    cell: Cell,
    jobs: &[ReadJob],
    threads: usize,
) -> Result<Contender> {
    let (fd, jobs) = (cell.mode.open(file)?, jobs.to_vec());
    let name = match threads {
        1 => "pread".into(),
        threads => format!("pread-{threads}"),
    };
    let contender = Contender::new(name, move |destination| {
        // Places follow each other in the order of the jobs, so pieces of the destination belong
        // to pieces of the list.
        let pieces = destination.chunks_mut(TAKE_COUNT * cell.size);
        let pieces = jobs.chunks(TAKE_COUNT).zip(pieces);
        let serve = |(): &mut (), (jobs, memory): (&[ReadJob], &mut [u8])| {
            let mut jobs = jobs.iter().zip(memory.chunks_mut(cell.size));
            jobs.try_for_each(|(job, into)| pread(&fd, into, job.offset))
        };
        let span = together::each(threads, pieces, || (), serve)?;
        Ok(work_of(&jobs).took(span))
    });
    Ok(contender.with("threads", threads))
}

/// The work of having read these.
pub(crate) fn work_of(jobs: &[ReadJob]) -> Work {
    Work::of(jobs.iter().map(|job| u64::from(job.len)).sum(), jobs.len())
}
