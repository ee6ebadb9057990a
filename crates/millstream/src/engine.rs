//! The engine: one loop owns all deciding state.
//!
//! A round walks the data's way once: mail → intake → completions, answers, results → timers →
//! events → opens → issue → settle. Components own their fields and return values; only this module
//! sees all of them. Handlers look at one request and return a [`Flow`]; [`Engine::follow`] acts on
//! it and comes last. A request ends in [`Engine::finish`] and nowhere else, and nothing looks at
//! its slot afterwards; effects on other requests go into `events`, checked when they are popped.
//!
//! A request with operations, jobs or calls out does not end, with one exception: its timeout has
//! passed, or its device broke, and its memory is owned: then that moves to quarantine. A broken
//! invariant ends the process (`or_abort`): unwinding would free memory that the kernel may be
//! writing to.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;
use millstream_io::device::calls::{CallDone, OfferToken};
use millstream_io::{Arena, Completion, Descriptor};

use crate::complete::{HeldKey, Queues};
use crate::decode::jobs::{Job, JobResult, JobSink, JobTask, Task, run_job, run_task};
use crate::decode::workers::Jobs;
use crate::destination::MemoryKind;
use crate::error::{Error, ErrorKind};
use crate::files::Files;
use crate::group::Group;
use crate::heap::Heap;
use crate::ids::{FileId, Id};
use crate::lanes::Lanes;
use crate::limits;
use crate::mailbox::{Change, Letter, Pump, closed_error};
use crate::priority::Priority;
use crate::queue::{Cancellation, Fifo, Mailbox, NO_INDEX, Parcel, QueueShared, Wishes};
use crate::request::{Rare, Verb};
use crate::scheduler::{NO_DEADLINE, Order, Scheduler};
use crate::slots::{EngineSide, Freed};
use crate::staging::Staged;
use crate::state::{Event, State};
use crate::stats::Counters;
use crate::trace::{Lane as TraceLane, Span};
use crate::transfers::{Lane, Transfers};
use crate::waiters::wake_all;

mod back;
mod calls;
mod close;
mod intake;
mod issue;

use calls::CallTable;

/// What has happened to a request from outside its own way.
enum What {
    /// A fence may have been reached.
    GateOpen,
    /// It was held by its queue, its mount or earlier writes, and may be served again.
    Released,
    /// Its file is open, or failed to open.
    FileReady,
    /// It is to end.
    End(Error),
}

/// What a handler says of a request.
enum Flow {
    Wait,
    Runnable,
    /// It ends now, well or with an error.
    End(Option<Error>),
}

/// The engine's own columns of a slot: one cache line.
#[repr(C, align(64))]
struct Col {
    len: u64,
    issued: u64,
    sequence: u64,
    submitted_ns: u64,
    arrival: u64,
    /// Why it ends, set once.
    ending: Option<Error>,
    generation: u32,
    queue: u16,
    operations: u16,
    /// Jobs and calls out.
    jobs: u32,
    state: State,
    priority: Priority,
    verb: Verb,
    flags: u8,
}
const _: () = assert!(
    size_of::<Col>() == 64,
    "the columns of a slot are a cache line"
);

/// Flags of a column.
mod flag {
    /// It has a group, a deadline, a raw length or charged bytes.
    pub(super) const USUAL: u8 = 1;
    /// It has an entry in `extras`.
    pub(super) const EXTRA: u8 = 2;
    /// Counted among the requests of its file.
    pub(super) const HOLDS: u8 = 4;
    /// Counted among the users of its file.
    pub(super) const ATTACHED: u8 = 8;
    /// Never merged (again).
    pub(super) const ALONE: u8 = 16;
    /// The length of its file was asked for again.
    pub(super) const ASKED: u8 = 32;
    /// Its range is definite and was checked.
    pub(super) const PREPARED: u8 = 64;
    /// Counted among the writes of its file.
    pub(super) const WRITES: u8 = 128;
}

impl Default for Col {
    fn default() -> Col {
        Col {
            len: 0,
            issued: 0,
            sequence: 0,
            submitted_ns: 0,
            arrival: 0,
            ending: None,
            generation: 0,
            queue: 0,
            operations: 0,
            jobs: 0,
            state: State::Free,
            priority: Priority::Low,
            verb: Verb::Read,
            flags: 0,
        }
    }
}

impl Col {
    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn is_out(&self) -> bool {
        self.operations > 0 || self.jobs > 0
    }
}

