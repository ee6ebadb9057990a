//! Loads files and packages through the engine, in order and in bounded memory.
//!
//! Files are cut into pieces of at most [`PIECE_BYTES`], one request each, and submitted until the
//! window (bytes and requests with unclaimed tickets) is full. Tickets are claimed in the order of
//! the files; their bytes are hashed here (never on an engine thread) and dropped, which frees room
//! in the window. The window is refilled when a quarter of it is free, so that requests reach the
//! engine in batches. Requests that complete out of order wait in the window, so nothing else needs
//! a bound. The entries of a package are visited in their order in the package file.
//!
//! A file of one piece is read whole, whatever its length is at that time. The pieces of a longer
//! file follow the length found by the walk: if the file has shrunk since, that is a failure; if it
//! has grown, the rest is not read.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::{Batch, Buffer, ErrorKind, FileId, FileOptions, Queue, Read, Storage, Ticket};
use millstream_io::thread::processor_time;
use millstream_pak::{Archive, BatchOptions, Package, names, visit};
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3Default;

use crate::failure::{self, Ending, Failure, Failures};
use crate::limits::{PIECE_BYTES, WINDOW_BYTES, WINDOW_REQUESTS};
use crate::output::Output;
use crate::package::{self, Name};
use crate::progress;
use crate::walk::Found;

/// What the paths of the command line name.
pub(crate) enum Source {
    /// Files; those below each path are in the byte order of their names.
    Files(Vec<Found>),
    /// Entries of a package, in the byte order of their names.
    Entries(Package, Vec<u32>),
    /// All entries of an archive.
    Archive(Archive),
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Source::Files(files) => files.len(),
            Source::Entries(_, indices) => indices.len(),
            Source::Archive(archive) => archive.len() as usize + archive.refused().len(),
        }
    }

    /// Returns the raw bytes, where they are known.
    fn bytes(&self) -> u64 {
        let files = |one: &Found| one.len.as_ref().map_or(0, |len| *len);
        let add = |sum: u64, bytes| sum.saturating_add(bytes);
        match self {
            Source::Files(list) => list.iter().map(files).fold(0, add),
            Source::Entries(package, indices) => {
                let info = indices.iter().flat_map(|index| package.info(*index));
                info.map(|info| info.raw_bytes).fold(0, add)
            }
            Source::Archive(archive) => {
                let bytes = |index| archive.info(index).raw_bytes;
                (0..archive.len()).map(bytes).fold(0, add)
            }
        }
    }
}

/// The result of loading files and entries.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Files and entries found, failed ones included.
    pub(crate) files: u64,
    /// Raw bytes of the loaded ones.
    pub(crate) bytes: u64,
    /// Stored bytes of the loaded ones.
    pub(crate) stored_bytes: u64,
    pub(crate) failures: Failures,
    /// Files and entries not loaded because of an interruption.
    pub(crate) canceled: u64,
    /// Time from the first open to the last completion.
    pub(crate) elapsed: Duration,
    /// Processor time of the whole process in that time.
    pub(crate) processor: Duration,
    /// Hashes that were kept for a document.
    pub(crate) hashes: Vec<Hashed>,
}

/// Destination of the hashes, which arrive in the order of the names.
pub(crate) enum Hashes {
    /// Printed, one line each.
    Printed(BufWriter<Output>),
    /// Kept for a document.
    Kept(Vec<Hashed>),
}

/// A name and the hash of its bytes, as text.
#[derive(Debug, Serialize)]
pub(crate) struct Hashed {
    hash: String,
    #[serde(flatten)]
    name: Name,
}

impl Hashed {
    pub(crate) fn new(hash: u64, name: &[u8]) -> Hashed {
        let (hash, name) = (format!("{hash:016x}"), Name(name.to_vec()));
        Hashed { hash, name }
    }
}

impl Hashes {
    /// Keeps the hashes if `keeps`; otherwise prints them.
    pub(crate) fn new(keeps: bool) -> Result<Hashes, Failure> {
        Ok(match keeps {
            true => Hashes::Kept(Vec::new()),
            false => Hashes::Printed(BufWriter::new(Output::create(OsStr::new("-"))?)),
        })
    }

    fn add(&mut self, one: Hashed) -> Result<(), Ending> {
        match self {
            Hashes::Kept(list) => {
                list.push(one);
                Ok(())
            }
            Hashes::Printed(lines) => {
                let written = writeln!(lines, "{}  {}", one.hash, names::escape(&one.name.0));
                written.map_err(|error| lines.get_ref().ending(&error))
            }
        }
    }

