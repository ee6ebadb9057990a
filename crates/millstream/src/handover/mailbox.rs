//! What callers, workers and the engine share: mail for the engine, and what a storage consists of.
//!
//! Mail is swapped out as a whole, so no lock is held over anything but a few moves. The doorbell
//! is rung after unlocking. Once the engine has taken its last mail (`ended`), nothing more is
//! accepted: the sender handles what comes later.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream_io::error::guard;
use millstream_io::log::{Log, LogHook, LogLevel};
use millstream_io::memory::Region;
use millstream_io::{BufferPool, Doorbell, FileSystem, ForkGuard};

use crate::caller::fence::Watcher;
use crate::caller::waits::{SharedCauses, WaitsFor};
use crate::decode::jobs::{JobResult, JobSink};
use crate::error::{Error, ErrorKind};
use crate::handover::names::{Names, NewFile};
use crate::handover::park::{self, StorageThread};
use crate::handover::waiters::{Key, Waiters};
use crate::ids::{FileId, Id};
use crate::options::StorageOptions;
use crate::priority::Priority;
use crate::stats::Counters;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::trace::Recorder;

/// Mail for the engine beside submissions.
pub(crate) enum Letter<Q> {
    File(FileId, Box<NewFile>),
    Queue(Arc<Q>),
    Close(Option<Instant>),
}

/// What is asked of requests after their submission, by their ids or by a selection of their queue.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Cancel,
    /// Cancels what has not begun.
    Withdraw,
    Reorder(NewOrder),
}

/// A new priority and deadline of requests.
#[derive(Clone, Copy)]
pub(crate) struct NewOrder {
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Instant>,
    /// Its number in the order of the calls, from 1 on: a request keeps the latest.
    pub(crate) number: u64,
}

/// Letters, submissions and results.
pub(crate) struct Mail<Q> {
    pub(crate) letters: Vec<Letter<Q>>,
    /// Queues that have something new.
    pub(crate) dirty: Vec<Arc<Q>>,
    pub(crate) results: Vec<JobResult>,
    /// The change of each request: the cancellation, or else the latest.
    pub(crate) changes: BTreeMap<Id, Change>,
}

/// The engine of a storage without threads.
pub(crate) trait Pump: Send {
    /// Runs one round; returns whether anything was done.
    fn pump(&mut self) -> bool;
    /// Sleeps until something arrives, at most `longest`.
    fn rest(&mut self, longest: Duration);
    /// Whether it has ended.
    fn is_closed(&self) -> bool;
}

/// What the system and the workers still held when a storage was closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Operations, calls and jobs that had not come back. Their memory is never freed or reused.
    pub operations: usize,
    /// Bytes of the operations.
    pub bytes: u64,
    /// Files that they use.
    pub files: Vec<std::path::PathBuf>,
}

/// What callers, workers and the engine share. `Q` is the shared part of a queue.
pub(crate) struct Shared<Q> {
    pub(crate) options: StorageOptions,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) buffers: Arc<BufferPool>,
    pub(crate) names: Mutex<Names>,
    pub(crate) counters: Counters,
    pub(crate) recorder: Recorder,
    pub(crate) log: Log,
    pub(crate) epoch: Instant,
    pub(crate) causes: SharedCauses,
    /// Parcels with a sync or a close so far.
    pub(crate) orders: AtomicU64,
    /// New orders so far.
    orders_changed: AtomicU64,
    mail: Mutex<Mail<Q>>,
    has_mail: AtomicBool,
    fences: AtomicBool,
    /// The engine takes no more mail.
    ended: AtomicBool,
    closing: AtomicBool,
    /// Every request that can end has ended.
    closed_for_good: AtomicBool,
    report: Mutex<Option<CloseReport>>,
    closed: Waiters,
    bell: OnceLock<Doorbell>,
    staging: OnceLock<Arc<Region>>,
    pump: Mutex<Option<Box<dyn Pump>>>,
    fork: ForkGuard,
    /// The number of living queues.
    pub(crate) queues: AtomicU32,
}

