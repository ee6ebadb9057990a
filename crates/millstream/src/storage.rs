//! The storage: files, queues, threads and memory that belong together.
//!
//! A storage owns an engine thread, workers, a device and staging memory. Several live side by
//! side; there is no global state. In pump mode it has no threads: [`Storage::pump`] does the work
//! on the caller's thread.
//!
//! ```no_run
//! use millstream::{QueueOptions, Request, Storage, StorageOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open("level1.bin");
//! let ticket = queue.enqueue(Request::read_file(file))?;
//! queue.submit();
//! let buffer = ticket.wait()?.into_buffer();
//! println!("{} bytes", buffer.len());
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_io::fs::Beside;
use millstream_io::{Buffer, BufferPool, DeviceKind, Doorbell, FileSystem};

use crate::codec::{Pull, PulledDecode};
use crate::copies::Copies;
use crate::engine::{self, Engine};
use crate::error::{Error, ErrorKind};
use crate::fence::Watcher;
use crate::files::{FileId, FileOptions, NameOpened, Names, OpenOutcome, Opening};
use crate::job::JobResult;
use crate::limits;
use crate::local::LocalFile;
use crate::options::{LogLevel, StorageOptions};
use crate::park;
use crate::queue::{Queue, QueueOptions, QueueShared, Submitted};
use crate::stats::Stats;
use crate::trace::Trace;
use crate::waiters::{Waiters, lock};
use crate::worker::{self, Jobs};

/// What is told to the engine beside queue entries.
pub(crate) enum Control {
    Open {
        file: FileId,
        path: Arc<Path>,
        options: FileOptions,
    },
    Adopt {
        file: FileId,
        local: LocalFile,
    },
    Info {
        file: FileId,
        outcome: Arc<OpenOutcome>,
    },
    Queue(Arc<QueueShared>),
    Stats(Reply<Stats>),
    Trace(bool, Reply<Trace>),
    Close {
        deadline: Instant,
        reply: Reply<CloseReport>,
    },
}

impl Control {
    /// Answers in the place of an engine that is gone.
    fn answer_closed(self) {
        let mut wakers = Vec::new();
        match self {
            // A file that comes too late is closed by its drop.
            Control::Open { .. } | Control::Adopt { .. } => {}
            Control::Info { outcome, .. } => {
                let error = Error::new(ErrorKind::Closed, "the storage is closing");
                outcome.resolve(Err(error), &mut wakers);
            }
            Control::Queue(queue) => queue.close(&mut Submitted::default(), &mut wakers),
            Control::Stats(reply) => reply.send(Stats::default()),
            Control::Trace(_, reply) => reply.send(Trace::default()),
            Control::Close { reply, .. } => reply.send(CloseReport::default()),
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// An answer of the engine.
pub(crate) struct Reply<T>(Arc<(Mutex<Option<T>>, Waiters)>);

impl<T> Clone for Reply<T> {
    fn clone(&self) -> Reply<T> {
        Reply(Arc::clone(&self.0))
    }
}

impl<T> Reply<T> {
    fn new() -> Reply<T> {
        Reply(Arc::new((Mutex::new(None), Waiters::default())))
    }

    pub(crate) fn send(self, value: T) {
        *lock(&self.0.0) = Some(value);
        self.0.1.wake();
    }

    fn poll(&self, waker: &Waker) -> Poll<T> {
        let take = || lock(&self.0.0).take();
        if let Some(value) = take() {
            return Poll::Ready(value);
        }
        self.0.1.add(waker);
        take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Mail for the engine; swapped out as a whole.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) dirty: Vec<Arc<QueueShared>>,
    pub(crate) control: Vec<Control>,
    pub(crate) results: Vec<JobResult>,
}

/// What the system still held when a storage was closed. Memory of held operations is never freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Operations and jobs that had not come back.
    pub operations: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files they keep open.
    pub files: Vec<std::path::PathBuf>,
}

/// Numbers for queues.
#[derive(Default)]
struct QueueIds {
    made: u32,
    free: Vec<u32>,
}

impl QueueIds {
    fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        let id = self.made;
        if id as usize >= limits::QUEUES_MAX {
            return None;
        }
        self.made += 1;
        Some(id)
    }
}

/// What an application's threads, the workers and the engine share.
pub(crate) struct Shared {
    pub(crate) options: StorageOptions,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) buffers: Arc<BufferPool>,
    pub(crate) jobs: Jobs,
    pub(crate) copies: Copies,
    pub(crate) pull: Pull,
    pub(crate) names: Mutex<Names>,
    inbox: Mutex<Inbox>,
    /// The engine has taken its last mail; written and read with the inbox locked.
    mail_ended: AtomicBool,
    mail: AtomicBool,
    doorbell: OnceLock<Doorbell>,
    /// Operations in flight, for workers to know what they wait for.
    pub(crate) in_flight: AtomicU64,
    fences_signalled: AtomicBool,
    closed: AtomicBool,
    queue_ids: Mutex<QueueIds>,
    /// In pump mode the engine lives here.
    pumped: Mutex<Option<Engine>>,
}

