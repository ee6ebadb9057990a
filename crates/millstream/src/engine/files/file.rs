//! A handle: its descriptors, what is known of its file, its requests.

use std::path::Path;
use std::sync::Arc;

use millstream_io::device::calls::{LetGoAnswer, LetGoCall};
use millstream_io::fs::is_out_of_descriptors;
use millstream_io::limits::MEMORY_ALIGNMENT;
use millstream_io::{
    Access, Descriptor, Errno, IoError, Known, MountKind, Numbering, Opened, OwnedDescriptor,
};

use super::ends::EndKey;
use super::streak::Streak;
use crate::caller::destination::{FileInfo, FileOptions};
use crate::caller::queue::QueueShared;
use crate::engine::route::FileFacts;
use crate::error::{Error, ErrorKind};
use crate::handover::names::NewFile;
use crate::ids::{FileId, Id};
use crate::limits;
use crate::priority::Priority;

/// State of a file's descriptor through the page cache.
pub(super) enum Phase {
    /// Never opened, or closed to make room.
    Closed,
    /// Waits to be opened, by urgency and order.
    Queued(Urgency, u64),
    /// Being opened.
    Opening,
    Open(OwnedDescriptor),
    /// Its descriptors, so many, are being closed to make room, if its path still leads to it.
    LettingGo(usize),
    Failed(Error),
    /// Waits for a look at its path: it may share the descriptors of this handle.
    Looking(u32),
    /// Shares the descriptors of this handle, which its requests are passed on to.
    Shared(u32),
}

/// State of its descriptor that bypasses the page cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    Closed,
    Opening,
    Open(OwnedDescriptor),
    /// Open, but the system refuses to read through it.
    Refused(OwnedDescriptor),
    Unavailable,
}

/// How urgent an open is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// No request: opened ahead of the first one.
    Ahead = 0,
    /// Requests of the lower priorities.
    Wanted = 1,
    /// Requests of the upper priorities.
    Urgent = 2,
    /// Requests that need the direct descriptor of an open file.
    Direct = 3,
}

impl Urgency {
    pub(crate) fn of(priority: Priority) -> Urgency {
        match priority >= Priority::High {
            true => Urgency::Urgent,
            false => Urgency::Wanted,
        }
    }
}

/// A handle of a file.
pub(crate) struct File {
    pub(crate) id: FileId,
    /// As the application named it.
    pub(crate) path: Arc<Path>,
    /// What it is opened by, whatever the current folder is by then.
    pub(crate) place: Arc<Path>,
    pub(crate) options: FileOptions,
    /// From the file's options, or else the storage's.
    pub(crate) access: Access,
    pub(super) phase: Phase,
    pub(super) direct: Direct,
    /// By what the file is recognized when it is opened again, once it was open.
    pub(super) known: Option<Known>,
    /// Number of its mount; 0 until it was open.
    mount: u64,
    /// Position of its first byte, if it is on a rotating disk.
    start: Option<u64>,
    /// The length is that of the open, and no whole read has used it.
    pub(crate) is_fresh: bool,
    pub(crate) facts: Option<FileFacts>,
    /// The call of its open, while that is not urgent.
    pub(crate) open_call: Option<u64>,
    pub(super) operations: u32,
    pub(super) requests: u32,
    pub(super) users: u32,
    /// Its descriptors that are not closed to make room: it was written to, or its path leads to it
    /// no more. They do not count in the limit.
    pub(super) pinned: Option<usize>,
    /// It is in the list of idle files.
    pub(super) listed: bool,
    /// It was used since it was listed.
    pub(super) used: bool,
    pub(crate) waiters: Vec<Id>,
    /// A close entry was taken in: later requests are stale.
    pub(crate) closing: bool,
    /// The close entry has taken effect: the file is freed once nothing needs it.
    pub(crate) close_fired: bool,
    /// The queue and the entry that closed it, where an error of the close is reported.
    pub(crate) closed_by: Option<(Arc<QueueShared>, u64)>,
    /// Whether the first open, which may create and truncate, has been made.
    pub(super) opened_once: bool,
    /// Its direct descriptor found no room for a second: the requests that wait for it fail.
    pub(crate) is_short_of_direct: bool,
    pub(crate) streak: Streak,
    /// Granules loaded before, one bit each.
    pub(super) loaded: Vec<u64>,
    /// Its neighbors in the ring of the handles of its path.
    pub(super) before: u32,
    pub(super) next: u32,
    /// The order of writes of its path, once it has one.
    pub(super) writes: Option<u32>,
    /// The number of the first error of these that it may report, and the epoch from which on its
    /// syncs have reported none.
    pub(super) errors_since: u64,
    pub(super) errors_from: u64,
    /// Descriptors of operations in flight that others have replaced.
    pub(super) replaced: Vec<OwnedDescriptor>,
    /// Handles of its path that read, and get new descriptors with its first open.
    pub(super) readers: Vec<FileId>,
    /// Handles that wait to share its descriptors.
    pub(super) sharers: Vec<u32>,
    /// Whose end appends go to; known once it was opened for writing.
    pub(super) end: Option<EndKey>,
    /// It was adopted: only a file system that says what identifies it can find it again.
    pub(super) adopted: bool,
}

