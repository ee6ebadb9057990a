//! The storage: the owner of files, queues, threads and memory.
//!
//! A storage owns an engine thread, worker threads, devices and staging memory. A process may have
//! several. Without threads (`ThreadOptions::pumped`) the application calls [`Storage::pump`],
//! which does the work on the calling thread.
//!
//! ```no_run
//! use millstream::{QueueOptions, Read, Storage, StorageOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open("level1.bin", Default::default());
//! let bytes = queue.submit(Read::whole(file))?.wait()?;
//! println!("{} bytes", bytes.len());
//! # Ok(())
//! # }
//! ```

use std::future::{Future, IntoFuture};
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::{Duration, Instant};

use millstream_io::fs::LocalFile;
use millstream_io::log::LogLevel;
use millstream_io::memory::{Region, RegionAllocator};
use millstream_io::{Access, Buffer, BufferPool, DeviceKind, MountKind, OpenMode, Opened};

use crate::caller::batch::Queue;
use crate::caller::destination::{FileInfo, FileOptions};
use crate::caller::queue::{Mailbox, QueueShared, Table};
use crate::caller::request::{FileOp, Read};
use crate::caller::ticket::Ticket;
use crate::caller::waits::WaitsFor;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::{Change, CloseReport, Letter, Shared, closed_error};
use crate::handover::names::{Local, Names, NewFile, cleaned};
use crate::handover::park;
use crate::ids::{FileId, Id, StorageNumber};
use crate::limits;
use crate::options::{QueueOptions, StorageOptions};
use crate::priority::Priority;
use crate::start::{self, Started};
use crate::stats::Stats;
use crate::sync::lock;
use crate::trace::Trace;

/// The state behind all [`Storage`] handles.
struct Owner {
    mailbox: Arc<Mailbox>,
    table: Arc<Table>,
    number: StorageNumber,
    /// The storage's own queue, for [`Storage::opened`] and [`Storage::read`].
    own: Queue,
    started: Started,
}

/// A storage. A clone is another handle; all methods may be called from any thread. Dropping the
/// last handle closes it and waits up to 5 seconds for that.
#[derive(Clone)]
pub struct Storage(Arc<Owner>);

impl Storage {
    /// Creates a storage and starts its threads (unless pumped) and its device.
    ///
    /// # Errors
    /// Invalid options; `Limit` if 4096 storages are alive; a device, memory or thread refused.
    pub fn new(mut options: StorageOptions) -> Result<Storage, Error> {
        options.check()?;
        let workers = options.threads.worker_count();
        options.threads.workers = Some(workers);
        let Some((number, first)) = StorageNumber::take() else {
            let cause = "4096 storages are alive";
            return Err(Error::new(ErrorKind::Limit, cause));
        };
        let (maker, fs) = start::backend(&mut options);
        let names = Names::new(number, first);
        let mailbox: Arc<Mailbox> = Shared::new(options, fs, names);
        let started = Table::new(number, first).and_then(|(table, side)| {
            let started = start::start(&mailbox, side, maker)?;
            Ok((table, started))
        });
        let (table, started) = started.inspect_err(|_| number.give_back(first))?;
        let (kind, reason) = (started.kind, &started.reason);
        mailbox
            .log
            .write(LogLevel::Info, format!("backend {kind:?}: {reason}"));
        let options = QueueOptions {
            name: String::from("storage"),
            capacity: limits::QUEUE_CAPACITY_MAX,
            unclaimed: 0,
            ..QueueOptions::default()
        };
        let own = queue_of(&mailbox, &table, options)?;
        Ok(Storage(Arc::new(Owner {
            mailbox,
            table,
            number,
            own,
            started,
        })))
    }

    fn mailbox(&self) -> &Arc<Mailbox> {
        &self.0.mailbox
    }

    /// Returns the kind of device that serves the storage.
    #[must_use]
    pub fn device_kind(&self) -> DeviceKind {
        self.0.started.kind
    }

    /// Returns the allocator of its options.
    #[must_use]
    pub fn allocator(&self) -> Option<&Arc<dyn RegionAllocator>> {
        self.mailbox().options.allocator.as_ref()
    }

    /// Returns why this device was chosen, and what it uses.
    #[must_use]
    pub fn device_reason(&self) -> &str {
        &self.0.started.reason
    }

