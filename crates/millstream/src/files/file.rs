//! A file: its descriptors, what is known of it, the order of its writes and syncs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use millstream_io::fs::is_out_of_descriptors;
use millstream_io::limits::MEMORY_ALIGNMENT;
use millstream_io::{Access, Descriptor, Errno, IoError, Known, MountKind, Opened};

use super::ends::EndKey;
use super::streak::Streak;
use crate::destination::{FileInfo, FileOptions};
use crate::error::{Error, ErrorKind};
use crate::ids::{FileId, Id};
use crate::limits;
use crate::priority::Priority;
use crate::route::FileFacts;

/// State of a file's descriptor through the page cache.
pub(super) enum Phase {
    /// Never opened, or closed to make room.
    Closed,
    /// Waits to be opened, in this lane and order.
    Queued(Lane, u64),
    /// Being opened.
    Opening,
    Open(Descriptor),
    Failed(Error),
}

/// State of its descriptor that bypasses the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direct {
    Closed,
    Opening,
    Open(Descriptor),
    /// Open, but the system refuses to read through it.
    Refused(Descriptor),
    Unavailable,
}

/// What waits for an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// No request: opened ahead of the first one.
    Ahead = 0,
    /// Requests of the lower priorities.
    Wanted = 1,
    /// Requests of the upper priorities.
    Urgent = 2,
    /// Requests that need the direct descriptor of an open file.
    Direct = 3,
}

impl Lane {
    pub(crate) fn of(priority: Priority) -> Lane {
        match priority >= Priority::High {
            true => Lane::Urgent,
            false => Lane::Wanted,
        }
    }
}

/// A file.
pub(crate) struct File {
    pub(crate) id: FileId,
    pub(crate) path: Arc<Path>,
    pub(crate) options: FileOptions,
    /// From the file's options, or else the storage's.
    pub(crate) access: Access,
    pub(super) phase: Phase,
    pub(super) direct: Direct,
    /// What the last open reported.
    pub(crate) about: Option<Opened>,
    pub(crate) facts: Option<FileFacts>,
    pub(super) operations: u32,
    pub(super) requests: u32,
    pub(super) users: u32,
    /// It is in the list of idle files.
    pub(super) listed: bool,
    /// It was used since it was listed.
    pub(super) used: bool,
    pub(crate) waiters: Vec<Id>,
    /// A close entry was taken in: later requests are stale.
    pub(crate) closing: bool,
    /// The close entry has taken effect: the file is freed once nothing needs it.
    pub(crate) close_fired: bool,
    /// Whether the first open, which may create and truncate, has been made.
    pub(super) opened_once: bool,
    /// Its direct descriptor found no room for a second: the requests that wait for it fail.
    pub(crate) is_short_of_direct: bool,
    pub(crate) streak: Streak,
    /// Granules loaded before, one bit each.
    pub(super) repeat: Vec<u64>,
    /// First write error since the last sync.
    pub(crate) write_error: Option<Error>,
    /// Syncs that wait for writes.
    pub(crate) syncs: Vec<(u64, Id)>,
    /// Live writes per epoch; a sync ends an epoch and waits for it.
    pub(super) epochs: VecDeque<u32>,
    pub(super) epoch_base: u64,
    /// Whose end appends go to; known once it was opened for writing.
    pub(super) end: Option<EndKey>,
    /// A write was begun.
    pub(crate) written: bool,
}

impl File {
    pub(super) fn new(id: FileId, path: Arc<Path>, options: FileOptions, access: Access) -> File {
        File {
            id,
            path,
            options,
            access,
            phase: Phase::Closed,
            direct: Direct::Closed,
            about: None,
            facts: None,
            operations: 0,
            requests: 0,
            users: 0,
            listed: false,
            used: false,
            waiters: Vec::new(),
            closing: false,
            close_fired: false,
            opened_once: false,
            is_short_of_direct: false,
            streak: Streak::default(),
            repeat: Vec::new(),
            write_error: None,
            syncs: Vec::new(),
            epochs: VecDeque::from([0]),
            epoch_base: 0,
            end: None,
            written: false,
        }
    }

