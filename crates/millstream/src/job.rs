//! Jobs: what workers do, and what comes back to the engine.
//!
//! A job owns everything it touches, or holds memory that its request keeps until the job's result
//! has come back ([`Span`]): a request never ends while a job of it is out, unless its memory went
//! into quarantine.
//!
//! # Safety
//! Spans of jobs of one request are disjoint: the engine cuts them from the destination by raw
//! offsets that only grow.
#![expect(unsafe_code, reason = "turns the engine's spans into slices")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use millstream_codec::{CodecId, Dictionary, Scratch, StreamDecoder, Unit};
use millstream_io::{Block, Descriptor, FileSystem, IoError, OpenMode, Opened};

use crate::codec::ApplicationCodec;
use crate::destination::{Landing, Place, Supply};
use crate::error::{Error, ErrorKind};
use crate::files::Access;
use crate::offer::{Answer, Offer};
use crate::request::{Memory, NameWork, OtherBytes};
use crate::view::MappedView;

/// Which request a job is for; the generation tells a late result from one for the slot's next
/// request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) request: u32,
    pub(crate) generation: u32,
}

/// Part of a destination, lent to a job.
pub(crate) struct Span {
    pointer: *mut u8,
    len: usize,
}

// SAFETY: a span is handed to one job at a time; the memory is valid on every thread until the
// job's result came back.
unsafe impl Send for Span {}

impl Span {
    pub(crate) fn new(pointer: *mut u8, len: usize) -> Span {
        Span { pointer, len }
    }

    pub(crate) fn slice(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the engine made the span inside the destination, which the request keeps until
        // this job's result is back, and gave that part to no other job (see the module).
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// Stored bytes that jobs read.
#[derive(Clone)]
pub(crate) enum Stored {
    /// A window in staging.
    Block(Arc<Block>),
    /// Memory of the application.
    Memory(Memory),
    /// Bytes at an offset of another file, which the job reads.
    Elsewhere(Arc<dyn OtherBytes>, u64),
}

impl Stored {
    pub(crate) fn slice(&self, start: usize, len: usize) -> &[u8] {
        let bytes = match self {
            Stored::Block(block) => block.as_slice(),
            Stored::Memory(bytes) => bytes.as_slice(),
            Stored::Elsewhere(..) => unreachable!("read before it is looked at"),
        };
        &bytes[start..start + len]
    }
}

/// How a job decodes.
pub(crate) enum Method {
    /// Bytes as they are.
    Copy,
    /// A whole block; raw bytes must fill the span.
    Whole,
    /// The same, of zstd, with the dictionary at this index.
    Dictionary(Arc<[Dictionary]>, usize),
    /// A unit that a scanner found.
    Unit(Unit),
    /// The application's function.
    Application(ApplicationCodec),
}

/// Decodes one independent part.
pub(crate) struct DecodeJob {
    pub(crate) target: Target,
    pub(crate) codec: CodecId,
    pub(crate) method: Method,
    pub(crate) stored: Stored,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) raw: Span,
    pub(crate) user_data: u64,
    pub(crate) queued: Instant,
    /// Of a block of a table: where it lies in its file, and its checksum.
    pub(crate) block: Option<BlockPlace>,
}

/// Where a block of a table lies, and the checksum of its stored bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) checksum: Option<u64>,
}

impl BlockPlace {
    /// Whether these are the bytes that the table means.
    fn check(self, stored: &[u8]) -> Result<(), Error> {
        match self.checksum {
            Some(checksum) if xxhash_rust::xxh3::xxh3_64(stored) != checksum => {
                let cause = "the checksum of a stored block does not match: its bytes are damaged, \
                             or the file was changed";
                Err(Error::new(ErrorKind::Corrupt, cause))
            }
            _ => Ok(()),
        }
    }
}

impl DecodeJob {
    /// Fetches stored bytes that lie elsewhere, and checks them against the table.
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        if let Stored::Elsewhere(other, offset) = &self.stored {
            let mut bytes = vec![0; self.len];
            other.read_at(*offset, &mut bytes)?;
            self.block.map_or(Ok(()), |block| block.check(&bytes))?;
            self.stored = Stored::Memory(Memory::Shared(Arc::from(bytes)));
            self.start = 0;
            return Ok(());
        }
        let stored = self.stored.slice(self.start, self.len);
        self.block.map_or(Ok(()), |block| block.check(stored))
    }

    /// The same error, of this block if it is one of a table.
    fn at_block(&self, error: Error, other: Option<Arc<dyn OtherBytes>>) -> Error {
        let path = other.and_then(|other| other.path());
        match self.block {
            Some(block) if error.is_empty() => error.at(path, block.offset, self.len as u64),
            _ => error,
        }
    }

    /// Where its stored bytes lie, if not in the request's file.
    fn other(&self) -> Option<Arc<dyn OtherBytes>> {
        match &self.stored {
            Stored::Elsewhere(other, _) => Some(Arc::clone(other)),
            _ => None,
        }
    }

    pub(crate) fn bytes(&mut self) -> (&[u8], &mut [u8]) {
        (self.stored.slice(self.start, self.len), self.raw.slice())
    }
}

