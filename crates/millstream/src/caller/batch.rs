//! Queues and batches: how requests reach the engine.
//!
//! A [`Batch`] collects entries on one thread and hands them over as a whole; [`Queue::submit`] is
//! a batch of one. Signal, status and close entries take effect once everything before them in the
//! queue has completed; they do not delay later entries.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream_io::BorrowedEvent;

use crate::caller::fence::Fence;
use crate::caller::group::Group;
use crate::caller::queue::{FIFO, Fifo, Parcel, QueueShared, Which, queue_full, too_many_tickets};
use crate::caller::request::{Parts, Request, Verb};
use crate::caller::status::StatusArray;
use crate::caller::ticket::Ticket;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::Change;
use crate::handover::park;
use crate::handover::slots::{Cache, Completion, Delivery};
use crate::handover::waiters::wake_all;
use crate::ids::{FileId, Id};
use crate::limits::{BATCH_RESERVE, SLOT_CHUNK};
use crate::priority::Priority;
use crate::sync::lock;

#[cfg(all(test, target_os = "linux", not(model)))]
mod tests;

/// The application's handle to a queue, shared by its clones and batches.
struct Handle {
    shared: Arc<QueueShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.mailbox.is_forked() {
            // A thread of the parent may have held its locks: nothing of it is freed in the child.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.ask(|wishes, _| wishes.dropped = true);
    }
}

/// A queue of requests with its own priority, capacity and completion queue. A clone is another
/// handle; all methods may be called from any thread. Dropping the last handle and batch cancels
/// what is still held back by a fence.
#[derive(Clone)]
pub struct Queue(Arc<Handle>);

/// A request that was not accepted, with the reason. As an error it shows the reason alone.
pub struct Refused<R> {
    /// The reason: `QueueFull`, `TooManyTickets` or `Closed`.
    pub error: Error,
    /// The request.
    pub request: R,
}

impl<R> fmt::Debug for Refused<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Refused");
        shown.field("error", &self.error).finish_non_exhaustive()
    }
}

impl<R> fmt::Display for Refused<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<R> std::error::Error for Refused<R> {}

impl<R> From<Refused<R>> for Error {
    fn from(refused: Refused<R>) -> Error {
        refused.error
    }
}

impl Queue {
    pub(crate) fn new(shared: Arc<QueueShared>) -> Queue {
        Queue(Arc::new(Handle { shared }))
    }