    /// Flushes printed lines; returns the hashes that were kept.
    fn finish(self) -> Result<Vec<Hashed>, Ending> {
        match self {
            Hashes::Kept(list) => Ok(list),
            Hashes::Printed(mut lines) => {
                let flushed = lines.flush();
                flushed.map_err(|error| lines.get_ref().ending(&error))?;
                Ok(Vec::new())
            }
        }
    }
}

/// Prints a line for each hash.
pub(crate) fn print_hashes(hashes: Vec<Hashed>) -> Result<(), Ending> {
    let mut lines = Hashes::new(false)?;
    hashes.into_iter().try_for_each(|one| lines.add(one))?;
    lines.finish().map(|_| ())
}

/// Loads the sources and drops the bytes.
pub(crate) struct Loader<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) queue: &'a Queue,
    pub(crate) sources: &'a [Source],
    /// Timeout of each request.
    pub(crate) timeout: Option<Duration>,
    /// Whether a trace is recorded: requests then carry the names of their files.
    pub(crate) traced: bool,
    /// Destination of the hashes, if they are wanted.
    pub(crate) hashes: Option<Hashes>,
    /// Set by an interruption.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// The result so far.
    pub(crate) tally: Tally,
}

/// A request for a part of a file, or why the queue refused it.
struct Piece {
    /// Index of the file.
    index: usize,
    /// Bytes counted against the window.
    len: u64,
    /// Whether it is the last piece of its file.
    last: bool,
    ticket: Result<Ticket<Buffer>, Failure>,
}

/// Submitted requests whose tickets are unclaimed.
#[derive(Default)]
struct Window {
    pieces: VecDeque<Piece>,
    bytes: u64,
}

/// Position of the submission: a file and an offset in it.
#[derive(Default)]
struct Cursor {
    index: usize,
    offset: u64,
    open: Option<FileId>,
}

/// State of the claims: the pieces of one file or entry, in order.
#[derive(Default)]
struct Claim {
    hasher: Option<Box<Xxh3Default>>,
    bytes: u64,
    failed: Option<Failure>,
    canceled: bool,
}

impl Claim {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }
}

impl<'a> Loader<'a> {
    /// Loads all sources. Failed files are counted and are not an error.
    pub(crate) fn run(mut self) -> Result<Tally, Ending> {
        let all = self.sources.iter();
        let total_bytes = all.map(Source::bytes).fold(0, u64::saturating_add);
        progress::begin(Some(total_bytes));
        let (begun, processor_begun) = (Instant::now(), processor_time());
        let mut place = 0;
        for source in self.sources {
            match source {
                Source::Files(files) => self.load_files(files, place)?,
                Source::Entries(package, indices) => self.load_entries(package, indices, place)?,
                Source::Archive(archive) => self.load_archive(archive, place)?,
            }
            place += source.len();
        }
        self.tally.files = place as u64;
        self.tally.elapsed = begun.elapsed();
        self.tally.processor = processor_time().saturating_sub(processor_begun);
        if let Some(hashes) = self.hashes {
            self.tally.hashes = hashes.finish()?;
        }
        Ok(self.tally)
    }

    /// Allocates room for the hash of each of `count` entries of a file, if hashes are wanted.
    fn room(&self, path: &Path, count: u32) -> Result<Vec<Option<u64>>, Failure> {
        let (mut hashes, count) = (Vec::new(), count as usize);
        if self.hashes.is_some() {
            hashes.try_reserve_exact(count).map_err(|_| {
                let cause = format!("no memory for {count} hashes");
                Failure::new(path, cause).kind(&ErrorKind::OutOfMemory)
            })?;
            hashes.resize(count, None);
        }
        Ok(hashes)
    }

    fn claim(&self) -> Claim {
        Claim {
            hasher: self.hashes.as_ref().map(|_| Box::default()),
            ..Claim::default()
        }
    }

    /// Counts a loaded file or entry of `stored_bytes`; returns its hash, if wanted.
    fn count(&mut self, claim: Claim, stored_bytes: u64) -> Option<u64> {
        self.tally.bytes += claim.bytes;
        self.tally.stored_bytes += stored_bytes;
        claim.hasher.map(|hasher| hasher.digest())
    }

