//! The engine's side of files: what is open, what waits to be opened, the limit on descriptors.
//!
//! A file has up to two descriptors, one through the page cache and one bypassing it; both count.
//! `requests` counts requests that name a file and have not completed: it lives as long.
//! `users` counts those that need it open soon; a file without users and operations is idle, and
//! may be closed to make room and reopened later, if its path still leads to the same device and
//! inode. An operation keeps its descriptors open (`operations`).
//!
//! Three lanes of opens wait: files that urgent requests need, files that others need, and files
//! opened ahead of their first request. A file moves to a better lane by being entered there, too;
//! the entry left behind is skipped.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use millstream_io::device::calls::{Offer, OpenAnswer, OpenCall};
use millstream_io::limits::MEMORY_ALIGNMENT;
use millstream_io::{Access, Descriptor, Errno, IoError, MountKind, OpenMode, Opened};

use crate::destination::{FileInfo, FileOptions};
use crate::error::{Error, ErrorKind};
use crate::ids::{FileId, Id};
use crate::limits;
use crate::priority::Priority;
use crate::route::{FileFacts, Hits};

/// State of a file's descriptor through the page cache.
enum Phase {
    /// Never opened, or closed to make room.
    Closed,
    /// In a lane of opens to come.
    Queued(Lane),
    /// Being opened.
    Opening,
    Open(Descriptor),
    Failed(Error),
}

/// State of its descriptor that bypasses the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direct {
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
    /// Nothing yet.
    Ahead = 0,
    /// Requests of the lower priorities.
    Wanted = 1,
    /// Requests of the upper priorities.
    Urgent = 2,
}

impl Lane {
    pub(crate) fn of(priority: Priority) -> Lane {
        match priority >= Priority::High {
            true => Lane::Urgent,
            false => Lane::Wanted,
        }
    }
}

/// Whether a file's reads find their bytes in the page cache, and so are to be copied from there.
///
/// A fruitless read is expensive: it makes the kernel start to read that page by itself, outside
/// the device's batches (10 µs in a virtual machine, where a copied hit saves less than one). So a
/// file is trusted only after some hits in a row, and no longer after the first miss. Before that
/// the system is asked about a read (`cachestat`, under a microsecond), of cold files about fewer
/// and fewer of them.
#[derive(Debug, Clone, Copy)]
struct Streak {
    /// Hits in a row.
    hits: u32,
    /// So many are needed for trust: more after each time it failed.
    needed: u32,
    /// Reads to pass before the next question, and how many those were last time.
    skip: u32,
    skips: u32,
    /// Its file system has no reads that do not wait.
    never: bool,
}

/// Hits in a row that earn a file trust at first, and at most.
const STREAK_MIN: u32 = 8;
const STREAK_MAX: u32 = 1024;

impl Default for Streak {
    fn default() -> Streak {
        Streak {
            hits: 0,
            needed: STREAK_MIN,
            skip: 0,
            skips: 0,
            never: false,
        }
    }
}

impl Streak {
    #[inline]
    fn view(&self) -> Hits {
        if self.hits >= self.needed {
            return Hits::Trusted;
        }
        match self.never || self.skip > 0 {
            true => Hits::Unlikely,
            false => Hits::Due,
        }
    }

    fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
        if self.hits >= self.needed {
            (self.skip, self.skips) = (0, 0);
        }
        if self.hits >= 2 * STREAK_MAX {
            self.needed = STREAK_MIN;
        }
    }

    /// The system says that the bytes are not cached, or not all.
    fn cold(&mut self) {
        self.hits = 0;
        self.skips = (2 * self.skips + 1).min(limits::COPY_SKIPS_MAX);
        self.skip = self.skips;
    }

    /// A copy found less than it was to bring.
    fn missed(&mut self) {
        if self.hits >= self.needed {
            self.needed = (2 * self.needed).min(STREAK_MAX);
        }
        self.cold();
    }
}

