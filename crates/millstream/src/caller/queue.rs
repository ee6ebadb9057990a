//! The shared part of a queue: what was submitted, its capacity, its failures, its completion
//! queue.
//!
//! Callers reserve capacity by compare-exchange and hand parcels over under the queue's own lock,
//! which the engine takes only to swap them out. Nothing is allocated per request once the vectors
//! have grown. Every entry has a sequence number, assigned when it is handed over: its parcel's
//! first, plus its place in it.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_io::EventFd;

use crate::caller::fence::Fence;
use crate::caller::group::Group;
use crate::caller::status::StatusArray;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::{Change, Shared, closed_error};
use crate::handover::park;
use crate::handover::slots::{self, Cache, Completion, Pool, PoolOwner, Posted};
use crate::handover::waiters::{Key, Waiters, ready_if, wake_all};
use crate::ids::{FileId, Id};
use crate::limits::SEQUENCE_WINDOW_MAX;
use crate::options::QueueOptions;
use crate::priority::Priority;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};

/// What callers, workers and the engine of a storage share.
pub(crate) type Mailbox = Shared<QueueShared>;
pub(crate) type Table = slots::Table<Arc<Mailbox>>;
pub(crate) type EngineSide = slots::EngineSide<Arc<Mailbox>>;

/// An entry that takes effect in its place, once everything before it has completed.
pub(crate) enum Fifo {
    Signal(Fence, u64),
    Status(StatusArray, usize),
    Close(FileId),
    /// Engine only: an ordered request may start now.
    Start(Id),
}

/// In a parcel's `indices`: stands for the next of its `fifos`.
pub(crate) const FIFO: u32 = u32::MAX;

/// Entries handed over together, in order.
pub(crate) struct Parcel {
    pub(crate) indices: Vec<u32>,
    pub(crate) fifos: VecDeque<Fifo>,
    pub(crate) first_sequence: u64,
    pub(crate) highest: Priority,
    /// It has a sync or a close, which come after what was submitted before by any queue.
    pub(crate) has_order: bool,
    /// Parcels handed over before one that has an order are numbered no higher than that, and those
    /// handed over after it higher.
    pub(crate) number: u64,
    pub(crate) at: Instant,
}

impl Parcel {
    pub(crate) fn new() -> Parcel {
        Parcel {
            indices: Vec::new(),
            fifos: VecDeque::new(),
            first_sequence: 0,
            highest: Priority::Low,
            has_order: false,
            number: 0,
            at: Instant::now(),
        }
    }
}

/// What is asked of a queue besides its entries. A repeated wish replaces the earlier one; only
/// selections of different things accumulate.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) selections: Vec<Selection>,
    pub(crate) paused: Option<bool>,
    pub(crate) bandwidth: Option<Option<u64>>,
    /// No handle is left.
    pub(crate) dropped: bool,
}

/// The entries below `before` that `which` names are canceled, or their priority is changed.
pub(crate) struct Selection {
    pub(crate) before: u64,
    pub(crate) which: Which,
    pub(crate) change: Change,
}

/// What a [`Selection`] names.
pub(crate) enum Which {
    Tagged { mask: u64, value: u64 },
    Group(Group),
}

impl Selection {
    pub(crate) fn matches(&self, sequence: u64, tag: u64, own: Option<&Group>) -> bool {
        sequence < self.before
            && match &self.which {
                Which::Tagged { mask, value } => tag & mask == *value,
                Which::Group(group) => own.is_some_and(|own| own.is_same(group)),
            }
    }
}

impl Which {
    fn is_same(&self, other: &Which) -> bool {
        match (self, other) {
            (Which::Tagged { mask, value }, Which::Tagged { mask: m, value: v }) => {
                (mask, value) == (m, v)
            }
            (Which::Group(group), Which::Group(other)) => group.is_same(other),
            _ => false,
        }
    }
}

/// How many of the latest selections not yet taken by the engine are compared with a new one.
const SELECTIONS_COMPARED: usize = 32;