/// What few requests have.
#[derive(Default)]
struct Extra {
    rare: Box<Rare>,
    staged: Option<Box<Staged>>,
    /// Its memory is offered to the open of its file (counted in `jobs`).
    offer: Option<Arc<OfferToken>>,
    /// What work on names is about, for errors.
    path: Option<Arc<Path>>,
}

/// Bytes per second of the devices while busy, smoothed; and how time was spent.
struct Rate {
    bytes_per_second: u64,
    bytes: u64,
    busy_ns: u64,
    last_ns: u64,
    /// Anything was in flight, and anything waited, when time was last accounted for.
    in_flight: bool,
    waited: bool,
}

/// See the header.
pub(crate) struct Engine {
    shared: Arc<Mailbox>,
    side: EngineSide,
    cols: Vec<Col>,
    extras: Vec<Option<Box<Extra>>>,
    lanes: Lanes,
    arena: Arena,
    /// Windows of staging taken; after some of them staging is registered with the device.
    windows: u64,
    scheduler: Scheduler,
    /// Requests whose stored bytes are in memory: they wait for workers, and for no device.
    memory_scheduler: Scheduler,
    files: Files,
    queues: Queues,
    transfers: Transfers,
    calls: CallTable,
    /// Timeouts by slot.
    timers: Heap,
    /// Ends of bandwidth holds by queue.
    holds: Heap,
    /// Requests that wait for fences.
    gated: Vec<Id>,
    gated_bytes: u64,
    /// Changes of priority of requests that have not arrived.
    early: HashMap<Id, Change>,
    events: VecDeque<(Id, What)>,
    jobs: Arc<Jobs>,
    new_jobs: Vec<JobTask>,
    jobs_out: usize,
    closes: Vec<Descriptor>,
    wakers: Vec<Waker>,
    /// Groups of requests that ended in this round, told once their outcomes can be had.
    groups: Vec<(Group, Option<ErrorKind>, u64)>,
    /// Lists that are used again.
    dirty: Vec<Arc<QueueShared>>,
    results: Vec<JobResult>,
    letters: Vec<Letter<QueueShared>>,
    wishes: Vec<(u32, Wishes)>,
    changes: HashMap<Id, Change>,
    completions: Vec<Completion>,
    answers: Vec<CallDone>,
    now_ns: u64,
    arrivals: u64,
    rate: Rate,
    repeat_bytes: u64,
    closing: Option<Option<Instant>>,
    closed: bool,
    scratch: Scratch,
    /// How long the last sleep took.
    last_gap: Duration,
}

/// Lets the engine work. A broken invariant ends the process.
pub(crate) fn or_abort<T>(shared: &Mailbox, work: impl FnOnce() -> T) -> T {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| {
        let cause = panic.downcast_ref::<String>().map(String::as_str);
        let cause = cause.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = "the engine broke an invariant of its own; the process ends";
        shared.warn(format!("{text}: {}", cause.unwrap_or("unknown")));
        shared.log.flush(Duration::from_millis(200));
        std::process::abort();
    })
}

impl Engine {
    pub(crate) fn new(
        shared: &Arc<Mailbox>,
        side: EngineSide,
        lanes: Lanes,
        jobs: Arc<Jobs>,
    ) -> Result<Engine, Error> {
        let options = &shared.options;
        let arena = Arena::new(options.staging_bytes, options.allocator.clone())?;
        let capacity = arena.capacity() as u64;
        shared.counters.staging_capacity_bytes.set(capacity);
        let block_bytes = options.block_bytes as u64;
        Ok(Engine {
            side,
            cols: Vec::new(),
            extras: Vec::new(),
            lanes,
            arena,
            windows: 0,
            scheduler: Scheduler::new(block_bytes),
            memory_scheduler: Scheduler::new(block_bytes),
            files: Files::new(options.descriptors, options.access),
            queues: Queues::default(),
            transfers: Transfers::default(),
            calls: CallTable::default(),
            timers: Heap::default(),
            holds: Heap::default(),
            gated: Vec::new(),
            gated_bytes: 0,
            early: HashMap::new(),
            events: VecDeque::new(),
            jobs,
            new_jobs: Vec::new(),
            jobs_out: 0,
            closes: Vec::new(),
            wakers: Vec::new(),
            groups: Vec::new(),
            dirty: Vec::new(),
            results: Vec::new(),
            letters: Vec::new(),
            wishes: Vec::new(),
            changes: HashMap::new(),
            completions: Vec::new(),
            answers: Vec::new(),
            now_ns: 0,
            arrivals: 0,
            rate: Rate {
                bytes_per_second: 2_000_000_000,
                bytes: 0,
                busy_ns: 0,
                last_ns: 0,
                in_flight: false,
                waited: false,
            },
            repeat_bytes: 0,
            closing: None,
            closed: false,
            scratch: Scratch::default(),
            last_gap: Duration::MAX,
            shared: Arc::clone(shared),
        })
    }