/// A file.
pub(crate) struct File {
    pub(crate) id: FileId,
    pub(crate) path: Arc<Path>,
    pub(crate) options: FileOptions,
    phase: Phase,
    direct: Direct,
    /// What the first open reported; lengths are updated.
    pub(crate) about: Option<Opened>,
    pub(crate) facts: Option<FileFacts>,
    operations: u32,
    requests: u32,
    users: u32,
    /// It is in the list of idle files.
    listed: bool,
    /// It was used since it was listed.
    used: bool,
    pub(crate) waiters: Vec<Id>,
    /// A close entry was taken in: later requests are stale.
    pub(crate) closing: bool,
    /// The close entry has taken effect: the file goes when nothing needs it.
    close_fired: bool,
    /// Whether the first open, which may create and truncate, has been made.
    opened_once: bool,
    /// Its open was made while the storage had no other descriptor.
    alone: bool,
    streak: Streak,
    /// Granules loaded before, one bit each.
    repeat: Vec<u64>,
    /// First write error since the last sync.
    pub(crate) write_error: Option<Error>,
    /// Syncs that wait for writes.
    pub(crate) syncs: Vec<(u64, Id)>,
    /// Live writes per epoch; a sync ends an epoch and waits for it.
    epochs: VecDeque<u32>,
    epoch_base: u64,
    /// Where the next append goes.
    append_at: Option<u64>,
}

impl File {
    fn new(id: FileId, path: Arc<Path>, options: FileOptions) -> File {
        File {
            id,
            path,
            options,
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
            alone: false,
            streak: Streak::default(),
            repeat: Vec::new(),
            write_error: None,
            syncs: Vec::new(),
            epochs: VecDeque::from([0]),
            epoch_base: 0,
            append_at: None,
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

    /// Why it cannot be opened.
    pub(crate) fn failure(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.about.as_ref().map_or(0, |about| about.len)
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if let Some(about) = &mut self.about {
            about.len = len;
        }
        if let Some(facts) = &mut self.facts {
            facts.len = len;
        }
    }

    /// A write up to `end` has landed.
    pub(crate) fn grew(&mut self, end: u64) {
        let len = self.len().max(end);
        self.set_len(len);
        self.append_at = self.append_at.map(|at| at.max(end));
    }

    /// Where an append of `len` bytes goes.
    pub(crate) fn append(&mut self, len: u64) -> u64 {
        let at = self.append_at.unwrap_or(0);
        self.append_at = Some(at.saturating_add(len));
        at
    }

    pub(crate) fn can_hang(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.can_hang)
    }

    pub(crate) fn mount(&self) -> u64 {
        self.about.as_ref().map_or(0, |about| about.mount)
    }

    pub(crate) fn info(&self) -> Option<FileInfo> {
        let about = self.about.as_ref()?;
        Some(FileInfo {
            len: about.len,
            identity: about.identity,
            direct: self.facts.as_ref()?.masks.is_some(),
        })
    }

    /// Where byte `at` is on a rotating disk. Without a position from the system, files are taken
    /// to lie one after the other by inode.
    pub(crate) fn position(&self, at: u64) -> Option<u64> {
        let about = self.about.as_ref().filter(|about| about.rotating)?;
        let start = about.position.unwrap_or(about.identity.inode << 24);
        Some(start.saturating_add(at))
    }

    /// Direct reads are refused by the system: from now on it goes through the page cache.
    pub(crate) fn refuse_direct(&mut self) {
        self.direct = match self.direct {
            // The descriptor stays open, and is closed with the file.
            Direct::Open(descriptor) => Direct::Refused(descriptor),
            _ => Direct::Unavailable,
        };
        self.without_direct();
    }

    fn without_direct(&mut self) {
        if let Some(facts) = &mut self.facts {
            facts.masks = None;
        }
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self.phase, Phase::Open(_)))
            + usize::from(matches!(self.direct, Direct::Open(_) | Direct::Refused(_)))
    }

    fn is_being_opened(&self) -> bool {
        matches!(self.phase, Phase::Opening) || self.direct == Direct::Opening
    }

    fn is_idle(&self) -> bool {
        self.users == 0 && self.operations == 0 && !self.is_being_opened()
    }

    #[inline]
    pub(crate) fn hits(&self) -> Hits {
        self.streak.view()
    }

    /// A read went to the disk without a question.
    #[inline]
    pub(crate) fn passed(&mut self) {
        self.streak.skip = self.streak.skip.saturating_sub(1);
    }

    /// The system was asked about a read: `None` if it cannot say.
    pub(crate) fn asked(&mut self, cached: Option<bool>) {
        match cached {
            Some(true) => {}
            Some(false) => self.streak.cold(),
            None => self.cannot_say(),
        }
    }

    fn cannot_say(&mut self) {
        self.streak = Streak {
            never: true,
            ..Streak::default()
        };
    }

    /// A copy from the page cache came back: with everything, with less, or the file system cannot.
    pub(crate) fn copied(&mut self, whole: Option<bool>) {
        match whole {
            Some(true) => self.streak.hit(),
            Some(false) => self.streak.missed(),
            None => self.cannot_say(),
        }
    }

    /// Whether the range was loaded before by this storage; notes that it is loaded now. A granule
    /// counts as loaded when its end was: the blocks of one load are no repeat of each other.
    pub(crate) fn is_repeat(&mut self, at: u64, bytes: u64) -> bool {
        if bytes < limits::DIRECT_BYTES_MIN {
            // Granules say nothing of ranges so much smaller than they are.
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

    /// Counts a write; its epoch.
    pub(crate) fn write_arrived(&mut self) -> u64 {
        *self.epochs.back_mut().expect("there is always an epoch") += 1;
        self.epoch_base + self.epochs.len() as u64 - 1
    }

    /// Ends an epoch; its number, for which a sync waits.
    pub(crate) fn sync_arrived(&mut self) -> u64 {
        self.epochs.push_back(0);
        let epoch = self.epoch_base + self.epochs.len() as u64 - 2;
        self.pass_epochs();
        epoch
    }

    /// Passes the first epochs, if their writes have completed.
    fn pass_epochs(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.epoch_base += 1;
        }
    }

    /// A write has completed; the syncs that are due.
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
}

