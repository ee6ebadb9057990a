//! Jobs: what worker threads do, and what comes back to the engine.
//!
//! A job owns everything it touches, or holds memory that its request keeps until the result is
//! back ([`Lent`]): a request never completes while one of its jobs is out, unless its memory went
//! into quarantine. Code of the application runs under `catch_unwind`; its panic fails its request.
//!
//! # Safety
//! The destinations of the jobs of one request are disjoint: `decode::plan` gives out raw offsets
//! that only grow, and checks what codecs report before it uses it.
#![expect(unsafe_code, reason = "turns lent memory into slices")]

use std::sync::Arc;
use std::time::Instant;

use millstream_codec::{CodecId, Progress, Scratch, StreamDecoder, Unit, UnitScanner};
use millstream_io::error::guard;

use crate::caller::destination::{Memory, Supply};
use crate::caller::request::Stored;
use crate::caller::sink::{DevicePart, DevicePlace, PartForm, PartTask};
use crate::decode::external::ExternalBytes;
use crate::decode::growing::Growing;
use crate::decode::spec::{BlockSource, RequestDecoder};
use crate::engine::staging::{Class, WindowMemory};
use crate::error::{Error, ErrorKind};
use crate::handover::park::StorageThread;
use crate::ids::Id;
use crate::priority::Priority;

/// A codec of the application, for ids from 0x80 on. Its methods are called on worker threads,
/// except [`Codec::raw_len`], [`Codec::stream`] and, once at registration, [`Codec::is_stream`]; a
/// panic while a request is served fails that request and nothing else.
pub trait Codec: Send + Sync {
    /// Returns how many raw bytes the stored bytes declare, from their head (the first window of
    /// them; all of them for a whole-block codec) and their total length. Called on the engine
    /// thread: it must only read a header. `Ok(None)` if the stored bytes do not declare it.
    ///
    /// # Errors
    /// The likely cause, if the bytes are refused.
    fn raw_len(&self, head: &[u8], stored_len: u64) -> Result<Option<u64>, &'static str> {
        let _ = (head, stored_len);
        Ok(None)
    }

    /// Returns whether stored bytes are decoded as a stream, window by window while the next are
    /// read. Otherwise all stored bytes of a request must fit into staging at once.
    fn is_stream(&self) -> bool {
        false
    }

    /// Creates a decoder for one request, if [`Codec::is_stream`]. Called on the engine thread.
    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        None
    }

    /// Decodes a whole block; returns how many raw bytes it wrote.
    ///
    /// # Errors
    /// The likely cause of the failure.
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        let _ = (stored, raw);
        Err("the codec has no decoder for whole blocks")
    }

    /// Takes a block to decode it later, on any thread ([`Job::finish`]); the default returns it,
    /// to be decoded at once by [`Codec::decode`].
    fn defer(&self, job: Job) -> Option<Job> {
        Some(job)
    }
}

/// Memory lent to a job.
pub(crate) struct Lent {
    pointer: *mut u8,
    len: usize,
}

// SAFETY: lent to one job at a time, and valid on every thread until the job's result is back.
unsafe impl Send for Lent {}

impl Lent {
    pub(crate) fn new(pointer: *mut u8, len: usize) -> Lent {
        Lent { pointer, len }
    }

    /// Returns where it is, and its length.
    pub(crate) fn into_parts(self) -> (*mut u8, u64) {
        (self.pointer, self.len as u64)
    }

    pub(crate) fn nothing() -> Lent {
        Lent::new(std::ptr::null_mut(), 0)
    }

    /// Copies its bytes to others of the same number.
    pub(crate) fn copy_to(&self, into: &mut [u8]) {
        assert_eq!(into.len(), self.len, "as many bytes");
        if self.len > 0 {
            // SAFETY: readable as long as the request has not ended (see the header); `into` is
            // memory of the library.
            unsafe { std::ptr::copy_nonoverlapping(self.pointer, into.as_mut_ptr(), self.len) }
        }
    }