    /// Returns whether the storage is recording a trace, which shows the names of requests.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.0.shared.mailbox.recorder.is_on()
    }

    fn shared(&self) -> &Arc<QueueShared> {
        &self.0.shared
    }

    /// Returns an empty batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch {
            queue: self.clone(),
            parcel: Parcel::new(),
            cache: Cache::default(),
            room: 0,
        }
    }

    /// Submits one request. If the queue is full it blocks until there is room; on a thread of the
    /// storage, or if no submitted entry can make room, it fails instead.
    ///
    /// # Errors
    /// `QueueFull`, `TooManyTickets`, `Closed`.
    #[inline]
    pub fn submit<R: Request>(&self, mut request: R) -> Result<Ticket<R::Output>, Error> {
        self.put(&mut request, true)
    }

    /// As [`Queue::submit`], but never blocks.
    ///
    /// # Errors
    /// As [`Queue::submit`], with the request.
    pub fn try_submit<R: Request>(&self, mut request: R) -> Result<Ticket<R::Output>, Refused<R>> {
        let submitted = self.put(&mut request, false);
        submitted.map_err(|error| Refused { error, request })
    }

    /// Submits one request whose completion arrives in the completion queue
    /// ([`Queue::drain_completions`]).
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn post<R: Request>(&self, mut request: R) -> Result<(), Error> {
        self.put_parts(request.parts_mut(), Delivery::Posted, true)?;
        Ok(())
    }

    /// Submits one request without a ticket: its completion shows in its group, a status entry or a
    /// signal, a failure also in [`Queue::take_errors`].
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn detach<R: Request>(&self, mut request: R) -> Result<(), Error> {
        self.put_parts(request.parts_mut(), Delivery::Detached, true)?;
        Ok(())
    }

    fn put<R: Request>(&self, request: &mut R, block: bool) -> Result<Ticket<R::Output>, Error> {
        let id = self.put_parts(request.parts_mut(), Delivery::Ticket, block)?;
        Ok(Ticket::new(self.shared().pool.ticket(id)))
    }

    fn put_parts(&self, parts: &mut Parts, mode: Delivery, block: bool) -> Result<Id, Error> {
        let shared = self.shared();
        let charge = charge_of(shared, parts);
        take_room(shared, charge, 1, block)?;
        let priority = accept(shared, parts, charge);
        let has_order = parts.verb == Verb::Sync;
        let submitted = shared.submit_one(priority, has_order, |pool, cache| {
            if !pool.secure(cache, 1) {
                return None;
            }
            if let Some(group) = &parts.usual.group {
                group.add();
            }
            Some(pool.fill(cache, parts, mode, priority))
        });
        if submitted.is_err() {
            release_now(shared, 1, charge);
        }
        submitted
    }

    /// Cancels the requests submitted before this call whose `tag & mask == value`.
    pub fn cancel_tagged(&self, mask: u64, value: u64) {
        self.shared()
            .select(Which::Tagged { mask, value }, Change::Cancel);
    }

    /// Cancels the requests of this queue submitted before this call that belong to `group`.
    pub fn cancel_group(&self, group: &Group) {
        self.shared()
            .select(Which::Group(group.clone()), Change::Cancel);
    }

    /// Changes priority and deadline of the requests submitted before this call whose
    /// `tag & mask == value`, also of posted and detached ones; what is in flight keeps its own. Of
    /// several changes of a request, here and by [`Ticket::reprioritize`], the last call counts.
    /// Does not block.
    ///
    /// ```no_run
    /// # fn example(queue: &millstream::Queue) {
    /// use millstream::Priority;
    /// // The camera moved from region 3 to region 4, which the low byte of the tags names.
    /// queue.reprioritize_tagged(0xff, 3, Priority::Low, None);
    /// queue.reprioritize_tagged(0xff, 4, Priority::High, None);
    /// # }
    /// ```
    pub fn reprioritize_tagged(
        &self,
        mask: u64,
        value: u64,
        priority: Priority,
        deadline: Option<Instant>,
    ) {
        let change = self.shared().mailbox.reorder(priority, deadline);
        self.shared().select(Which::Tagged { mask, value }, change);
    }

    /// Closes a file, as [`Batch::close`].
    ///
    /// # Errors
    /// `StaleFile`; `Closed` in a forked child.
    pub fn close(&self, file: FileId) -> Result<(), Error> {
        self.batch().close(file)
    }

    /// Stops serving the queue. Operations in flight complete, and a window of staging that is half
    /// filled is filled to its end, since others may wait for that memory: for most codecs at most
    /// 4 MiB, for those that need all stored bytes at once the rest of one request.
    pub fn pause(&self) {
        self.shared().ask(|wishes, _| wishes.paused = Some(true));
    }

    /// Resumes serving the queue.
    pub fn resume(&self) {
        self.shared().ask(|wishes, _| wishes.paused = Some(false));
    }

    /// Sets the bytes per second that the queue's requests may move; `None` for no limit. The queue
    /// may go into debt by one operation, or by one window of staging as for [`Queue::pause`].
    pub fn set_bandwidth(&self, bytes_per_second: Option<u64>) {
        self.shared()
            .ask(|wishes, _| wishes.bandwidth = Some(bytes_per_second));
    }

    /// Returns the failures since the last call: their number, and the first in submission order.
    #[must_use]
    pub fn take_errors(&self) -> (u64, Option<Error>) {
        self.shared().take_record()
    }

    /// Returns the number of entries that have not completed, including those that batches reserve.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.shared().live()
    }

    /// Returns whether any submitted entry has not completed. If a full queue has none, batches
    /// hold all of its room: waiting ends only if another thread submits one.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.shared().is_served()
    }

    /// Blocks until what was submitted so far has completed, at most `timeout`; returns whether it
    /// has.
    ///
    /// # Errors
    /// `OnStorageThread`, `Closed`.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        park::may_block()?;
        self.shared().drain(timeout)
    }

    /// Moves posted completions into `into`, oldest first; returns how many. Never blocks.
    pub fn drain_completions(&self, into: &mut [Completion]) -> usize {
        let mut count = 0;
        while let Some(place) = into.get_mut(count)
            && let Some(completion) = self.shared().take_posted()
        {
            *place = completion;
            count += 1;
        }
        count
    }

    /// Blocks until the completion queue has an entry, at most `timeout`; returns whether it has.
    ///
    /// # Errors
    /// `OnStorageThread`, `Closed`.
    pub fn wait_completions(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let shared = self.shared();
        if shared.has_posted() {
            return Ok(true);
        }
        park::may_block()?;
        shared.wait_until(&shared.posted_waiters, timeout, || shared.has_posted())
    }

    /// Returns an eventfd for the completion queue, created by the first call: readable if
    /// completions arrived since its last read. On Windows an event object, set until it is reset.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn completion_eventfd(&self) -> Result<BorrowedEvent<'_>, Error> {
        Ok(self.shared().posted_eventfd()?.event())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.shared().options.name)
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

