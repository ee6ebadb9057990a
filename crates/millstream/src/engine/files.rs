//! What is a file: handles, what is open, what waits to be opened, the limit on descriptors.
//!
//! Each open makes a handle (`file.rs`), with options and errors of its own; it means the file that
//! its path led to when it was opened, until its close. Handles of one path share the order and the
//! errors of writes, and descriptors where they certainly have the same file (`handles.rs`);
//! handles of one file share its end, where appends go (`ends.rs`).
//!
//! A handle has up to two descriptors, one through the page cache and one bypassing it; both count.
//! `requests` counts requests that name it and have not completed, handles that share its
//! descriptors, and what else needs it: it lives until then. `users` counts those that need it open
//! soon; a handle without users and operations is idle. An operation keeps its descriptors open
//! (`operations`). An idle handle may be closed to make room, if its path still leads to its file,
//! and is opened again later, if what identifies the file is still the same (`Known`): else its
//! requests fail with `StaleFile`. Handles that were written to stay open, since their close may
//! fail, and so do those whose path leads to another file: the limit does not count them. Packages
//! are closed last.
//!
//! Opens wait by urgency: direct descriptors, which are counted in the limit already; files that
//! urgent requests need; files that others need; files opened ahead of their first request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use millstream_io::device::calls::{LetGoAnswer, LetGoCall, OpenAnswer, OpenCall};
use millstream_io::fs::is_out_of_descriptors;
use millstream_io::{Access, IoError, Numbering, OpenMode, OwnedDescriptor};

use crate::caller::queue::QueueShared;
use crate::error::{Error, ErrorKind};
use crate::handover::names::NewFile;
use crate::ids::{FileId, Id};
use crate::limits;

mod ends;
mod file;
mod handles;
mod streak;
mod writes;

use ends::Ends;
pub(crate) use ends::{EndKey, InLine};
use file::Phase;
pub(crate) use file::{Direct, File, Urgency};
pub(crate) use handles::Look;
use writes::Writes;

/// The close of a descriptor: who hears of an error.
pub(crate) struct Closing {
    pub(crate) path: Arc<Path>,
    /// Of a handle that was opened for writing.
    writes: Option<u32>,
    pub(crate) by: Option<(Arc<QueueShared>, u64)>,
}

/// The process, or the system, has no descriptor left. That is a moment: opens are tried again
/// after a close of the storage's own, or after 1, 2, 4 ... 64 ms, and fail once a second has
/// passed without an open that succeeded. The storage's limit is lowered to what it has open and
/// one open more, and grows by one with each open that succeeds.
#[derive(Clone, Copy)]
struct Shortage {
    since_ns: u64,
    wait_ns: u64,
    again_ns: u64,
    warned: bool,
}

impl Shortage {
    fn new(now_ns: u64) -> Shortage {
        let wait_ns = limits::SHORTAGE_WAIT_NS;
        Shortage {
            since_ns: now_ns,
            wait_ns,
            again_ns: now_ns + wait_ns,
            warned: false,
        }
    }

