//! Workload `startup`: thousands of small files before the first frame.
//!
//! Four threads queue whole-file requests of mixed priorities; one in [`CANCEL_ONE_IN`] is
//! canceled right after it was queued. The case ends when every request that was not canceled
//! has its bytes. (One that was canceled may have been served before; its bytes are not checked.)
//! Contenders without a queue read the same files and leave out the canceled ones. `held` is the
//! time that the queuing threads spend inside calls; for who has no queue, all of it.
//!
//! The lookups alone, without a read, are a case of their own: what finding a handle by its name
//! costs in the three ways.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::limits::{self, CANCEL_ONE_IN};
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours;
use crate::requests::held;
use crate::rows::Metric;
use crate::together;
use crate::workload::{Field, Session};

mod lookup;
mod ring_files;
mod study;

pub(crate) const WORKLOAD: &str = "startup";
/// From the first request queued to the last one served.
pub(crate) const TOTAL: Metric = Metric::lower("total", "ms");
/// Processor time of the whole process per file.
pub(crate) const CPU: Metric = Metric::lower("cpu", "us/file");

/// Results lie at multiples of this in the destination, so that direct reads could land in place.
const PLACE_ALIGNMENT: usize = 4096;

/// The study's priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Last.
    Min,
    /// Low.
    Low,
    /// Below normal.
    BelowNormal,
    /// Most requests.
    Normal,
    /// High.
    High,
    /// First.
    Max,
}

const PRIORITIES: [Priority; 6] = [
    Priority::Min,
    Priority::Low,
    Priority::BelowNormal,
    Priority::Normal,
    Priority::High,
    Priority::Max,
];

/// One request of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The whole of this file is read.
    pub(crate) file: CorpusFile,
    /// To here.
    pub(crate) place: Range<usize>,
    /// How urgent.
    pub(crate) priority: Priority,
    /// Whether it is canceled right after it was queued.
    pub(crate) canceled: bool,
}

/// Everything that is requested, the same for everyone.
pub(crate) struct Plan {
    /// The requests, in the order of their index.
    pub(crate) entries: Vec<Entry>,
    /// Bytes of the destination.
    pub(crate) destination_len: usize,
}

impl Plan {
    /// Every file once, at the same priority, none canceled.
    pub(crate) fn of_all(files: Vec<CorpusFile>) -> Plan {
        let mut plan = Plan::new(files, 0);
        for entry in &mut plan.entries {
            entry.priority = Priority::Normal;
            entry.canceled = false;
        }
        plan
    }

    fn new(files: Vec<CorpusFile>, seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let mut at = 0;
        let entries = files
            .into_iter()
            .enumerate()
            .map(|(index, file)| {
                let place = at..at + file.raw_len as usize;
                at = place.end.next_multiple_of(PLACE_ALIGNMENT);
                Entry {
                    file,
                    place,
                    priority: PRIORITIES[rng.usize(..PRIORITIES.len())],
                    canceled: index % CANCEL_ONE_IN == CANCEL_ONE_IN - 1,
                }
            })
            .collect();
        Plan {
            entries,
            destination_len: at,
        }
    }

    /// The requests of queuing thread `thread` of `threads`: every so many-th, as systems of an
    /// engine would interleave.
    pub(crate) fn share(&self, thread: usize, threads: usize) -> impl Iterator<Item = usize> {
        (thread..self.entries.len()).step_by(threads)
    }

    /// Requests that must be served.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.canceled)
    }

    /// That everything wanted has come.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<()> {
        for entry in self.wanted() {
            if xxh3_64(&bytes[entry.place.clone()]) != entry.file.raw_xxh3 {
                let path = entry.file.path.display();
                return Err(Error::new(format!("other bytes than {path} has")));
            }
        }
        Ok(())
    }
}

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let count = session.size(limits::SMALL_COUNT, limits::QUICK_SMALL_COUNT);
    session.say("corpus: small files");
    let plan = Plan::new(session.corpus.small(count)?, 0xF11E);
    let mut destination = Destination::new(plan.destination_len)?;
    let plan = std::sync::Arc::new(plan);
    for cold in [true, false] {
        let name = format!("{count} files {}", if cold { "cold" } else { "warm" });
        if !session.wants(&name) {
            continue;
        }
        let mut field = Field::new(WORKLOAD, &name);
        field.add(Std {
            plan: plan.clone(),
            threads: 1,
        });
        field.add(Std {
            plan: plan.clone(),
            threads: limits::POOL_THREADS,
        });
        field.try_add("ring", ring_files::RingFiles::new(&plan));
        field.try_add("study", study::Study::as_it_was(&plan));
        field.try_add("study-cured", study::Study::cured(&plan));
        session.peers.startup(&mut field, &plan);
        ours::startup_contenders(&mut field, &plan);
        let case = Case {
            workload: WORKLOAD,
            name,
            runs: session.runs(),
            warm_up: true,
            destination_len: plan.destination_len,
            prepare: &|| {
                let all = plan.entries.iter().map(|entry| &entry.file.path);
                if cold {
                    all.into_iter().try_for_each(|path| cold::drop_path(path))
                } else {
                    all.into_iter().try_for_each(|path| cold::warm_path(path))
                }
            },
            check: &|bytes, work| {
                if work.requests != plan.entries.len() as u64 {
                    return Err(Error::new("not every request ended"));
                }
                plan.check(bytes)
            },
            figures: &|span, work| {
                let count = work.requests as f64;
                vec![(TOTAL, span.wall * 1e3), (CPU, span.cpu * 1e6 / count)]
            },
            limit_by: Some(TOTAL),
        };
        session.keep(field.skipped)?;
        session.case(&case, field.contenders, &mut destination)?;
    }
    if session.wants(lookup::CASE) {
        session.say(&format!("{WORKLOAD}: {}", lookup::CASE));
        let rows = lookup::run(&plan, session.runs());
        session.keep(rows)?;
    }
    Ok(())
}