    /// Opens a file. Returns an id at once: a thread of the storage opens the file ahead of its
    /// first use, and a failure to open it is reported by its requests (or by [`Storage::opened`]).
    /// As in POSIX, two opens are two handles, each with its own options, error and close
    /// ([`Batch::close`](crate::Batch::close)), of what the path leads to at that time. A handle
    /// means its file until its close, whatever becomes of the path; a relative path means the
    /// current folder of this call, which takes a system call. Handles that are only read share
    /// descriptors where they certainly have the same file. If the storage has 2^20 files open,
    /// requests with the id fail with `StaleFile`; in a forked child, with `Closed`.
    pub fn open(&self, path: impl AsRef<Path>, options: FileOptions) -> FileId {
        if self.mailbox().is_forked() {
            return FileId::NONE;
        }
        let path = cleaned(path.as_ref());
        let place = self.place(&path);
        match self.add(path, place, options, &mut None) {
            Some((file, _)) => file,
            None => {
                self.mailbox()
                    .warn(format!("{} files are open: no more fit", limits::FILES_MAX));
                FileId::NONE
            }
        }
    }

    /// Returns the newest open handle of a path, without opening it. The path is compared as it is
    /// spelled, but for `.` and empty parts.
    #[must_use]
    pub fn find(&self, path: impl AsRef<Path>) -> Option<FileId> {
        if self.mailbox().is_forked() {
            return None;
        }
        let place = self.place(&cleaned(path.as_ref()));
        lock(&self.mailbox().names).find(&place)
    }

    /// What a file is opened by, whatever the current folder is by then.
    fn place(&self, path: &Arc<Path>) -> Arc<Path> {
        let anchored = self.mailbox().fs.anchored(path);
        anchored.map_or_else(|| Arc::clone(path), Arc::from)
    }

    /// Gives a new handle to the engine, with the file if it is open; returns it, and whether the
    /// engine still takes it: if not, the file is left. `None`: the storage has as many files as it
    /// may.
    fn add(
        &self,
        path: Arc<Path>,
        place: Arc<Path>,
        options: FileOptions,
        opened: &mut Option<Opened>,
    ) -> Option<(FileId, bool)> {
        let mut names = lock(&self.mailbox().names);
        let file = names.open(&place)?;
        // Under the lock: once another thread finds the name, its letter must be in the mail.
        let is_taken = self.mailbox().post(|mail| {
            let new = NewFile {
                path,
                place,
                options,
                opened: opened.take(),
            };
            mail.letters.push(Letter::File(file, Box::new(new)));
        });
        Some((file, is_taken))
    }

    /// Returns a ticket for the length and identity of a file, which completes once it is open.
    ///
    /// # Errors
    /// `Closed`, `QueueFull`, `TooManyTickets`.
    pub fn opened(&self, file: FileId) -> Result<Ticket<FileInfo>, Error> {
        Ok(self.0.own.try_submit(FileOp::info(file))?)
    }