    pub(crate) fn slice(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the engine made it inside memory that the request keeps until this job's result
        // is back, and gave that part to no other job (see the header).
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// Where the raw bytes of a stream go.
pub(crate) enum StreamRaw {
    /// What is left of the destination.
    Lent(Lent),
    /// Memory for a stream whose raw size is not known.
    Growing(Growing),
}

impl StreamRaw {
    /// Calls a decoder with room for raw bytes, and keeps those that it writes.
    fn offer(
        &mut self,
        decode: impl FnOnce(&mut [u8]) -> Result<Progress, Error>,
    ) -> Result<Progress, Error> {
        match self {
            StreamRaw::Lent(lent) => {
                let progress = decode(lent.slice())?;
                lent.pointer = lent.pointer.wrapping_add(progress.produced);
                lent.len -= progress.produced;
                Ok(progress)
            }
            StreamRaw::Growing(raw) => raw.offer(decode),
        }
    }
}

/// Where the stored bytes of a job are.
#[derive(Clone)]
pub(crate) enum JobSource {
    /// A window of staging.
    Window(Arc<WindowMemory>),
    /// Memory of the application.
    Memory(Stored),
    /// An offset in a table's source, and the bytes that a blocking call has read there.
    External(
        Arc<dyn BlockSource>,
        u64,
        Option<Result<Arc<ExternalBytes>, Error>>,
    ),
}

impl JobSource {
    pub(crate) fn slice(&self, start: usize, len: usize) -> &[u8] {
        let bytes = match self {
            JobSource::Window(memory) => memory.as_slice(),
            JobSource::Memory(bytes) => bytes.as_slice(),
            JobSource::External(_, _, Some(Ok(read))) => &read.bytes,
            JobSource::External(..) => &[],
        };
        &bytes[start..start + len]
    }
}

/// How one independent part is decoded.
#[derive(Clone)]
pub(crate) enum Method {
    /// Bytes as they are.
    Copy,
    /// A whole block; its raw bytes must fill the destination.
    Whole,
    /// A unit that a scanner found.
    Unit(Unit),
    Application(Arc<dyn Codec>),
    /// The request's own decoder.
    Decoder(Arc<dyn RequestDecoder>),
    /// Not decoded here: a device takes the bytes.
    Device(DevicePlace),
}

impl Method {
    /// Whether a codec of the application, or a device, may keep the job and end it later.
    fn ends_later(&self) -> bool {
        matches!(self, Method::Application(_) | Method::Device(_))
    }
}

/// A block of a table: where it is, and the checksum of its stored bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) checksum: Option<u64>,
}

pub(crate) struct DecodeTask {
    pub(crate) codec: CodecId,
    pub(crate) method: Method,
    pub(crate) source: JobSource,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) raw: Lent,
    pub(crate) user_data: u64,
    pub(crate) block: Option<BlockPlace>,
}

pub(crate) enum Task {
    Decode(DecodeTask),
    /// Feeds one window to a stream decoder.
    Stream {
        decoder: Box<dyn StreamDecoder>,
        source: JobSource,
        start: usize,
        len: usize,
        raw: StreamRaw,
        last: bool,
    },
    /// Asks the application for memory of this length.
    Supply(Supply, usize),
    /// Copies raw bytes to the front of other memory.
    Move(Lent, Lent),
    /// Checks all raw bytes against what the stream declares.
    Verify(Box<dyn UnitScanner>, Lent),
}

pub(crate) struct JobTask {
    pub(crate) request: Id,
    pub(crate) priority: Priority,
    /// Of its request when it was given.
    pub(crate) class: Class,
    pub(crate) queued: Instant,
    pub(crate) task: Task,
}

impl JobTask {
    pub(crate) fn new(request: Id, priority: Priority, class: Class, task: Task) -> JobTask {
        JobTask {
            request,
            priority,
            class,
            queued: Instant::now(),
            task,
        }
    }

    fn decode_task(&self) -> Option<&DecodeTask> {
        match &self.task {
            Task::Decode(task) => Some(task),
            _ => None,
        }
    }

    /// Returns the source, offset and length of an external block that was not read yet.
    pub(crate) fn unread(&self) -> Option<(&Arc<dyn BlockSource>, u64, usize)> {
        let task = self.decode_task()?;
        match &task.source {
            JobSource::External(source, offset, None) => Some((source, *offset, task.len)),
            _ => None,
        }
    }