    /// The engine thread's loop: until the storage is closed.
    pub(crate) fn run(&mut self) {
        while !self.closed {
            let worked = self.round();
            if self.closing.is_some() && self.try_close() {
                return;
            }
            if !worked {
                self.sleep(None);
            }
        }
    }

    /// One round; whether anything was done.
    fn round(&mut self) -> bool {
        self.now_ns = self.shared.now_ns();
        let mut worked = self.take_mail();
        worked |= self.intake();
        worked |= self.lanes.reap(&mut self.completions) > 0 || !self.completions.is_empty();
        self.complete_all();
        worked |= self.lanes.reap_calls(&mut self.answers) > 0;
        self.answer_all();
        worked |= self.take_results();
        worked |= self.fire_timers();
        worked |= self.handle_events();
        self.start_opens();
        worked |= self.issue_all();
        worked |= self.send_jobs();
        worked |= self.handle_events();
        self.push_all();
        self.settle();
        worked
    }

    /// Takes submissions, letters and results.
    fn take_mail(&mut self) -> bool {
        if !self.shared.take_mail_flag() {
            return false;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        self.shared.take_dirty(&mut dirty, &mut self.results);
        for queue in dirty.drain(..) {
            if queue.index.load(Ordering::Relaxed) == NO_INDEX {
                // The letter that announces it was put before.
                self.take_letters();
            }
            self.take_queue(&queue);
        }
        self.dirty = dirty;
        // Letters put before a submission are handled before its intake.
        self.take_letters();
        let mut wishes = std::mem::take(&mut self.wishes);
        for (queue, asked) in wishes.drain(..) {
            self.grant(queue, asked);
        }
        self.wishes = wishes;
        if self.shared.take_fences_flag() {
            let gated = std::mem::take(&mut self.gated);
            let open = gated.into_iter().map(|id| (id, What::GateOpen));
            self.events.extend(open);
        }
        true
    }

    fn take_queue(&mut self, queue: &Arc<QueueShared>) {
        let index = queue.index.load(Ordering::Relaxed);
        if self.queues.get(index).is_none() {
            // It was dropped and let go of; something may still have been asked of it.
            return;
        }
        let mut parcels = Vec::new();
        let state = self.queues.state(index);
        let wishes = queue.take(&mut parcels, &mut state.spare);
        let taken = parcels.into_iter().map(|parcel: Parcel| (parcel, 0));
        state.backlog.extend(taken);
        self.wishes.push((index, wishes));
    }

    fn take_letters(&mut self) {
        let mut letters = std::mem::take(&mut self.letters);
        let mut changes = std::mem::take(&mut self.changes);
        self.shared.take_letters(&mut letters, &mut changes);
        for letter in letters.drain(..) {
            self.letter(letter);
        }
        for (id, change) in changes.drain() {
            match self.is_known(id) {
                true => self.change(id.index(), change),
                false if self.side.is_pending(id) => {
                    self.early.insert(id, change);
                }
                false => {}
            }
        }
        (self.letters, self.changes) = (letters, changes);
    }

    fn letter(&mut self, letter: Letter<QueueShared>) {
        match letter {
            Letter::Open {
                file,
                path,
                options,
            } => self.files.add(file, path, options),
            Letter::Adopt {
                file,
                path,
                options,
                opened,
            } => self.files.adopt(file, path, options, opened),
            Letter::Queue(queue) => {
                if self.closing.is_some() {
                    queue.close();
                }
                self.queues.add(queue);
            }
            Letter::Cancel(id) => {
                // One that has not arrived is found by its interest.
                if self.is_known(id) {
                    let canceled = Error::new(ErrorKind::Canceled, "");
                    self.drive(id.index(), What::End(canceled));
                }
            }
            Letter::Close(deadline) => self.begin_close(deadline),
        }
    }

    /// Whether a request has arrived and has not ended.
    fn is_known(&self, id: Id) -> bool {
        is_known(&self.cols, id)
    }

    /// Does what was asked of a queue.
    fn grant(&mut self, queue: u32, asked: Wishes) {
        if !asked.cancellations.is_empty() {
            self.cancel_where(queue, asked.cancellations);
        }
        let now_ns = self.now_ns;
        let state = self.queues.state(queue);
        if let Some(paused) = asked.paused {
            state.paused = paused;
        }
        if let Some(limit) = asked.bandwidth {
            state.set_bandwidth(limit, now_ns);
        }
        if asked.paused.is_some() || asked.bandwidth.is_some() {
            self.unhold(queue);
        }
        if asked.dropped {
            self.queue_dropped(queue);
        }
    }

    /// No handle of a queue is left: what a fence holds back is canceled, and nothing pauses it.
    fn queue_dropped(&mut self, queue: u32) {
        let state = self.queues.touch(queue);
        state.dropped = true;
        state.paused = false;
        self.unhold(queue);
        for index in self.live_of(queue) {
            if self.waits_for_fence(index) {
                self.drive(index, What::End(Error::new(ErrorKind::Canceled, "")));
            }
        }
    }

    /// Slots of a queue's live requests.
    fn live_of(&mut self, queue: u32) -> Vec<u32> {
        let chunks = self.queues.state(queue).shared.pool.chunks();
        let slots = chunks
            .into_iter()
            .flat_map(|first| first..first + limits::SLOT_CHUNK);
        let live = |index: &u32| {
            let col = self.cols.get(*index as usize);
            col.is_some_and(|col| col.state != State::Free && u32::from(col.queue) == queue)
        };
        slots.filter(live).collect()
    }

    fn cancel_where(&mut self, queue: u32, mut cancellations: Vec<Cancellation>) {
        for index in self.live_of(queue) {
            if self.is_canceled(index, &cancellations) {
                self.drive(index, What::End(Error::new(ErrorKind::Canceled, "")));
            }
        }
        // The others concern entries that have not arrived: they stay until intake is past those.
        let state = self.queues.state(queue);
        cancellations.retain(|one| one.before > state.next_sequence);
        state.cancellations.append(&mut cancellations);
    }

    fn is_canceled(&mut self, index: u32, cancellations: &[Cancellation]) -> bool {
        let tag = self.side.tag(index);
        let col = &self.cols[index as usize];
        let group = match col.has(flag::USUAL) {
            true => self.side.usual(index).group.as_ref(),
            false => None,
        };
        let mut each = cancellations.iter();
        each.any(|one| one.matches(col.sequence, tag, group))
    }

    /// A queue's held requests may be served again (or are held again when their turn comes).
    fn unhold(&mut self, queue: u32) {
        let now_ns = self.now_ns;
        let Some(state) = self.queues.get(queue) else {
            return;
        };
        if state.paused || state.held.is_empty() {
            return;
        }
        let until = state.held_until(now_ns);
        let most = match (&state.bucket, until) {
            (None, _) => usize::MAX,
            (Some(_), Some(_)) => 0,
            // What is issued of these releases more, as long as the bandwidth lasts.
            (Some(_), None) => limits::HELD_RELEASED,
        };
        for _ in 0..most {
            let Some((_, id)) = state.held.pop_first() else {
                break;
            };
            self.events.push_back((id, What::Released));
        }
        if !state.held.is_empty() {
            let again = until.unwrap_or(now_ns + limits::HELD_RETRY_NS);
            self.holds.remove(queue);
            self.holds.insert(again, 0, queue);
        }
    }

    fn change(&mut self, index: u32, (priority, deadline): Change) {
        let id = self.id(index);
        let col = &mut self.cols[index as usize];
        let before = held_key(std::mem::replace(&mut col.priority, priority), col.arrival);
        let after = held_key(priority, col.arrival);
        let state = self.queues.state(u32::from(col.queue));
        if state.held.remove(&before).is_some() {
            state.held.insert(after, id);
        }
        let has_usual = self.cols[index as usize].has(flag::USUAL);
        let usual = self.side.usual(index);
        if !has_usual {
            *usual = crate::slots::Usual {
                raw_len: u64::MAX,
                ..Default::default()
            };
        }
        usual.deadline = deadline;
        self.cols[index as usize].flags |= flag::USUAL;
        if self.scheduler_of(index).remove(index) {
            self.schedule(index);
        }
    }

    /// Handles what concerns other requests than the one that caused it.
    fn handle_events(&mut self) -> bool {
        let mut worked = false;
        while let Some((id, what)) = self.events.pop_front() {
            worked = true;
            if self.is_known(id) {
                self.drive(id.index(), what);
            }
        }
        worked
    }

    /// Something has happened to a request from outside its own way.
    fn drive(&mut self, index: u32, what: What) {
        let flow = match what {
            What::GateOpen => self.gate_open(index),
            What::Released => self.released(index),
            What::FileReady => self.file_ready(index),
            What::End(error) => self.end_wanted(index, error),
        };
        self.follow(index, flow);
    }

    /// Acts on what a handler says; nothing comes after.
    #[inline(always)]
    fn follow(&mut self, index: u32, flow: Flow) {
        match flow {
            Flow::Wait => {}
            Flow::Runnable => {
                self.cols[index as usize].state.on(Event::Runnable);
                self.schedule(index);
            }
            Flow::End(error) => self.finish(index, error),
        }
    }

    fn scheduler_of(&mut self, index: u32) -> &mut Scheduler {
        match self.cols[index as usize].verb {
            Verb::Memory => &mut self.memory_scheduler,
            _ => &mut self.scheduler,
        }
    }

    #[inline]
    fn schedule(&mut self, index: u32) {
        let deadline_ns = self.deadline_ns(index);
        let col = &self.cols[index as usize];
        let (priority, arrival, verb, issued) = (col.priority, col.arrival, col.verb, col.issued);
        let position = match verb {
            Verb::Memory => None,
            _ => {
                let body = self.side.peek(index);
                let file = self.files.peek(body.file);
                file.and_then(|file| file.position(body.offset + issued))
            }
        };
        let order = Order {
            priority,
            deadline_ns,
            arrival,
            position,
        };
        let now_ns = self.now_ns;
        self.scheduler_of(index).add(index, order, now_ns);
    }

    #[inline(always)]
    fn deadline_ns(&mut self, index: u32) -> u64 {
        match self.cols[index as usize].has(flag::USUAL) {
            true => self.usual_deadline_ns(index),
            false => NO_DEADLINE,
        }
    }

    fn usual_deadline_ns(&mut self, index: u32) -> u64 {
        let deadline = self.side.usual(index).deadline;
        deadline.map_or(NO_DEADLINE, |at| self.shared.to_ns(at))
    }

    /// A request is to end: failed, canceled or timed out. It ends once nothing of it is out.
    fn end_wanted(&mut self, index: u32, error: Error) -> Flow {
        if self.cols[index as usize].ending.is_some() {
            return Flow::Wait;
        }
        self.withdraw_offer(index);
        self.scheduler_of(index).remove(index);
        let col = &mut self.cols[index as usize];
        col.ending = Some(error);
        match col.is_out() {
            true => {
                col.state.on(Event::Drain);
                Flow::Wait
            }
            false => self.drained(index),
        }
    }

    /// Nothing of an ending request is out any more.
    fn drained(&mut self, index: u32) -> Flow {
        let col = &mut self.cols[index as usize];
        assert!(!col.is_out(), "memory is out until it is back");
        Flow::End(col.ending.take())
    }

    /// Ends a request. Nothing looks at its slot afterwards.
    #[inline]
    fn finish(&mut self, index: u32, error: Option<Error>) {
        let bytes = match error {
            None => self.landed_bytes(index),
            Some(_) => 0,
        };
        let error = error.map(|error| self.describe(index, error));
        let kind = error.as_ref().map(Error::kind);
        if self.shared.recorder.is_on() {
            self.trace_request(index, bytes);
        }
        let deadline_ns = self.deadline_ns(index);
        let col = &mut self.cols[index as usize];
        assert!(!col.is_out(), "a request ends with nothing out");
        col.state.on(Event::End);
        let (queue, sequence, flags) = (u32::from(col.queue), col.sequence, col.flags);
        let key = held_key(col.priority, col.arrival);
        let latency = self.now_ns.saturating_sub(col.submitted_ns);
        self.shared.counters.latency[col.priority as usize].add(latency);
        count_end(
            &self.shared.counters,
            kind,
            bytes,
            self.now_ns > deadline_ns,
        );
        if flags & flag::EXTRA != 0 {
            self.drop_extra(index);
        }
        if flags & flag::HOLDS != 0 {
            self.release_file(index, flags, error.as_ref());
        }
        let mut charged = 0;
        if flags & flag::USUAL != 0 {
            let usual = self.side.usual(index);
            charged = usual.charged;
            let group = usual.group.take();
            self.groups.extend(group.map(|group| (group, kind, bytes)));
        }
        let state = self.queues.touch(queue);
        if !state.held.is_empty() {
            state.held.remove(&key);
        }
        if let (Some(error), Some(kind)) = (&error, kind)
            && kind != ErrorKind::Canceled
        {
            state.failed(sequence, kind);
            state.shared.record_failure(sequence, error);
        }
        let ended = self.side.end(index, bytes, error);
        self.queues.state(queue).completed(sequence, charged, ended);
    }

    /// Raw bytes that landed, or bytes that were written.
    #[inline]
    fn landed_bytes(&self, index: u32) -> u64 {
        let col = &self.cols[index as usize];
        match col.verb {
            Verb::Sync | Verb::Names | Verb::Info => 0,
            Verb::Write | Verb::Append | Verb::Prefetch => col.len,
            Verb::Read | Verb::Memory => match self.staged(index) {
                Some(staged) => staged.landed_len().unwrap_or(0),
                None => col.len,
            },
        }
    }

    fn staged(&self, index: u32) -> Option<&Staged> {
        if !self.cols[index as usize].has(flag::EXTRA) {
            return None;
        }
        self.extras[index as usize].as_ref()?.staged.as_deref()
    }

    /// The same error with the file, range and name of its request.
    fn describe(&mut self, index: u32, error: Error) -> Error {
        let col = &self.cols[index as usize];
        let body = self.side.peek(index);
        let (range, len) = (body.offset, if col.len > 0 { col.len } else { body.len });
        let path = self
            .files
            .peek(body.file)
            .map(|file| Arc::clone(&file.path));
        let path = path.or_else(|| self.extras.get(index as usize)?.as_ref()?.path.clone());
        let name = self.rare(index).and_then(|rare| rare.name.clone());
        let error = match error.has_range() {
            // A block of a table names its own place, maybe in another file.
            true => {
                let (own, offset, len) = (error.shared_path(), error.offset(), error.len());
                error.at(own.or(path), offset, len)
            }
            false => error.at(path, range, len),
        };
        error.named(name)
    }

    fn rare(&self, index: u32) -> Option<&Rare> {
        let extra = self.extras.get(index as usize)?.as_ref()?;
        self.cols[index as usize]
            .has(flag::EXTRA)
            .then_some(&extra.rare)
    }

    /// Gives back what few requests have: timer, windows, a share of what fences may hold.
    #[cold]
    fn drop_extra(&mut self, index: u32) {
        self.timers.remove(index);
        let Some(extra) = self.extras[index as usize].take() else {
            return;
        };
        if let Some(staged) = extra.staged {
            self.gated_bytes -= staged.gated_bytes;
            staged.release(&mut self.arena);
        }
        self.cols[index as usize].flags &= !flag::EXTRA;
    }

    /// A request lets go of its file.
    #[inline]
    fn release_file(&mut self, index: u32, flags: u8, error: Option<&Error>) {
        let body = self.side.peek(index);
        let (file, epoch) = (body.file.0.index(), body.room);
        if flags & flag::ATTACHED != 0 {
            self.files.detach(file);
        }
        if flags & flag::WRITES != 0 {
            let syncs = self.files.at(file).write_completed(epoch, error);
            let due = syncs.into_iter().map(|id| (id, What::Released));
            self.events.extend(due);
        }
        if self.files.release(file) {
            self.finish_file(file);
        }
    }

    /// Lets go of a closed file, if nothing needs it any more.
    fn finish_file(&mut self, file: u32) {
        if self.files.finish_close(file, &mut self.closes) {
            crate::sync::lock(&self.shared.names).retire(file);
        }
    }

    /// After all ends of a round: tickets, wakers, entries in their place, capacity.
    fn settle(&mut self) {
        let mut freed: Vec<Freed> = Vec::new();
        self.side.settle(&mut self.wakers, |slot| freed.push(slot));
        for slot in freed {
            let queue = self.cols[slot.index() as usize].queue;
            self.queues.touch(u32::from(queue)).free(slot);
        }
        while let Some(effect) = self.queues.next_effect(&mut self.wakers) {
            self.effect(effect);
        }
        for (group, kind, bytes) in self.groups.drain(..) {
            group.completed(kind, bytes, &mut self.wakers);
        }
        self.account();
        // Nothing is locked and all tables are consistent.
        let panicked = wake_all(&mut self.wakers);
        if panicked > 0 {
            self.shared.warn(format!("{panicked} wakers panicked"));
        }
    }

    /// An entry takes effect in its place.
    fn effect(&mut self, effect: Fifo) {
        match effect {
            Fifo::Start(id) => {
                if self.is_known(id) {
                    let flow = self.start_ordered(id.index());
                    self.follow(id.index(), flow);
                }
            }
            Fifo::Close(file, true) => self.close_file(file),
            Fifo::Close(_, false) | Fifo::Signal(..) | Fifo::Status(..) => {}
        }
    }

    fn close_file(&mut self, file: FileId) {
        if self.files.fire_close(file) {
            self.finish_file(file.0.index());
        }
    }

    /// Adds the time since the last call to busy or idle, by how things were then.
    fn account(&mut self) {
        let counters = &self.shared.counters;
        let spent = self.now_ns.saturating_sub(self.rate.last_ns);
        self.rate.last_ns = self.now_ns;
        let out = self.transfers.out();
        counters.in_flight.set(out as u64);
        counters
            .in_flight_bytes
            .set(self.scheduler.in_flight_bytes());
        counters.descriptors.set(self.files.descriptors as u64);
        counters.staging_bytes.set(self.arena.in_use() as u64);
        counters.staging_peak_bytes.set(self.arena.peak() as u64);
        let starved = self.jobs.starved_ns.load(Ordering::Relaxed);
        counters.worker_starved_ns.set(starved);
        let before = std::mem::replace(&mut self.rate.in_flight, out > 0);
        if before != self.rate.in_flight {
            self.jobs.in_flight.store(out as u64, Ordering::Relaxed);
        }
        let waits = self.scheduler.waiting() as usize + self.files.opening() > 0;
        let waited = std::mem::replace(&mut self.rate.waited, waits);
        if before {
            counters.device_busy_ns.add(spent);
            self.rate.busy(spent);
        } else if waited {
            counters.device_idle_ns.add(spent);
        }
    }

    /// Hands jobs to workers, and does small copies itself.
    fn send_jobs(&mut self) -> bool {
        if self.new_jobs.is_empty() {
            return false;
        }
        let mut tasks = std::mem::take(&mut self.new_jobs);
        let mut own = Vec::new();
        for task in tasks.extract_if(.., |task| crate::staging::is_inline(task)) {
            own.push(run_task(task, &mut self.scratch));
        }
        let sink: Arc<dyn JobSink> = Arc::clone(&self.shared) as Arc<dyn JobSink>;
        if let Some(system) = self.shared.options.job_system.clone() {
            let decodes =
                |task: &mut JobTask| matches!(task.task, Task::Decode(_) | Task::Stream { .. });
            for task in tasks.extract_if(.., decodes) {
                let job = Job::new(task, Arc::clone(&sink));
                let spawn = std::panic::AssertUnwindSafe(|| system.spawn(job));
                if std::panic::catch_unwind(spawn).is_err() {
                    self.shared.warn("the job system panicked".into());
                }
            }
        }
        if !tasks.is_empty() {
            let jobs = tasks.drain(..);
            let jobs = jobs.map(|task| (task.priority, Job::new(task, Arc::clone(&sink))));
            self.jobs.push_all(jobs);
        }
        self.new_jobs = tasks;
        for result in own {
            self.job_back(result);
        }
        true
    }

    fn take_results(&mut self) -> bool {
        let mut results = std::mem::take(&mut self.results);
        let any = !results.is_empty();
        for result in results.drain(..) {
            self.job_back(result);
        }
        self.results = results;
        any
    }

    fn fire_timers(&mut self) -> bool {
        let mut worked = false;
        while let Some((at, _, index)) = self.timers.first()
            && at <= self.now_ns
        {
            worked = true;
            self.timers.remove(index);
            let flow = self.timed_out(index);
            self.follow(index, flow);
        }
        while let Some((at, _, queue)) = self.holds.first()
            && at <= self.now_ns
        {
            worked = true;
            self.holds.remove(queue);
            self.unhold(queue);
        }
        worked
    }

    /// Pushes what is outgoing and starts it.
    fn push_all(&mut self) {
        for lane in [Lane::Main, Lane::Cached, Lane::Slow] {
            self.lanes.push(lane, self.transfers.outgoing(lane));
        }
        if let Err(error) = self.lanes.submit(false) {
            self.main_broke(&error.into());
        }
    }

    /// Sleeps until something arrives, at most `longest`; after a short look for mail if the last
    /// came quickly. While the device or workers have something it sleeps at once: they wake it,
    /// and what arrives together is then taken together.
    fn sleep(&mut self, longest: Option<Duration>) {
        let shared = Arc::clone(&self.shared);
        let awake = &mut || shared.has_mail();
        if self.lanes.stays_awake(awake) || self.has_outgoing() {
            return;
        }
        let started = Instant::now();
        let quick = Duration::from_nanos(limits::ENGINE_SPIN_NS);
        let idle = self.jobs_out == 0 && self.transfers.out() == 0 && self.lanes.calls_out() == 0;
        if self.last_gap < quick && idle {
            while started.elapsed() < quick {
                if shared.has_mail() {
                    self.last_gap = started.elapsed();
                    return;
                }
                for _ in 0..16 {
                    std::hint::spin_loop();
                }
            }
        }
        let timeout = self.until_next_timer().into_iter().chain(longest).min();
        if let Err(error) = self.lanes.wait(timeout, awake) {
            self.main_broke(&error.into());
        }
        self.last_gap = started.elapsed();
    }

    /// Whether operations wait for room in a lane that may have some.
    fn has_outgoing(&mut self) -> bool {
        let room = self.transfers.out_in(Lane::Main) < self.lanes.depth();
        room && !self.transfers.outgoing(Lane::Main).is_empty()
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let timer = self.timers.first().map(|(at, ..)| at);
        let hold = self.holds.first().map(|(at, ..)| at);
        let closing = self.closing.flatten().map(|at| self.shared.to_ns(at));
        let retry = self.files.retry_at(self.now_ns);
        let times = [timer, hold, closing, retry];
        let at = times.into_iter().flatten().min()?;
        Some(Duration::from_nanos(
            at.saturating_sub(self.shared.now_ns()),
        ))
    }

    fn trace_request(&mut self, index: u32, bytes: u64) {
        let start_ns = self.cols[index as usize].submitted_ns;
        self.trace(TraceLane::Queue, start_ns, self.now_ns, bytes, index);
    }

    #[cold]
    fn trace(&mut self, lane: TraceLane, start_ns: u64, end_ns: u64, bytes: u64, index: u32) {
        let name = self.rare(index).and_then(|rare| rare.name.clone());
        let body = self.side.peek(index);
        let file = self.files.peek(body.file);
        let file_name = || Some(file?.path.file_name()?.to_string_lossy().into());
        let span = Span {
            lane,
            name: name.or_else(file_name),
            start_ns,
            end_ns,
            bytes,
            offset: body.offset,
            request: self.cols[index as usize].arrival,
        };
        let (staging, in_flight) = (self.arena.in_use(), self.scheduler.in_flight_bytes());
        self.shared.recorder.add(span, staging as u64, in_flight);
    }

    /// The kind of a request's memory.
    #[inline]
    fn memory_kind(&self, index: u32) -> MemoryKind {
        self.side.head(index).memory
    }

    fn id(&self, index: u32) -> Id {
        self.side.id(index, self.cols[index as usize].generation)
    }
}

impl Pump for Engine {
    fn pump(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        or_abort(&shared, || {
            if self.closed {
                return false;
            }
            let mut worked = self.round();
            if let Err(error) = self.lanes.submit(true) {
                self.main_broke(&error.into());
            }
            let jobs = Arc::clone(&self.jobs);
            while let Some(job) = jobs.pop() {
                worked = true;
                run_job(job, &mut self.scratch);
            }
            if self.closing.is_some() {
                worked |= self.try_close();
            }
            worked
        })
    }