    /// Loads a whole file, and blocks until it has: one call for a program that has nothing else to
    /// do meanwhile. The calling thread opens the file and, if it is small and on a local disk,
    /// reads and closes it, as `std::fs::read` does; the storage reads any other, many blocks at a
    /// time. A path on a mount that hangs holds up its caller alone. What the caller reads itself
    /// is not in [`Storage::stats`].
    ///
    /// ```
    /// # fn main() -> Result<(), millstream::Error> {
    /// let storage = millstream::Storage::new(millstream::StorageOptions::default())?;
    /// assert!(storage.load("Cargo.toml")?.starts_with(b"[package]"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of the open or the read (a folder is `IsDirectory`), `OnStorageThread`, `Closed`,
    /// `OutOfMemory`, `Limit` if 4096 queues are alive.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Buffer, Error> {
        park::may_block()?;
        if self.mailbox().is_closing() {
            return Err(closed_error());
        }
        let file = self.open_local(path, FileOptions::default())?;
        let (len, kind) = (file.opened().len, file.opened().mount_kind);
        let options = &self.mailbox().options;
        // Some files of the system do not report their length.
        let may_read = len > 0
            && kind == MountKind::Local
            && options.access != Access::Direct
            && options.disk_model.is_none();
        let is_small = |file: &LocalFile| {
            len <= limits::LOAD_BYTES_MAX
                || len <= limits::LOAD_CACHED_BYTES_MAX && file.is_cached(0, len)
        };
        if may_read && is_small(&file) {
            let mut buffer = self.buffer(len as usize)?;
            let located = |error| Error::from(error).at(Some(Arc::from(file.path())), 0, len);
            if file.read_at(0, &mut buffer).map_err(located)? == buffer.len() {
                return Ok(buffer);
            }
            // It has been cut meanwhile: a request says what is missing.
        }
        let path = file.path().to_owned();
        drop(file);
        // A queue of its own: a close comes after all that is before it in its queue.
        let queue = self.queue(QueueOptions {
            name: String::from("load"),
            priority: Priority::High,
            capacity: 2,
            ..QueueOptions::default()
        })?;
        let file = self.open(path, FileOptions::default());
        let mut batch = queue.batch();
        let added = batch.add(Read::whole(file));
        // It fails where there is no such handle, as the request does.
        let _ = batch.close(file);
        batch.submit();
        added?.wait()
    }

    /// Reads a range of a file, and blocks until its bytes have landed. From its second read on, a
    /// file on a local disk is open a second time (at most 16 files of a storage are): ranges below
    /// 64 KiB are then read by the calling thread, as `pread` does, without waiting for another
    /// thread. Such reads are not in [`Storage::stats`]. If its path leads to a mount that hangs by
    /// the time of that second open, the caller of that read is held up.
    ///
    /// # Errors
    /// The request's error, `InvalidArgument` if the range ends before it begins,
    /// `OnStorageThread`, `Closed`, `QueueFull`, `TooManyTickets`.
    pub fn read(&self, file: FileId, range: Range<u64>) -> Result<Buffer, Error> {
        park::may_block()?;
        let Some(len) = range.end.checked_sub(range.start) else {
            let cause = "the range ends before it begins";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        };
        if let Some(local) = self.local_file(file, len) {
            let mut buffer = self.buffer(len as usize)?;
            let read = local.read_at(range.start, &mut buffer);
            if read.is_ok_and(|read| read == buffer.len()) {
                return Ok(buffer);
            }
            // A request says what is wrong.
        }
        let read = Read::range(file, range.start, len).priority(Priority::High);
        self.0.own.submit(read)?.wait()
    }

    /// The file through which the calling thread reads so many bytes of a handle, if it may.
    fn local_file(&self, file: FileId, len: u64) -> Option<Arc<LocalFile>> {
        let options = &self.mailbox().options;
        let most = limits::LOCAL_FILES_MAX.min(options.descriptors / limits::DESCRIPTORS_PER_LOCAL);
        let is_short = (1..limits::DIRECT_BYTES_MIN).contains(&len);
        if !is_short || options.disk_model.is_some() || self.mailbox().is_closing() {
            return None;
        }
        let found = lock(&self.mailbox().names).local(file, most);
        match found {
            Local::Open(local) => Some(local),
            Local::Unread | Local::Never => None,
            Local::Unknown(place) => self.open_local_file(file, &place, most),
        }
    }

    /// Opens the file of a handle a second time, if its path still leads to it.
    fn open_local_file(
        &self,
        file: FileId,
        place: &Arc<Path>,
        most: usize,
    ) -> Option<Arc<LocalFile>> {
        let info = self.opened(file).ok()?.wait().ok()?;
        let birth_ns = info.local?;
        let local = self.open_local(place, FileOptions::default()).ok()?;
        let opened = local.opened();
        // A later file may have the number of one that was removed, and its time of modification.
        let is_same = opened.identity == info.identity && opened.birth_ns == Some(birth_ns);
        let local = is_same.then(|| Arc::new(local))?;
        let mut names = lock(&self.mailbox().names);
        // A close takes what was lent, once no more is.
        if !self.mailbox().is_closing() {
            names.lend(file, &local, most);
        }
        drop(names);
        Some(local)
    }

    /// Opens a file on the calling thread, through the page cache. For small files and the first
    /// bytes of a file this is faster than a request, which passes through two other threads.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_local(
        &self,
        path: impl AsRef<Path>,
        options: FileOptions,
    ) -> Result<LocalFile, Error> {
        let path: Arc<Path> = Arc::from(path.as_ref());
        let mode = OpenMode {
            write: options.write,
            create: options.create,
            exclusive: options.exclusive,
            truncate: options.truncate,
            direct: false,
        };
        let fs = Arc::clone(&self.mailbox().fs);
        let opened = LocalFile::open(fs, Arc::clone(&path), mode);
        opened.map_err(|error| Error::from(error).at(Some(path), 0, u64::MAX))
    }

    /// Hands a file to the engine, by its descriptor: the same file, whatever its path leads to by
    /// now. It is closed like any other ([`Batch::close`]).
    ///
    /// [`Batch::close`]: crate::Batch::close
    ///
    /// # Errors
    /// `Closed`; `Limit` if the storage has too many files; `InvalidArgument` for a file of another
    /// storage, whose descriptor may mean another file here. On failure the file is closed.
    pub fn adopt(&self, file: LocalFile) -> Result<FileId, Error> {
        if self.mailbox().is_forked() {
            return Err(closed_error());
        }
        if !Arc::ptr_eq(file.fs(), &self.mailbox().fs) {
            let cause = "the file was not opened by this storage's open_local";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let (path, mode, opened) = file.into_opened();
        // If it is closed to free a descriptor and opened again, it must exist.
        let options = FileOptions {
            write: mode.write,
            ..FileOptions::default()
        };
        let place = self.place(&path);
        let mut opened = Some(opened);
        let refused = match self.add(path, place, options, &mut opened) {
            Some((file, true)) => return Ok(file),
            Some((_, false)) => closed_error(),
            None => Error::new(ErrorKind::Limit, "the storage has as many files as it may"),
        };
        // The result is ignored: nothing was written through the engine, and the call fails anyway.
        let _ = opened.map(|opened| self.mailbox().fs.close(opened.descriptor));
        Err(refused)
    }

    /// Creates a queue.
    ///
    /// # Errors
    /// Invalid options, `Limit` if 4096 queues are alive (one is the storage's own), `Closed`.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue, Error> {
        options.check()?;
        queue_of(self.mailbox(), &self.0.table, options)
    }

    /// Returns the ticket that [`Ticket::into_bits`] turned into a number, once. `T` must be the
    /// type of its memory: with another type the memory does not come back. `None` if the number is
    /// of no ticket of this storage, or its ticket was returned before.
    #[must_use]
    pub fn ticket<T: 'static>(&self, bits: u64) -> Option<Ticket<T>> {
        self.0.table.take_kept(Id::from_bits(bits)).map(Ticket::new)
    }

    /// Returns whether the request of the ticket with this number has completed, even while another
    /// thread waits for it; `None` if there is no such ticket, or its outcome was taken.
    #[must_use]
    pub fn is_ticket_complete(&self, bits: u64) -> Option<bool> {
        self.0.table.is_numbered_ended(Id::from_bits(bits))
    }

    /// As [`Ticket::waits_for`], by number, even while another thread waits; `None` as
    /// [`Storage::is_ticket_complete`].
    #[must_use]
    pub fn ticket_waits_for(&self, bits: u64) -> Option<Option<WaitsFor>> {
        let cause = self.0.table.numbered_cause(Id::from_bits(bits))?;
        Some(cause.and_then(|cause| self.mailbox().waits_for(cause)))
    }

    /// As [`Ticket::cancel`], by number, even while another thread waits. Does nothing if there is
    /// no such ticket.
    pub fn cancel_ticket(&self, bits: u64) {
        let id = Id::from_bits(bits);
        if self.0.table.cancel_numbered(id) {
            self.mailbox().change(id, Change::Cancel);
        }
    }

    /// As [`Ticket::reprioritize`], by number; see [`Storage::cancel_ticket`].
    pub fn reprioritize_ticket(&self, bits: u64, priority: Priority, deadline: Option<Instant>) {
        if self.is_ticket_complete(bits) == Some(false) {
            let change = self.mailbox().reorder(priority, deadline);
            self.mailbox().change(Id::from_bits(bits), change);
        }
    }

    /// Takes a buffer from the storage's pool: page-aligned, with unspecified content.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn buffer(&self, len: usize) -> Result<Buffer, Error> {
        Ok(self.mailbox().buffers.take(len)?)
    }

    /// Returns the pool of the library's buffers, for callbacks that supply memory.
    #[must_use]
    pub fn buffer_pool(&self) -> Arc<BufferPool> {
        Arc::clone(&self.mailbox().buffers)
    }

    /// Returns the staging memory, for devices that read it themselves. Only the bytes that
    /// [`DevicePart::bytes`](crate::DevicePart::bytes) returns are valid, until that part is
    /// finished; the rest changes at any time. It stays mapped while a handle to it exists.
    #[must_use]
    pub fn staging(&self) -> Arc<Region> {
        self.mailbox().staging()
    }

    /// Writes a line to the storage's log, if it has one; for crates built on this one.
    pub fn log(&self, level: LogLevel, text: impl Into<String>) {
        // In a forked child, another thread of the parent may have locked it.
        if !self.mailbox().is_forked() {
            self.mailbox().log.write(level, text.into());
        }
    }

    /// Runs one round of the engine and the jobs that wait, on the calling thread; returns whether
    /// anything was done. Does nothing if the storage has threads, or while another thread pumps.
    pub fn pump(&self) -> bool {
        self.mailbox().pump()
    }

    /// Blocks on a future of this storage (a fence, a group, a ticket), at most `timeout`; pumps a
    /// storage without threads. `None` if the future was not ready in time.
    ///
    /// # Errors
    /// `OnStorageThread`; `Closed` if the storage is closed before the future is ready: what it
    /// waits for may never complete.
    pub fn wait<F: IntoFuture>(
        &self,
        future: F,
        timeout: Option<Duration>,
    ) -> Result<Option<F::Output>, Error> {
        park::may_block()?;
        let mut future = pin!(future.into_future());
        let deadline = park::deadline(timeout);
        self.mailbox().block_on_open(deadline, |waker| {
            future.as_mut().poll(&mut Context::from_waker(waker))
        })
    }

    /// Returns counts and times since the storage was made. Takes a few microseconds, never blocks.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.mailbox().counters.snapshot()
    }

    /// Starts recording a trace, discarding what was recorded before.
    pub fn start_trace(&self) {
        let mailbox = self.mailbox();
        if mailbox.is_forked() {
            return;
        }
        let workers = mailbox.options.threads.workers.unwrap_or(0);
        mailbox.recorder.start(mailbox.now_ns(), workers);
    }

    /// Stops recording and returns the trace.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        match self.mailbox().is_forked() {
            true => Trace::default(),
            false => self.mailbox().recorder.take(),
        }
    }

    /// Closes the storage: cancels what has not begun, and waits for what is in flight, at most
    /// `timeout` (and a second for a system call of its own that hangs). What the system still
    /// holds then is reported, and its memory is never freed or reused. Later calls, and calls on a
    /// storage thread (they do not wait), return an empty report.
    pub fn close(&self, timeout: Duration) -> CloseReport {
        self.0.close(timeout)
    }
}