/// The destination bytes of a request, as far as they are known when it is accepted.
#[inline(always)]
fn charge_of(queue: &QueueShared, parts: &Parts) -> u64 {
    match (parts.usual.raw_len, parts.body.len) {
        (u64::MAX, u64::MAX) => 0,
        (u64::MAX, len) => queue.charge_of(len),
        (raw_len, _) => queue.charge_of(raw_len),
    }
}

/// Records what a request was charged; returns its priority.
#[inline(always)]
fn accept(queue: &QueueShared, parts: &mut Parts, charge: u64) -> Priority {
    parts.usual.charged = charge;
    parts.priority.unwrap_or(queue.options.priority)
}

/// Reserves room for bytes and at most `most` entries; returns how many entries.
fn take_room(queue: &QueueShared, charge: u64, most: u64, block: bool) -> Result<u64, Error> {
    if queue.mailbox.is_closing() {
        return Err(crate::handover::mailbox::closed_error());
    }
    match queue.reserve(charge, most) {
        Some(count) => Ok(count),
        None if block && park::may_block().is_ok() => wait_for_room(queue, charge, most),
        None => Err(queue_full()),
    }
}

/// Blocks while the engine has requests; without any, waiting would never end.
#[cold]
fn wait_for_room(queue: &QueueShared, charge: u64, most: u64) -> Result<u64, Error> {
    let waited = queue.mailbox.wait_for(&queue.space, None, || {
        if queue.mailbox.is_closing() {
            return Poll::Ready(Err(crate::handover::mailbox::closed_error()));
        }
        // Looked at before, as an entry that completes in between leaves room; and after, as
        // another thread may have taken that room in between and submitted.
        let served = queue.is_served();
        match queue.reserve(charge, most) {
            Some(count) => Poll::Ready(Ok(count)),
            None if !served && !queue.is_served() => Poll::Ready(Err(queue_full())),
            None => Poll::Pending,
        }
    });
    waited.unwrap_or_else(|| Err(queue_full()))
}

fn release_now(queue: &QueueShared, entries: u64, bytes: u64) {
    let mut wakers: Vec<Waker> = Vec::new();
    queue.release(entries, bytes, &mut wakers);
    wake_all(&mut wakers);
}

/// Entries that one thread adds to a queue together, in order. Adding a request usually takes no
/// lock and, once the batch has grown, allocates nothing. Dropping a batch submits it.
pub struct Batch {
    queue: Queue,
    parcel: Parcel,
    cache: Cache,
    /// Entries reserved and not used.
    room: u64,
}

impl Batch {
    fn shared(&self) -> &Arc<QueueShared> {
        &self.queue.0.shared
    }

    /// Fails in a forked child: the batch may hold room and slots of the parent.
    #[inline(always)]
    fn refuse_forked(&self) -> Result<(), Error> {
        match self.shared().mailbox.is_forked() {
            true => Err(crate::handover::mailbox::closed_error()),
            false => Ok(()),
        }
    }

