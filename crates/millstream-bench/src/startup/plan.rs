//! What workload `startup` loads, and the contender that loads it with the standard library.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::open_buffered;
use crate::limits::CANCEL_ONE_IN;
use crate::memory::Destination;
use crate::requests::cells::HELD;
use crate::together;

/// Results lie at multiples of this in the destination, so that direct reads could land in place.
const PLACE_ALIGNMENT: usize = 4096;

/// The study's priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Min,
    Low,
    BelowNormal,
    Normal,
    High,
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

    pub(crate) fn new(files: Vec<CorpusFile>, seed: u64) -> Plan {
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

/// The standard library: one file after the other, or on several threads.
pub(crate) fn std_threads(plan: &Arc<Plan>, threads: usize) -> Contender {
    let plan = Arc::clone(plan);
    let name = match threads {
        1 => "std".into(),
        threads => format!("std-{threads}"),
    };
    Contender::new(name, move |destination: &mut Destination| {
        let places = places(&plan, destination).into_iter();
        let wanted = places.filter(|(entry, _)| !entry.canceled);
        let read = |(): &mut (), (entry, into): (&Entry, &mut [u8])| {
            let path = &entry.file.path;
            open_buffered(path)?.read_exact(into).on("read", path)
        };
        let span = together::each(threads, wanted, || (), read)?;
        Ok(Work {
            extra: vec![(HELD, span.wall * 1e3)],
            ..Work::of(0, plan.entries.len()).took(span)
        })
    })
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