/// Operations on a mount that can hang, and the requests that wait for them.
#[derive(Default)]
struct SlowMount {
    operations: u32,
    waiting: Vec<Id>,
}

/// Whether a request has the direct descriptor that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectState {
    Open,
    /// It waits for it.
    Opening,
    /// There is none: through the page cache.
    None,
}

fn peek(files: &[Option<Box<File>>], id: FileId) -> Option<&File> {
    let file = files.get(id.0.index() as usize)?.as_deref()?;
    (file.id == id).then_some(file)
}

/// The files of a storage.
pub(crate) struct Files {
    files: Vec<Option<Box<File>>>,
    lanes: [VecDeque<u32>; 3],
    /// Direct descriptors to be opened; their place in the limit is reserved.
    direct: VecDeque<u32>,
    /// Entries in the lanes and in `direct`.
    queued: usize,
    /// Opens under way, with the time of their start.
    opening: HashMap<u32, u64>,
    /// Open, reserved by opens under way, or being closed.
    pub(crate) descriptors: usize,
    descriptors_max: usize,
    /// Of `descriptors`, those that are being closed.
    closing: usize,
    /// Files that were idle, each once, oldest first; looked at again when room is needed.
    idle: VecDeque<FileId>,
    slow: HashMap<u64, SlowMount>,
    access: Access,
}

impl Files {
    pub(crate) fn new(descriptors_max: usize, access: Access) -> Files {
        // More than the process may have would only be found out by failed opens.
        let share = millstream_io::limits::descriptors_max() / limits::DESCRIPTORS_SHARE;
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        Files {
            files: Vec::new(),
            lanes: Default::default(),
            direct: VecDeque::new(),
            queued: 0,
            opening: HashMap::new(),
            descriptors: 0,
            descriptors_max: descriptors_max.min(share).max(2),
            closing: 0,
            idle: VecDeque::new(),
            slow: HashMap::new(),
            access,
        }
    }

    /// Adds a file that is to be opened ahead of its use.
    pub(crate) fn add(&mut self, id: FileId, path: Arc<Path>, options: FileOptions) {
        self.insert(id, path, options);
        self.want(id.0.index(), Lane::Ahead);
    }

    fn insert(&mut self, id: FileId, path: Arc<Path>, options: FileOptions) {
        let index = id.0.index();
        if index as usize >= self.files.len() {
            self.files.resize_with(index as usize + 1, || None);
        }
        let before = self.files[index as usize].replace(Box::new(File::new(id, path, options)));
        assert!(before.is_none(), "an index has one file at a time");
    }