    /// Ensures that one more entry will be accepted. If the queue is full, submits what the batch
    /// holds first.
    #[inline(always)]
    fn secure(&mut self, charge: u64, block: bool) -> Result<(), Error> {
        self.refuse_forked()?;
        if self.room == 0 || charge > 0 {
            self.reserve(charge, block)?;
        }
        if !self.queue.0.shared.pool.secure(&mut self.cache, SLOT_CHUNK) {
            release_now(self.shared(), 0, charge);
            return Err(too_many_tickets());
        }
        Ok(())
    }

    #[cold]
    fn reserve(&mut self, charge: u64, block: bool) -> Result<(), Error> {
        let share = u64::from(self.shared().options.capacity / 4).clamp(1, BATCH_RESERVE);
        let most = if self.room == 0 { share } else { 1 };
        let shared = Arc::clone(self.shared());
        if shared.mailbox.is_closing() {
            return Err(crate::handover::mailbox::closed_error());
        }
        let count = match shared.reserve(charge, most) {
            Some(count) => count,
            None => {
                self.submit();
                take_room(&shared, charge, most, block)?
            }
        };
        shared.hold(count);
        self.room += count;
        Ok(())
    }

    #[inline(always)]
    fn put<R: Request>(
        &mut self,
        mut request: R,
        mode: Delivery,
        block: bool,
    ) -> Result<Id, Refused<R>> {
        let charge = charge_of(&self.queue.0.shared, request.parts_mut());
        if let Err(error) = self.secure(charge, block) {
            return Err(Refused { error, request });
        }
        let parts = request.parts_mut();
        if let Some(group) = &parts.usual.group {
            group.add();
        }
        let shared = &self.queue.0.shared;
        let priority = accept(shared, parts, charge);
        self.parcel.has_order |= parts.verb == Verb::Sync;
        let id = shared.pool.fill(&mut self.cache, parts, mode, priority);
        self.push(id.index(), priority);
        Ok(id)
    }

    #[inline(always)]
    fn push(&mut self, index: u32, priority: Priority) {
        self.room -= 1;
        self.parcel.indices.push(index);
        self.parcel.highest = self.parcel.highest.max(priority);
        let options = &self.queue.0.shared.options;
        if self.parcel.indices.len() * 2 >= options.capacity as usize && options.auto_submit {
            self.hand_over();
        }
    }

    /// Adds a request. If the queue is full, the batch is submitted, and the call blocks until
    /// there is room; on a thread of the storage, or if no submitted entry can make room, it fails
    /// instead.
    ///
    /// # Errors
    /// `QueueFull`, `TooManyTickets`, `Closed`.
    #[inline(always)]
    pub fn add<R: Request>(&mut self, request: R) -> Result<Ticket<R::Output>, Error> {
        let id = self.put(request, Delivery::Ticket, true)?;
        Ok(Ticket::new(self.queue.0.shared.pool.ticket(id)))
    }

    /// As [`Batch::add`], but never blocks.
    ///
    /// # Errors
    /// As [`Batch::add`], with the request. On `QueueFull`, what the batch held was submitted.
    #[inline]
    pub fn try_add<R: Request>(&mut self, request: R) -> Result<Ticket<R::Output>, Refused<R>> {
        let id = self.put(request, Delivery::Ticket, false)?;
        Ok(Ticket::new(self.queue.0.shared.pool.ticket(id)))
    }

    /// Adds a request whose completion arrives in the completion queue
    /// ([`Queue::drain_completions`]).
    ///
    /// # Errors
    /// As [`Batch::add`].
    #[inline(always)]
    pub fn post<R: Request>(&mut self, request: R) -> Result<(), Error> {
        Ok(self.put(request, Delivery::Posted, true).map(drop)?)
    }

    /// As [`Batch::add`], [`Batch::post`] or [`Batch::detach`], depending on `delivery`. Without
    /// `wait` it never blocks: where it would, it fails and drops the request.
    ///
    /// # Errors
    /// As [`Batch::add`]. On `QueueFull`, what the batch held was submitted.
    #[inline(always)]
    pub fn deliver<R: Request>(
        &mut self,
        request: R,
        delivery: Delivery,
        wait: bool,
    ) -> Result<Option<Ticket<R::Output>>, Error> {
        let id = self.put(request, delivery, wait)?;
        let pool = &self.queue.0.shared.pool;
        Ok((delivery == Delivery::Ticket).then(|| Ticket::new(pool.ticket(id))))
    }

