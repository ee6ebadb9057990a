//! Reads of one source: which of them the engine has, which wait for room, how urgent each is.
//!
//! Bevy polls the tasks of its loads in the order of their spawning, on a few threads. So order and
//! bounds are kept here: a read that finds no room waits in a list ordered by urgency; the thread
//! that makes room submits the most urgent one and leaves the ticket for its task.
//!
//! - Bytes count from their submission until the task takes them, those of a dropped read until the
//!   engine lets go of their memory.
//! - Reads wait only while others are in flight: one that exceeds the bound is read alone.
//! - Wakers of other tasks are called, and tickets of canceled reads dropped, without the lock: a
//!   dropped ticket may call the scheduler as its waker.
//! - Nothing here owns a storage: the last owner may be dropped on a thread of the storage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Instant;

use bevy_asset::StrongHandle;
use millstream::{Buffer, Error, Priority, Queue, Read, Ticket};

/// Counts of the loads of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadStats {
    /// Reads that wait for room.
    pub waiting: u64,
    /// Reads that the engine has, or that have landed and were not yet taken by their loader.
    pub in_flight: u64,
    /// Bytes of the reads in flight.
    pub bytes_in_flight: u64,
    /// The largest number of bytes that were ever in flight.
    pub bytes_in_flight_peak: u64,
    /// Reads whose bytes were taken by a loader.
    pub loaded: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Reads that were dropped before their bytes were taken.
    pub canceled: u64,
}

/// Most bytes and reads in flight.
pub(crate) type Bounds = (u64, u64);

/// How soon a read is wanted, the soonest first: by priority, then deadline, if there is one.
pub(crate) type Urgency = (Reverse<Priority>, Reverse<Option<Reverse<Instant>>>);

struct Entry {
    id: u64,
    path: Arc<Path>,
    bytes: u64,
    urgency: Urgency,
    /// `None` while it waits.
    submitted: Option<Result<Ticket<Buffer>, Error>>,
    /// The task, until the engine has its waker.
    waker: Option<Waker>,
    was_awaited: bool,
}

/// The reads of an asset, and its urgency while this handle lives.
#[derive(Default)]
struct Asset {
    reads: Vec<u64>,
    urgency: Urgency,
    handle: Weak<StrongHandle>,
}

impl Asset {
    fn is_urgent(&self) -> bool {
        self.urgency.0.0 > Priority::Normal && self.handle.strong_count() > 0
    }

    fn is_needed(&self) -> bool {
        !self.reads.is_empty() || self.handle.strong_count() > 0
    }
}

#[derive(Default)]
struct Table {
    next: u64,
    entries: HashMap<u64, Entry>,
    /// In the order in which they are admitted.
    waiting: BTreeMap<(Urgency, u64), Read>,
    assets: HashMap<Arc<Path>, Asset>,
    /// Urgent assets whose reads have not started; reads of such that the engine has, which end
    /// whatever tasks do; and tasks that wait for these.
    awaited: HashSet<Arc<Path>>,
    ahead: Vec<u64>,
    parked: Vec<Waker>,
    /// Number of assets that remained when the table was last pruned.
    pruned: usize,
    /// Dropped reads whose memory the engine still has, with their bytes.
    canceled: Vec<(Ticket<Buffer>, u64)>,
    stats: LoadStats,
}

/// The urgency to set for the asset of a path, while a handle lives.
type Change = (Arc<Path>, Weak<StrongHandle>, Urgency);