    /// Another open has failed. Once a second has passed all others try at once, and fail.
    fn goes_on(&mut self, now_ns: u64) {
        if self.is_over(now_ns) {
            self.again_ns = 0;
        } else if now_ns >= self.again_ns {
            self.wait_ns = limits::SHORTAGE_WAIT_NS_MAX.min(2 * self.wait_ns);
            self.again_ns = now_ns + self.wait_ns;
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= limits::SHORTAGE_MAX_NS
    }
}

/// Operations on a mount that can hang, and the requests that wait for them.
#[derive(Default)]
struct SlowMount {
    operations: u32,
    waiting: Vec<Id>,
}

/// The error of an open that found no descriptor for a second.
fn short_of_descriptors(held: usize, limit: usize, error: &IoError) -> Error {
    let most = millstream_io::limits::descriptors_max();
    let cause = format!(
        "no file descriptor was free for a second: this storage has {held} of its limit of {limit}, \
         the process may have {most}; close files ({})",
        error.cause
    );
    Error::new(ErrorKind::Limit, cause)
}

fn peek(files: &[Option<Box<File>>], id: FileId) -> Option<&File> {
    let file = files.get(id.0.index() as usize)?.as_deref()?;
    (file.id == id).then_some(file)
}

/// The files of a storage.
pub(crate) struct Files {
    files: Vec<Option<Box<File>>>,
    /// Waiting opens, by urgency and order.
    queued: BTreeMap<(Reverse<Urgency>, u64), u32>,
    entered: u64,
    /// Opens in flight, with the time of their start.
    opening: HashMap<u32, u64>,
    /// Descriptors that are open, reserved by opens in flight, or being closed.
    pub(crate) descriptors: usize,
    descriptors_max: usize,
    /// What `descriptors_max` grows to after a shortage.
    descriptors_limit: usize,
    shortage: Option<Shortage>,
    /// Of `descriptors`, those that are being closed.
    closing: usize,
    /// Handles that were idle, each once, oldest first; looked at again when room is needed.
    /// Packages have a list of their own.
    idle: [VecDeque<FileId>; 2],
    /// Of `descriptors`, those that stay open.
    pinned: usize,
    /// Handles that others wait to share the descriptors of.
    looks: Vec<FileId>,
    /// Handles whose requests waited for a call, and wait for an open now that is queued.
    pub(crate) requeued: Vec<FileId>,
    /// Handles that may have been closed and be needed no more.
    pub(crate) unneeded: Vec<FileId>,
    /// A handle of each path.
    places: HashMap<Arc<Path>, u32>,
    writes: Vec<Writes>,
    free_writes: Vec<u32>,
    /// Descriptors to be closed.
    pub(crate) closes: Vec<(OwnedDescriptor, Closing)>,
    slow: HashMap<u64, SlowMount>,
    pub(crate) ends: Ends,
    access: Access,
    /// Whether any file so far is on a rotating disk.
    rotating: bool,
    /// Whether any file so far is on overlay.
    layered: bool,
}

impl Files {
    /// The limit on descriptors if an application asks for `wanted`: one above that of the process
    /// would only show as failed opens.
    pub(crate) fn descriptors_max(wanted: usize) -> usize {
        let share = millstream_io::limits::descriptors_max() / limits::DESCRIPTORS_SHARE;
        wanted
            .min(usize::try_from(share).unwrap_or(usize::MAX))
            .max(2)
    }

    pub(crate) fn new(descriptors: usize, access: Access) -> Files {
        let descriptors_max = Files::descriptors_max(descriptors);
        Files {
            files: Vec::new(),
            queued: BTreeMap::new(),
            entered: 0,
            opening: HashMap::new(),
            descriptors: 0,
            descriptors_max,
            descriptors_limit: descriptors_max,
            shortage: None,
            closing: 0,
            idle: Default::default(),
            pinned: 0,
            looks: Vec::new(),
            requeued: Vec::new(),
            unneeded: Vec::new(),
            places: HashMap::new(),
            writes: Vec::new(),
            free_writes: Vec::new(),
            closes: Vec::new(),
            slow: HashMap::new(),
            ends: Ends::default(),
            access,
            rotating: false,
            layered: false,
        }
    }

    /// Whether requests may have positions on rotating disks.
    #[inline]
    pub(crate) fn have_positions(&self) -> bool {
        self.rotating
    }

    /// Adds a handle: one that is open, which may exceed the limit on descriptors until idle ones
    /// are closed, or one that is to be opened ahead of its use.
    pub(crate) fn add(&mut self, id: FileId, mut new: NewFile) {
        let index = id.0.index();
        if index as usize >= self.files.len() {
            self.files.resize_with(index as usize + 1, || None);
        }
        let opened = new.opened.take();
        let access = new.options.access.unwrap_or(self.access);
        let file = Box::new(File::new(id, new, access));
        let before = self.files[index as usize].replace(file);
        assert!(before.is_none(), "an index has one file at a time");
        let other = self.link(index);
        let Some(opened) = opened else {
            if !other.is_some_and(|other| self.share(index, other)) {
                self.want(index, Urgency::Ahead);
            }
            return;
        };
        self.rotating |= opened.rotating;
        self.descriptors += 1;
        let file = self.at(index);
        (file.opened_once, file.adopted, file.is_fresh) = (true, true, false);
        file.note_opened(opened);
        self.note_end(index);
        self.note_idle(index);
    }