    /// The descriptor through the page cache, if the file is open.
    #[inline]
    pub(crate) fn descriptor(&self) -> Option<Descriptor> {
        match self.phase {
            Phase::Open(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn direct_descriptor(&self) -> Option<Descriptor> {
        match self.direct {
            Direct::Open(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    /// The error, if it could not be opened.
    pub(crate) fn failure(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.facts.as_ref().map_or(0, |facts| facts.len)
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if let Some(facts) = &mut self.facts {
            facts.len = len;
        }
    }

    /// Records that a write up to `end` has landed.
    pub(super) fn grew(&mut self, end: u64) {
        let len = self.len().max(end);
        self.set_len(len);
    }

    #[inline]
    pub(crate) fn can_hang(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.can_hang)
    }

    /// Takes the answer of an open of its direct descriptor; `is_over`: a shortage of descriptors.
    pub(super) fn direct_done(
        &mut self,
        answer: Option<&Result<Descriptor, IoError>>,
        is_over: bool,
    ) {
        match answer {
            Some(Ok(descriptor)) => self.direct = Direct::Open(*descriptor),
            // The next read asks again.
            Some(Err(error)) if is_out_of_descriptors(error) => {
                self.direct = Direct::Closed;
                self.is_short_of_direct = is_over;
            }
            Some(Err(_)) => {
                self.direct = Direct::Unavailable;
                self.without_direct();
            }
            None => {}
        }
    }

    /// By what it is recognized when it is opened again.
    pub(super) fn known(&self) -> Option<Known> {
        let about = self.about.as_ref()?;
        Some(Known {
            written: self.written,
            ..Known::of(about)
        })
    }

    /// The largest alignment that reads of the file may need.
    pub(crate) fn align_max(&self) -> u64 {
        self.facts.as_ref().map_or(1, |facts| facts.align(true))
    }

    pub(crate) fn mount(&self) -> u64 {
        self.about.as_ref().map_or(0, |about| about.mount)
    }

    pub(crate) fn info(&self) -> Option<FileInfo> {
        let facts = self.facts.as_ref()?;
        Some(FileInfo {
            len: facts.len,
            identity: self.about.as_ref()?.identity,
            direct: facts.masks.is_some(),
        })
    }

    /// Where byte `at` is on a rotating disk. Without a position from the system, files are taken
    /// to lie one after the other by inode.
    pub(crate) fn position(&self, at: u64) -> Option<u64> {
        let about = self.about.as_ref().filter(|about| about.rotating)?;
        let start = about.position.unwrap_or(about.identity.inode << 24);
        Some(start.saturating_add(at))
    }

    /// The system refuses direct reads: later reads go through the page cache.
    pub(crate) fn refuse_direct(&mut self) {
        self.direct = match self.direct {
            // The descriptor stays open, and is closed with the file.
            Direct::Open(descriptor) => Direct::Refused(descriptor),
            _ => Direct::Unavailable,
        };
        self.without_direct();
    }

    pub(super) fn without_direct(&mut self) {
        if let Some(facts) = &mut self.facts {
            facts.masks = None;
        }
    }

    pub(super) fn descriptors(&self) -> usize {
        usize::from(matches!(self.phase, Phase::Open(_)))
            + usize::from(matches!(self.direct, Direct::Open(_) | Direct::Refused(_)))
    }

    pub(crate) fn is_being_opened(&self) -> bool {
        matches!(self.phase, Phase::Opening) || self.direct == Direct::Opening
    }

    /// Counts a request that names it, until that completes.
    #[inline]
    pub(crate) fn hold(&mut self) {
        self.requests += 1;
    }

    /// Counts a user: a request that needs it open soon.
    #[inline]
    pub(crate) fn attach(&mut self) {
        self.users += 1;
        self.used = true;
    }

    /// Uncounts a user; returns whether that was the last.
    #[inline]
    pub(super) fn detached(&mut self) -> bool {
        assert!(self.users > 0, "a file counts its users");
        self.users -= 1;
        self.users == 0
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.users == 0 && self.operations == 0 && !self.is_being_opened()
    }

    /// Whether the range was loaded before by this storage; notes that it is loaded now. A granule
    /// counts as loaded when its end was: the blocks of one load are no repeat of each other.
    pub(crate) fn is_repeat(&mut self, at: u64, bytes: u64) -> bool {
        if bytes < limits::DIRECT_BYTES_MIN {
            // Granules say nothing of ranges that are so much smaller.
            return false;
        }
        let first = at / limits::REPEAT_GRANULE_BYTES;
        let last = (at + bytes - 1) / limits::REPEAT_GRANULE_BYTES;
        let words = usize::try_from(last / 64 + 1).unwrap_or(usize::MAX);
        if words > limits::REPEAT_WORDS_MAX {
            return false;
        }
        if self.repeat.len() < words {
            self.repeat.resize(words, 0);
        }
        let bit = |granule: u64| (granule as usize / 64, 1u64 << (granule % 64));
        let seen = (first..=last).all(|granule| {
            let (word, mask) = bit(granule);
            self.repeat[word] & mask != 0
        });
        let end = at + bytes;
        for granule in first..=last {
            let whole = (granule + 1) * limits::REPEAT_GRANULE_BYTES <= end;
            if whole || end == self.len() {
                let (word, mask) = bit(granule);
                self.repeat[word] |= mask;
            }
        }
        seen
    }

    /// Counts a write; returns its epoch.
    pub(crate) fn write_arrived(&mut self) -> u64 {
        *self.epochs.back_mut().expect("there is always an epoch") += 1;
        self.epoch_base + self.epochs.len() as u64 - 1
    }

    /// Counts a write in an earlier epoch, for which a sync waits.
    pub(crate) fn write_arrived_in(&mut self, epoch: u64) -> u64 {
        let place =
            usize::try_from(epoch - self.epoch_base).expect("an epoch lives with its syncs");
        self.epochs[place] += 1;
        epoch
    }

    /// Ends an epoch; returns its number, for which a sync waits.
    pub(crate) fn sync_arrived(&mut self) -> u64 {
        self.epochs.push_back(0);
        let epoch = self.epoch_base + self.epochs.len() as u64 - 2;
        self.pass_epochs();
        epoch
    }

    /// Drops the first epochs, if their writes have completed.
    pub(super) fn pass_epochs(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.epoch_base += 1;
        }
    }

    /// Uncounts a completed write; returns the syncs that are due.
    pub(crate) fn write_completed(&mut self, epoch: u64, failure: Option<&Error>) -> Vec<Id> {
        if let Some(error) = failure
            && error.kind() != ErrorKind::Canceled
        {
            self.write_error.get_or_insert_with(|| error.clone());
        }
        let place =
            usize::try_from(epoch - self.epoch_base).expect("an epoch lives with its writes");
        self.epochs[place] -= 1;
        let before = self.epoch_base;
        self.pass_epochs();
        if self.epoch_base == before {
            return Vec::new();
        }
        let passed = self.epoch_base;
        let due = self.syncs.extract_if(.., |(epoch, _)| *epoch < passed);
        due.map(|(_, id)| id).collect()
    }

    /// Whether all writes of epochs up to `epoch` have completed.
    pub(crate) fn epoch_completed(&self, epoch: u64) -> bool {
        epoch < self.epoch_base
    }

    pub(super) fn note_opened(&mut self, opened: Opened) {
        let usable =
            |alignment: u32| alignment.is_power_of_two() && alignment as usize <= MEMORY_ALIGNMENT;
        let direct = opened
            .direct
            .filter(|align| usable(align.offset) && usable(align.memory));
        let before = self.facts.as_ref();
        let refused = before.is_some_and(|facts| facts.masks.is_none());
        let masks = direct.map(|align| (u64::from(align.offset) - 1, align.memory as usize - 1));
        self.facts = Some(FileFacts {
            len: opened.len,
            masks: masks.filter(|_| !refused),
            access: self.access,
            local: opened.mount_kind == MountKind::Local,
            can_hang: opened.mount_kind == MountKind::Slow,
            package: self.options.package,
        });
        self.phase = Phase::Open(opened.descriptor);
        self.about = Some(opened);
    }

    /// The error of requests of a file that could not be opened.
    pub(super) fn open_error(&self, error: &IoError) -> Error {
        match error.errno {
            Errno::STALE if self.about.is_some() => Error::new(ErrorKind::StaleFile, error.cause),
            _ => Error::from(error.clone()),
        }
    }

    pub(super) fn take_descriptors(&mut self, into: &mut Vec<Descriptor>) {
        assert_eq!(self.operations, 0, "an operation keeps its file open");
        if let Phase::Open(descriptor) = self.phase {
            self.phase = Phase::Closed;
            into.push(descriptor);
        }
        if let Direct::Open(descriptor) | Direct::Refused(descriptor) = self.direct {
            self.direct = match self.direct {
                Direct::Refused(_) => Direct::Unavailable,
                _ => Direct::Closed,
            };
            into.push(descriptor);
        }
    }
}