pub(crate) struct Scheduler {
    queue: Queue,
    bounds: Bounds,
    table: Mutex<Table>,
    /// For frames, which never wait for the table: its holder may be preempted.
    frames: Mutex<(Vec<Change>, LoadStats)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scheduler {
    pub(crate) fn new(queue: Queue, bounds: Bounds) -> Arc<Scheduler> {
        Arc::new(Scheduler {
            queue,
            bounds,
            table: Mutex::default(),
            frames: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        let mut table = lock(&self.table);
        table.apply(std::mem::take(&mut lock(&self.frames).0));
        table
    }

    pub(crate) fn stats(&self) -> LoadStats {
        lock(&self.frames).1
    }

    /// Sets an asset's urgency; if the table is in use, once another read starts or completes.
    pub(crate) fn reprioritize(&self, change: Change) {
        lock(&self.frames).0.push(change);
        if let Ok(mut table) = self.table.try_lock() {
            table.apply(std::mem::take(&mut lock(&self.frames).0));
        }
    }

    /// Pends, unless this asset is urgent: once while an urgent one is awaited, whose task is
    /// behind in Bevy's list, and then until the engine has done the urgent reads that it has.
    pub(crate) fn poll_turn(&self, path: &Path, is_behind: bool, waker: &Waker) -> Poll<()> {
        let mut table = self.table();
        let is_urgent = table.assets.get(path).is_some_and(Asset::is_urgent);
        let is_first = table.ahead.is_empty();
        if is_urgent || (is_first && (table.awaited.is_empty() || is_behind)) {
            return Poll::Ready(());
        }
        match is_first {
            true => waker.wake_by_ref(),
            false => table.parked.push(waker.clone()),
        }
        Poll::Pending
    }

    /// Registers a read of `bytes` bytes for an asset. It starts as soon as there is room.
    pub(crate) fn start(self: &Arc<Self>, path: &Arc<Path>, request: Read, bytes: u64) -> Load {
        let mut table = self.table();
        let id = table.next;
        table.next += 1;
        let asset = table.assets.entry(Arc::clone(path)).or_default();
        asset.reads.push(id);
        let set = (asset.handle.strong_count() > 0).then_some(asset.urgency);
        let urgency = set.unwrap_or_default();
        let was_awaited = table.awaited.remove(path);
        let entry = Entry {
            id,
            path: Arc::clone(path),
            bytes,
            urgency,
            submitted: None,
            waker: None,
            was_awaited,
        };
        table.entries.insert(id, entry);
        table.waiting.insert((urgency, id), request);
        self.submit_admitted(table);
        Load(Arc::clone(self), id)
    }

    /// Submits the most urgent reads that there is room for, then unlocks.
    fn submit_admitted(self: &Arc<Self>, mut table: MutexGuard<'_, Table>) {
        let gone = table.reap();
        let (mut batch, mut ahead) = (None, Vec::new());
        let mut wakers = table.landed();
        while let Some((entry, request)) = table.admit(self.bounds, batch.is_some()) {
            let (Reverse(priority), Reverse(deadline)) = entry.urgency;
            let mut request = request.priority(priority);
            if let Some(Reverse(deadline)) = deadline {
                request = request.deadline(deadline);
            }
            let batch = batch.get_or_insert_with(|| self.queue.batch());
            let submitted = batch.try_add(request).map_err(Error::from);
            if let (true, Ok(ticket)) = (entry.was_awaited, &submitted)
                && !ticket.wake_when_complete(&Waker::from(Arc::clone(self)))
            {
                // Its task may not look at it for long: it is woken from here.
                ahead.push(entry.id);
            } else if let Some(waker) = entry.waker.take() {
                let ticket = submitted.as_ref().ok();
                if ticket.is_none_or(|ticket| ticket.wake_when_complete(&waker)) {
                    wakers.push(waker);
                }
            }
            entry.submitted = Some(submitted);
        }
        table.ahead.append(&mut ahead);
        // Submitted before another thread can poll a ticket.
        drop(batch);
        table.stats.waiting = table.waiting.len() as u64;
        lock(&self.frames).1 = table.stats;
        drop(table);
        drop(gone);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Table {
    fn apply(&mut self, changes: Vec<Change>) {
        if self.assets.len() > 1024.max(2 * self.pruned) {
            self.assets.retain(|_, asset| asset.is_needed());
            self.pruned = self.assets.len();
            self.awaited.retain(|path| self.assets.contains_key(path));
        }
        for (path, handle, urgency) in changes {
            let asset = self.assets.entry(Arc::clone(&path)).or_default();
            (asset.urgency, asset.handle) = (urgency, handle);
            match asset.is_urgent() && asset.reads.is_empty() {
                true => self.awaited.insert(path),
                false => self.awaited.remove(&path),
            };
            for id in &asset.reads {
                let entry = self.entries.get_mut(id).expect("the reads of an asset");
                let before = std::mem::replace(&mut entry.urgency, urgency);
                if let Some(request) = self.waiting.remove(&(before, *id)) {
                    self.waiting.insert((urgency, *id), request);
                } else if let (Some(Ok(ticket)), true) = (&entry.submitted, before != urgency) {
                    let deadline = urgency.1.0.map(|Reverse(deadline)| deadline);
                    ticket.reprioritize(urgency.0.0, deadline);
                }
            }
        }
    }

    /// Takes the most urgent read that waits, if there is room for it. One that is not urgent
    /// waits until a quarter of the reads can be submitted together, which wakes the engine once.
    fn admit(&mut self, (bytes, reads): Bounds, together: bool) -> Option<(&mut Entry, Read)> {
        let first = self.waiting.first_entry()?;
        let ((Reverse(priority), ..), id) = *first.key();
        let waits = priority <= Priority::Normal && !together;
        let reads = if waits { reads * 3 / 4 + 1 } else { reads };
        let entry = self.entries.get_mut(&id).expect("a read that waits");
        let stats = &mut self.stats;
        let sum = stats.bytes_in_flight.saturating_add(entry.bytes);
        if stats.in_flight > 0 && (sum > bytes || stats.in_flight >= reads) {
            return None;
        }
        stats.in_flight += 1;
        stats.bytes_in_flight = sum;
        stats.bytes_in_flight_peak = stats.bytes_in_flight_peak.max(sum);
        Some((entry, first.remove()))
    }

    fn release(&mut self, bytes: u64) {
        self.stats.in_flight -= 1;
        self.stats.bytes_in_flight -= bytes;
    }

    /// Takes the wakers of the tasks whose urgent reads have been done since, and then, if there
    /// is no such read left, of those that wait for them.
    fn landed(&mut self) -> Vec<Waker> {
        let (entries, mut wakers) = (&mut self.entries, Vec::new());
        self.ahead.retain(|id| {
            let Some(entry) = entries.get_mut(id) else {
                return false;
            };
            let is_out = entry.is_out();
            wakers.extend(entry.waker.take_if(|_| !is_out));
            is_out
        });
        if self.ahead.is_empty() {
            wakers.append(&mut self.parked);
        }
        wakers
    }

    /// Removes a read from the table and from its asset, unless its result was returned.
    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        let asset = self.assets.get_mut(&entry.path).expect("its asset");
        asset.reads.retain(|other| *other != id);
        if !asset.is_needed() {
            self.assets.remove(&entry.path);
        }
        Some(entry)
    }

    /// Makes room of canceled reads that have completed since, whose tickets it returns.
    fn reap(&mut self) -> Vec<(Ticket<Buffer>, u64)> {
        let is_gone = |ticket: &Ticket<Buffer>| ticket.is_complete() || ticket.is_still_held();
        let gone = self.canceled.extract_if(.., |(ticket, _)| is_gone(ticket));
        let gone: Vec<_> = gone.collect();
        gone.iter().for_each(|(_, bytes)| self.release(*bytes));
        gone
    }
}

/// Called when a dropped read, or an urgent one, completes.
impl Wake for Scheduler {
    fn wake(self: Arc<Self>) {
        self.submit_admitted(self.table());
    }
}

impl Entry {
    /// Whether the engine still has it.
    fn is_out(&self) -> bool {
        let ticket = self.submitted.as_ref().and_then(|it| it.as_ref().ok());
        ticket.is_some_and(|ticket| !(ticket.is_complete() || ticket.is_still_held()))
    }
}

/// A read in a [`Scheduler`]; dropping it cancels the read.
pub(crate) struct Load(Arc<Scheduler>, u64);

impl Load {
    /// Polls for the bytes, until they are ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Buffer, Error>> {
        let mut table = self.0.table();
        let is_ahead = table.ahead.contains(&self.1);
        let entry = table.entries.get_mut(&self.1).expect("it is not ready");
        let result = match &mut entry.submitted {
            None => {
                entry.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Some(Ok(ticket)) if is_ahead && !ticket.is_complete() => {
                entry.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Some(Ok(ticket)) => ready!(ticket.poll_outcome(context)).into_result(),
            Some(Err(error)) => Err(error.clone()),
        };
        let entry = table.remove(self.1).expect("as above");
        table.stats.loaded += u64::from(result.is_ok());
        table.stats.failed += u64::from(result.is_err());
        table.release(entry.bytes);
        self.0.submit_admitted(table);
        Poll::Ready(result)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let mut table = self.0.table();
        let removed = table.remove(self.1);
        let Some(entry) = removed else { return };
        table.stats.canceled += 1;
        match entry.submitted {
            None => drop(table.waiting.remove(&(entry.urgency, self.1))),
            Some(Ok(ticket)) => {
                ticket.cancel();
                ticket.wake_when_complete(&Waker::from(Arc::clone(&self.0)));
                table.canceled.push((ticket, entry.bytes));
            }
            Some(Err(_)) => table.release(entry.bytes),
        }
        self.0.submit_admitted(table);
    }
}