    /// Sets the bytes of an external block, or why they could not be read.
    pub(crate) fn set_external(&mut self, result: Result<Arc<ExternalBytes>, Error>) {
        if let Task::Decode(task) = &mut self.task
            && let JobSource::External(_, _, read) = &mut task.source
        {
            *read = Some(result);
        }
    }

    /// Whether the application may keep the job.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.decode_task()
            .is_some_and(|task| task.method.ends_later())
    }

    /// Returns the result of an external block whose request has ended.
    pub(crate) fn canceled(self) -> JobResult {
        let source = match self.task {
            Task::Decode(task) => Some(task.source),
            _ => None,
        };
        JobResult {
            class: self.class,
            request: self.request,
            outcome: JobOutcome::Done(Err(Error::new(ErrorKind::Canceled, ""))),
            source,
            ran: Ran::not(self.queued),
        }
    }
}

/// When a job ran, for the statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) queued: Instant,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
}

impl Ran {
    /// Of a job that was not run.
    fn not(queued: Instant) -> Ran {
        let now = Instant::now();
        Ran {
            queued,
            started: now,
            ended: now,
        }
    }
}

/// The outcome of a job.
pub(crate) enum JobOutcome {
    /// A part was decoded, or raw bytes were moved or verified.
    Done(Result<(), Error>),
    /// The unit cannot be decoded alone, or not at all: everything is decoded as a stream, so that
    /// errors do not depend on how a stream was split.
    NotAlone,
    /// Raw bytes written, and whether the stream may end here.
    Streamed(
        Box<dyn StreamDecoder>,
        StreamRaw,
        Result<(usize, bool), Error>,
    ),
    Supplied(Result<Memory, Error>),
}

pub(crate) struct JobResult {
    pub(crate) request: Id,
    pub(crate) class: Class,
    pub(crate) outcome: JobOutcome,
    /// The window it read, returned to the engine.
    pub(crate) source: Option<JobSource>,
    pub(crate) ran: Ran,
}

/// Where results go: the mailbox of the engine.
pub(crate) trait JobSink: Send + Sync {
    fn job_finished(&self, result: JobResult);
}

/// A decode job: for the application's job system ([`Job::run`]), or a block that a codec of the
/// application decodes later ([`Job::stored_and_raw`], [`Job::finish`]). Dropping it fails its
/// request.
#[must_use = "dropping a job fails its request"]
pub struct Job {
    task: Option<JobTask>,
    sink: Arc<dyn JobSink>,
}

impl Job {
    pub(crate) fn new(task: JobTask, sink: Arc<dyn JobSink>) -> Job {
        Job {
            task: Some(task),
            sink,
        }
    }

    /// Runs the job on the calling thread.
    pub fn run(self) {
        run_job(self, &mut Scratch::default());
    }

    /// Returns the user data of its request.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.decode_task().map_or(0, |task| task.user_data)
    }

    /// Returns the priority of its request.
    #[must_use]
    pub fn priority(&self) -> Priority {
        let task = self.task.as_ref();
        task.map_or(Priority::Normal, |task| task.priority)
    }

    fn request(&self) -> u64 {
        let task = self.task.as_ref();
        task.map_or(0, |task| task.request.to_bits())
    }

    /// Returns the stored bytes of a block of the application's codec, and where its raw bytes go.
    /// Empty for other jobs.
    pub fn stored_and_raw(&mut self) -> (&[u8], &mut [u8]) {
        match self.task.as_mut().map(|task| &mut task.task) {
            Some(Task::Decode(task)) if task.is_of_application() => {
                (task.source.slice(task.start, task.len), task.raw.slice())
            }
            _ => (&[], &mut []),
        }
    }

    /// Finishes a block of the application's codec with the number of raw bytes written, or the
    /// likely cause of the failure. Other jobs fail: their bytes are not decoded.
    pub fn finish(mut self, result: Result<usize, &'static str>) {
        let own = self
            .decode_task()
            .is_some_and(DecodeTask::is_of_application);
        let result = match own {
            true => result,
            false => result.and(Err("the job is to be run, not finished")),
        };
        self.end(result.map_err(|cause| Error::new(ErrorKind::Application, cause)));
    }

    fn decode_task(&self) -> Option<&DecodeTask> {
        self.task.as_ref()?.decode_task()
    }

    fn end(&mut self, result: Result<usize, Error>) {
        if let Some(task) = self.task.take() {
            self.sink.job_finished(ended_by_hand(task, result));
        }
    }
}