    /// Adds a request without a ticket: its completion shows in its group, a status entry or a
    /// signal, a failure also in [`Queue::take_errors`].
    ///
    /// # Errors
    /// As [`Batch::add`].
    #[inline(always)]
    pub fn detach<R: Request>(&mut self, request: R) -> Result<(), Error> {
        Ok(self.put(request, Delivery::Detached, true).map(drop)?)
    }

    /// Raises `fence` to `value` once everything before it has completed.
    ///
    /// # Errors
    /// As [`Batch::add`].
    pub fn signal(&mut self, fence: &Fence, value: u64) -> Result<(), Error> {
        self.put_fifo(Fifo::Signal(fence.clone(), value), true)
    }

    /// As [`Batch::signal`], but never blocks.
    ///
    /// # Errors
    /// As [`Batch::signal`]. On `QueueFull`, what the batch held was submitted.
    pub fn try_signal(&mut self, fence: &Fence, value: u64) -> Result<(), Error> {
        self.put_fifo(Fifo::Signal(fence.clone(), value), false)
    }

    /// Writes slot `index` of `statuses` once everything before it has completed: the result of the
    /// requests since the previous status entry of the queue.
    ///
    /// # Errors
    /// As [`Batch::add`].
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn status(&mut self, statuses: &StatusArray, index: usize) -> Result<(), Error> {
        self.put_status(statuses, index, true)
    }

    /// As [`Batch::status`], but never blocks.
    ///
    /// # Errors
    /// As [`Batch::status`]. On `QueueFull`, what the batch held was submitted.
    ///
    /// # Panics
    /// As [`Batch::status`].
    pub fn try_status(&mut self, statuses: &StatusArray, index: usize) -> Result<(), Error> {
        self.put_status(statuses, index, false)
    }

    fn put_status(&mut self, to: &StatusArray, index: usize, block: bool) -> Result<(), Error> {
        let len = to.len();
        assert!(index < len, "the status array has {len} slots");
        self.put_fifo(Fifo::Status(to.clone(), index), block)
    }

    /// Closes a file once everything before it has completed, and its open. Requests after it fail
    /// with `StaleFile`. If the system reports an error of a delayed write when the file is closed,
    /// [`Queue::take_errors`] of this queue has it. Never blocks, even if the queue is full.
    ///
    /// # Errors
    /// `StaleFile`; `Closed` in a forked child.
    pub fn close(&mut self, file: FileId) -> Result<(), Error> {
        self.refuse_forked()?;
        if self.room == 0 {
            // Even if the queue is full.
            self.shared().reserve_always();
            self.room += 1;
        }
        let local = lock(&self.shared().mailbox.names).close(file);
        // Dropped, and closed, without the lock.
        if local.is_none() {
            let cause = "the file was closed before, or the id is of another storage";
            return Err(Error::new(ErrorKind::StaleFile, cause));
        }
        self.put_fifo(Fifo::Close(file), true)
    }

    fn put_fifo(&mut self, fifo: Fifo, block: bool) -> Result<(), Error> {
        self.refuse_forked()?;
        if self.room == 0 {
            self.reserve(0, block)?;
        }
        self.parcel.has_order |= matches!(fifo, Fifo::Close(..));
        self.parcel.fifos.push_back(fifo);
        self.push(FIFO, Priority::Low);
        Ok(())
    }

    fn hand_over(&mut self) {
        if !self.parcel.indices.is_empty() {
            let shared = Arc::clone(&self.queue.0.shared);
            shared.hand_over(&mut self.parcel);
            (self.parcel.highest, self.parcel.has_order) = (Priority::Low, false);
        }
    }

    /// Hands all entries to the engine, and returns unused room to the queue. Does not block, and
    /// wakes the engine at most once.
    pub fn submit(&mut self) {
        self.hand_over();
        if self.shared().mailbox.is_forked() {
            return;
        }
        self.queue.0.shared.pool.give_back(&mut self.cache);
        let unused = std::mem::take(&mut self.room);
        if unused > 0 {
            self.shared().unhold(unused);
            release_now(self.shared(), unused, 0);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.submit();
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("entries", &self.parcel.indices.len())
            .finish_non_exhaustive()
    }
}