/// Feeds one window to a stream decoder.
pub(crate) struct StreamJob {
    pub(crate) target: Target,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    pub(crate) stored: Stored,
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// What is left of the destination.
    pub(crate) raw: Span,
    /// No stored bytes come behind these.
    pub(crate) last: bool,
    pub(crate) queued: Instant,
}

/// A file to open.
pub(crate) struct OpenOrder {
    pub(crate) file: u32,
    pub(crate) generation: u32,
    pub(crate) path: Arc<Path>,
    pub(crate) mode: OpenMode,
    pub(crate) access: Access,
    /// Open the buffered descriptor (else only the direct one, of a file that is open already).
    pub(crate) buffered: bool,
    /// Open the direct descriptor too if the file has at least so many bytes.
    pub(crate) direct_from: u64,
    /// Memory of a request that waits for the file.
    pub(crate) offer: Option<Offer>,
}

/// An operation on names, or one that may block for long.
pub(crate) enum FileWork {
    Sync {
        descriptor: Descriptor,
        data_only: bool,
    },
    Names(NameWork),
    Replace {
        path: PathBuf,
        bytes: Box<dyn Landing>,
    },
    Warm {
        view: Arc<MappedView>,
        offset: u64,
        len: u64,
    },
    Len {
        descriptor: Descriptor,
    },
    Supply {
        supply: Supply,
        len: usize,
    },
    Scatter {
        from: Span,
        to: Vec<Span>,
    },
    Verify {
        scanner: Box<dyn millstream_codec::UnitScanner>,
        raw: Span,
    },
}

pub(crate) enum Job {
    /// Closes first, then opens: the descriptors of the one are the room of the other.
    Open(Vec<Descriptor>, Vec<OpenOrder>),
    Close(Vec<Descriptor>),
    Decode(DecodeJob),
    Stream(StreamJob),
    File(Target, FileWork),
}

/// What an open brought.
pub(crate) struct OpenResult {
    pub(crate) file: u32,
    pub(crate) generation: u32,
    pub(crate) opened: Option<Result<Opened, IoError>>,
    pub(crate) direct: Option<Result<Descriptor, IoError>>,
    pub(crate) answer: Option<Answer>,
    pub(crate) spent_ns: u64,
}

/// When a job ran, for the statistics.
#[derive(Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) queued: Instant,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
}

pub(crate) enum JobResult {
    /// So many descriptors were closed before.
    Opened(usize, Vec<OpenResult>),
    /// So many descriptors are closed.
    Closed(usize),
    Decoded {
        target: Target,
        stored: Stored,
        result: Result<usize, Error>,
        /// The unit cannot be decoded alone: decode everything as a stream.
        as_stream: bool,
        ran: Ran,
    },
    Streamed {
        target: Target,
        decoder: Box<dyn StreamDecoder>,
        stored: Stored,
        result: Result<(usize, bool), Error>,
        ran: Ran,
    },
    Worked {
        target: Target,
        result: Result<Worked, Error>,
    },
}

impl JobResult {
    /// Lets go of a result that comes after the engine's end: what was opened is closed again.
    pub(crate) fn discard(self, fs: &dyn FileSystem) {
        let JobResult::Opened(_, results) = self else {
            return;
        };
        for result in results {
            let opened = result.opened.and_then(Result::ok);
            let direct = result.direct.and_then(Result::ok);
            for descriptor in opened
                .map(|about| about.descriptor)
                .into_iter()
                .chain(direct)
            {
                // Nothing was written through it, and nobody is left to be told.
                let _ = fs.close(descriptor);
            }
        }
    }
}

/// What file work brought.
pub(crate) enum Worked {
    Nothing,
    Len(u64),
    Supplied(Box<dyn Landing>),
    Landing(Box<dyn Landing>),
}

/// Runs a job. Panics of application code become errors of its request.
pub(crate) fn run(job: Job, fs: &dyn FileSystem, scratch: &mut Scratch) -> Option<JobResult> {
    match job {
        Job::Open(closes, orders) => {
            let count = close_all(closes, fs);
            let opened = orders.into_iter().map(|order| open(order, fs)).collect();
            Some(JobResult::Opened(count, opened))
        }
        Job::Close(descriptors) => Some(JobResult::Closed(close_all(descriptors, fs))),
        Job::Decode(job) => Some(decode(job, scratch)),
        Job::Stream(job) => Some(stream(job)),
        Job::File(target, work) => {
            let result = catch_unwind(AssertUnwindSafe(|| file_work(work, fs)))
                .unwrap_or_else(|_| Err(panicked()));
            Some(JobResult::Worked { target, result })
        }
    }
}

