//! How long the caller is held: a hundred reads of 1 MiB added one by one, and thousands of opens;
//! both also on a busy machine, where a wake may preempt the caller.
//!
//! Only the calls that the caller's own thread makes count, not the time until the bytes are
//! there; but they are awaited and checked.

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Instant;

use millstream::{FileOptions, Storage};

use super::ours::{Ready, read_of};
use crate::busy::Hogs;
use crate::case::Contender;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Result, ensure};
use crate::files::open_buffered;
use crate::lend::Loan;
use crate::limits;
use crate::memory::Destination;
use crate::requests::cells::{Mode, PageHashes, WORKLOAD, held_work, random_jobs};
use crate::ring::{BareRing, ReadJob};
use crate::session::Session;
use crate::setup::Setup;

/// Reads, in a quick run as well: the 99th percentile of fewer would be the longest.
const READS: usize = 100;
/// Bytes of each.
const READ_BYTES: usize = 1 << 20;
/// How the name of a case on a busy machine ends.
const BUSY: &str = ", busy cores";
/// Modes of the cases of reads, and how their names end.
const CASES: [(Mode, &str); 3] = [(Mode::Cold, ""), (Mode::Warm, ""), (Mode::Cold, BUSY)];

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let jobs = random_jobs(file.stored_len, READ_BYTES, READS, 3);
    let mut destination = Destination::new(READS * READ_BYTES)?;
    for (mode, suffix) in CASES {
        let name = format!("held {READS} x 1M {}{suffix}", mode.name());
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        for (name, offload) in [("ring", false), ("ring-async", true)] {
            case.try_push(name, ring(name, file, mode, &jobs, offload));
        }
        session.peers.held(&mut case, file, mode, &jobs);
        case.push(ours(file, &jobs));
        case.prepare(|| match mode {
            Mode::Warm => cold::warm_path(&file.path),
            _ => cold::drop_path(&file.path),
        });
        case.check(READS * READ_BYTES, |bytes, _| pages.check(&jobs, bytes));
        let _hogs = (suffix == BUSY).then(Hogs::start).transpose()?;
        session.run(case, &mut destination)?;
    }
    let count = session.size(limits::SMALL_COUNT, limits::QUICK_SMALL_COUNT);
    for suffix in ["", BUSY] {
        let name = format!("held {count} opens{suffix}");
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        let small = session.corpus.small(count)?;
        let paths: Vec<PathBuf> = small.into_iter().map(|file| file.path).collect();
        case.push(std_opens(paths.clone()));
        case.push(our_opens(paths));
        case.check(0, |_, work| {
            ensure(work.requests == count as u64, "not every file was opened")
        });
        let _hogs = (suffix == BUSY).then(Hogs::start).transpose()?;
        session.run(case, &mut destination)?;
    }
    Ok(())
}

/// The bare ring, submitted read by read.
fn ring(
    name: &str,
    file: &CorpusFile,
    mode: Mode,
    jobs: &[ReadJob],
    offload: bool,
) -> Result<Contender> {
    let (fd, jobs) = (mode.open(file)?, jobs.to_vec());
    let mut ring = BareRing::new(jobs.len())?;
    Ok(Contender::new(name, move |destination| {
        let held_ns = ring.submit_each(fd.as_raw_fd(), &jobs, destination, offload)?;
        Ok(held_work(held_ns, jobs.len()))
    }))
}

/// Reads added one by one, then submitted.
fn ours(file: &CorpusFile, jobs: &[ReadJob]) -> Contender {
    let (path, jobs) = (file.path.clone(), jobs.to_vec());
    let count = jobs.len();
    let make = move || Ready::new(&path, Setup::default(), false, count);
    let run = move |ready: &mut Ready, destination: &mut Destination| {
        let loan = Loan::new(destination, vec![ready.queue.clone()]);
        let mut batch = loan.batch(0);
        let mut held_ns = Vec::with_capacity(count + 1);
        for job in &jobs {
            let start = Instant::now();
            batch.detach(read_of(ready.file, job), job.range())?;
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        let start = Instant::now();
        batch.submit();
        held_ns.push(start.elapsed().as_nanos() as u64);
        drop(batch);
        loan.finish()?;
        Ok(held_work(held_ns, count))
    };
    Contender::prepared("millstream", make, run)
}

/// `open` of the standard library.
fn std_opens(paths: Vec<PathBuf>) -> Contender {
    Contender::new("std", move |_| {
        let mut held_ns = Vec::with_capacity(paths.len());
        for path in &paths {
            let start = Instant::now();
            let file = open_buffered(path)?;
            held_ns.push(start.elapsed().as_nanos() as u64);
            // Closed at once, untimed: descriptors are few.
            drop(file);
        }
        Ok(held_work(held_ns, paths.len()))
    })
}

fn our_opens(paths: Vec<PathBuf>) -> Contender {
    let make = || Setup::default().storage();
    let run = move |storage: &mut Storage, _: &mut Destination| {
        let mut held_ns = Vec::with_capacity(paths.len());
        let mut files = Vec::with_capacity(paths.len());
        for path in &paths {
            let start = Instant::now();
            files.push(storage.open(path, FileOptions::default()));
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        for file in &files {
            storage.opened(*file)?.wait()?;
        }
        Ok(held_work(held_ns, files.len()))
    };
    Contender::prepared("millstream", make, run)
}
