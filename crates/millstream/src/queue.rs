//! Queues: collect entries on the caller's thread and hand them over in batches.
//!
//! `enqueue` appends to the queue's own batch under the queue's own lock, which the engine takes
//! only to swap the batch out: no system call happens under it, and nothing is allocated per
//! request once the vectors have grown. `submit` hands the batch over and wakes the engine if it
//! sleeps.
//!
//! Every entry has a sequence number. Status, signal, event and close entries fire once everything
//! before them has ended; they hold nothing back.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::cells::{CellId, Cells};
use crate::entries::Entries;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::fence::Fence;
use crate::files::FileId;
use crate::group::Group;
use crate::limits;
use crate::park;
use crate::request::{Priority, Request};
use crate::status::StatusArray;
use crate::storage::Shared;
use crate::ticket::{Failed, Ticket};
use crate::waiters::{Waiters, lock};

/// How a queue behaves.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// For messages and traces.
    pub name: String,
    /// Requests that have not ended; from 1 to `limits::QUEUE_CAPACITY_MAX`.
    pub capacity: u32,
    /// Tickets that have ended and wait to be claimed or dropped.
    pub unclaimed_max: u32,
    /// Class of requests that name none.
    pub priority: Priority,
    /// Submit by itself when half full.
    pub auto_submit: bool,
    /// Bytes per second that the queue's requests may move; `None` for no cap.
    pub bandwidth: Option<u64>,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            name: String::new(),
            capacity: limits::QUEUE_CAPACITY_DEFAULT,
            unclaimed_max: limits::UNCLAIMED_DEFAULT,
            priority: Priority::Normal,
            auto_submit: true,
            bandwidth: None,
        }
    }
}

/// What a queue's error record says since it was last read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// Requests that failed.
    pub count: u64,
    /// The first of them in enqueue order.
    pub first: Option<Error>,
}

#[derive(Default)]
struct RecordInner {
    count: u64,
    first: Option<(u64, Error)>,
}