fn panicked() -> Error {
    Error::new(ErrorKind::Application, "code of the application panicked")
}

fn close_all(descriptors: Vec<Descriptor>, fs: &dyn FileSystem) -> usize {
    let count = descriptors.len();
    for descriptor in descriptors {
        // Nothing was written through it that a sync has not reported; reads do not care.
        let _ = fs.close(descriptor);
    }
    count
}

fn open(mut order: OpenOrder, fs: &dyn FileSystem) -> OpenResult {
    let started = Instant::now();
    let mut result = OpenResult {
        file: order.file,
        generation: order.generation,
        opened: None,
        direct: None,
        answer: None,
        spent_ns: 0,
    };
    let mut want_direct = !order.buffered;
    if order.buffered {
        let opened = fs.open(&order.path, order.mode);
        let offer = order.offer.take();
        result.answer = offer.map(|offer| match &opened {
            Ok(opened) => offer.use_on(fs, opened),
            Err(_) => offer.decline(),
        });
        let read = result.answer.as_ref().is_some_and(|it| it.read.is_some());
        if let Ok(opened) = &opened {
            want_direct = !read
                && opened.direct.is_some()
                && match order.access {
                    Access::Buffered => false,
                    Access::Direct => true,
                    // What is in the page cache is read from there: no second descriptor yet.
                    Access::Auto => opened.len >= order.direct_from && !is_cached(fs, opened),
                };
        }
        result.opened = Some(opened);
    }
    if want_direct {
        let mode = OpenMode {
            direct: true,
            create: false,
            truncate: false,
            ..order.mode
        };
        result.direct = Some(open_direct(&order, &result, mode, fs));
    }
    result.spent_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    result
}

/// Whether so much of a file is in the page cache that it will be read from there.
fn is_cached(fs: &dyn FileSystem, opened: &Opened) -> bool {
    let cached = fs.cached(opened.descriptor, 0, opened.len).unwrap_or(0);
    cached.saturating_mul(8) >= opened.len.saturating_mul(crate::limits::CACHED_EIGHTHS)
}

/// Opens the direct descriptor, and makes sure that the name still means the same file.
fn open_direct(
    order: &OpenOrder,
    result: &OpenResult,
    mode: OpenMode,
    fs: &dyn FileSystem,
) -> Result<Descriptor, IoError> {
    let direct = fs.open(&order.path, mode)?;
    if let Some(Ok(first)) = &result.opened
        && (first.identity.device, first.identity.inode)
            != (direct.identity.device, direct.identity.inode)
    {
        let _ = fs.close(direct.descriptor);
        let errno = millstream_io::Errno::AGAIN;
        return Err(IoError::because(
            "open",
            errno,
            "the name came to mean another file",
        ));
    }
    Ok(direct.descriptor)
}

/// The result of a decode job that ran elsewhere.
pub(crate) fn decoded(job: DecodeJob, result: Result<usize, Error>) -> JobResult {
    let now = Instant::now();
    let ran = Ran {
        queued: job.queued,
        started: now,
        ended: now,
    };
    let result = result.and_then(|written| exactly(written, job.raw.len));
    JobResult::Decoded {
        target: job.target,
        stored: job.stored,
        result,
        as_stream: false,
        ran,
    }
}

/// Raw bytes must be exactly those declared.
fn exactly(written: usize, declared: usize) -> Result<usize, Error> {
    if written == declared {
        return Ok(written);
    }
    let cause = if written < declared {
        "the stored bytes hold fewer raw bytes than declared"
    } else {
        "the codec says it wrote more raw bytes than there is room for"
    };
    Err(Error::new(ErrorKind::RawSize, cause))
}

fn decode(mut job: DecodeJob, scratch: &mut Scratch) -> JobResult {
    let started = Instant::now();
    let mut as_stream = false;
    let other = job.other();
    let result = job
        .prepare()
        .and_then(|()| decode_prepared(&mut job, scratch, &mut as_stream))
        .map_err(|error| job.at_block(error, other));
    let ran = Ran {
        queued: job.queued,
        started,
        ended: Instant::now(),
    };
    JobResult::Decoded {
        target: job.target,
        stored: job.stored,
        result,
        as_stream,
        ran,
    }
}

