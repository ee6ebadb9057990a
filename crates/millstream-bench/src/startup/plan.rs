//! The plan of requests of workload `startup`.

use std::ops::Range;
use std::path::PathBuf;

use fastrand::Rng;
use millstream::Priority as P;

use crate::prelude::*;

/// Results are at multiples of this in the destination, so that direct reads can land in place.
const PLACE_ALIGNMENT: usize = 4096;

/// The study's priorities: min, low, below normal, normal, high, max.
pub(crate) type Priority = usize;
/// The engine's priority for each of the study's.
pub(crate) const PRIORITIES: [P; 6] = [P::Low, P::Low, P::Normal, P::Normal, P::High, P::Realtime];
const NORMAL: Priority = 3;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) index: usize,
    pub(crate) file: CorpusFile,
    pub(crate) place: Range<usize>,
    pub(crate) priority: Priority,
    /// Whether it is canceled right after it is queued.
    pub(crate) canceled: bool,
}

pub(crate) struct Plan {
    pub(crate) entries: Vec<Entry>,
    pub(crate) destination_len: usize,
}

impl Plan {
    /// Creates a plan with every file once, at the same priority, none canceled.
    pub(crate) fn of_all(files: Vec<CorpusFile>) -> Plan {
        let mut plan = Plan::new(files, 0);
        for entry in &mut plan.entries {
            entry.priority = NORMAL;
            entry.canceled = false;
        }
        plan
    }

    pub(crate) fn new(files: Vec<CorpusFile>, seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let mut at = 0;
        let entry = |(index, file): (usize, CorpusFile)| {
            let place = at..at + file.raw_len as usize;
            at = place.end.next_multiple_of(PLACE_ALIGNMENT);
            Entry {
                index,
                file,
                place,
                priority: rng.usize(..PRIORITIES.len()),
                canceled: index % CANCEL_ONE_IN == CANCEL_ONE_IN - 1,
            }
        };
        let entries = files.into_iter().enumerate().map(entry).collect();
        Plan {
            entries,
            destination_len: at,
        }
    }

    /// Returns the requests of a queuing thread: every [`SUBMIT_THREADS`]th, as the systems of a
    /// game would interleave.
    pub(crate) fn share(&self, thread: usize) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip(thread).step_by(SUBMIT_THREADS)
    }

    pub(crate) fn wanted(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.canceled)
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let paths = self.entries.iter().map(|entry| entry.file.path.clone());
        paths.collect()
    }

    pub(crate) fn check(&self, bytes: &[u8]) -> Result<()> {
        let mut wanted = self.wanted();
        wanted.try_for_each(|entry| entry.file.check(&bytes[entry.place.clone()]))
    }
}