/// A request that was not taken, with the reason.
#[derive(Debug)]
pub struct Rejected {
    /// Why: `QueueFull`, `TooManyTickets`, `Closed`, `Limit` or `InvalidArgument`.
    pub error: Error,
    /// The request.
    pub request: Box<Request>,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Rejected {}

impl From<Rejected> for Failed {
    fn from(rejected: Rejected) -> Failed {
        Failed {
            error: rejected.error,
            user_data: rejected.request.user_data,
            landed: crate::destination::Landed::Nothing,
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Error {
        rejected.error
    }
}

/// An entry that fires in its place.
pub(crate) enum Fifo {
    Signal(Fence, u64),
    Status(StatusArray, usize),
    Event(Event),
    Close(FileId, bool),
    /// Engine only: an ordered request may start now.
    Start(u32, u32),
}

/// A wish about entries that were enqueued before it.
pub(crate) enum Command {
    CancelTagged {
        mask: u64,
        value: u64,
        before: u64,
    },
    CancelGroup {
        group: Group,
        before: u64,
    },
    CancelCell(CellId),
    Reprioritise {
        cell: CellId,
        class: Priority,
        deadline: Option<Instant>,
    },
    Pause(bool),
    Bandwidth(Option<u64>),
    Drop,
}

/// What was submitted at one time.
pub(crate) struct Batch {
    pub(crate) entries: Entries,
    pub(crate) at: Instant,
}

/// What was submitted and not yet taken by the engine.
#[derive(Default)]
pub(crate) struct Submitted {
    /// Behind the first `batch_count` are empty ones, to be filled again.
    batches: Vec<Batch>,
    batch_count: usize,
    pub(crate) commands: Vec<Command>,
}

impl Submitted {
    /// The batches, each to be taken out and cleared.
    pub(crate) fn take_batches(&mut self) -> &mut [Batch] {
        let count = std::mem::take(&mut self.batch_count);
        &mut self.batches[..count]
    }

    /// An empty batch behind the others.
    fn next_batch(&mut self) -> &mut Entries {
        let at = Instant::now();
        let number = self.batch_count;
        self.batch_count += 1;
        if number == self.batches.len() {
            let entries = Entries::default();
            self.batches.push(Batch { entries, at });
        }
        let batch = &mut self.batches[number];
        batch.at = at;
        &mut batch.entries
    }
}

struct Collect {
    pending: Entries,
    submitted: Submitted,
    free_cells: Vec<u32>,
    next_sequence: u64,
    /// The storage has taken its last entries.
    closed: bool,
}

pub(crate) struct QueueShared {
    pub(crate) id: u32,
    pub(crate) storage: Arc<Shared>,
    pub(crate) options: QueueOptions,
    pub(crate) cells: Cells,
    collect: Mutex<Collect>,
    /// Requests enqueued since the queue was made; written under the lock of `collect`. Those that
    /// have not ended are the difference to `ended`: two counts with one writer each cost no locked
    /// operation per request.
    enqueued: AtomicU64,
    /// Of these, ended; engine writes.
    ended: AtomicU64,
    space: Waiters,
    /// Handed to the engine's inbox and not yet taken.
    dirty: AtomicBool,
    /// Sequence number below which everything has ended; engine writes.
    watermark: AtomicU64,
    record: Mutex<RecordInner>,
}

impl QueueShared {
    pub(crate) fn new(id: u32, storage: Arc<Shared>, options: QueueOptions) -> QueueShared {
        let cells = options.capacity.saturating_add(options.unclaimed_max);
        QueueShared {
            id,
            storage,
            cells: Cells::new(cells),
            collect: Mutex::new(Collect {
                pending: Entries::default(),
                submitted: Submitted::default(),
                free_cells: Vec::new(),
                next_sequence: 0,
                closed: false,
            }),
            enqueued: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            space: Waiters::default(),
            dirty: AtomicBool::new(false),
            watermark: AtomicU64::new(0),
            record: Mutex::default(),
            options,
        }
    }

    /// Engine: takes what was submitted, leaving empty vectors to be filled again.
    pub(crate) fn take_submitted(&self, into: &mut Submitted) {
        self.dirty.store(false, Ordering::SeqCst);
        let mut collect = lock(&self.collect);
        std::mem::swap(&mut collect.submitted, into);
    }

    /// Engine, at the end: takes everything, submitted or not; nothing is taken from the caller any
    /// more.
    pub(crate) fn close(&self, into: &mut Submitted, wakers: &mut Vec<Waker>) {
        let mut collect = lock(&self.collect);
        collect.closed = true;
        let collect = &mut *collect;
        std::mem::swap(collect.submitted.next_batch(), &mut collect.pending);
        std::mem::swap(&mut collect.submitted, into);
        self.space.take(wakers);
    }

    /// Engine: `count` requests have ended.
    pub(crate) fn release(&self, count: u32, wakers: &mut Vec<Waker>) {
        let ended = self.ended.load(Ordering::Relaxed) + u64::from(count);
        self.ended.store(ended, Ordering::SeqCst);
        self.space.take(wakers);
    }

    pub(crate) fn set_watermark(&self, sequence: u64) {
        self.watermark.store(sequence, Ordering::Relaxed);
    }

    /// Engine: a request has failed.
    pub(crate) fn record_failure(&self, sequence: u64, error: &Error) {
        let mut record = lock(&self.record);
        record.count += 1;
        if record
            .first
            .as_ref()
            .is_none_or(|(first, _)| sequence < *first)
        {
            record.first = Some((sequence, error.clone()));
        }
    }

    pub(crate) fn submit(self: &Arc<Self>) {
        self.submit_locked(&mut lock(&self.collect));
    }

    fn submit_locked(self: &Arc<Self>, collect: &mut Collect) {
        if collect.pending.is_empty() {
            return;
        }
        std::mem::swap(collect.submitted.next_batch(), &mut collect.pending);
        self.hand_over();
    }

    fn hand_over(self: &Arc<Self>) {
        if !self.dirty.swap(true, Ordering::SeqCst) {
            self.storage.queue_is_dirty(Arc::clone(self));
        }
    }

    fn command(self: &Arc<Self>, command: Command) {
        let mut collect = lock(&self.collect);
        collect.submitted.commands.push(command);
        self.hand_over();
    }

    /// Requests enqueued and not ended.
    fn live(&self) -> u64 {
        // In this order, so that no request is seen to end that was not seen to be enqueued.
        let ended = self.ended.load(Ordering::SeqCst);
        self.enqueued.load(Ordering::SeqCst) - ended
    }

    fn has_place(&self) -> bool {
        self.live() < u64::from(self.options.capacity)
    }

    /// Submits, and waits for a place if `block` allows it. Another thread may take it first.
    #[cold]
    fn wait_for_place(self: &Arc<Self>, block: bool) -> Result<(), Error> {
        self.submit();
        let full = || {
            let cause = "more requests than the queue's capacity";
            Error::new(ErrorKind::QueueFull, cause)
        };
        if !block || park::role() == park::Role::Storage {
            return if self.has_place() {
                Ok(())
            } else {
                Err(full())
            };
        }
        let waited = self.storage.clone().block_on(None, |waker| {
            if self.has_place() || self.storage.is_closed() {
                return Poll::Ready(());
            }
            self.space.add(waker);
            if self.has_place() || self.storage.is_closed() {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        if self.storage.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the storage is closing"));
        }
        waited.ok_or_else(full)
    }

    #[inline]
    fn enqueue(
        self: &Arc<Self>,
        request: Request,
        with_ticket: bool,
        block: bool,
    ) -> Result<Option<CellId>, Rejected> {
        match self.place(&request, with_ticket, block) {
            Ok((mut collect, cell)) => {
                let sequence = collect.next_sequence;
                collect.next_sequence += 1;
                let pending = &mut collect.pending;
                match pending.shell() {
                    Some(shell) => *shell = ManuallyDrop::new(request),
                    None => pending.add_shell(request),
                }
                pending.fill_shell(sequence, cell);
                let half = (self.options.capacity / 2).max(1) as usize;
                if self.options.auto_submit && collect.pending.len() >= half {
                    self.submit_locked(&mut collect);
                }
                Ok(cell)
            }
            Err(error) => Err(Rejected {
                error,
                request: Box::new(request),
            }),
        }
    }

    /// Takes what a request needs of the queue: a place of its capacity, a cell for its ticket. The
    /// request counts in its group and counter from here on.
    fn place(
        self: &Arc<Self>,
        request: &Request,
        with_ticket: bool,
        block: bool,
    ) -> Result<(MutexGuard<'_, Collect>, Option<CellId>), Error> {
        if self.storage.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the storage is closing"));
        }
        let mut collect = loop {
            let collect = lock(&self.collect);
            if self.has_place() {
                break collect;
            }
            drop(collect);
            self.wait_for_place(block)?;
        };
        let cell = self.cell_for(&mut collect, with_ticket)?;
        let enqueued = self.enqueued.load(Ordering::Relaxed) + 1;
        self.enqueued.store(enqueued, Ordering::Release);
        if let Some(group) = &request.group {
            group.add();
        }
        if let Some(counter) = &request.counter {
            counter.add();
        }
        Ok((collect, cell))
    }

    /// A cell for a request's ticket, if it wants one and the queue takes it.
    fn cell_for(&self, collect: &mut Collect, with_ticket: bool) -> Result<Option<CellId>, Error> {
        if collect.closed {
            return Err(Error::new(ErrorKind::Closed, "the storage is closing"));
        }
        let behind = collect.next_sequence - self.watermark.load(Ordering::Relaxed);
        if behind > limits::SEQUENCE_WINDOW_MAX {
            let cause = "an old request of the queue has not ended";
            return Err(Error::new(ErrorKind::Limit, cause));
        }
        if !with_ticket {
            return Ok(None);
        }
        let cell = self.cells.take(&mut collect.free_cells);
        cell.map(Some).ok_or_else(|| {
            let cause = "tickets were neither claimed nor dropped";
            Error::new(ErrorKind::TooManyTickets, cause)
        })
    }

    fn enqueue_fifo(&self, fifo: Fifo) {
        let mut collect = lock(&self.collect);
        if collect.closed {
            // Everything before has ended: the entry fires at once.
            drop(collect);
            fire_closed(fifo);
            return;
        }
        let sequence = collect.next_sequence;
        collect.next_sequence += 1;
        collect.pending.push_fifo(sequence, fifo);
    }

    /// Entries that match and were not submitted are handed over as cancelled at once; the command
    /// finds the others.
    fn cancel_pending(
        self: &Arc<Self>,
        matches: impl Fn(&Request, Option<CellId>) -> bool,
        command: impl FnOnce(u64) -> Command,
    ) {
        let mut collect = lock(&self.collect);
        let before = collect.next_sequence;
        let collect = &mut *collect;
        let cancelled = collect.submitted.next_batch();
        collect.pending.cancel_into(matches, cancelled);
        collect.submitted.commands.push(command(before));
        self.hand_over();
    }

    pub(crate) fn cancel_cell(self: &Arc<Self>, cell: CellId) {
        self.cancel_pending(
            |_, other| other == Some(cell),
            |_| Command::CancelCell(cell),
        );
    }

    pub(crate) fn reprioritise(
        self: &Arc<Self>,
        cell: CellId,
        class: Priority,
        deadline: Option<Instant>,
    ) {
        let mut collect = lock(&self.collect);
        if let Some(request) = collect.pending.request_of(cell) {
            request.class = Some(class);
            request.deadline = deadline;
            return;
        }
        collect.submitted.commands.push(Command::Reprioritise {
            cell,
            class,
            deadline,
        });
        self.hand_over();
    }
}

/// Fires an entry of a queue whose storage has closed.
fn fire_closed(fifo: Fifo) {
    match fifo {
        Fifo::Signal(fence, value) => fence.signal(value),
        Fifo::Event(event) => event.set(),
        Fifo::Status(statuses, index) => statuses.write(index, None),
        Fifo::Close(..) | Fifo::Start(..) => {}
    }
}

struct Handle {
    shared: Arc<QueueShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.submit();
        self.shared.command(Command::Drop);
    }
}

/// A queue of a storage. Cloning gives another handle; any thread may call. Dropping the last
/// handle submits what is held and cancels what is still gated.
#[derive(Clone)]
pub struct Queue(Arc<Handle>);

impl Queue {
    pub(crate) fn new(shared: Arc<QueueShared>) -> Queue {
        Queue(Arc::new(Handle { shared }))
    }

    fn shared(&self) -> &Arc<QueueShared> {
        &self.0.shared
    }

    /// Appends a request. If the queue is full it submits what it holds and blocks until there is
    /// room; on a storage's own thread it fails instead.
    ///
    /// # Errors
    /// The request comes back: the storage closes, too many tickets are unclaimed, or (on a
    /// storage's thread) the queue is full.
    #[inline]
    pub fn enqueue(&self, request: Request) -> Result<Ticket, Rejected> {
        self.with_ticket(request, true)
    }

    /// As [`Queue::enqueue`], but never blocks.
    ///
    /// # Errors
    /// As [`Queue::enqueue`], and `QueueFull`. What the queue holds was submitted then.
    #[inline]
    pub fn try_enqueue(&self, request: Request) -> Result<Ticket, Rejected> {
        self.with_ticket(request, false)
    }

    #[inline]
    fn with_ticket(&self, request: Request, block: bool) -> Result<Ticket, Rejected> {
        let cell = self.shared().enqueue(request, true, block)?;
        match cell {
            Some(cell) => Ok(Ticket::new(Arc::clone(self.shared()), cell)),
            None => unreachable!("a request with a ticket has a cell"),
        }
    }

    /// As [`Queue::enqueue`] without a ticket: the end shows in its group, counter, status, signal
    /// or event, and a failure in the error record.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    #[inline]
    pub fn enqueue_detached(&self, request: Request) -> Result<(), Rejected> {
        self.shared().enqueue(request, false, true).map(|_| ())
    }

    /// As [`Queue::enqueue_detached`], but never blocks.
    ///
    /// # Errors
    /// As [`Queue::try_enqueue`].
    #[inline]
    pub fn try_enqueue_detached(&self, request: Request) -> Result<(), Rejected> {
        self.shared().enqueue(request, false, false).map(|_| ())
    }

    /// Raises `fence` to `value` once everything before has ended.
    pub fn enqueue_signal(&self, fence: &Fence, value: u64) {
        self.shared()
            .enqueue_fifo(Fifo::Signal(fence.clone(), value));
    }

    /// Writes slot `index` of `statuses` once everything before has ended: how the requests since
    /// the last status entry went.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn enqueue_status(&self, statuses: &StatusArray, index: usize) {
        assert!(
            index < statuses.len(),
            "the status array has {} slots",
            statuses.len()
        );
        self.shared()
            .enqueue_fifo(Fifo::Status(statuses.clone(), index));
    }

    /// Sets `event` once everything before has ended.
    pub fn enqueue_event(&self, event: &Event) {
        self.shared().enqueue_fifo(Fifo::Event(event.clone()));
    }

    /// Closes a file in its place in the queue, once everything before has ended. Requests after it
    /// fail with `StaleFile`. A file that was opened several times stays until the last close.
    pub fn enqueue_close(&self, file: FileId) {
        let last = self.shared().storage.close_name(file);
        self.shared().enqueue_fifo(Fifo::Close(file, last));
    }

    /// Hands everything enqueued to the engine. Does not block.
    pub fn submit(&self) {
        self.shared().submit();
    }

    /// Cancels the requests enqueued before this call whose `tag & mask == value`.
    pub fn cancel_tagged(&self, mask: u64, value: u64) {
        self.shared().cancel_pending(
            |request, _| request.tag & mask == value,
            |before| Command::CancelTagged {
                mask,
                value,
                before,
            },
        );
    }

    /// Cancels the requests of this queue enqueued before this call that belong to `group`.
    pub fn cancel_group(&self, group: &Group) {
        self.shared().cancel_pending(
            |request, _| {
                request
                    .group
                    .as_ref()
                    .is_some_and(|other| other.same(group))
            },
            |before| Command::CancelGroup {
                group: group.clone(),
                before,
            },
        );
    }

    /// Stops serving the queue; what is in flight goes on.
    pub fn pause(&self) {
        self.shared().command(Command::Pause(true));
    }

    /// Goes on serving the queue.
    pub fn resume(&self) {
        self.shared().command(Command::Pause(false));
    }

    /// Sets the bytes per second that the queue's requests may move; `None` for no cap.
    pub fn set_bandwidth(&self, bytes_per_second: Option<u64>) {
        self.shared().command(Command::Bandwidth(bytes_per_second));
    }

    /// Failures since the last call.
    #[must_use]
    pub fn take_errors(&self) -> ErrorRecord {
        let record = std::mem::take(&mut *lock(&self.shared().record));
        ErrorRecord {
            count: record.count,
            first: record.first.map(|(_, error)| error),
        }
    }

    /// Requests enqueued and not ended.
    #[must_use]
    pub fn live(&self) -> u32 {
        // Never more than the capacity, which is a u32.
        u32::try_from(self.shared().live()).unwrap_or(u32::MAX)
    }

    /// Submits, and blocks until everything enqueued so far has ended.
    pub fn drain(&self) {
        let _ = self.drain_until(None);
    }

    /// As [`Queue::drain`], but blocks at most `timeout`; whether everything has ended.
    #[must_use]
    pub fn drain_timeout(&self, timeout: Duration) -> bool {
        self.drain_until(Some(Instant::now() + timeout))
    }

    fn drain_until(&self, deadline: Option<Instant>) -> bool {
        let event = Event::new();
        self.enqueue_event(&event);
        self.submit();
        let poll = |waker: &Waker| event.poll_set(waker);
        self.shared()
            .storage
            .clone()
            .block_on(deadline, poll)
            .is_some()
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.shared().options.name)
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