    /// Adds a file that is open. It may exceed the limit on descriptors until idle ones are closed.
    pub(crate) fn adopt(
        &mut self,
        id: FileId,
        path: Arc<Path>,
        options: FileOptions,
        opened: Opened,
    ) {
        self.insert(id, path, options);
        let access = self.access;
        let file = self.at(id.0.index());
        file.opened_once = true;
        file.note_opened(opened, access);
        self.descriptors += 1;
        self.note_idle(id.0.index());
    }

    /// A file that a caller named.
    #[inline]
    pub(crate) fn get(&mut self, id: FileId) -> Option<&mut File> {
        let file = self.files.get_mut(id.0.index() as usize)?;
        file.as_deref_mut().filter(|file| file.id == id)
    }

    /// A file that a live request or operation names.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> &mut File {
        self.files[index as usize]
            .as_deref_mut()
            .expect("a file lives as long as its requests")
    }

    pub(crate) fn path(&self, index: u32) -> Option<&Path> {
        self.files[index as usize]
            .as_deref()
            .map(|file| &*file.path)
    }

    #[inline]
    pub(crate) fn peek(&self, id: FileId) -> Option<&File> {
        peek(&self.files, id)
    }

    /// Opens queued or under way.
    pub(crate) fn opening(&self) -> usize {
        self.opening.len() + self.queued
    }

    /// Wants a file to be opened.
    pub(crate) fn want(&mut self, index: u32, lane: Lane) {
        let file = self.at(index);
        let before = match file.phase {
            Phase::Closed => None,
            Phase::Queued(before) => Some(before),
            _ => return,
        };
        if before.is_some_and(|before| before >= lane) {
            return;
        }
        file.phase = Phase::Queued(lane);
        self.queued += usize::from(before.is_none());
        self.lanes[lane as usize].push_back(index);
    }

    /// The direct descriptor for a request, or what becomes of it.
    pub(crate) fn direct_state(&mut self, index: u32, demanded: bool) -> DirectState {
        let room = self.descriptors < self.descriptors_max || demanded;
        let file = self.at(index);
        match file.direct {
            Direct::Open(_) => DirectState::Open,
            Direct::Opening => DirectState::Opening,
            Direct::Unavailable | Direct::Refused(_) => DirectState::None,
            Direct::Closed if !room => {
                file.direct = Direct::Unavailable;
                file.without_direct();
                DirectState::None
            }
            Direct::Closed => {
                file.direct = Direct::Opening;
                self.descriptors += 1;
                self.queued += 1;
                self.direct.push_back(index);
                DirectState::Opening
            }
        }
    }

    /// The next file to open, if one may be opened now. `hung_ns`: opens that have run longer are
    /// not counted.
    pub(crate) fn next_open(&mut self, now_ns: u64) -> Option<NextOpen> {
        if self.queued == 0 {
            return None;
        }
        let recent = |started: &&u64| now_ns.saturating_sub(**started) < limits::OPEN_HUNG_NS;
        let busy = self.opening.values().filter(recent).count();
        if busy >= limits::OPENS_MAX {
            return None;
        }
        if let Some(index) = self.direct.pop_front() {
            self.queued -= 1;
            return Some(self.began(index, true, true, now_ns));
        }
        for lane in [Lane::Urgent, Lane::Wanted, Lane::Ahead] {
            if lane == Lane::Ahead && busy >= limits::OPENS_AHEAD_MAX {
                return None;
            }
            if let Some(index) = self.front(lane) {
                return self.reserve().then(|| {
                    self.lanes[lane as usize].pop_front();
                    self.queued -= 1;
                    self.began(index, false, lane == Lane::Urgent, now_ns)
                });
            }
        }
        None
    }

    /// When the next hung open stops counting, if opens wait for that.
    pub(crate) fn retry_at(&self, now_ns: u64) -> Option<u64> {
        if self.queued == 0 || self.opening.len() < limits::OPENS_AHEAD_MAX {
            return None;
        }
        let hung = |started: &u64| started.saturating_add(limits::OPEN_HUNG_NS);
        self.opening
            .values()
            .map(hung)
            .filter(|at| *at > now_ns)
            .min()
    }

    /// The first file of a lane.
    fn front(&mut self, lane: Lane) -> Option<u32> {
        while let Some(&index) = self.lanes[lane as usize].front() {
            let file = self.files[index as usize].as_deref();
            if file.is_some_and(|file| matches!(file.phase, Phase::Queued(own) if own == lane)) {
                return Some(index);
            }
            self.lanes[lane as usize].pop_front();
        }
        None
    }

    /// Takes room for the two descriptors that a file may have.
    fn reserve(&mut self) -> bool {
        if self.descriptors + 2 > self.descriptors_max {
            return false;
        }
        self.descriptors += 2;
        true
    }

    fn began(&mut self, index: u32, direct_only: bool, urgent: bool, now_ns: u64) -> NextOpen {
        self.opening.insert(index, now_ns);
        let alone = self.descriptors == 2;
        let file = self.at(index);
        if !direct_only {
            file.phase = Phase::Opening;
            file.alone = alone;
        }
        NextOpen {
            index,
            direct_only,
            urgent,
        }
    }

    /// The call for an open that began.
    pub(crate) fn open_call(&mut self, open: &NextOpen, offer: Option<Offer>) -> OpenCall {
        let storage_access = self.access;
        let file = self.at(open.index);
        let options = file.options;
        let first = !std::mem::replace(&mut file.opened_once, true);
        let expected = file.about.as_ref().map(|about| &about.identity);
        OpenCall {
            path: Arc::clone(&file.path),
            mode: OpenMode {
                write: options.write,
                // Only the first open creates and truncates: a file that was closed to make room
                // must be found again as it was left.
                create: options.create && first,
                exclusive: options.exclusive && first,
                truncate: options.truncate && first,
                direct: false,
            },
            buffered: !open.direct_only,
            access: options.access.unwrap_or(storage_access),
            direct_from: match options.package {
                _ if options.write => u64::MAX,
                true => 0,
                false => limits::DIRECT_BYTES_MIN,
            },
            expected: expected.map(|identity| (identity.device, identity.inode)),
            offer,
        }
    }

    /// The requests that wait for a file that is to be opened, the first of them first.
    pub(crate) fn first_waiter(&self, index: u32) -> Option<Id> {
        let file = self.files[index as usize].as_deref()?;
        file.waiters.first().copied()
    }

    /// An open is back; whether its waiters are to look again. A file for which the process has no
    /// descriptor left is queued again.
    pub(crate) fn open_done(&mut self, index: u32, answer: &OpenAnswer) -> bool {
        self.opening.remove(&index);
        let reserved = if answer.opened.is_some() { 2 } else { 1 };
        self.descriptors -= reserved;
        let (held, access) = (self.descriptors, self.access);
        let file = self.at(index);
        match &answer.opened {
            Some(Ok(opened)) => file.note_opened(opened.clone(), access),
            // The process has fewer descriptors than our limit: use what it has. Only an open that
            // fails although nothing else of ours was open has failed for good.
            Some(Err(error)) if millstream_io::fs::is_out_of_descriptors(error) && !file.alone => {
                file.phase = Phase::Closed;
                file.opened_once = file.about.is_some();
                self.descriptors_max = held.max(2);
                self.want(index, Lane::Urgent);
                return false;
            }
            Some(Err(error)) => file.phase = Phase::Failed(file.open_error(error)),
            None => {}
        }
        match &answer.direct {
            Some(Ok(descriptor)) => file.direct = Direct::Open(*descriptor),
            // Also if the process is out of descriptors: the file has the other one.
            Some(Err(_)) => {
                file.direct = Direct::Unavailable;
                file.without_direct();
            }
            None => {}
        }
        let count = file.descriptors();
        self.descriptors += match reserved {
            2 => count,
            _ => usize::from(matches!(answer.direct, Some(Ok(_)))),
        };
        self.note_idle(index);
        true
    }

    /// The limit that the process imposes, for a warning.
    pub(crate) fn descriptors_max(&self) -> usize {
        self.descriptors_max
    }

    /// Descriptors of idle files to close, so that opens that wait find room.
    pub(crate) fn evict(&mut self, into: &mut Vec<Descriptor>) {
        let waiting = self.lanes.iter().any(|lane| !lane.is_empty());
        let margin = (self.descriptors_max / 4).min(limits::EVICT_MARGIN);
        while waiting && self.descriptors - self.closing + 2 + margin > self.descriptors_max {
            let Some(id) = self.idle.pop_front() else {
                return;
            };
            let Some(file) = self.get(id) else {
                continue;
            };
            file.listed = false;
            if !file.is_idle() || file.descriptors() == 0 {
                continue;
            }
            if std::mem::take(&mut file.used) {
                // A second chance: it goes when it was not used again.
                file.listed = true;
                self.idle.push_back(id);
                continue;
            }
            let before = into.len();
            file.take_descriptors(into);
            self.closing += into.len() - before;
            return;
        }
    }

    /// Descriptors were closed: there is room for others.
    pub(crate) fn closed(&mut self, count: usize) {
        assert!(self.descriptors >= count, "closed descriptors were open");
        self.descriptors -= count;
        self.closing = self.closing.saturating_sub(count);
    }

    #[inline]
    fn note_idle(&mut self, index: u32) {
        let file = self.at(index);
        if !file.listed && file.is_idle() && file.descriptors() > 0 {
            file.listed = true;
            let id = file.id;
            if self.idle.len() == self.idle.capacity() {
                // Before it grows, without those that are gone.
                let files = &self.files;
                self.idle.retain(|id| peek(files, *id).is_some());
                self.idle.reserve(self.idle.len().max(16));
            }
            self.idle.push_back(id);
        }
    }

    /// A request names the file, until it completes.
    #[inline]
    pub(crate) fn hold(&mut self, index: u32) {
        self.at(index).requests += 1;
    }

    /// A request needs its file open soon.
    #[inline]
    pub(crate) fn attach(&mut self, index: u32) {
        let file = self.at(index);
        file.users += 1;
        file.used = true;
    }

    /// A request does not need its file for the time being, or ever.
    #[inline]
    pub(crate) fn detach(&mut self, index: u32) {
        let file = self.at(index);
        assert!(file.users > 0, "a file counts its users");
        file.users -= 1;
        if file.users == 0 {
            self.note_idle(index);
        }
    }

    /// A request has completed; whether its file is to be let go of now.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) -> bool {
        let file = self.at(index);
        assert!(file.requests > 0, "a file counts its requests");
        file.requests -= 1;
        file.close_fired
    }

    /// An operation begins; its mount, if that can hang.
    #[inline]
    pub(crate) fn operation_began(&mut self, index: u32) -> u64 {
        let file = self.at(index);
        file.operations += 1;
        if !file.can_hang() {
            return 0;
        }
        let mount = file.mount();
        self.slow.entry(mount).or_default().operations += 1;
        mount
    }

    /// A call that uses the descriptor begins: [`Files::operation_done`] ends it.
    pub(crate) fn call_began(&mut self, index: u32) {
        self.at(index).operations += 1;
    }

    /// An operation has ended; whether its file is to be let go of now, and the requests that
    /// waited for a place on its mount.
    #[inline]
    pub(crate) fn operation_done(&mut self, index: u32, mount: u64) -> (bool, Vec<Id>) {
        let file = self.at(index);
        assert!(file.operations > 0, "a file counts its operations");
        file.operations -= 1;
        let (idle, closed) = (file.operations == 0, file.close_fired);
        let mut waiting = Vec::new();
        if mount != 0
            && let Some(slow) = self.slow.get_mut(&mount)
        {
            slow.operations -= 1;
            // As many as there are places; all if nothing else would release them.
            let places = limits::SLOW_OPERATIONS_MAX - slow.operations;
            let count = match slow.operations {
                0 => slow.waiting.len(),
                _ => slow.waiting.len().min(places as usize),
            };
            waiting = slow.waiting.drain(..count).collect();
            if slow.operations == 0 {
                self.slow.remove(&mount);
            }
        }
        if idle {
            self.note_idle(index);
        }
        (closed, waiting)
    }

    /// Requests that wait for a place on the mount of a file, if it has none.
    #[inline]
    pub(crate) fn full_mount(&mut self, index: u32) -> Option<&mut Vec<Id>> {
        let file = self.at(index);
        if !file.can_hang() {
            return None;
        }
        let mount = file.mount();
        let slow = self.slow.get_mut(&mount)?;
        (slow.operations >= limits::SLOW_OPERATIONS_MAX).then_some(&mut slow.waiting)
    }

    /// The close entry of a file takes effect.
    pub(crate) fn fire_close(&mut self, id: FileId) -> bool {
        match self.get(id) {
            Some(file) => {
                file.close_fired = true;
                true
            }
            None => false,
        }
    }

    /// Lets go of a closed file that nothing needs any more; whether it is gone. Its descriptors
    /// are to be closed.
    pub(crate) fn finish_close(&mut self, index: u32, into: &mut Vec<Descriptor>) -> bool {
        let file = self.at(index);
        let busy = file.requests > 0 || file.operations > 0 || file.is_being_opened();
        if !file.close_fired || busy {
            return false;
        }
        if matches!(file.phase, Phase::Queued(_)) {
            self.queued -= 1;
        }
        let file = self.at(index);
        let before = into.len();
        file.take_descriptors(into);
        self.closing += into.len() - before;
        self.files[index as usize] = None;
        true
    }

    /// Takes all descriptors of files without operations, at the end.
    pub(crate) fn take_all(&mut self, into: &mut Vec<Descriptor>) {
        for file in self.files.iter_mut().flatten() {
            if file.operations == 0 {
                file.take_descriptors(into);
            }
        }
    }

    /// The access that reads of a file ask for.
    pub(crate) fn access_of(&self, file: &File) -> Access {
        file.options.access.unwrap_or(self.access)
    }
}