fn decode_prepared(
    job: &mut DecodeJob,
    scratch: &mut Scratch,
    as_stream: &mut bool,
) -> Result<usize, Error> {
    let stored = job.stored.slice(job.start, job.len);
    let raw = job.raw.slice();
    let result = match &job.method {
        Method::Copy => {
            raw.copy_from_slice(stored);
            Ok(raw.len())
        }
        Method::Whole => millstream_codec::decode_block(job.codec, scratch, stored, raw)
            .map_err(Error::from_codec),
        Method::Dictionary(all, index) => {
            millstream_codec::decode_block_with(&all[*index], scratch, stored, raw)
                .map_err(Error::from_codec)
        }
        Method::Unit(unit) => millstream_codec::decode_unit(job.codec, unit, scratch, stored, raw)
            .map(|()| raw.len())
            .map_err(|error| {
                *as_stream = error.kind == millstream_codec::CodecErrorKind::Unsupported;
                Error::from_codec(error)
            }),
        Method::Application(ApplicationCodec::Whole(function)) => {
            catch_unwind(AssertUnwindSafe(|| function(stored, raw)))
                .unwrap_or(Err("the codec panicked"))
                .map_err(|cause| Error::new(ErrorKind::Application, cause))
        }
        Method::Application(_) => Err(Error::new(ErrorKind::UnknownCodec, "not a whole codec")),
    };
    result.and_then(|written| exactly(written, raw.len()))
}

fn stream(mut job: StreamJob) -> JobResult {
    let started = Instant::now();
    let stored = job.stored.slice(job.start, job.len);
    let raw = job.raw.slice();
    let decoder = &mut job.decoder;
    let result = catch_unwind(AssertUnwindSafe(|| {
        feed(decoder.as_mut(), stored, raw, job.last)
    }))
    .unwrap_or_else(|_| Err(panicked()));
    let ran = Ran {
        queued: job.queued,
        started,
        ended: Instant::now(),
    };
    JobResult::Streamed {
        target: job.target,
        decoder: job.decoder,
        stored: job.stored,
        result,
        ran,
    }
}

/// Gives all of `stored` to the decoder; raw bytes written, and whether the stream may end here.
fn feed(
    decoder: &mut dyn StreamDecoder,
    stored: &[u8],
    raw: &mut [u8],
    last: bool,
) -> Result<(usize, bool), Error> {
    let (mut taken, mut written) = (0, 0);
    loop {
        let progress = decoder
            .decode(&stored[taken..], &mut raw[written..])
            .map_err(Error::from_codec)?;
        taken += progress.consumed;
        written += progress.produced;
        let moved = progress.consumed + progress.produced > 0;
        // A decoder may hold raw bytes back until it is asked with room: stop only when it has no
        // more to say.
        if taken == stored.len() && (progress.at_end || !moved) {
            if progress.at_end || !last {
                return Ok((written, progress.at_end));
            }
            let end = decoder
                .finish(&mut raw[written..])
                .map_err(Error::from_codec)?;
            return Ok((written + end.produced, end.at_end));
        }
        if !moved {
            let cause = "the stream holds more raw bytes than declared, or its decoder is stuck";
            return Err(Error::new(ErrorKind::RawSize, cause));
        }
    }
}

fn file_work(work: FileWork, fs: &dyn FileSystem) -> Result<Worked, Error> {
    let io = |error: IoError| Error::from_io(&error);
    match work {
        FileWork::Sync {
            descriptor,
            data_only,
        } => {
            fs.sync(descriptor, data_only).map_err(io)?;
            Ok(Worked::Nothing)
        }
        FileWork::Names(work) => {
            match work {
                NameWork::Rename { from, to } => fs.rename(&from, &to),
                NameWork::TakePlace { fresh, path } => fs.take_place(&fresh, &path),
                NameWork::Remove { path } => fs.remove(&path),
            }
            .map_err(io)?;
            Ok(Worked::Nothing)
        }
        FileWork::Replace { path, mut bytes } => {
            let Place::Host { pointer, len } = bytes.place();
            let mut span = Span::new(pointer, len);
            fs.replace(&path, span.slice()).map_err(io)?;
            Ok(Worked::Landing(bytes))
        }
        FileWork::Warm { view, offset, len } => {
            view.populate(offset, len).map_err(io)?;
            Ok(Worked::Nothing)
        }
        FileWork::Len { descriptor } => fs.len(descriptor).map(Worked::Len).map_err(io),
        FileWork::Supply { supply, len } => supply(len).map(Worked::Supplied).ok_or_else(|| {
            Error::new(ErrorKind::Application, "the application supplied no memory")
        }),
        FileWork::Scatter { mut from, mut to } => {
            let mut rest: &[u8] = from.slice();
            for span in &mut to {
                let piece = span.slice();
                let (head, tail) = rest.split_at(piece.len().min(rest.len()));
                piece[..head.len()].copy_from_slice(head);
                rest = tail;
            }
            Ok(Worked::Nothing)
        }
        FileWork::Verify { scanner, mut raw } => {
            scanner.verify(raw.slice()).map_err(Error::from_codec)?;
            Ok(Worked::Nothing)
        }
    }
}