impl Watcher for Shared {
    fn fence_signalled(&self) {
        self.fences_signalled.store(true, Ordering::SeqCst);
        self.ring();
    }
}

impl Shared {
    pub(crate) fn set_doorbell(&self, doorbell: Doorbell) {
        let _ = self.doorbell.set(doorbell);
    }

    fn ring(&self) {
        self.mail.store(true, Ordering::SeqCst);
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.ring();
        }
    }

    /// Worker: copies are finished.
    pub(crate) fn wake_engine(&self) {
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.ring();
        }
    }

    /// Engine: a fence was found reached after it had been watched.
    pub(crate) fn fence_may_be_reached(&self) {
        self.fence_signalled();
    }

    /// Engine: whether there may be mail; resets the flag.
    pub(crate) fn take_mail_flag(&self) -> bool {
        self.mail.load(Ordering::Relaxed) && self.mail.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::SeqCst)
    }

    pub(crate) fn take_inbox(&self, into: &mut Inbox) {
        std::mem::swap(&mut *lock(&self.inbox), into);
    }

    /// Engine: what came into the inbox to be obeyed since it was taken.
    pub(crate) fn take_controls(&self) -> Vec<Control> {
        std::mem::take(&mut lock(&self.inbox).control)
    }

    pub(crate) fn take_fences_flag(&self) -> bool {
        self.fences_signalled.swap(false, Ordering::SeqCst)
    }

    /// Puts something into the inbox; `false` once the engine has taken its last mail.
    fn post(&self, put: impl FnOnce(&mut Inbox)) -> bool {
        let mut inbox = lock(&self.inbox);
        if self.mail_ended.load(Ordering::Relaxed) {
            return false;
        }
        put(&mut inbox);
        drop(inbox);
        self.ring();
        true
    }

    /// Engine, at the end: nothing is put into the inbox any more, unless there still is something
    /// in it (then nothing changes). What came later would stay for ever: a queue there holds the
    /// storage, which holds the inbox.
    pub(crate) fn end_mail(&self) -> bool {
        let inbox = lock(&self.inbox);
        let empty = inbox.dirty.is_empty() && inbox.control.is_empty() && inbox.results.is_empty();
        if empty {
            self.mail_ended.store(true, Ordering::Relaxed);
        } else {
            self.mail.store(true, Ordering::SeqCst);
        }
        empty
    }

    pub(crate) fn queue_is_dirty(&self, queue: Arc<QueueShared>) {
        self.post(|inbox| inbox.dirty.push(queue));
    }

    pub(crate) fn job_result(&self, result: JobResult) {
        self.job_results(&mut vec![result]);
    }

    pub(crate) fn job_results(&self, results: &mut Vec<JobResult>) {
        if !results.is_empty() && !self.post(|inbox| inbox.results.append(results)) {
            for result in results.drain(..) {
                result.discard(self.fs.as_ref());
            }
        }
    }

    /// Engine: a queue is no more.
    pub(crate) fn free_queue_id(&self, id: u32) {
        lock(&self.queue_ids).free.push(id);
    }

    pub(crate) fn control(&self, control: Control) {
        let mut control = Some(control);
        if !self.post(|inbox| inbox.control.extend(control.take())) {
            control.into_iter().for_each(Control::answer_closed);
        }
    }

    pub(crate) fn open(&self, path: &Path, options: FileOptions) -> FileId {
        match lock(&self.names).open(path, options) {
            NameOpened::Known(file) => file,
            NameOpened::New(file, path) => {
                self.control(Control::Open {
                    file,
                    path,
                    options,
                });
                file
            }
        }
    }

    pub(crate) fn close_name(&self, file: FileId) -> bool {
        lock(&self.names).close(file)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn log(&self, level: LogLevel, text: &str) {
        if let Some(hook) = &self.options.log {
            hook(level, text);
        }
    }

    /// One round of the engine in pump mode; whether anything was done. Does nothing while another
    /// thread pumps.
    fn pump(&self) -> bool {
        let Ok(mut pumped) = self.pumped.try_lock() else {
            return false;
        };
        let Some(engine) = pumped.as_mut() else {
            return false;
        };
        let before = park::set_role(park::Role::Storage);
        let worked = engine::or_abort(self, || engine.pump());
        park::set_role(before);
        worked
    }

    /// Blocks until `poll` is ready: by sleeping, or in pump mode by pumping.
    pub(crate) fn block_on<T>(
        self: Arc<Self>,
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
            // However short the wait, it does some of the work: else it could be asked for ever.
            let last = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if !self.pump() {
                let mut pumped = lock(&self.pumped);
                if let Some(engine) = pumped.as_mut() {
                    let longest = Duration::from_millis(1);
                    engine::or_abort(&self, || engine.wait_pumped(longest));
                } else {
                    drop(pumped);
                    std::thread::sleep(Duration::from_millis(1));
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
}

/// See the module. All methods may be called from any thread.
pub struct Storage {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    kind: DeviceKind,
    reason: String,
}

impl Storage {
    /// Makes a storage: starts its threads (unless pumped) and its device.
    ///
    /// # Errors
    /// Options that make no sense, a device that is refused, memory or threads that cannot be had.
    pub fn new(mut options: StorageOptions) -> Result<Storage, Error> {
        options.check()?;
        let backend = std::mem::take(&mut options.backend);
        let (maker, fs) = engine::device::maker(backend, &options);
        let pumped = options.threads.pumped;
        let buffers = BufferPool::new(options.retained_bytes, options.allocator.clone());
        // Asked once: the answer comes from files of the system.
        let workers = options.threads.worker_count();
        options.threads.workers = Some(workers);
        let shared = Arc::new(Shared {
            options,
            fs,
            buffers,
            jobs: Jobs::default(),
            copies: Copies::default(),
            pull: Pull::default(),
            names: Mutex::default(),
            inbox: Mutex::default(),
            mail_ended: AtomicBool::new(false),
            mail: AtomicBool::new(false),
            doorbell: OnceLock::new(),
            in_flight: AtomicU64::new(0),
            fences_signalled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            queue_ids: Mutex::default(),
            pumped: Mutex::new(None),
        });
        let mut threads = Vec::new();
        let (kind, reason) = if pumped {
            let made = maker()?;
            let about = (made.device.kind(), made.reason.clone());
            let engine = Engine::new(&shared, made)?;
            let _ = shared.doorbell.set(engine.doorbell());
            *lock(&shared.pumped) = Some(engine);
            about
        } else {
            let (thread, kind, reason) = engine::start(&shared, maker)?;
            threads.push(thread);
            let started = worker::start(&shared, workers);
            threads.extend(started.map_err(|_| {
                Error::new(ErrorKind::OutOfMemory, "the system refused another thread")
            })?);
            (kind, reason)
        };
        shared.log(LogLevel::Info, &format!("backend {kind:?}: {reason}"));
        Ok(Storage {
            shared,
            threads: Mutex::new(threads),
            kind,
            reason,
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Which device serves it.
    #[must_use]
    pub fn device_kind(&self) -> DeviceKind {
        self.kind
    }

    /// Why it is this device, and what it uses.
    #[must_use]
    pub fn device_reason(&self) -> &str {
        &self.reason
    }

    /// Opens a file for reading. Gives an id at once, without a system call; a missing file shows
    /// on its requests.
    pub fn open(&self, path: impl AsRef<Path>) -> FileId {
        self.open_with(path, FileOptions::default())
    }

    /// Opens a file. Gives an id at once; the file is opened by a worker, ahead of its first use.
    pub fn open_with(&self, path: impl AsRef<Path>, options: FileOptions) -> FileId {
        self.shared.open(path.as_ref(), options)
    }

    /// Size and identity of a file, once it is open.
    #[must_use]
    pub fn opened(&self, file: FileId) -> Opening {
        let outcome = Arc::new(OpenOutcome::default());
        self.shared.control(Control::Info {
            file,
            outcome: Arc::clone(&outcome),
        });
        Opening::new(outcome, Arc::clone(&self.shared))
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// A capacity that makes no sense, too many queues, or the storage is closing.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue, Error> {
        if options.capacity == 0 || options.capacity > limits::QUEUE_CAPACITY_MAX {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "capacity out of range",
            ));
        }
        if self.shared.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the storage is closing"));
        }
        let id = lock(&self.shared.queue_ids).take();
        let id = id.ok_or_else(|| Error::new(ErrorKind::Limit, "too many queues are alive"))?;
        let queue = Arc::new(QueueShared::new(id, Arc::clone(&self.shared), options));
        self.shared.control(Control::Queue(Arc::clone(&queue)));
        Ok(Queue::new(queue))
    }

    /// A buffer of the storage's pool, page-aligned, with unspecified content.
    ///
    /// # Errors
    /// Memory cannot be had.
    pub fn buffer(&self, len: usize) -> Result<Buffer, Error> {
        self.shared
            .buffers
            .take(len)
            .map_err(|error| Error::from_io(&error))
    }

    /// The pool that destinations come from: for callbacks that supply memory
    /// ([`Request::into_supplied`](crate::Request::into_supplied)) and outlive a borrow of the
    /// storage.
    #[must_use]
    pub fn buffer_pool(&self) -> Arc<BufferPool> {
        Arc::clone(&self.shared.buffers)
    }

    /// For a replacement in several steps: the file that `path` stands for, through links, and a
    /// name beside it that nobody has. Write a file of that name (opened with `exclusive`), then
    /// enqueue [`Request::take_place`](crate::Request::take_place). Asks the system on the calling
    /// thread whether `path` is a link.
    ///
    /// # Errors
    /// `path` names a folder, or a link that leads nowhere.
    pub fn beside(&self, path: impl AsRef<Path>) -> Result<Beside, Error> {
        let path = path.as_ref();
        let found = self.shared.fs.beside(path);
        found.map_err(|error| Error::from_io(&error).at(Some(Arc::from(path)), 0, 0))
    }

    /// Gives a line to the storage's log hook, if it has one: for crates on top of it.
    pub fn log(&self, level: LogLevel, text: &str) {
        self.shared.log(level, text);
    }

    /// Waits for a block of a [`Pulled`](crate::codec::ApplicationCodec::Pulled) codec, at most
    /// `timeout`.
    #[must_use]
    pub fn pull(&self, timeout: Duration) -> Option<PulledDecode> {
        self.shared.pull.wait(&self.shared, timeout)
    }

    /// Does what there is to do, on the calling thread; whether anything was done. For storages
    /// without threads (else it does nothing).
    pub fn pump(&self) -> bool {
        self.shared.pump()
    }

    /// Counts and times since the storage was made. Asks the engine: costs two thread switches.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.ask(Control::Stats).unwrap_or_default()
    }

    /// Begins to record a trace (what was recorded before is dropped).
    pub fn start_trace(&self) {
        let _ = self.ask(|reply| Control::Trace(true, reply));
    }

    /// Ends the recording; what was recorded.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        self.ask(|reply| Control::Trace(false, reply))
            .unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Control) -> Option<T> {
        if self.shared.is_closed() {
            return None;
        }
        let reply = Reply::new();
        self.shared.control(question(reply.clone()));
        // A storage that closes meanwhile may never answer.
        let shared = Arc::clone(&self.shared);
        Arc::clone(&self.shared).block_on(None, move |waker| match reply.poll(waker) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if shared.is_closed() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })?
    }

    /// Closes the storage: what has not begun is cancelled, what is in flight is waited for until
    /// `deadline` from now. What the system holds after that is reported, and its memory is never
    /// freed or used again. Further calls report nothing.
    pub fn close(&self, deadline: Duration) -> CloseReport {
        if self.shared.closed.swap(true, Ordering::SeqCst) {
            return CloseReport::default();
        }
        let deadline = Instant::now() + deadline;
        let reply = Reply::new();
        self.shared.control(Control::Close {
            deadline,
            reply: reply.clone(),
        });
        let report = Arc::clone(&self.shared).block_on(None, |waker| reply.poll(waker));
        if self.shared.options.threads.pumped {
            // The engine's last jobs close files; there are no workers to do them.
            let mut scratch = millstream_codec::Scratch::default();
            while let Some(job) = self.shared.jobs.try_pop() {
                let _ = crate::job::run(job, self.shared.fs.as_ref(), &mut scratch);
            }
        }
        let workers_ended = self.shared.jobs.stop(deadline);
        *lock(&self.shared.pumped) = None;
        for thread in lock(&self.threads).drain(..) {
            // A thread that hangs in the system is left behind: nothing it may touch is freed.
            if workers_ended || thread.is_finished() {
                let _ = thread.join();
            }
        }
        report.unwrap_or_default()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let report = self.close(Duration::from_secs(limits::DROP_DEADLINE_SECONDS));
        if report.operations > 0 {
            let text = format!("dropped with operations still held by the system: {report:?}");
            self.shared.log(LogLevel::Warning, &text);
        }
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage")
            .field("device", &self.kind)
            .finish_non_exhaustive()
    }
}