/// An open that begins.
pub(crate) struct NextOpen {
    pub(crate) index: u32,
    pub(crate) direct_only: bool,
    pub(crate) urgent: bool,
}

impl File {
    fn note_opened(&mut self, opened: Opened, storage_access: Access) {
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
            access: self.options.access.unwrap_or(storage_access),
            local: opened.mount_kind == MountKind::Local,
            can_hang: opened.mount_kind == MountKind::Slow,
            package: self.options.package,
        });
        self.phase = Phase::Open(opened.descriptor);
        self.append_at = self.append_at.or(Some(opened.len));
        self.about = Some(opened);
    }

    /// The error of requests of a file that could not be opened.
    fn open_error(&self, error: &IoError) -> Error {
        match error.errno {
            Errno::STALE if self.about.is_some() => Error::new(ErrorKind::StaleFile, error.cause),
            _ => Error::from(error.clone()),
        }
    }

    fn take_descriptors(&mut self, into: &mut Vec<Descriptor>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions among `reads` reads of a cold file.
    fn questions(streak: &mut Streak, reads: usize) -> usize {
        let mut count = 0;
        for _ in 0..reads {
            match streak.view() {
                Hits::Trusted => panic!("a cold file is not trusted"),
                Hits::Due => {
                    count += 1;
                    streak.cold();
                }
                Hits::Unlikely => streak.skip = streak.skip.saturating_sub(1),
            }
        }
        count
    }

    #[test]
    fn a_cold_file_is_asked_about_less_and_less() {
        let mut streak = Streak::default();
        assert_eq!(questions(&mut streak, 1), 1);
        assert!(questions(&mut streak, 128) <= 7);
        assert_eq!(questions(&mut streak, 64 * 100), 100);
    }

    /// Whether a read of the file is a miss that nobody had asked about.
    fn fruitless(streak: &mut Streak, cached: bool) -> bool {
        match (streak.view(), cached) {
            (Hits::Trusted, true) | (Hits::Due, true) => streak.hit(),
            (Hits::Trusted, false) => {
                streak.missed();
                return true;
            }
            (Hits::Due, false) => streak.cold(),
            (Hits::Unlikely, _) => streak.skip = streak.skip.saturating_sub(1),
        }
        false
    }

    #[test]
    fn a_warm_file_is_trusted_soon_and_again_after_a_miss() {
        let mut streak = Streak::default();
        for misses in 0..4 {
            let mut reads = 0;
            while streak.view() != Hits::Trusted {
                assert!(!fruitless(&mut streak, true));
                reads += 1;
            }
            assert!(reads <= (8 << misses) + 2, "{reads}");
            assert!(fruitless(&mut streak, false));
        }
    }

    #[test]
    fn a_half_cached_file_costs_hardly_a_fruitless_read() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut streak = Streak::default();
        let reads = (0..100_000).filter(|_| fruitless(&mut streak, random.bool()));
        let misses = reads.count();
        assert!(misses < 50, "{misses} of 100000 reads were fruitless");
    }
}
