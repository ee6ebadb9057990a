//! The order of writes and syncs, and the errors that syncs report: one for all handles of a path.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind};
use crate::ids::Id;

#[derive(Default)]
pub(super) struct Writes {
    /// Handles, and closes under way.
    pub(super) users: u32,
    /// Live writes per epoch; a sync ends an epoch and waits for it. Empty stands for one epoch
    /// without writes.
    epochs: VecDeque<u32>,
    base: u64,
    /// Syncs that wait for writes, by epoch.
    syncs: Vec<(u64, Id)>,
    /// The last errors of writes and closes, by number, with their epochs. Each handle remembers
    /// the first number since it was made, and the epoch from which on it has reported none.
    errors: VecDeque<(u64, Error)>,
    /// The number of the first of these.
    first: u64,
}

/// Errors that are kept for syncs to come.
const ERRORS_MAX: usize = 64;

impl Writes {
    fn last(&mut self) -> &mut u32 {
        if self.epochs.is_empty() {
            self.epochs.push_back(0);
        }
        self.epochs.back_mut().expect("there is an epoch")
    }

    /// Counts a write; returns its epoch.
    pub(super) fn arrived(&mut self) -> u64 {
        *self.last() += 1;
        self.base + self.epochs.len() as u64 - 1
    }

    /// Counts a write in an earlier epoch, for which a sync waits.
    pub(super) fn arrived_in(&mut self, epoch: u64) -> u64 {
        *self.live(epoch) += 1;
        epoch
    }

    fn live(&mut self, epoch: u64) -> &mut u32 {
        let place = usize::try_from(epoch - self.base).expect("an epoch lives with its writes");
        &mut self.epochs[place]
    }

    /// Ends an epoch; returns its number, for which a sync waits.
    pub(super) fn sync_arrived(&mut self) -> u64 {
        self.last();
        self.epochs.push_back(0);
        let epoch = self.base + self.epochs.len() as u64 - 2;
        self.pass();
        epoch
    }

    /// Drops the first epochs, if their writes have completed.
    fn pass(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.base += 1;
        }
    }

    /// Counts a completed write out; returns the syncs that are due.
    pub(super) fn completed(&mut self, epoch: u64, failure: Option<&Error>) -> Vec<Id> {
        if let Some(error) = failure
            && error.kind() != ErrorKind::Canceled
        {
            self.failed_in(epoch, error.clone());
        }
        *self.live(epoch) -= 1;
        let before = self.base;
        self.pass();
        if self.base == before {
            return Vec::new();
        }
        let passed = self.base;
        let due = self.syncs.extract_if(.., |(epoch, _)| *epoch < passed);
        due.map(|(_, id)| id).collect()
    }

    /// The epoch of what arrives now.
    fn current(&self) -> u64 {
        self.base + (self.epochs.len() as u64).saturating_sub(1)
    }

    /// A close has failed, which the next syncs report.
    pub(super) fn close_failed(&mut self, error: Error) {
        self.failed_in(self.current(), error);
    }

    fn failed_in(&mut self, epoch: u64, error: Error) {
        self.errors.push_back((epoch, error));
        if self.errors.len() > ERRORS_MAX {
            self.errors.pop_front();
            self.first += 1;
        }
    }

    /// The number of the next error.
    pub(super) fn next_error(&self) -> u64 {
        self.first + self.errors.len() as u64
    }

    /// The error that a sync of an epoch reports for a handle made before error number `since`,
    /// which has reported none of epochs from `from` on.
    pub(super) fn error(&self, since: u64, from: u64, epoch: u64) -> Option<Error> {
        let before = usize::try_from(since.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut errors = self.errors.iter().skip(before);
        let found = errors.find(|(own, _)| (from..=epoch).contains(own));
        found.map(|(_, error)| error.clone())
    }

    /// Whether all writes of epochs up to `epoch` have completed; if not, the sync is among those
    /// that wait for them.
    pub(super) fn has_passed(&mut self, epoch: u64, sync: Id) -> bool {
        let has_passed = epoch < self.base;
        if !has_passed {
            self.syncs.push((epoch, sync));
        }
        has_passed
    }
}