impl PartTask for Job {
    fn bytes(&self) -> &[u8] {
        let task = self.decode_task();
        task.map_or(&[], |task| task.source.slice(task.start, task.len))
    }

    fn end(mut self: Box<Self>, result: Result<(), Error>) {
        let len = self.decode_task().map_or(0, |task| task.raw.len);
        Job::end(&mut self, result.map(|()| len));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let cause = "the application dropped the job";
        self.end(Err(Error::new(ErrorKind::Application, cause)));
    }
}

/// The result of a task whose work was done, or refused, outside of `run_task`.
fn ended_by_hand(task: JobTask, result: Result<usize, Error>) -> JobResult {
    let ran = Ran::not(task.queued);
    let (outcome, source) = match task.task {
        Task::Decode(task) => {
            let result = result.and_then(|written| exactly(written, task.raw.len));
            let result = result.map_err(|error| task.at_block(error));
            (JobOutcome::Done(result), Some(task.source))
        }
        Task::Stream {
            decoder,
            source,
            raw,
            ..
        } => {
            let result = result.map(|written| (written, false));
            (JobOutcome::Streamed(decoder, raw, result), Some(source))
        }
        Task::Supply(..) => {
            let refused = || Error::new(ErrorKind::Application, "the job was not run");
            let result = result.and_then(|_| Err(refused()));
            (JobOutcome::Supplied(result), None)
        }
        Task::Move(..) | Task::Verify(..) => (JobOutcome::Done(result.map(|_| ())), None),
    };
    JobResult {
        request: task.request,
        class: task.class,
        outcome,
        source,
        ran,
    }
}

/// Runs a job and hands its result to its sink. A codec of the application, or a device, may keep
/// it and end it later.
pub(crate) fn run_job(mut job: Job, scratch: &mut Scratch) {
    let method = job.decode_task().map(|task| &task.method);
    if let Some(method) = method.filter(|method| method.ends_later()).cloned() {
        if let Err(error) = prepare_job(&mut job) {
            job.end(Err(error));
            return;
        }
        let _on = StorageThread::enter();
        let deferred = guard(|| match method {
            Method::Application(codec) => codec.defer(job),
            Method::Device(place) => {
                place.sink.take(DevicePart {
                    priority: job.priority(),
                    user_data: job.user_data(),
                    request: job.request(),
                    task: Box::new(job),
                    form: place.form,
                    raw: place.raw,
                });
                None
            }
            _ => Some(job),
        });
        match deferred {
            Some(Some(back)) => job = back,
            // It is kept, or was dropped in a panic, which failed its request.
            Some(None) | None => return,
        }
    }
    if let Some(task) = job.task.take() {
        let result = run_task(task, scratch);
        job.sink.job_finished(result);
    }
}

fn prepare_job(job: &mut Job) -> Result<(), Error> {
    let Some(Task::Decode(task)) = job.task.as_mut().map(|task| &mut task.task) else {
        return Ok(());
    };
    let prepared = prepare(task).and_then(|()| match &task.method {
        Method::Device(place) if place.form == PartForm::Raw => exactly(task.len, task.raw.len),
        _ => Ok(()),
    });
    prepared.map_err(|error| task.at_block(error))
}

pub(crate) fn run_task(task: JobTask, scratch: &mut Scratch) -> JobResult {
    let _on = StorageThread::enter();
    let started = Instant::now();
    let JobTask {
        request,
        class,
        queued,
        ..
    } = task;
    let (outcome, source) = match task.task {
        Task::Decode(mut task) => {
            let outcome = decode(&mut task, scratch);
            (outcome, Some(task.source))
        }
        Task::Stream {
            mut decoder,
            source,
            start,
            len,
            mut raw,
            last,
        } => {
            let stored = source.slice(start, len);
            let fed = guarded(|| feed(decoder.as_mut(), stored, &mut raw, last));
            (JobOutcome::Streamed(decoder, raw, fed), Some(source))
        }
        Task::Supply(supply, len) => (JobOutcome::Supplied(guarded(|| supply(len))), None),
        Task::Move(mut from, mut to) => {
            let from = from.slice();
            to.slice()[..from.len()].copy_from_slice(from);
            (JobOutcome::Done(Ok(())), None)
        }
        Task::Verify(scanner, mut raw) => {
            let verified = guarded(|| scanner.verify(raw.slice()).map_err(Error::from));
            (JobOutcome::Done(verified), None)
        }
    };
    let ended = Instant::now();
    JobResult {
        request,
        class,
        outcome,
        source,
        ran: Ran {
            queued,
            started,
            ended,
        },
    }
}