    fn add_hash(&mut self, hash: Option<u64>, name: &[u8]) -> Result<(), Ending> {
        match (&mut self.hashes, hash) {
            (Some(hashes), Some(hash)) => hashes.add(Hashed::new(hash, name)),
            _ => Ok(()),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Loads files; `place` is the position of the first among all of them.
    fn load_files(&mut self, files: &'a [Found], place: usize) -> Result<(), Ending> {
        let (mut window, mut cursor) = (Window::default(), Cursor::default());
        let mut claim = self.claim();
        loop {
            // A quarter of the window is free.
            if window.pieces.len() <= WINDOW_REQUESTS / 4 * 3
                && window.bytes <= WINDOW_BYTES / 4 * 3
            {
                self.fill(files, place, &mut cursor, &mut window);
            }
            let Some(piece) = window.pieces.pop_front() else {
                return Ok(());
            };
            window.bytes -= piece.len;
            progress::advance(piece.len);
            match piece.ticket.map(|mut ticket| ticket.wait()) {
                Ok(Ok(bytes)) => claim.take(&bytes),
                Ok(Err(error)) if error == ErrorKind::Canceled => claim.canceled = true,
                Ok(Err(error)) => {
                    let path = &files[piece.index].path;
                    claim.failed.get_or_insert_with(|| describe(path, &error));
                }
                Err(refused) => {
                    claim.failed.get_or_insert(refused);
                }
            }
            if !piece.last {
                continue;
            }
            match std::mem::replace(&mut claim, self.claim()) {
                Claim {
                    failed: Some(failure),
                    ..
                } => self.tally.failures.add_at(place + piece.index, failure),
                Claim { canceled: true, .. } => self.tally.canceled += 1,
                loaded => {
                    let bytes = loaded.bytes;
                    let hash = self.count(loaded, bytes);
                    self.add_hash(hash, &files[piece.index].name)?;
                }
            }
        }
    }

    /// Submits until the window is full or everything is submitted.
    fn fill(&mut self, files: &'a [Found], place: usize, cursor: &mut Cursor, window: &mut Window) {
        let mut batch = self.queue.batch();
        while window.pieces.len() < WINDOW_REQUESTS && window.bytes < WINDOW_BYTES {
            let Some(found) = files.get(cursor.index) else {
                break;
            };
            if self.is_interrupted() {
                self.tally.canceled += (files.len() - cursor.index) as u64;
                cursor.index = files.len();
                break;
            }
            match &found.len {
                Ok(len) => {
                    let piece = self.add(&mut batch, cursor, found, *len);
                    window.bytes += piece.len;
                    window.pieces.push_back(piece);
                }
                Err(failure) => {
                    let place = place + cursor.index;
                    self.tally.failures.add_at(place, failure.clone());
                    cursor.index += 1;
                }
            }
        }
        batch.submit();
        // An interruption cancels requests submitted before it; the batch was submitted later.
        if self.is_interrupted() {
            self.queue.cancel_tagged(0, 0);
        }
    }

    /// Adds the next piece of a file of `len` bytes to a batch.
    fn add(&self, batch: &mut Batch, cursor: &mut Cursor, found: &Found, len: u64) -> Piece {
        let open = || self.storage.open(&found.path, FileOptions::default());
        let file = *cursor.open.get_or_insert_with(open);
        let (index, offset) = (cursor.index, cursor.offset);
        let piece_len = (len - offset).min(PIECE_BYTES);
        let last = offset + piece_len == len;
        let mut request = match offset == 0 && last {
            true => Read::whole(file),
            false => Read::range(file, offset, piece_len),
        };
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        if self.traced {
            request = request.name(String::from_utf8_lossy(&found.name));
        }
        let ticket = batch.add(request);
        cursor.offset += piece_len;
        if last {
            // `close` fails only if the storage is closing, which closes the file itself.
            let _ = batch.close(file);
            *cursor = Cursor {
                index: index + 1,
                ..Cursor::default()
            };
        }
        Piece {
            index,
            len: piece_len,
            last,
            ticket: ticket.map_err(|error| describe(&found.path, &error)),
        }
    }

    /// Loads entries of a package, whose position among all sources is `place`.
    fn load_entries(
        &mut self,
        package: &Package,
        indices: &[u32],
        place: usize,
    ) -> Result<(), Ending> {
        if self.is_interrupted() {
            // `visit` submits requests before it first calls back, so it is not started.
            self.tally.canceled += indices.len() as u64;
            return Ok(());
        }
        // Indexed by entry: `visit` goes in the order of the stored bytes.
        let mut hashes = self.room(package.path(), package.len())?;
        let options = BatchOptions {
            timeout: self.timeout,
            ..BatchOptions::default()
        };
        let queue = self.queue;
        // The pieces of an entry are consecutive, and its failures count once.
        let (mut claim, mut failed, mut ended) = (self.claim(), None, 0);
        visit(package, queue, indices, &options, &mut |piece, loaded| {
            progress::advance(piece.len);
            match loaded {
                Ok(bytes) => claim.take(&bytes),
                Err(error) if error.engine().is_some_and(|it| *it == ErrorKind::Canceled) => {
                    return ControlFlow::Break(());
                }
                Err(error) if failed.replace(piece.index) != Some(piece.index) => {
                    let failure = package::describe(package.path(), &error);
                    self.tally.failures.add_at(place, failure);
                    ended += 1;
                }
                Err(_) => {}
            }
            let info = package.info(piece.index);
            if failed == Some(piece.index) {
                claim = self.claim();
            } else if info.is_ok_and(|info| piece.offset + piece.len == info.raw_bytes) {
                let storing = package.storing(piece.index);
                let loaded = std::mem::replace(&mut claim, self.claim());
                let hash = self.count(loaded, storing.map_or(0, |it| it.stored_bytes));
                if let Some(place) = hashes.get_mut(piece.index as usize) {
                    *place = hash;
                }
                ended += 1;
            }
            match self.is_interrupted() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        self.tally.canceled += (indices.len() - ended) as u64;
        for &index in indices {
            if let Some(&Some(hash)) = hashes.get(index as usize) {
                let name = package.name(index);
                let name = name.map_err(|error| package::describe(package.path(), &error))?;
                self.add_hash(Some(hash), name)?;
            }
        }
        Ok(())
    }

    /// Loads all entries of an archive, whose position among all sources is `place`.
    fn load_archive(&mut self, archive: &Archive, place: usize) -> Result<(), Ending> {
        let (path, count) = (archive.path(), archive.len());
        for error in archive.refused() {
            let failure = package::describe(path, error);
            self.tally.failures.add_at(place, failure);
        }
        let (mut hashes, mut ended) = (self.room(path, count)?, 0);
        let all: Vec<u32> = (0..count).collect();
        let options = BatchOptions {
            timeout: self.timeout,
            ..BatchOptions::default()
        };
        let queue = self.queue;
        // An interrupted load submits nothing more.
        let all = if self.is_interrupted() { &[] } else { &all[..] };
        let visited = archive.visit(queue, all, &options, &mut |index, loaded| {
            let info = archive.info(index);
            progress::advance(info.raw_bytes);
            match loaded {
                Ok(bytes) => {
                    let mut claim = self.claim();
                    claim.take(&bytes);
                    let hash = self.count(claim, info.stored_bytes);
                    if let Some(place) = hashes.get_mut(index as usize) {
                        *place = hash;
                    }
                }
                Err(error) if error.engine().is_some_and(|it| *it == ErrorKind::Canceled) => {
                    return ControlFlow::Break(());
                }
                Err(error) => {
                    let failure = package::describe(path, &error);
                    self.tally.failures.add_at(place, failure);
                }
            }
            ended += 1;
            match self.is_interrupted() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        visited.map_err(|error| package::describe(path, &error))?;
        self.tally.canceled += u64::from(count) - ended;
        for (index, hash) in (0..count).zip(hashes) {
            self.add_hash(hash, archive.name(index))?;
        }
        Ok(())
    }
}

/// Converts an error of the engine; `path` is used if the error names no file.
pub(crate) fn describe(path: &Path, error: &millstream::Error) -> Failure {
    let system = error.errno().map(std::io::Error::from_raw_os_error);
    let cause = match (system, error.cause()) {
        (Some(system), "") => failure::explain(&system),
        (Some(system), cause) => format!("{system}: {cause}"),
        (None, "") => error.kind().to_string(),
        (None, cause) => String::from(cause),
    };
    let offset = Some(error.offset()).filter(|_| !matches!(error.len(), 0 | u64::MAX));
    let failure = Failure::new(error.path().unwrap_or(path), cause);
    failure.kind(&error.kind()).at(offset)
}