#[derive(Default)]
struct Submitted {
    parcels: Vec<Parcel>,
    spare: Vec<Parcel>,
    wishes: Wishes,
    next_sequence: u64,
    /// The queue is in the engine's mail, and not yet taken.
    dirty: bool,
    /// The storage accepts nothing more.
    closed: bool,
    /// Free slots for requests that are submitted one by one.
    cache: Cache,
}

#[derive(Default)]
struct Record {
    count: u64,
    first: Option<(u64, Error)>,
}

pub(crate) struct QueueShared {
    /// The engine's index of the queue.
    pub(crate) index: AtomicU32,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) options: QueueOptions,
    pub(crate) pool: PoolOwner<Arc<Mailbox>>,
    submitted: Mutex<Submitted>,
    /// Entries accepted, or reserved by a batch, that have not completed.
    live: AtomicU64,
    /// Those of `live` that are in batches not yet submitted.
    held: AtomicU64,
    /// Bytes of the byte budget in use.
    bytes: AtomicU64,
    /// The next sequence number, and the one below which everything has completed. The engine keeps
    /// a bit for each number between them.
    sequence: AtomicU64,
    watermark: AtomicU64,
    pub(crate) space: Waiters,
    /// Threads that wait for the watermark, and the lowest value that any of them waits for.
    drains: Waiters,
    drain_at: AtomicU64,
    record: Mutex<Record>,
    posted: Mutex<VecDeque<Posted>>,
    pub(crate) posted_waiters: Waiters,
    posted_fd: OnceLock<EventFd>,
}

/// The index of a queue that the engine does not have, or has let go of.
pub(crate) const NO_INDEX: u32 = u32::MAX;