/// Runs code that may be the application's; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    guard(work).unwrap_or_else(|| {
        let cause = "code of the application panicked";
        Err(Error::new(ErrorKind::Application, cause))
    })
}

/// Fails unless as many raw bytes were written as declared.
fn exactly(written: usize, declared: usize) -> Result<(), Error> {
    if written == declared {
        return Ok(());
    }
    let cause = match written < declared {
        true => "the stored bytes hold fewer raw bytes than declared",
        false => "the codec reports more raw bytes than there is room for",
    };
    Err(Error::new(ErrorKind::RawSize, cause))
}

impl DecodeTask {
    /// Whether its stored bytes are in memory, and its raw bytes go to memory.
    fn is_in_memory(&self) -> bool {
        !matches!(self.source, JobSource::External(_, _, None | Some(Err(_))))
            && !matches!(self.method, Method::Device(_))
    }

    /// Whether a codec of the application decodes it.
    fn is_of_application(&self) -> bool {
        self.is_in_memory() && matches!(self.method, Method::Application(_))
    }

    /// Adds the place of this block to an error, if it is one of a table, maybe in another file.
    fn at_block(&self, error: Error) -> Error {
        let path = match &self.source {
            JobSource::External(source, ..) => guard(|| source.path()).flatten(),
            _ => None,
        };
        match self.block {
            Some(block) => error.or_at(path, block.offset, self.len as u64),
            None => error,
        }
    }
}

/// Checks stored bytes against the table, once; reports that external ones could not be read.
fn prepare(task: &mut DecodeTask) -> Result<(), Error> {
    match &task.source {
        JobSource::External(_, _, Some(Err(error))) => return Err(error.clone()),
        JobSource::External(_, _, None) => unreachable!("external blocks are read before"),
        _ => {}
    }
    let checksum = task.block.as_mut().and_then(|block| block.checksum.take());
    let stored = task.source.slice(task.start, task.len);
    match checksum {
        Some(checksum) if xxhash_rust::xxh3::xxh3_64(stored) != checksum => {
            let cause = "the checksum of a stored block does not match: its bytes are damaged, or \
                         the file was changed";
            Err(Error::new(ErrorKind::Corrupt, cause))
        }
        _ => Ok(()),
    }
}

fn decode(task: &mut DecodeTask, scratch: &mut Scratch) -> JobOutcome {
    let decoded = match prepare(task) {
        Ok(()) => guard(|| decode_part(task, scratch)).unwrap_or_else(|| {
            // The panic may have left it inconsistent.
            *scratch = Scratch::default();
            let kind = match task.method {
                Method::Application(_) | Method::Decoder(_) => ErrorKind::Application,
                _ => ErrorKind::Corrupt,
            };
            Err(Error::new(kind, "the decoder panicked"))
        }),
        Err(error) => Err(error),
    };
    if let (Method::Unit(_), Err(_)) = (&task.method, &decoded) {
        return JobOutcome::NotAlone;
    }
    let result = decoded.and_then(|written| exactly(written, task.raw.len));
    JobOutcome::Done(result.map_err(|error| task.at_block(error)))
}