impl Owner {
    fn close(&self, timeout: Duration) -> CloseReport {
        if self.mailbox.is_forked() {
            return CloseReport::default();
        }
        let first = self.mailbox.begin_close();
        let deadline = park::deadline(Some(timeout));
        let local = lock(&self.mailbox.names).take_local();
        drop(local);
        if first {
            self.mailbox.send(Letter::Close(deadline));
        }
        if park::may_block().is_err() {
            return CloseReport::default();
        }
        let patience = deadline.and_then(|deadline| {
            let deadline = deadline.max(Instant::now());
            deadline.checked_add(limits::CLOSE_GRACE)
        });
        let report = self.mailbox.wait_closed(patience);
        let clean = report.as_ref().is_some_and(|report| report.operations == 0);
        self.started.join(clean);
        match first {
            true => report.unwrap_or_else(|| self.unanswered()),
            false => CloseReport::default(),
        }
    }

    /// The report if the engine did not answer in time, because a system call of its own hangs.
    fn unanswered(&self) -> CloseReport {
        let counters = &self.mailbox.counters;
        CloseReport {
            operations: usize::try_from(counters.in_flight.get()).unwrap_or(usize::MAX),
            bytes: counters.in_flight_bytes.get(),
            files: Vec::new(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.mailbox.is_forked() {
            // A thread of the parent may have held its locks: nothing of it is freed in the child.
            std::mem::forget(Arc::clone(&self.mailbox));
            return;
        }
        let report = self.close(Duration::from_secs(limits::DROP_DEADLINE_SECONDS));
        if report.operations > 0 {
            let held = "the storage was dropped with operations still held by the system";
            self.mailbox.warn(format!("{held}: {report:?}"));
        }
        self.table.release_kept();
        let next = lock(&self.mailbox.names).next_generation();
        let next = next.max(self.table.next_generation());
        self.number.give_back(next);
    }
}

fn queue_of(
    mailbox: &Arc<Mailbox>,
    table: &Arc<Table>,
    options: QueueOptions,
) -> Result<Queue, Error> {
    if mailbox.is_closing() {
        return Err(closed_error());
    }
    let before = mailbox.queues.fetch_add(1, Ordering::SeqCst);
    if before as usize >= limits::QUEUES_MAX {
        mailbox.queues.fetch_sub(1, Ordering::SeqCst);
        return Err(Error::new(ErrorKind::Limit, "4096 queues are alive"));
    }
    let (own, table) = (Arc::clone(mailbox), Arc::clone(table));
    let queue = Arc::new(QueueShared::new(own, table, options));
    if !mailbox.send(Letter::Queue(Arc::clone(&queue))) {
        queue.close();
        return Err(closed_error());
    }
    Ok(Queue::new(queue))
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage")
            .field("device", &self.device_kind())
            .finish_non_exhaustive()
    }
}
