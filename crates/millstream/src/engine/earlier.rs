//! Syncs and closes come after what was submitted before them, by whatever queue.
//!
//! Queues hand their parcels over apart, and those of high priority are taken in first. So before a
//! parcel with a sync or a close is taken in, all queues are looked at once more: what was
//! submitted before is in their backlogs then, as a submission leaves its parcel with its queue
//! before it returns; the numbers of parcels tell it from what was submitted later. (The list of
//! queues with new parcels is not enough: a queue may be about to be put there by the thread that
//! submitted first.) A barrier remembers how far each backlog reaches. Until all of that has been
//! taken in, it counts as one more request of its file, and as one more write of the sync's epoch.
//! Writes before the barrier belong to that epoch, and requests before it find a closing file open;
//! neither holds for what was submitted later.

use super::{Engine, What};
use crate::ids::FileId;

/// What waits for earlier entries to be taken in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    /// Syncs of an epoch of a file.
    Sync(FileId, u64),
    Close(FileId),
}

/// An entry of a queue, and how far other queues must have been taken in.
pub(super) struct Barrier {
    later: Later,
    /// Queues, with the sequence number after their last entry.
    until: Vec<(u32, u64)>,
}

impl Barrier {
    fn is_behind(&self, queue: u32, sequence: u64) -> bool {
        let mut until = self.until.iter();
        until.any(|(other, end)| *other == queue && sequence < *end)
    }
}

impl Engine {
    /// Moves everything that was submitted so far into the backlogs of queues, and notes how far
    /// those of queues other than `but` reach that precede a parcel with this number. Called before
    /// a parcel with a sync or a close is taken in, and never while a request is.
    pub(super) fn take_all_parcels(&mut self, but: u32, number: u64) {
        self.take_mail();
        for queue in 0..self.queues.len() {
            if let Some(state) = self.queues.get(queue) {
                let wishes = state.take();
                self.wishes.push((queue, wishes));
            }
        }
        // A parcel that was handed over after the mail was taken may name a file that was announced
        // in between.
        self.take_letters();
        self.grant_all();
        self.ends_before = self.queues.backlog_ends(but, number);
    }

    /// A sync of a file was taken in; returns its epoch.
    pub(super) fn sync_arrived(&mut self, file: FileId) -> u64 {
        let (until, index) = (self.ends_before.clone(), file.0.index());
        if until.is_empty() {
            return self.files.sync_arrived(index);
        }
        self.files.at(index).hold();
        self.files.write_arrived(index, None);
        let epoch = self.files.sync_arrived(index);
        let later = Later::Sync(file, epoch);
        self.barriers.push(Barrier { later, until });
        epoch
    }

    /// The close of a file was taken in: later requests are stale.
    pub(super) fn close_arrived(&mut self, file: FileId) {
        let until = self.ends_before.clone();
        let Some(entry) = self.files.get(file) else {
            return;
        };
        entry.closing = true;
        if !until.is_empty() {
            entry.hold();
            let later = Later::Close(file);
            self.barriers.push(Barrier { later, until });
        }
    }

    /// The epoch of a write that was taken in.
    pub(super) fn write_arrived(&mut self, file: FileId, queue: u32, sequence: u64) -> u64 {
        let (index, files) = (file.0.index(), &mut self.files);
        let mut barriers = self.barriers.iter();
        let earlier = barriers.find_map(|barrier| match barrier.later {
            Later::Sync(of, epoch) if barrier.is_behind(queue, sequence) => {
                files.share_writes(of.0.index(), index).then_some(epoch)
            }
            _ => None,
        });
        files.write_arrived(index, earlier)
    }

    /// Whether an entry was submitted before the close of its file that was taken in already.
    pub(super) fn is_before_close(&self, file: FileId, queue: u32, sequence: u64) -> bool {
        let mut barriers = self.barriers.iter();
        barriers.any(|barrier| {
            barrier.later == Later::Close(file) && barrier.is_behind(queue, sequence)
        })
    }

    /// Releases what waits for nothing more to be taken in.
    pub(super) fn pass_barriers(&mut self) {
        if self.barriers.is_empty() {
            return;
        }
        let queues = &mut self.queues;
        for barrier in &mut self.barriers {
            barrier
                .until
                .retain(|(queue, end)| queues.has_backlog_below(*queue, *end));
        }
        let passed = self.barriers.extract_if(.., |one| one.until.is_empty());
        for barrier in passed.collect::<Vec<_>>() {
            let (Later::Sync(file, _) | Later::Close(file)) = barrier.later;
            let index = file.0.index();
            if let Later::Sync(_, epoch) = barrier.later {
                let syncs = self.files.write_completed(index, epoch, None);
                let due = syncs.into_iter().map(|id| (id, What::Released));
                self.events.extend(due);
            }
            if self.files.release(index, false) {
                self.finish_file(index);
            }
        }
    }
}