    fn rest(&mut self, longest: Duration) {
        let shared = Arc::clone(&self.shared);
        or_abort(&shared, || {
            if !self.closed {
                self.sleep(Some(longest));
            }
        });
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Rate {
    fn busy(&mut self, spent_ns: u64) {
        self.busy_ns += spent_ns;
        if self.busy_ns <= 10_000_000 {
            return;
        }
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.busy_ns);
        // Only periods that moved much say what the device can do.
        if self.bytes > 1 << 20 {
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            self.bytes_per_second = (self.bytes_per_second / 4 * 3).saturating_add(rate / 4);
        }
        (self.bytes, self.busy_ns) = (0, 0);
    }
}

/// The place of a request among those that its queue holds.
pub(crate) fn held_key(priority: Priority, arrival: u64) -> HeldKey {
    (Reverse(priority), arrival)
}

/// Adds an id to a list of requests that wait. Before the list grows, those that have ended are
/// dropped from it.
fn push_waiting(list: &mut Vec<Id>, id: Id, cols: &[Col]) {
    if list.len() == list.capacity() {
        list.retain(|id| is_known(cols, *id));
        list.reserve(list.len().max(16));
    }
    list.push(id);
}

/// Whether a request has arrived and has not ended.
fn is_known(cols: &[Col], id: Id) -> bool {
    let col = cols.get(id.index() as usize);
    col.is_some_and(|col| col.state != State::Free && col.generation == id.generation())
}

#[inline]
fn count_end(counters: &Counters, kind: Option<ErrorKind>, bytes: u64, missed: bool) {
    counters.deadlines_missed.add(u64::from(missed));
    match kind {
        None => {
            counters.done.add(1);
            counters.raw_bytes.add(bytes);
        }
        Some(ErrorKind::Canceled) => counters.canceled.add(1),
        Some(_) => counters.failed.add(1),
    }
}

/// The error of what a closing storage does not begin any more.
fn canceled_by_close() -> Error {
    Error::new(ErrorKind::Canceled, closed_error().cause().to_owned())
}