/// Decodes stored bytes in memory; returns how many raw bytes it wrote. May panic, in code of the
/// application or in a decoder of another crate.
fn decode_part(task: &mut DecodeTask, scratch: &mut Scratch) -> Result<usize, Error> {
    if let Method::Device(_) = task.method {
        // The application's codec returned another job than it was given, which has no memory.
        let cause = "the codec returned another job";
        return Err(Error::new(ErrorKind::Application, cause));
    }
    let stored = task.source.slice(task.start, task.len);
    let raw = task.raw.slice();
    match &task.method {
        Method::Copy if raw.len() == stored.len() => {
            raw.copy_from_slice(stored);
            Ok(raw.len())
        }
        Method::Copy => Ok(stored.len()),
        Method::Whole => Ok(millstream_codec::decode_block(
            task.codec, scratch, stored, raw,
        )?),
        Method::Unit(unit) => {
            millstream_codec::decode_unit(task.codec, unit, scratch, stored, raw)?;
            Ok(raw.len())
        }
        Method::Application(codec) => {
            let decoded = codec.decode(stored, raw);
            decoded.map_err(|cause| Error::new(ErrorKind::Application, cause))
        }
        Method::Decoder(decoder) => Ok(decoder.decode(scratch, stored, raw)?),
        Method::Device(_) => unreachable!("looked at before"),
    }
}

/// Feeds all of `stored` to the decoder; returns the raw bytes written, and whether the stream may
/// end here. What the decoder reports is checked before it is used.
fn feed(
    decoder: &mut dyn StreamDecoder,
    stored: &[u8],
    raw: &mut StreamRaw,
    last: bool,
) -> Result<(usize, bool), Error> {
    let (mut taken, mut written) = (0, 0);
    let mut ends = false;
    loop {
        let rest = &stored[taken..];
        let progress = raw.offer(|room| {
            let progress = match ends {
                true => decoder.finish(room)?,
                false => decoder.decode(rest, room)?,
            };
            if progress.consumed > rest.len() || progress.produced > room.len() {
                let cause = "the codec reports more bytes than it was given";
                return Err(Error::new(ErrorKind::Application, cause));
            }
            Ok(progress)
        })?;
        taken += progress.consumed;
        written += progress.produced;
        let moved = progress.consumed + progress.produced > 0;
        // A decoder may hold raw bytes back until it is asked with room.
        if taken == stored.len() && (progress.at_end || !moved) {
            if progress.at_end || !last || ends {
                return Ok((written, progress.at_end));
            }
            ends = true;
        } else if !moved {
            let cause = "the stream holds more raw bytes than declared, or its decoder is stuck";
            return Err(Error::new(ErrorKind::RawSize, cause));
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::{BlockTable, Decode, QueueOptions, Read, Storage, StorageOptions};
    use millstream_codec::{CodecError, Progress};

    struct Liar(Progress);

    impl StreamDecoder for Liar {
        fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<Progress, CodecError> {
            Ok(self.0)
        }
    }

    #[test]
    fn a_decoder_that_reports_too_much_is_not_believed() {
        let progress = |consumed, produced, at_end| Progress {
            consumed,
            produced,
            at_end,
        };
        for (lie, kind) in [
            (progress(3, 1005, true), ErrorKind::Application),
            (progress(4, 0, false), ErrorKind::Application),
            (progress(0, 0, false), ErrorKind::RawSize),
        ] {
            let mut raw = [0; 1004];
            let mut room = StreamRaw::Lent(Lent::new(raw.as_mut_ptr(), raw.len()));
            let result = feed(&mut Liar(lie), &[1, 2, 3], &mut room, true);
            assert_eq!(result.map_err(|error| error.kind()), Err(kind));
        }
    }

    #[test]
    fn zstd_is_an_unknown_codec_where_it_is_not_built_in() {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        // A frame of one segment: a last block of three bytes, which are stored.
        let frame: [u8; 12] = [
            0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c',
        ];
        let mut table = BlockTable::new();
        table.push(CodecId::ZSTD, 0..12, 3);
        for decode in [Decode::codec(CodecId::ZSTD), Decode::table(table)] {
            let read = Read::memory(frame.into()).decode(decode.raw_len(3));
            let landed = queue.submit(read).expect("accepted").wait();
            if millstream_codec::can_decode(CodecId::ZSTD) {
                assert_eq!(landed.expect("decoded")[..], *b"abc");
                continue;
            }
            let error = landed.expect_err("no decoder");
            assert_eq!(error.kind(), ErrorKind::UnknownCodec, "{error}");
            assert!(error.to_string().contains("`rust`"), "{error}");
        }
    }
}