impl QueueShared {
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        table: Arc<Table>,
        options: QueueOptions,
    ) -> QueueShared {
        let slots_max = options.capacity.saturating_add(options.unclaimed);
        QueueShared {
            index: AtomicU32::new(NO_INDEX),
            pool: Pool::create(table, slots_max, Arc::clone(&mailbox)),
            mailbox,
            submitted: Mutex::default(),
            live: AtomicU64::new(0),
            held: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            watermark: AtomicU64::new(0),
            space: Waiters::default(),
            drains: Waiters::default(),
            drain_at: AtomicU64::new(u64::MAX),
            record: Mutex::default(),
            posted: Mutex::default(),
            posted_waiters: Waiters::default(),
            posted_fd: OnceLock::new(),
            options,
        }
    }

    /// Entries that have not completed.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::SeqCst)
    }

    /// Whether waiting for room can end: some entry is not in an unsubmitted batch.
    pub(crate) fn is_served(&self) -> bool {
        self.live.load(Ordering::SeqCst) > self.held.load(Ordering::SeqCst)
    }

    /// Counts room that a batch has reserved.
    pub(crate) fn hold(&self, entries: u64) {
        self.held.fetch_add(entries, Ordering::SeqCst);
    }

    /// Takes away from the count what a batch hands over or gives back.
    pub(crate) fn unhold(&self, entries: u64) {
        let before = self.held.fetch_sub(entries, Ordering::SeqCst);
        assert!(before >= entries, "a batch hands over what it holds");
    }

    /// Reserves room for one entry of a batch, even in a full queue: for close entries.
    pub(crate) fn reserve_always(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
        self.hold(1);
    }

    /// Reserves room for at least one and at most `most` entries, and for `charge` bytes.
    #[inline]
    pub(crate) fn reserve(&self, charge: u64, most: u64) -> Option<u64> {
        if charge > 0 {
            let limit = self.options.bytes.unwrap_or(u64::MAX);
            let order = Ordering::SeqCst;
            let charged = self.bytes.fetch_update(order, order, |used| {
                let sum = used.saturating_add(charge);
                (used == 0 || sum <= limit).then_some(sum)
            });
            charged.ok()?;
        }
        let count = self.reserve_entries(most);
        if count.is_none() && charge > 0 {
            // Without waking: there is no room for entries either, whose completion wakes the
            // waiters.
            self.bytes.fetch_sub(charge, Ordering::SeqCst);
        }
        count
    }

    fn reserve_entries(&self, most: u64) -> Option<u64> {
        let capacity = u64::from(self.options.capacity);
        let given = self.sequence.load(Ordering::Relaxed);
        if given - self.watermark.load(Ordering::Relaxed).min(given) > SEQUENCE_WINDOW_MAX {
            return None;
        }
        let order = Ordering::SeqCst;
        let before = self.live.fetch_update(order, order, |live| {
            (live < capacity).then(|| capacity.min(live + most))
        });
        Some(most.min(capacity - before.ok()?))
    }

    /// Engine: everything below `sequence` has completed.
    pub(crate) fn set_watermark(&self, sequence: u64, wakers: &mut Vec<Waker>) {
        self.watermark.store(sequence, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.drain_at.load(Ordering::SeqCst) <= sequence {
            // All waiters look again; those that wait for a higher value register it again.
            self.drain_at.store(u64::MAX, Ordering::SeqCst);
            self.drains.take(wakers);
        }
    }

    /// What a request of this many bytes is charged: at most the whole budget, so that the charges
    /// of all entries add up without overflow.
    pub(crate) fn charge_of(&self, bytes: u64) -> u64 {
        const MAX: u64 = 1 << 44;
        let limit = self.options.bytes.map_or(0, |limit| limit.min(MAX));
        bytes.min(limit)
    }

    /// Engine: counts the bytes of a whole file, whose length is known now.
    pub(crate) fn charge_late(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Blocks until all entries that were handed over have completed, at most `timeout`; returns
    /// whether they have.
    pub(crate) fn drain(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        if self.mailbox.is_forked() {
            return Err(closed_error());
        }
        let until = lock(&self.submitted).next_sequence;
        self.wait_until(&self.drains, timeout, || {
            // After registering the waker, and before loading the watermark.
            self.drain_at.fetch_min(until, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            self.watermark.load(Ordering::SeqCst) >= until
        })
    }

    /// Gives back room for entries and bytes.
    pub(crate) fn release(&self, entries: u64, bytes: u64, wakers: &mut Vec<Waker>) {
        if bytes > 0 {
            let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
            assert!(before >= bytes, "released bytes were charged");
        }
        let before = self.live.fetch_sub(entries, Ordering::SeqCst);
        assert!(before >= entries, "released entries were reserved");
        self.space.take(wakers);
    }

    /// Hands a parcel over; it comes back empty. Wakes the engine after unlocking.
    pub(crate) fn hand_over(self: &Arc<Self>, parcel: &mut Parcel) {
        if self.mailbox.is_forked() {
            // A signal would reach the eventfds of the parent's fences.
            parcel.indices.clear();
            parcel.fifos.clear();
            return;
        }
        let count = parcel.indices.len() as u64;
        self.unhold(count);
        let mut submitted = lock(&self.submitted);
        if submitted.closed {
            drop(submitted);
            self.refuse(parcel);
            return;
        }
        let indices = parcel.indices.iter().copied();
        self.pool.publish(indices.filter(|index| *index != FIFO));
        let mut other = submitted.spare.pop().unwrap_or_else(Parcel::new);
        std::mem::swap(&mut other, parcel);
        self.push(submitted, other);
    }

    /// Submits one request, whose room is reserved: one lock, no parcel of the caller's. `fill`
    /// must not drop values of the application under the lock: their code may call this queue.
    pub(crate) fn submit_one(
        self: &Arc<Self>,
        priority: Priority,
        has_order: bool,
        fill: impl FnOnce(&PoolOwner<Arc<Mailbox>>, &mut Cache) -> Option<Id>,
    ) -> Result<Id, Error> {
        if self.mailbox.is_forked() {
            return Err(closed_error());
        }
        let mut submitted = lock(&self.submitted);
        if submitted.closed {
            return Err(closed_error());
        }
        let Some(id) = fill(&self.pool, &mut submitted.cache) else {
            return Err(too_many_tickets());
        };
        self.pool.publish(std::iter::once(id.index()));
        let mut parcel = submitted.spare.pop().unwrap_or_else(Parcel::new);
        parcel.indices.push(id.index());
        (parcel.highest, parcel.has_order) = (priority, has_order);
        self.push(submitted, parcel);
        Ok(id)
    }

    /// Assigns a parcel its sequence numbers, and wakes the engine.
    fn push(self: &Arc<Self>, mut submitted: MutexGuard<'_, Submitted>, mut parcel: Parcel) {
        parcel.first_sequence = submitted.next_sequence;
        parcel.at = Instant::now();
        let orders = &self.mailbox.orders;
        parcel.number = match parcel.has_order {
            true => orders.fetch_add(1, Ordering::Relaxed),
            false => orders.load(Ordering::Relaxed),
        };
        submitted.next_sequence += parcel.indices.len() as u64;
        self.sequence
            .store(submitted.next_sequence, Ordering::Relaxed);
        submitted.parcels.push(parcel);
        self.wake_engine(submitted);
    }

    fn wake_engine(self: &Arc<Self>, mut submitted: MutexGuard<'_, Submitted>) {
        let first = !std::mem::replace(&mut submitted.dirty, true);
        drop(submitted);
        if first {
            // An engine that has ended has closed this queue before: nothing is left behind.
            self.mailbox.queue_is_dirty(Arc::clone(self));
        }
    }

    /// Ends entries that can no longer be submitted: the storage is closed.
    #[cold]
    fn refuse(&self, parcel: &mut Parcel) {
        let mut wakers = Vec::new();
        let (count, mut bytes) = (parcel.indices.len() as u64, 0);
        for index in parcel.indices.drain(..) {
            match index {
                FIFO => fire_closed(parcel.fifos.pop_front()),
                index => {
                    let error = closed_error();
                    let (posted, charged) = self.pool.refuse(index, error, &mut wakers);
                    bytes += charged;
                    self.publish(&mut posted.into_iter().collect(), &mut wakers);
                }
            }
        }
        self.release(count, bytes, &mut wakers);
        wake_all(&mut wakers);
    }

    /// Changes the wishes and wakes the engine; `wish` is given the next sequence number.
    pub(crate) fn ask(self: &Arc<Self>, wish: impl FnOnce(&mut Wishes, u64)) {
        if self.mailbox.is_forked() {
            return;
        }
        let mut submitted = lock(&self.submitted);
        if !submitted.closed {
            let next = submitted.next_sequence;
            wish(&mut submitted.wishes, next);
            self.wake_engine(submitted);
        }
    }

    /// Cancels entries handed over before, or changes their priority. A repeat of a selection that
    /// the engine has not taken yet replaces it.
    pub(crate) fn select(self: &Arc<Self>, which: Which, change: Change) {
        self.ask(|Wishes { selections, .. }, before| {
            let last = selections.iter_mut().rev().take(SELECTIONS_COMPARED);
            let kind = discriminant(&change);
            let mut alike = last.filter(|other| discriminant(&other.change) == kind);
            match alike.find(|other| other.which.is_same(&which)) {
                Some(same) => (same.before, same.change) = (before, change),
                None => selections.push(Selection {
                    before,
                    which,
                    change,
                }),
            }
        });
    }

    /// Engine: swaps what was submitted with `parcels`, which is empty, as submitters wait for the
    /// lock; `spare` returns empty parcels for reuse.
    pub(crate) fn take(&self, parcels: &mut Vec<Parcel>, spare: &mut Vec<Parcel>) -> Wishes {
        let mut submitted = lock(&self.submitted);
        submitted.dirty = false;
        submitted.spare.append(spare);
        std::mem::swap(&mut submitted.parcels, parcels);
        std::mem::take(&mut submitted.wishes)
    }

    /// Blocks until `done`, for which `waiters` are woken, at most `timeout`; returns whether it
    /// is.
    ///
    /// # Errors
    /// `Closed`: the storage was closed before `done` held.
    pub(crate) fn wait_until(
        &self,
        waiters: &Waiters,
        timeout: Option<Duration>,
        done: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        let (mut key, deadline) = (Key::default(), park::deadline(timeout));
        let waited = self.mailbox.block_on_open(deadline, |waker| {
            waiters.poll(&mut key, waker, || ready_if(done()))
        });
        waiters.remove(&mut key);
        Ok(waited?.is_some())
    }

    /// Engine, at its end: nothing more is accepted.
    pub(crate) fn close(&self) {
        lock(&self.submitted).closed = true;
        self.space.wake();
    }

    /// Engine: records the failure of a request.
    pub(crate) fn record_failure(&self, sequence: u64, error: &Error) {
        let mut record = lock(&self.record);
        record.count += 1;
        let first = record.first.as_ref().map(|(first, _)| *first);
        if first.is_none_or(|first| sequence < first) {
            record.first = Some((sequence, error.clone()));
        }
    }

    pub(crate) fn take_record(&self) -> (u64, Option<Error>) {
        if self.mailbox.is_forked() {
            return (0, None);
        }
        let record = std::mem::take(&mut *lock(&self.record));
        (record.count, record.first.map(|(_, error)| error))
    }

    /// Engine: publishes completions of posted requests.
    pub(crate) fn publish(&self, ended: &mut Vec<Posted>, wakers: &mut Vec<Waker>) {
        if ended.is_empty() {
            return;
        }
        lock(&self.posted).extend(ended.drain(..));
        self.posted_waiters.take(wakers);
        if let Some(eventfd) = self.posted_fd.get() {
            eventfd.signal();
        }
    }

    pub(crate) fn has_posted(&self) -> bool {
        !self.mailbox.is_forked() && !lock(&self.posted).is_empty()
    }

    /// Takes the oldest completion.
    pub(crate) fn take_posted(&self) -> Option<Completion> {
        if self.mailbox.is_forked() {
            return None;
        }
        let posted = lock(&self.posted).pop_front()?;
        Some(self.pool.take_posted(posted))
    }

    /// Takes the locks that other threads may hold when a process forks.
    #[cfg(all(test, target_os = "linux", not(model)))]
    pub(crate) fn lock_all(&self) -> impl Sized + '_ {
        (
            lock(&self.submitted),
            lock(&self.record),
            lock(&self.posted),
        )
    }

    /// An eventfd that is readable after every publication since the first call.
    pub(crate) fn posted_eventfd(&self) -> Result<&EventFd, Error> {
        if let Some(eventfd) = self.posted_fd.get() {
            return Ok(eventfd);
        }
        let created = EventFd::new()?;
        let eventfd = self.posted_fd.get_or_init(|| created);
        if self.has_posted() {
            eventfd.signal();
        }
        Ok(eventfd)
    }
}

impl Drop for QueueShared {
    fn drop(&mut self) {
        while let Some(outcome) = self.take_posted() {
            outcome.memory.discard();
        }
        let mut cache = std::mem::take(&mut lock(&self.submitted).cache);
        self.pool.give_back(&mut cache);
    }
}

/// The effect of an entry of a queue whose storage is closed.
fn fire_closed(fifo: Option<Fifo>) {
    match fifo {
        Some(Fifo::Signal(fence, value)) => fence.signal(value),
        Some(Fifo::Status(statuses, index)) => statuses.write(index, Some(ErrorKind::Closed)),
        Some(Fifo::Close(..) | Fifo::Start(_)) | None => {}
    }
}

pub(crate) fn queue_full() -> Error {
    Error::new(
        ErrorKind::QueueFull,
        "the queue holds as many entries, or bytes, as its options allow",
    )
}

pub(crate) fn too_many_tickets() -> Error {
    let cause = "completed requests were neither claimed nor dropped";
    Error::new(ErrorKind::TooManyTickets, cause)
}