impl File {
    pub(super) fn new(id: FileId, named: NewFile, access: Access) -> File {
        let NewFile {
            path,
            place,
            options,
            ..
        } = named;
        File {
            id,
            path,
            place,
            options,
            access,
            phase: Phase::Closed,
            direct: Direct::Closed,
            known: None,
            mount: 0,
            start: None,
            is_fresh: true,
            facts: None,
            open_call: None,
            operations: 0,
            requests: 0,
            users: 0,
            pinned: None,
            listed: false,
            used: false,
            waiters: Vec::new(),
            closing: false,
            close_fired: false,
            closed_by: None,
            opened_once: false,
            is_short_of_direct: false,
            streak: Streak::default(),
            loaded: Vec::new(),
            before: id.0.index(),
            next: id.0.index(),
            writes: None,
            errors_since: 0,
            errors_from: 0,
            replaced: Vec::new(),
            readers: Vec::new(),
            sharers: Vec::new(),
            end: None,
            adopted: false,
        }
    }

    /// The descriptor through the page cache, if the file is open.
    #[inline]
    pub(crate) fn descriptor(&self) -> Option<Descriptor> {
        match &self.phase {
            Phase::Open(descriptor) => Some(**descriptor),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn direct_descriptor(&self) -> Option<Descriptor> {
        match &self.direct {
            Direct::Open(descriptor) => Some(**descriptor),
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
    pub(crate) fn grew(&mut self, end: u64) {
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
        answer: Option<Result<OwnedDescriptor, IoError>>,
        is_over: bool,
    ) {
        match answer {
            Some(Ok(descriptor)) => self.direct = Direct::Open(descriptor),
            // The next read asks again.
            Some(Err(error)) if is_out_of_descriptors(&error) => {
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

    /// The largest alignment that reads of the file may need.
    pub(crate) fn align_max(&self) -> u64 {
        self.facts.as_ref().map_or(1, |facts| facts.align(true))
    }

    pub(crate) fn mount(&self) -> u64 {
        self.mount
    }

    pub(crate) fn info(&self) -> Option<FileInfo> {
        let facts = self.facts.as_ref()?;
        let is_plain = facts.local && facts.access != Access::Direct && !facts.package;
        Some(FileInfo {
            len: facts.len,
            identity: self.known?.identity,
            direct: facts.masks.is_some(),
            local: self
                .known?
                .birth_ns
                .filter(|_| is_plain && self.start.is_none() && self.is_named_for_certain()),
        })
    }

    /// Where byte `at` is on a rotating disk.
    pub(crate) fn position(&self, at: u64) -> Option<u64> {
        Some(self.start?.saturating_add(at))
    }

    /// The system refuses direct reads: later reads go through the page cache.
    pub(crate) fn refuse_direct(&mut self) {
        self.direct = match std::mem::replace(&mut self.direct, Direct::Unavailable) {
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
        let buffered = match self.phase {
            Phase::Open(_) => 1,
            Phase::LettingGo(count) => count,
            _ => 0,
        };
        buffered + usize::from(matches!(self.direct, Direct::Open(_) | Direct::Refused(_)))
    }

    pub(crate) fn is_being_opened(&self) -> bool {
        let is_out = matches!(
            self.phase,
            Phase::Opening | Phase::LettingGo(_) | Phase::Looking(_)
        );
        is_out || self.direct == Direct::Opening
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

    /// Whether the range was loaded before by this storage, past the page cache.
    pub(crate) fn was_loaded(&self, at: u64, bytes: u64) -> bool {
        // Granules say nothing of ranges that are so much smaller.
        bytes >= limits::DIRECT_BYTES_MIN
            && granules(at, bytes).all(|granule| {
                let (word, mask) = bit(granule);
                self.loaded.get(word).is_some_and(|bits| bits & mask != 0)
            })
    }

    /// Notes that a range of at least `DIRECT_BYTES_MIN` is loaded. A granule counts as loaded when
    /// its end was: the blocks of one load are no repeat of each other.
    pub(crate) fn note_loaded(&mut self, at: u64, bytes: u64) {
        debug_assert!(bytes >= limits::DIRECT_BYTES_MIN);
        let end = at + bytes;
        for granule in granules(at, bytes) {
            let is_whole = (granule + 1) * limits::REPEAT_GRANULE_BYTES <= end;
            let (word, mask) = bit(granule);
            if word >= limits::REPEAT_WORDS_MAX || !is_whole && end < self.len() {
                continue;
            }
            if self.loaded.len() <= word {
                self.loaded.resize(word + 1, 0);
            }
            self.loaded[word] |= mask;
        }
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
        self.known = Some(Known::of(&opened));
        self.mount = opened.mount;
        // Without a position from the system, files are taken to lie one after the other by inode.
        let start = opened.position.unwrap_or(opened.identity.inode << 24);
        self.start = opened.rotating.then_some(start);
        self.phase = Phase::Open(opened.descriptor);
    }

    /// The error of requests of a file that could not be opened.
    pub(super) fn open_error(&self, error: &IoError) -> Error {
        match error.errno {
            Errno::STALE if self.known.is_some() => Error::new(ErrorKind::StaleFile, error.cause),
            _ => Error::from(error.clone()),
        }
    }

    /// Whose end appends go to, once it was opened for writing.
    pub(crate) fn end(&self) -> Option<EndKey> {
        self.end
    }

    /// Whether the numbers of its open file can belong to no other.
    pub(super) fn is_named_for_certain(&self) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.numbering == Numbering::Stable)
    }

    /// The handle whose descriptors it shares.
    pub(crate) fn shares(&self) -> Option<u32> {
        match self.phase {
            Phase::Shared(owner) => Some(owner),
            _ => None,
        }
    }

    /// Gives up its descriptor and its direct one, which are to be closed.
    pub(super) fn take_descriptors(
        &mut self,
    ) -> (Option<OwnedDescriptor>, Option<OwnedDescriptor>) {
        assert_eq!(self.operations, 0, "an operation keeps its file open");
        let buffered = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Open(descriptor) => Some(descriptor),
            other => {
                self.phase = other;
                None
            }
        };
        (buffered, self.take_direct())
    }

    pub(super) fn take_direct(&mut self) -> Option<OwnedDescriptor> {
        let (left, taken) = match std::mem::replace(&mut self.direct, Direct::Closed) {
            Direct::Open(descriptor) => (Direct::Closed, Some(descriptor)),
            Direct::Refused(descriptor) => (Direct::Unavailable, Some(descriptor)),
            other => (other, None),
        };
        self.direct = left;
        taken
    }

    /// Begins to close it, to make room.
    pub(super) fn let_go(&mut self) -> LetGoCall {
        let count = self.descriptors();
        let (file, direct) = self.take_descriptors();
        self.phase = Phase::LettingGo(count);
        LetGoCall {
            file: file.expect("an idle file that is open"),
            direct,
            path: Arc::clone(&self.place),
            certain: self.adopted,
        }
    }

    /// Takes the answer of a close to make room; returns the error of the close.
    pub(super) fn gone(&mut self, answer: LetGoAnswer) -> Option<IoError> {
        match answer {
            LetGoAnswer::Kept(call) => {
                self.phase = Phase::Open(call.file);
                if let Some(direct) = call.direct {
                    self.direct = match self.direct {
                        Direct::Unavailable => Direct::Refused(direct),
                        _ => Direct::Open(direct),
                    };
                }
                None
            }
            LetGoAnswer::Closed { known, result } => {
                self.phase = Phase::Closed;
                self.known = known.or(self.known);
                result.err()
            }
        }
    }
}

/// The granules that a range of at least one byte is in.
fn granules(at: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    at / limits::REPEAT_GRANULE_BYTES..=(at + bytes - 1) / limits::REPEAT_GRANULE_BYTES
}

/// The word and the bit of a granule.
fn bit(granule: u64) -> (usize, u64) {
    ((granule / 64) as usize, 1 << (granule % 64))
}