    /// A file was opened: whose turn to append it shares is known, if it may be written to.
    fn note_end(&mut self, index: u32) {
        let file = self.at(index);
        if file.end.is_some() || !file.options.write {
            return;
        }
        if let Some(known) = &file.known {
            let key = Ends::key(known, &file.place);
            file.end = Some(key);
            self.ends.opened(key);
        }
    }

    /// The end of a file that was opened for writing.
    pub(crate) fn end_of(&self, index: u32) -> EndKey {
        self.peek_at(index).end().expect("open for writing")
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

    /// As [`Files::at`], to be looked at.
    pub(crate) fn peek_at(&self, index: u32) -> &File {
        let file = self.files[index as usize].as_deref();
        file.expect("a file lives as long as its requests")
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

    /// The number of opens that are queued or in flight.
    pub(crate) fn opening(&self) -> usize {
        self.opening.len() + self.queued.len()
    }

    /// Queues a file to be opened, or makes its open more urgent.
    pub(crate) fn want(&mut self, index: u32, urgency: Urgency) {
        match self.at(index).phase {
            Phase::Closed => {}
            Phase::Queued(before, order) if before < urgency => {
                self.queued.remove(&(Reverse(before), order));
            }
            _ => return,
        }
        self.at(index).phase = Phase::Queued(urgency, self.entered);
        self.enter(index, urgency);
    }

    fn enter(&mut self, index: u32, urgency: Urgency) {
        self.queued.insert((Reverse(urgency), self.entered), index);
        self.entered += 1;
    }

    /// The state of the direct descriptor that a request needs, which is queued if there is room;
    /// `Closed`: there is none now, and what can be read through the page cache is.
    pub(crate) fn want_direct(&mut self, index: u32, demanded: bool) -> &Direct {
        let is_short = self.shortage.is_some();
        let room = demanded || self.room() > 0 && !is_short;
        let file = self.at(index);
        if file.direct == Direct::Closed && room && !file.is_short_of_direct {
            file.direct = Direct::Opening;
            self.descriptors += 1;
            self.enter(index, Urgency::Direct);
        }
        &self.at(index).direct
    }

    /// The next file to open, if one may be opened now: its index, whether it is urgent, and the
    /// call. Opens that have run longer than `OPEN_HUNG_NS` do not count.
    pub(crate) fn next_open(&mut self, now_ns: u64) -> Option<(u32, bool, OpenCall)> {
        let (&(Reverse(urgency), _), &index) = self.queued.first_key_value()?;
        if self.shortage.is_some_and(|short| now_ns < short.again_ns) {
            return None;
        }
        let recent = |started: &&u64| now_ns.saturating_sub(**started) < limits::OPEN_HUNG_NS;
        let most = match urgency {
            Urgency::Ahead => limits::OPENS_AHEAD_MAX,
            _ => limits::OPENS_MAX,
        };
        let is_full =
            self.opening.len() >= most && self.opening.values().filter(recent).count() >= most;
        let spare = match urgency {
            Urgency::Ahead | Urgency::Wanted if !self.opening.is_empty() => {
                limits::OPENS_URGENT.min(self.descriptors_max / 8)
            }
            _ => 0,
        };
        if is_full || !(urgency == Urgency::Direct || self.reserve(spare)) {
            return None;
        }
        self.queued.pop_first();
        self.opening.insert(index, now_ns);
        let file = self.at(index);
        if urgency != Urgency::Direct {
            file.phase = Phase::Opening;
        }
        let call = self.open_call(index, urgency != Urgency::Direct);
        Some((index, urgency >= Urgency::Urgent, call))
    }

    /// Whether more opens are wanted than there is room for: a file would be closed for others soon
    /// after it has been read.
    pub(crate) fn is_crowded(&self) -> bool {
        2 * (self.queued.len() + self.opening.len()) > self.descriptors_max
    }

    /// Whether the next open waits for a descriptor.
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        let next = self.queued.first_key_value();
        next.is_some_and(|((urgency, _), _)| urgency.0 != Urgency::Direct)
            && (self.shortage.is_some() || self.room() < 2)
    }

    /// When opens are tried again that wait for a descriptor of the process, or for the moment from
    /// which a hung open does not count.
    pub(crate) fn retry_at(&self, now_ns: u64) -> Option<u64> {
        if self.queued.is_empty() {
            return None;
        }
        if let Some(short) = &self.shortage
            && short.again_ns > now_ns
        {
            return Some(short.again_ns);
        }
        if self.opening.len() < limits::OPENS_AHEAD_MAX {
            return None;
        }
        let hung = |started: &u64| started.saturating_add(limits::OPEN_HUNG_NS);
        self.opening
            .values()
            .map(hung)
            .filter(|at| *at > now_ns)
            .min()
    }

    /// How many more descriptors the limit allows.
    fn room(&self) -> usize {
        let most = self.descriptors_max + self.pinned;
        most.saturating_sub(self.descriptors)
    }

    /// Reserves room for the two descriptors that a file may have, beside `spare` others.
    fn reserve(&mut self, spare: usize) -> bool {
        if self.room() < 2 + spare {
            return false;
        }
        self.descriptors += 2;
        true
    }

    /// The call for an open, without an offer.
    fn open_call(&mut self, index: u32, buffered: bool) -> OpenCall {
        let renew = match buffered && self.layered {
            true => self.note_readers(index),
            false => Vec::new(),
        };
        let file = self.at(index);
        let options = file.options;
        let first = !std::mem::replace(&mut file.opened_once, true);
        let expected = file.known;
        OpenCall {
            path: Arc::clone(&file.place),
            mode: OpenMode {
                write: options.write,
                // Only the first open creates and truncates: a file that was closed to make room
                // must be found again as it was left.
                create: options.create && first,
                exclusive: options.exclusive && first,
                truncate: options.truncate && first,
                direct: false,
            },
            buffered,
            access: file.access,
            direct_from: match options.package {
                _ if options.write => u64::MAX,
                true => 0,
                false => limits::DIRECT_BYTES_MIN,
            },
            expected,
            renew,
            offer: None,
            close_read: false,
        }
    }

    /// Takes the answer of an open; returns whether its waiters are to check again. A file for
    /// which the process has no descriptor left is queued again.
    pub(crate) fn open_done(&mut self, index: u32, answer: OpenAnswer, now_ns: u64) -> bool {
        let is_done = self.take_answer(index, answer, now_ns);
        self.note_sharers(index);
        is_done
    }

    fn take_answer(&mut self, index: u32, answer: OpenAnswer, now_ns: u64) -> bool {
        self.opening.remove(&index);
        let reserved = if answer.opened.is_some() { 2 } else { 1 };
        self.descriptors -= reserved;
        let held = self.descriptors - self.pinned;
        if let Some(Ok(opened)) = &answer.opened {
            self.rotating |= opened.rotating;
            self.layered |= opened.numbering == Numbering::Layered;
        }
        let is_over = self.note_shortage(&answer, now_ns);
        let descriptors_limit = self.descriptors_limit;
        let file = self.at(index);
        match answer.opened {
            Some(Ok(opened)) => {
                file.note_opened(opened);
                if answer.closed.is_some() {
                    file.phase = Phase::Closed;
                }
            }
            // The process has fewer descriptors than the limit, which is lowered for now.
            Some(Err(error)) if is_out_of_descriptors(&error) && !is_over => {
                file.phase = Phase::Closed;
                file.opened_once = file.known.is_some();
                // Room for one open, which is tried again.
                self.descriptors_max = descriptors_limit.min(held + 2);
                self.want(index, Urgency::Urgent);
                return false;
            }
            Some(Err(error)) if is_out_of_descriptors(&error) => {
                file.phase = Phase::Failed(short_of_descriptors(held, descriptors_limit, &error));
            }
            Some(Err(error)) => file.phase = Phase::Failed(file.open_error(&error)),
            None => {}
        }
        let is_direct = matches!(answer.direct, Some(Ok(_)));
        file.direct_done(answer.direct, is_over);
        let count = file.descriptors();
        let readers = std::mem::take(&mut file.readers);
        for (reader, renewed) in readers.into_iter().zip(answer.renewed) {
            if let Some(descriptor) = renewed {
                self.renew(reader, descriptor, index);
            }
        }
        self.note_end(index);
        self.descriptors += match reserved {
            2 => count,
            _ => usize::from(is_direct),
        };
        self.count_pinned(index);
        self.note_idle(index);
        if is_over && self.opening() == 0 {
            // The next open has a second of its own.
            self.shortage = None;
        }
        true
    }

    /// Notes whether an open found no descriptor; returns whether it is to fail for that.
    fn note_shortage(&mut self, answer: &OpenAnswer, now_ns: u64) -> bool {
        let direct = answer.direct.as_ref().map(|direct| direct.as_ref().err());
        let opened = answer.opened.as_ref().map(|opened| opened.as_ref().err());
        if matches!((opened, direct), (Some(None), _) | (_, Some(None))) {
            self.shortage = None;
            self.descriptors_max = self.descriptors_limit.min(self.descriptors_max + 1);
        }
        if !opened
            .or(direct)
            .flatten()
            .is_some_and(is_out_of_descriptors)
        {
            return false;
        }
        let short = self.shortage.get_or_insert(Shortage::new(now_ns));
        short.goes_on(now_ns);
        short.is_over(now_ns)
    }

    /// The limit that the process imposes, for a warning at the beginning of a shortage.
    pub(crate) fn shortage_began(&mut self) -> Option<usize> {
        let short = self.shortage.as_mut()?;
        (!std::mem::replace(&mut short.warned, true)).then_some(self.descriptors_max)
    }

    /// The requests that waited for an open have its length: later whole reads ask for it, also the
    /// first where that takes no call.
    pub(crate) fn served(&mut self, index: u32) {
        let file = self.at(index);
        file.is_fresh &= file.can_hang();
    }

    /// The requests that waited for an open have failed with it. Later ones try again if it found
    /// no descriptor, or if the file was open before.
    pub(crate) fn forgive(&mut self, index: u32) {
        let file = self.at(index);
        let is_known = file.known.is_some();
        let is_short = |error: &Error| error.kind() == ErrorKind::Limit;
        if file
            .failure()
            .is_some_and(|error| is_known || is_short(error))
        {
            file.phase = Phase::Closed;
            file.opened_once = is_known;
        }
    }

    /// Begins to close an idle handle, if waiting opens need room.
    pub(crate) fn evict(&mut self) -> Option<(u32, LetGoCall)> {
        let last = self.queued.last_key_value();
        let waiting = last.is_some_and(|((urgency, _), _)| urgency.0 != Urgency::Direct);
        let margin = (self.descriptors_max / 4).min(limits::EVICT_MARGIN);
        while waiting && self.room() + self.closing < 2 + margin {
            let [plain, packages] = &mut self.idle;
            let id = plain.pop_front().or_else(|| packages.pop_front())?;
            let Some(file) = self.get(id) else {
                continue;
            };
            file.listed = false;
            if !file.is_idle() || file.descriptors() == 0 || file.pinned.is_some() {
                continue;
            }
            if std::mem::take(&mut file.used) {
                // A second chance: it is closed next time unless it was used again.
                self.note_idle(id.0.index());
                continue;
            }
            let call = file.let_go();
            self.closing += self.at(id.0.index()).descriptors();
            return Some((id.0.index(), call));
        }
        None
    }

    /// Takes the answer of a close to make room; returns the error of the close.
    pub(crate) fn gone(&mut self, index: u32, answer: LetGoAnswer) -> Option<IoError> {
        let count = self.at(index).descriptors();
        let is_kept = matches!(answer, LetGoAnswer::Kept(_));
        let error = self.at(index).gone(answer);
        self.closing -= count;
        match is_kept {
            true => self.pin(index),
            false => self.count_closed(count),
        }
        if !is_kept && !self.at(index).waiters.is_empty() {
            self.want(index, Urgency::Urgent);
            let id = self.at(index).id;
            self.requeued.push(id);
        }
        error
    }

    /// The next syncs of the handles of a path report the error of a close.
    pub(crate) fn close_failed(&mut self, index: u32, error: Error) {
        self.order(index).close_failed(error);
    }

    fn count_closed(&mut self, count: usize) {
        assert!(self.descriptors >= count, "a closed descriptor was open");
        self.descriptors -= count;
        if let Some(short) = &mut self.shortage {
            short.again_ns = 0;
        }
    }

    /// Has a handle stay open until its close.
    fn pin(&mut self, index: u32) {
        self.at(index).pinned.get_or_insert(0);
        self.count_pinned(index);
    }

    /// The descriptors of a handle that stays open do not count in the limit, also later ones.
    fn count_pinned(&mut self, index: u32) {
        let file = self.at(index);
        let count = file.descriptors();
        if let Some(pinned) = &mut file.pinned {
            let before = std::mem::replace(pinned, count);
            self.pinned = self.pinned + count - before;
        }
    }

    /// A write of an open handle begins.
    pub(crate) fn write_begins(&mut self, index: u32) {
        if self.at(index).pinned.is_none() {
            self.pin(index);
        }
    }

    /// A descriptor was closed, or its close has failed, which closes it all the same: there is
    /// room for another. The next syncs of the handles of its path report the error.
    pub(crate) fn closed(&mut self, closing: &Closing, error: Option<&Error>) {
        self.closing -= 1;
        self.count_closed(1);
        if let Some(writes) = closing.writes {
            if let Some(error) = error {
                self.writes[writes as usize].close_failed(error.clone());
            }
            self.leave_writes(writes);
        }
    }

    /// The order of writes of a handle's path, which all of its handles share.
    fn writes_of(&mut self, index: u32) -> u32 {
        if let Some(writes) = self.at(index).writes {
            return writes;
        }
        let writes = self.free_writes.pop().unwrap_or_else(|| {
            self.writes.push(Writes::default());
            self.writes.len() as u32 - 1
        });
        let mut next = index;
        loop {
            let file = self.at(next);
            file.writes = Some(writes);
            next = file.next;
            self.writes[writes as usize].users += 1;
            if next == index {
                return writes;
            }
        }
    }

    fn leave_writes(&mut self, writes: u32) {
        let entry = &mut self.writes[writes as usize];
        entry.users -= 1;
        if entry.users == 0 {
            *entry = Writes::default();
            self.free_writes.push(writes);
        }
    }

    fn order(&mut self, index: u32) -> &mut Writes {
        let writes = self.writes_of(index);
        &mut self.writes[writes as usize]
    }

    /// Whether two handles share the order of writes.
    pub(crate) fn share_writes(&mut self, one: u32, other: u32) -> bool {
        self.writes_of(one) == self.writes_of(other)
    }

    /// Counts a write, in an earlier epoch if one is given, for which a sync waits; returns its
    /// epoch.
    pub(crate) fn write_arrived(&mut self, index: u32, earlier: Option<u64>) -> u64 {
        let order = self.order(index);
        match earlier {
            Some(epoch) => order.arrived_in(epoch),
            None => order.arrived(),
        }
    }

    /// Ends an epoch of writes; returns its number, for which a sync waits.
    pub(crate) fn sync_arrived(&mut self, index: u32) -> u64 {
        self.order(index).sync_arrived()
    }

    /// Counts a completed write out; returns the syncs that are due.
    pub(crate) fn write_completed(
        &mut self,
        index: u32,
        epoch: u64,
        failure: Option<&Error>,
    ) -> Vec<Id> {
        self.order(index).completed(epoch, failure)
    }

    /// Whether the writes that a sync waits for have completed; if not, it is returned by
    /// [`Files::write_completed`].
    pub(crate) fn may_sync(&mut self, index: u32, epoch: u64, sync: Id) -> bool {
        self.order(index).has_passed(epoch, sync)
    }

    /// The error of an earlier write or close that a sync of an epoch is the first of the handle's
    /// to report.
    pub(crate) fn take_error(&mut self, index: u32, epoch: u64) -> Option<Error> {
        let writes = self.writes_of(index) as usize;
        let file = self.at(index);
        let (since, from) = (file.errors_since, file.errors_from);
        file.errors_from = from.max(epoch + 1);
        self.writes[writes].error(since, from, epoch)
    }

    #[cold]
    fn note_idle(&mut self, index: u32) {
        let file = self.at(index);
        if !file.listed && file.is_idle() && file.descriptors() > 0 && file.pinned.is_none() {
            file.listed = true;
            let id = file.id;
            let idle = &mut self.idle[usize::from(file.options.package)];
            if idle.len() == idle.capacity() {
                // Before the list grows, files that are gone are dropped from it.
                let files = &self.files;
                idle.retain(|id| peek(files, *id).is_some());
                idle.reserve(idle.len().max(16));
            }
            idle.push_back(id);
        }
    }

    /// Uncounts a user of a file: a request that does not need it open for the time being.
    #[inline]
    pub(crate) fn detach(&mut self, index: u32) {
        if self.at(index).detached() {
            self.note_idle(index);
        }
    }

    /// Uncounts a completed request; returns whether its file is closed and may be freed.
    #[inline]
    pub(crate) fn release(&mut self, index: u32, attached: bool) -> bool {
        let file = self.at(index);
        assert!(file.requests > 0, "a file counts its requests");
        file.requests -= 1;
        let closed = file.close_fired;
        if attached && file.detached() {
            self.note_idle(index);
        }
        closed
    }

    /// Counts an operation that begins; returns its mount if that can hang, else 0.
    #[inline(always)]
    pub(crate) fn operation_began(&mut self, index: u32) -> u64 {
        let file = self.at(index);
        file.operations += 1;
        match file.can_hang() {
            true => self.began_on_mount(index),
            false => 0,
        }
    }

    #[cold]
    fn began_on_mount(&mut self, index: u32) -> u64 {
        let mount = self.at(index).mount();
        self.slow.entry(mount).or_default().operations += 1;
        mount
    }

    /// Counts a call that uses the descriptor, until [`Files::operation_done`].
    pub(crate) fn call_began(&mut self, index: u32) {
        self.at(index).operations += 1;
    }

    /// Uncounts an operation; returns whether its file is closed and may be freed.
    #[inline]
    pub(crate) fn operation_done(&mut self, index: u32) -> bool {
        let file = self.at(index);
        assert!(file.operations > 0, "a file counts its operations");
        file.operations -= 1;
        let closed = file.close_fired;
        if file.operations == 0 {
            self.last_operation_done(index);
        }
        closed
    }

    #[cold]
    fn last_operation_done(&mut self, index: u32) {
        if !self.at(index).replaced.is_empty() {
            self.close_replaced(index);
        }
        // Does nothing if it is not idle.
        self.note_idle(index);
    }

    /// Uncounts an operation of a mount that can hang; [`Files::let_in`] comes next.
    pub(crate) fn left_mount(&mut self, mount: u64) {
        let slow = self.slow.entry(mount);
        slow.and_modify(|slow| slow.operations -= 1);
    }

    /// Takes as many of the requests that wait for a mount as may begin an operation there; all if
    /// none is under way, as nothing else would release them. One that begins none (it ends, its
    /// queue is paused, it waits for an open, for staging, for its turn to append) lets others in.
    pub(crate) fn let_in(&mut self, mount: u64, is_known: impl Fn(Id) -> bool) -> Vec<Id> {
        let Some(slow) = self.slow.get_mut(&mount) else {
            return Vec::new();
        };
        if slow.operations == 0 {
            return self.slow.remove(&mount).expect("looked up").waiting;
        }
        let mut free = limits::SLOW_OPERATIONS_MAX.saturating_sub(slow.operations);
        let fit = slow.waiting.iter().take_while(|id| {
            let fits = free > 0;
            free = free.saturating_sub(is_known(**id).into());
            fits
        });
        let count = fit.count();
        slow.waiting.drain(..count).collect()
    }

    /// Whether operations are under way on mounts that can hang, for which others may wait.
    pub(crate) fn are_mounts_busy(&self) -> bool {
        !self.slow.is_empty()
    }

    /// The requests that wait for the mount of a file, if no operation may begin on it.
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

    /// Whether what the open of a handle does to its file is still to be done: its close takes
    /// effect later.
    pub(crate) fn must_open(&self, file: FileId) -> bool {
        self.peek(file).is_some_and(|file| {
            let is_under_way = matches!(file.phase, Phase::Queued(..) | Phase::Opening);
            file.options.changes() && file.known.is_none() && is_under_way
        })
    }

    /// Frees a closed handle that nothing needs any more; returns whether it did. The caller closes
    /// its descriptors.
    pub(crate) fn finish_close(&mut self, index: u32) -> bool {
        let file = self.at(index);
        let busy = file.requests > 0 || file.operations > 0 || file.is_being_opened();
        if !file.close_fired || busy {
            return false;
        }
        if let Phase::Queued(urgency, order) = file.phase {
            self.queued.remove(&(Reverse(urgency), order));
        }
        if let Some(owner) = self.at(index).shares() {
            self.release_owner(owner, false);
        }
        self.take_to_close(index);
        self.unlink(index);
        let file = self.files[index as usize].take();
        if let Some(key) = file.and_then(|file| file.end) {
            self.ends.closed(key);
        }
        true
    }

    /// Moves the descriptors of a handle to those that are to be closed.
    fn take_to_close(&mut self, index: u32) {
        let file = self.at(index);
        let (buffered, direct) = file.take_descriptors();
        let pinned = file.pinned.take().unwrap_or(0);
        let (writes, by) = (file.writes, file.closed_by.take());
        self.pinned -= pinned;
        if let Some(direct) = direct {
            self.close_later(index, direct);
        }
        if let Some(buffered) = buffered {
            self.close_later(index, buffered);
            if let Some(writes) = writes {
                self.writes[writes as usize].users += 1;
            }
            let (_, closing) = self.closes.last_mut().expect("it was added");
            (closing.writes, closing.by) = (writes, by);
        }
    }

    /// Has a descriptor of a handle closed.
    fn close_later(&mut self, index: u32, descriptor: OwnedDescriptor) {
        let path = Arc::clone(&self.at(index).path);
        self.closing += 1;
        let closing = Closing {
            path,
            writes: None,
            by: None,
        };
        self.closes.push((descriptor, closing));
    }

    /// Takes all descriptors of files without operations, at the end of the storage; those on
    /// mounts that can hang only with `also_slow`.
    pub(crate) fn take_all(&mut self, also_slow: bool) {
        for index in 0..self.files.len() {
            let file = self.files[index].as_deref();
            let is_idle = |file: &File| file.operations == 0 && !file.is_being_opened();
            if file.is_some_and(|file| is_idle(file) && (also_slow || !file.can_hang())) {
                self.take_to_close(index as u32);
            }
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests;