/// Reads a file of known length.
fn read_whole(entry: &Entry, into: &mut [u8]) -> Result<()> {
    let path = &entry.file.path;
    let mut file = File::open(path).map_err(|error| Error::file("open", path, error))?;
    file.read_exact(into)
        .map_err(|error| Error::file("read", path, error))
}

/// The standard library: one file after the other, or on several threads.
pub(crate) struct Std {
    pub(crate) plan: std::sync::Arc<Plan>,
    pub(crate) threads: usize,
}

impl Contender for Std {
    fn name(&self) -> String {
        match self.threads {
            1 => "std".into(),
            threads => format!("std-{threads}"),
        }
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let pieces: Vec<Mutex<(&Entry, &mut [u8])>> = places(&self.plan, destination)
            .into_iter()
            .filter(|(entry, _)| !entry.canceled)
            .map(Mutex::new)
            .collect();
        let next = AtomicUsize::new(0);
        let serve = || -> Result<()> {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                // Nobody else ever takes this piece; the lock only hands it over.
                let mut piece = piece.lock().unwrap_or_else(|poison| poison.into_inner());
                let (entry, into) = &mut *piece;
                read_whole(entry, into)?;
            }
            Ok(())
        };
        let span = together::timed(self.threads, &serve)?;
        Ok(Work {
            requests: self.plan.entries.len() as u64,
            span: Some(span),
            extra: vec![(held::TOTAL, span.wall * 1e3)],
            ..Work::default()
        })
    }
}

/// Every request with its part of the destination.
fn places<'a>(plan: &'a Plan, destination: &'a mut [u8]) -> Vec<(&'a Entry, &'a mut [u8])> {
    let mut rest = destination;
    let mut at = 0;
    plan.entries
        .iter()
        .map(|entry| {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut(entry.place.start - at);
            let (place, tail) = tail.split_at_mut(entry.place.len());
            at = entry.place.end;
            rest = tail;
            (entry, place)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;
    use std::sync::Arc;

    fn plan(folder: &std::path::Path, count: usize) -> Arc<Plan> {
        let files = Corpus::open(Some(folder)).unwrap().small(count).unwrap();
        Arc::new(Plan::new(files, 1))
    }

    #[test]
    fn every_contender_delivers_every_file_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), 130);
        assert_eq!(plan.wanted().count(), 128);
        let mut field = Field::new(WORKLOAD, "test");
        for threads in [1, 3] {
            field.add(Std {
                plan: plan.clone(),
                threads,
            });
        }
        field.try_add("ring", ring_files::RingFiles::new(&plan));
        field.try_add("study", study::Study::as_it_was(&plan));
        field.try_add("study-cured", study::Study::cured(&plan));
        ours::startup_contenders(&mut field, &plan);
        for row in &field.skipped {
            println!("SKIP: {row:?}");
        }
        let mut destination = Destination::new(plan.destination_len).unwrap();
        for mut contender in field.contenders {
            for _ in 0..2 {
                destination.poison();
                contender.prepare().unwrap();
                let work = contender.run(&mut destination).unwrap();
                plan.check(&destination)
                    .unwrap_or_else(|error| panic!("{}: {error}", contender.name()));
                assert_eq!(work.requests, 130);
            }
        }
    }

    #[test]
    fn a_missing_file_is_an_error_of_every_contender_and_no_hang() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), 70);
        std::fs::remove_file(&plan.entries[5].file.path).unwrap();
        let mut destination = Destination::new(plan.destination_len).unwrap();
        let mut contenders: Vec<Box<dyn Contender>> = vec![
            Box::new(Std {
                plan: plan.clone(),
                threads: 1,
            }),
            Box::new(Std {
                plan: plan.clone(),
                threads: 4,
            }),
        ];
        if let Ok(study) = study::Study::as_it_was(&plan) {
            contenders.push(Box::new(study));
        }
        match ring_files::RingFiles::new(&plan) {
            Ok(ring) => contenders.push(Box::new(ring)),
            Err(error) => println!("SKIP: {error}"),
        }
        let mut field = Field::new(WORKLOAD, "test");
        ours::startup_contenders(&mut field, &plan);
        contenders.extend(field.contenders);
        for mut contender in contenders {
            contender.prepare().unwrap();
            assert!(
                contender.run(&mut destination).is_err(),
                "{}",
                contender.name()
            );
        }
    }

    #[test]
    fn shares_of_the_threads_make_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), 13);
        let mut all: Vec<usize> = (0..4).flat_map(|thread| plan.share(thread, 4)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..13).collect::<Vec<_>>());
    }
}