impl<Q: Send + Sync + 'static> Shared<Q> {
    pub(crate) fn new(
        options: StorageOptions,
        fs: Arc<dyn FileSystem>,
        names: Names,
    ) -> Arc<Shared<Q>> {
        let buffers = BufferPool::new(options.retained_bytes, options.allocator.clone());
        Arc::new(Shared {
            log: Log::new(options.log.clone().map(on_storage_thread)),
            options,
            fs,
            buffers,
            names: Mutex::new(names),
            counters: Counters::default(),
            recorder: Recorder::default(),
            epoch: Instant::now(),
            causes: SharedCauses::default(),
            orders: AtomicU64::new(0),
            orders_changed: AtomicU64::new(0),
            mail: Mutex::new(Mail {
                letters: Vec::new(),
                dirty: Vec::new(),
                results: Vec::new(),
                changes: BTreeMap::new(),
            }),
            has_mail: AtomicBool::new(false),
            fences: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            closed_for_good: AtomicBool::new(false),
            report: Mutex::new(None),
            closed: Waiters::default(),
            bell: OnceLock::new(),
            staging: OnceLock::new(),
            pump: Mutex::new(None),
            fork: ForkGuard::new(),
            queues: AtomicU32::new(0),
        })
    }

    pub(crate) fn set_staging(&self, region: &Arc<Region>) {
        self.staging.get_or_init(|| Arc::clone(region));
    }

    pub(crate) fn staging(&self) -> Arc<Region> {
        let region = self.staging.get().expect("a storage has started");
        Arc::clone(region)
    }

    pub(crate) fn set_bell(&self, bell: Doorbell) {
        // Set once, before any caller has the storage; a device that breaks keeps its bell.
        let _ = self.bell.set(bell);
    }

    pub(crate) fn set_pump(&self, pump: Box<dyn Pump>) {
        *lock(&self.pump) = Some(pump);
    }

    /// Whether the calling process is a forked child, which has no engine.
    pub(crate) fn is_forked(&self) -> bool {
        self.fork.is_child()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.to_ns(Instant::now())
    }

    pub(crate) fn to_ns(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn warn(&self, text: String) {
        self.log.write(LogLevel::Warning, text);
    }

    /// Wakes the engine for its mail.
    fn ring(&self) {
        self.has_mail.store(true, Ordering::SeqCst);
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// Puts something into the mail; false if the engine has ended: then nothing was put.
    pub(crate) fn post(&self, put: impl FnOnce(&mut Mail<Q>)) -> bool {
        if self.is_forked() {
            return false;
        }
        let mut mail = lock(&self.mail);
        if self.ended.load(Ordering::Relaxed) {
            return false;
        }
        put(&mut mail);
        drop(mail);
        self.ring();
        true
    }

    pub(crate) fn send(&self, letter: Letter<Q>) -> bool {
        self.post(|mail| mail.letters.push(letter))
    }

    /// Cancels a request, or changes its priority; of several changes before the engine looks, the
    /// last. A storage that closes has canceled everything.
    pub(crate) fn change(&self, id: Id, change: Change) {
        if !self.is_closing() {
            self.post(|mail| match mail.changes.get(&id) {
                Some(Change::Cancel) => {}
                _ => _ = mail.changes.insert(id, change),
            });
        }
    }

    pub(crate) fn reorder(&self, priority: Priority, deadline: Option<Instant>) -> Change {
        Change::Reorder(NewOrder {
            priority,
            deadline,
            number: 1 + self.orders_changed.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// A queue has something new. The caller makes sure that it is sent once only.
    pub(crate) fn queue_is_dirty(&self, queue: Arc<Q>) -> bool {
        self.post(|mail| mail.dirty.push(queue))
    }

    /// Engine: whether there may be mail; resets the flag.
    #[inline]
    pub(crate) fn take_mail_flag(&self) -> bool {
        self.has_mail.load(Ordering::Relaxed) && self.has_mail.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Engine: appends the queues and results; letters are taken after the queues' submissions, so
    /// that whatever was put before a submission is handled before it. A round may take mail twice,
    /// and handles results late.
    pub(crate) fn take_dirty(&self, dirty: &mut Vec<Arc<Q>>, results: &mut Vec<JobResult>) {
        let mut mail = lock(&self.mail);
        take(&mut mail.dirty, dirty);
        take(&mut mail.results, results);
    }

    pub(crate) fn take_letters(&self, letters: &mut Vec<Letter<Q>>) -> BTreeMap<Id, Change> {
        let mut mail = lock(&self.mail);
        take(&mut mail.letters, letters);
        std::mem::take(&mut mail.changes)
    }

    pub(crate) fn take_fences_flag(&self) -> bool {
        self.fences.load(Ordering::Relaxed) && self.fences.swap(false, Ordering::SeqCst)
    }

    /// Engine, at its end: stops accepting mail and returns true, unless there is some left.
    pub(crate) fn end_mail(&self) -> bool {
        let mail = lock(&self.mail);
        let empty = mail.dirty.is_empty() && mail.letters.is_empty() && mail.results.is_empty();
        // Changes concern requests, and none is left.
        match empty {
            true => self.ended.store(true, Ordering::SeqCst),
            false => self.has_mail.store(true, Ordering::SeqCst),
        }
        empty
    }

    /// Begins to close; returns whether this call is the first.
    pub(crate) fn begin_close(&self) -> bool {
        !self.closing.swap(true, Ordering::SeqCst)
    }

    /// Whether nothing more is accepted: the storage closes, or belongs to a parent process.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst) || self.is_forked()
    }

    /// Engine: the storage is closed; every thread that waits looks again.
    pub(crate) fn finish_close(&self, report: CloseReport) {
        *lock(&self.report) = Some(report);
        self.closed_for_good.store(true, Ordering::SeqCst);
        self.closed.wake();
    }

    /// Blocks until the storage is closed, at most until the deadline.
    pub(crate) fn wait_closed(&self, deadline: Option<Instant>) -> Option<CloseReport> {
        self.wait_for(&self.closed, deadline, || {
            lock(&self.report)
                .clone()
                .map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Whether the storage is closed: nothing more of it completes.
    pub(crate) fn is_ended(&self) -> bool {
        self.closed_for_good.load(Ordering::SeqCst) || self.is_forked()
    }

    /// What a request waits for whose slot has recorded this; `None` if it never completes.
    pub(crate) fn waits_for(&self, recorded: WaitsFor) -> Option<WaitsFor> {
        let is_held = recorded == WaitsFor::Submission;
        (is_held || !self.is_ended()).then(|| self.causes.resolve(recorded))
    }

    /// Runs one round of a storage without threads; returns whether anything was done. Does nothing
    /// while another thread pumps.
    pub(crate) fn pump(&self) -> bool {
        self.with_pump(|engine| engine.pump()).unwrap_or(false)
    }

    /// Lends the engine of a storage without threads; `None` if there is none, or another thread
    /// has it. An engine that has ended is dropped.
    fn with_pump<T>(&self, work: impl FnOnce(&mut dyn Pump) -> T) -> Option<T> {
        if self.is_forked() {
            return None;
        }
        #[cfg(not(model))]
        let mut pump = self.pump.try_lock().ok()?;
        #[cfg(model)]
        let mut pump = lock(&self.pump);
        let on = StorageThread::enter();
        let engine = pump.as_mut()?;
        let done = work(engine.as_mut());
        let ended = match engine.is_closed() {
            true => pump.take(),
            false => None,
        };
        drop((pump, on));
        drop(ended);
        Some(done)
    }

    /// Blocks until `poll` is ready: by sleeping, or in pump mode by pumping. `None` once the
    /// deadline has passed.
    pub(crate) fn block_on<T>(
        &self,
        deadline: Option<Instant>,
        mut poll: impl FnMut(&Waker) -> Poll<T>,
    ) -> Option<T> {
        if !self.options.threads.pumped {
            return park::block_on(deadline, poll);
        }
        loop {
            if let Poll::Ready(value) = poll(Waker::noop()) {
                return Some(value);
            }
            // Even the shortest wait does some work: else repeated ones would never get anywhere.
            let last = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if !self.pump() {
                let longest = Duration::from_millis(1);
                let rested = self.with_pump(|engine| engine.rest(longest));
                if rested.is_none() {
                    std::thread::sleep(longest);
                }
            }
            if last {
                return match poll(Waker::noop()) {
                    Poll::Ready(value) => Some(value),
                    Poll::Pending => None,
                };
            }
        }
    }

    /// As [`Shared::block_on`], until `look` is ready, whose change wakes `waiters`.
    pub(crate) fn wait_for<T>(
        &self,
        waiters: &Waiters,
        deadline: Option<Instant>,
        look: impl Fn() -> Poll<T>,
    ) -> Option<T> {
        let mut key = Key::default();
        let waited = self.block_on(deadline, |waker| waiters.poll(&mut key, waker, &look));
        waiters.remove(&mut key);
        waited
    }

    /// As [`Shared::block_on`], and no longer than until the storage is closed.
    ///
    /// # Errors
    /// `Closed`: it was not ready by then.
    pub(crate) fn block_on_open<T>(
        &self,
        deadline: Option<Instant>,
        mut poll: impl FnMut(&Waker) -> Poll<T>,
    ) -> Result<Option<T>, Error> {
        if self.is_forked() {
            return Err(closed_error());
        }
        let mut key = Key::default();
        let waited = self.block_on(deadline, |waker| {
            if let Poll::Ready(value) = poll(waker) {
                return Poll::Ready(Ok(value));
            }
            if !self.is_ended() {
                self.closed.register(&mut key, waker);
                if !self.is_ended() {
                    return Poll::Pending;
                }
            }
            // Whatever completes has completed by now.
            match poll(waker) {
                Poll::Ready(value) => Poll::Ready(Ok(value)),
                Poll::Pending => Poll::Ready(Err(closed_error())),
            }
        });
        self.closed.remove(&mut key);
        waited.transpose()
    }

    /// As a watcher of fences.
    pub(crate) fn as_watcher(self: &Arc<Self>) -> Weak<dyn Watcher> {
        let own: Arc<dyn Watcher> = Arc::clone(self) as Arc<dyn Watcher>;
        Arc::downgrade(&own)
    }

    /// Engine: a fence was found reached after it had been watched.
    pub(crate) fn look_at_fences(&self) {
        self.fences.store(true, Ordering::SeqCst);
        self.has_mail.store(true, Ordering::SeqCst);
    }
}

/// A log hook that cannot wait for the storage that calls it.
fn on_storage_thread(hook: LogHook) -> LogHook {
    Arc::new(move |level, text| {
        let _on = StorageThread::enter();
        hook(level, text);
    })
}

/// Appends all of `from`: without a copy under the lock, but for the second time in a round.
fn take<T>(from: &mut Vec<T>, into: &mut Vec<T>) {
    match into.is_empty() {
        true => std::mem::swap(from, into),
        false => into.append(from),
    }
}

/// The error of calls on a storage that is closed.
pub(crate) fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "")
}

impl<Q: Send + Sync + 'static> Watcher for Shared<Q> {
    fn fence_signaled(&self) {
        self.fences.store(true, Ordering::SeqCst);
        self.ring();
    }
}

impl<Q: Send + Sync + 'static> JobSink for Shared<Q> {
    fn job_finished(&self, result: JobResult) {
        // After the engine's end the result's memory is freed by its drop: windows were leaked.
        guard(|| self.post(|mail| mail.results.push(result)));
    }
}
