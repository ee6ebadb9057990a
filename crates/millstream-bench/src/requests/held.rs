//! How long the caller is held: a hundred reads of 1 MiB added one by one, and thousands of opens;
//! both also on a busy machine, where a wake may preempt the caller.
//!
//! Only the calls that the caller's own thread makes count, not the time until the bytes are
//! there; but they are awaited and checked.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use super::ring_reads::open_for;
use super::{Mode, PageHashes, WORKLOAD, random_jobs};
use crate::busy::Hogs;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours;
use crate::read::open_buffered;
use crate::ring::{BareRing, ReadJob};
use crate::rows::Metric;
use crate::stats;
use crate::workload::{Field, Session};

/// All calls together.
pub(crate) const TOTAL: Metric = Metric::lower("held", "ms");
/// 99th percentile of one call.
pub(crate) const CALL_P99: Metric = Metric::lower("held-p99", "us");
/// Longest call.
pub(crate) const CALL_MAX: Metric = Metric::lower("held-max", "us");

/// Reads, in a quick run as well: the 99th percentile of fewer would be the longest.
const READS: usize = 100;
/// Bytes of each.
const READ_BYTES: usize = 1 << 20;

/// Figures of a list of calls.
pub(crate) fn figures(mut held_ns: Vec<u64>) -> Vec<(Metric, f64)> {
    let total = held_ns.iter().sum::<u64>() as f64 / 1e6;
    let p99 = stats::percentile(&mut held_ns, 0.99) as f64 / 1e3;
    let max = held_ns.last().copied().unwrap_or(0) as f64 / 1e3;
    vec![(TOTAL, total), (CALL_P99, p99), (CALL_MAX, max)]
}

/// The bare ring, submitted read by read.
struct RingHeld {
    fd: OwnedFd,
    ring: BareRing,
    jobs: Vec<ReadJob>,
    offload: bool,
}

impl Contender for RingHeld {
    fn name(&self) -> String {
        if self.offload { "ring-async" } else { "ring" }.into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let files = [self.fd.as_raw_fd()];
        let held = self
            .ring
            .submit_each(&files, &self.jobs, destination, self.offload)?;
        Ok(Work {
            requests: self.jobs.len() as u64,
            extra: figures(held),
            ..Work::default()
        })
    }
}

/// `open` of the standard library.
struct StdOpens(Vec<PathBuf>);

impl Contender for StdOpens {
    fn name(&self) -> String {
        "std".into()
    }

    fn run(&mut self, _destination: &mut Destination) -> Result<Work> {
        let mut held = Vec::with_capacity(self.0.len());
        for path in &self.0 {
            let start = Instant::now();
            let file = open_buffered(path)?;
            held.push(start.elapsed().as_nanos() as u64);
            // Closed at once, untimed: descriptors are few.
            drop(file);
        }
        Ok(Work {
            requests: self.0.len() as u64,
            extra: figures(held),
            ..Work::default()
        })
    }
}

/// How the name of a case on a busy machine ends.
pub(crate) const BUSY: &str = ", busy cores";

/// Modes of the cases of reads, and whether the machine is busy.
const CASES: [(Mode, bool); 3] = [(Mode::Cold, false), (Mode::Warm, false), (Mode::Cold, true)];

/// Names of all cases.
pub(super) fn case_names(quick: bool) -> Vec<String> {
    let reads = CASES.map(|(mode, busy)| case_name(mode, busy));
    let opens = [false, true].map(|busy| opens_name(quick, busy));
    reads.into_iter().chain(opens).collect()
}

/// Name of a case of reads.
fn case_name(mode: Mode, busy: bool) -> String {
    format!("held {READS} x 1M {}{}", mode.name(), suffix(busy))
}

/// Name of a case of opens.
fn opens_name(quick: bool, busy: bool) -> String {
    format!("held {} opens{}", opens_count(quick), suffix(busy))
}

fn suffix(busy: bool) -> &'static str {
    if busy { BUSY } else { "" }
}

fn opens_count(quick: bool) -> usize {
    if quick {
        limits::QUICK_SMALL_COUNT
    } else {
        limits::SMALL_COUNT
    }
}

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let count = READS;
    let jobs = random_jobs(file.stored_len, READ_BYTES, count, 3);
    let mut destination = Destination::new(count * READ_BYTES)?;
    for (mode, busy) in CASES {
        let name = case_name(mode, busy);
        if !session.wants(&name) {
            continue;
        }
        let mut field = Field::new(WORKLOAD, &name);
        for offload in [false, true] {
            let ring = BareRing::new(count).and_then(|ring| {
                Ok(RingHeld {
                    fd: open_for(file, mode)?,
                    ring,
                    jobs: jobs.clone(),
                    offload,
                })
            });
            field.try_add(if offload { "ring-async" } else { "ring" }, ring);
        }
        session.peers.held(&mut field, file, mode, &jobs);
        ours::held_contenders(&mut field, file, &jobs);
        let case = Case {
            workload: WORKLOAD,
            name,
            runs: session.runs(),
            warm_up: true,
            destination_len: jobs.len() * READ_BYTES,
            prepare: &|| match mode {
                Mode::Warm => cold::warm_path(&file.path),
                _ => cold::drop_path(&file.path),
            },
            check: &|bytes, _| pages.check(&jobs, bytes),
            figures: &|_, _| Vec::new(),
            limit_by: None,
        };
        session.keep(field.skipped)?;
        let _hogs = busy.then(Hogs::start).transpose()?;
        session.case(&case, field.contenders, &mut destination)?;
    }
    [false, true]
        .into_iter()
        .try_for_each(|busy| opens(session, busy))
}

fn opens(session: &mut Session<'_>, busy: bool) -> Result<()> {
    let name = opens_name(session.options.quick, busy);
    if !session.wants(&name) {
        return Ok(());
    }
    let count = opens_count(session.options.quick);
    let paths: Vec<PathBuf> = session
        .corpus
        .small(count)?
        .into_iter()
        .map(|file| file.path)
        .collect();
    let mut field = Field::new(WORKLOAD, &name);
    field.add(StdOpens(paths.clone()));
    ours::open_contenders(&mut field, &paths);
    let case = Case {
        workload: WORKLOAD,
        name,
        runs: session.runs(),
        warm_up: true,
        destination_len: 0,
        prepare: &|| Ok(()),
        check: &|_, work| {
            if work.requests == count as u64 {
                Ok(())
            } else {
                Err(crate::error::Error::new("not every file was opened"))
            }
        },
        figures: &|_, _| Vec::new(),
        limit_by: None,
    };
    session.keep(field.skipped)?;
    let _hogs = busy.then(Hogs::start).transpose()?;
    session.case(&case, field.contenders, &mut Destination::new(0)?)
}
