//! Files through the engine, in order, in bounded memory.
//!
//! Files are cut into pieces of at most [`PIECE_BYTES`], one request each, and submitted until the
//! window is full: so many bytes and so many requests whose tickets have not been claimed. Tickets
//! are claimed in the order of the files, their bytes hashed here (never on a thread of the engine)
//! and dropped, which makes room. The window is refilled when a quarter of it is free, so that
//! requests go to the engine in batches. What completes out of order waits in the window, so
//! nothing else needs a bound.
//!
//! A file of one piece is read as a whole, whatever its length is by then. Of a longer one the
//! pieces follow the walk's length: if it has shrunk since, that is a failure; if it has grown, the
//! rest is not read.

use std::collections::VecDeque;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::{Batch, Buffer, ErrorKind, FileId, FileOptions, Queue, Read, Storage, Ticket};
use millstream_io::thread::processor_time;
use millstream_pak::{BatchOptions, ContentCheck, names};
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3Default;

use crate::failure::{self, Ending, Failure, Failures};
use crate::limits::{
    BATCH_BYTES, BATCH_PIECES, PACKAGE_WINDOW_BYTES, PACKAGE_WINDOW_RATIO, PIECE_BYTES,
    WINDOW_BYTES, WINDOW_REQUESTS,
};
use crate::output::Output;
use crate::package;
use crate::progress;
use crate::walk::Found;

/// How the files went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Files named and found, those that failed included.
    pub(crate) files: u64,
    /// Requests submitted.
    pub(crate) requests: u64,
    /// Bytes of the files that were loaded.
    pub(crate) bytes: u64,
    /// Bytes that these files are on the disk.
    pub(crate) stored_bytes: u64,
    /// Files that failed.
    pub(crate) failures: Failures,
    /// Files not loaded because of an interruption.
    pub(crate) canceled: u64,
    /// From the first open to the last completion.
    pub(crate) elapsed: Duration,
    /// Processor time of the whole program in that time.
    pub(crate) processor: Duration,
    /// Hashes that were kept.
    pub(crate) hashes: Option<Vec<Hashed>>,
}

/// What becomes of the files' hashes.
pub(crate) enum Hashes {
    /// None are made.
    Unwanted,
    /// A line each.
    Printed(BufWriter<Output>),
    /// Kept for a document.
    Kept(Vec<Hashed>),
}

/// A file's name and hash, as text.
#[derive(Debug, Serialize)]
pub(crate) struct Hashed {
    pub(crate) hash: String,
    pub(crate) name: String,
}

impl Hashes {
    fn wanted(&self) -> bool {
        !matches!(self, Hashes::Unwanted)
    }

    fn add(&mut self, name: &[u8], hash: u64) -> Result<(), Ending> {
        let (hash, name) = (format!("{hash:016x}"), names::escape(name));
        match self {
            Hashes::Unwanted => Ok(()),
            Hashes::Kept(list) => {
                list.push(Hashed { hash, name });
                Ok(())
            }
            Hashes::Printed(lines) => {
                let written = writeln!(lines, "{hash}  {name}");
                written.map_err(|error| lines.get_ref().ending(&error))
            }
        }
    }

    fn finish(self) -> Result<Option<Vec<Hashed>>, Ending> {
        match self {
            Hashes::Unwanted => Ok(None),
            Hashes::Kept(list) => Ok(Some(list)),
            Hashes::Printed(mut lines) => {
                let flushed = lines.flush();
                flushed.map_err(|error| lines.get_ref().ending(&error))?;
                Ok(None)
            }
        }
    }
}

/// Loads what was found, and drops it.
pub(crate) struct Loader<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) queue: &'a Queue,
    pub(crate) found: &'a [Found],
    /// A request's timeout.
    pub(crate) timeout: Option<Duration>,
    /// A trace is recorded: requests carry the names of their files.
    pub(crate) traced: bool,
    /// Where hashes go.
    pub(crate) hashes: Hashes,
    /// Set by an interruption.
    pub(crate) interrupted: Arc<AtomicBool>,
}

/// A part of a file that is one request.
#[derive(Clone, Copy)]
struct Part {
    /// Which of the files.
    index: usize,
    offset: u64,
    /// Bytes that it takes of the window.
    len: u64,
    /// The last of its file.
    last: bool,
}

/// A request on its way: its part, and why the queue did not take it if it did not.
struct Piece {
    part: Part,
    ticket: Result<Load, Failure>,
}

/// What brings a piece.
enum Load {
    /// A request.
    Alone(Ticket<Buffer>),
    /// A part of a batch, which pieces of a package share.
    Together(Rc<millstream_pak::Batch>, usize),
}

/// What is being submitted: a file and how much of it.
#[derive(Default)]
struct Cursor {
    index: usize,
    offset: u64,
    open: Option<FileId>,
}

impl Cursor {
    /// The next part of the current file, which has `len` bytes.
    fn part(&self, len: u64) -> Part {
        let part_len = (len - self.offset).min(PIECE_BYTES);
        Part {
            index: self.index,
            offset: self.offset,
            len: part_len,
            last: self.offset + part_len == len,
        }
    }

    /// Moves behind a part.
    fn pass(&mut self, part: Part) {
        self.offset += part.len;
        if part.last {
            *self = Cursor {
                index: part.index + 1,
                ..Cursor::default()
            };
        }
    }
}

/// What is being claimed: the pieces of one file, in order.
#[derive(Default)]
struct Claim {
    hasher: Option<Box<Xxh3Default>>,
    bytes: u64,
    /// Of an entry of a package.
    check: Option<ContentCheck>,
    ended: Option<NotLoaded>,
}

impl Claim {
    fn fail(&mut self, failure: Failure) {
        if !matches!(self.ended, Some(NotLoaded::Failed(_))) {
            self.ended = Some(NotLoaded::Failed(failure));
        }
    }
}

enum NotLoaded {
    Failed(Failure),
    Canceled,
}

impl Loader<'_> {
    /// Loads everything.
    ///
    /// # Errors
    /// The hashes cannot be written. Files that fail are counted, not errors.
    pub(crate) fn run(mut self) -> Result<Tally, Ending> {
        let mut tally = Tally {
            files: self.found.len() as u64,
            ..Tally::default()
        };
        let lens = self
            .found
            .iter()
            .filter_map(|found| found.len.as_ref().ok());
        let total_bytes = lens.fold(0, |sum: u64, len| sum.saturating_add(*len));
        progress::begin("loading", Some(total_bytes));
        let mut window = VecDeque::new();
        let mut window_bytes = 0;
        let mut cursor = Cursor::default();
        let mut claim = Claim::default();
        let (begun, processor_begun) = (Instant::now(), processor_time());
        loop {
            if has_room(&window, window_bytes) {
                self.fill(&mut cursor, &mut window, &mut window_bytes, &mut tally);
            }
            let Some(piece) = window.pop_front() else {
                break;
            };
            window_bytes -= piece.part.len;
            progress::advance(piece.part.len);
            self.claim(piece, &mut claim, &mut tally)?;
        }
        tally.elapsed = begun.elapsed();
        tally.processor = processor_time().saturating_sub(processor_begun);
        tally.hashes = self.hashes.finish()?;
        Ok(tally)
    }

    /// Submits until the window is full or everything is submitted.
    fn fill(
        &self,
        cursor: &mut Cursor,
        window: &mut VecDeque<Piece>,
        window_bytes: &mut u64,
        tally: &mut Tally,
    ) {
        let mut batch = self.queue.batch();
        while window.len() < WINDOW_REQUESTS {
            let Some(found) = self.found.get(cursor.index) else {
                break;
            };
            if *window_bytes >= window_of(found) {
                break;
            }
            if self.interrupted.load(Ordering::Acquire) {
                tally.canceled += (self.found.len() - cursor.index) as u64;
                cursor.index = self.found.len();
                break;
            }
            match &found.len {
                Ok(_) if found.entry.is_some() => {
                    // The package has a batch of its own; two must not wait for each other.
                    batch.submit();
                    let pieces = self.submit_entries(cursor, tally);
                    *window_bytes += pieces.iter().map(|piece| piece.part.len).sum::<u64>();
                    window.extend(pieces);
                }
                Ok(len) => {
                    let piece = self.add(&mut batch, cursor, found, *len);
                    tally.requests += u64::from(piece.ticket.is_ok());
                    *window_bytes += piece.part.len;
                    window.push_back(piece);
                }
                Err(failure) => {
                    tally.failures.add_at(cursor.index, failure.clone());
                    cursor.index += 1;
                }
            }
        }
        batch.submit();
        // An interruption cancels what was submitted before it, not what was in the batch.
        if self.interrupted.load(Ordering::Acquire) {
            self.queue.cancel_tagged(0, 0);
        }
    }

    /// Adds the next piece of a file to a batch.
    fn add(&self, batch: &mut Batch, cursor: &mut Cursor, found: &Found, len: u64) -> Piece {
        let open = || self.storage.open(&found.path, FileOptions::default());
        let file = *cursor.open.get_or_insert_with(open);
        let part = cursor.part(len);
        cursor.pass(part);
        let mut request = match part.offset == 0 && part.last {
            true => Read::whole(file),
            false => Read::range(file, part.offset, part.len),
        };
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        if self.traced {
            request = request.name(String::from_utf8_lossy(&found.name));
        }
        let added = batch.add(request);
        if part.last {
            // Refused only by a storage that is closing, which closes the file itself.
            let _ = batch.close(file);
        }
        let ticket = added.map(Load::Alone);
        let ticket = ticket.map_err(|error| describe(&found.path, &error));
        Piece { part, ticket }
    }

    /// Submits the next entries of a package as one batch, or the next piece of a long one.
    fn submit_entries(&self, cursor: &mut Cursor, tally: &mut Tally) -> Vec<Piece> {
        let first = self.found[cursor.index]
            .entry
            .as_ref()
            .expect("looked at by the caller");
        let package = &first.package;
        let (mut parts, mut asked) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while let Some(found) = self.found.get(cursor.index) {
            let (Some(entry), Ok(len)) = (&found.entry, &found.len) else {
                break;
            };
            let part = cursor.part(*len);
            let full = bytes + part.len > BATCH_BYTES;
            // A copy of a package has its root, but may be damaged.
            let of_package =
                entry.package.root() == package.root() && entry.package.path() == package.path();
            if !parts.is_empty() && (full || !of_package) {
                break;
            }
            parts.push(part);
            asked.push(millstream_pak::Piece {
                index: entry.index,
                offset: part.offset,
                len: part.len,
            });
            bytes += part.len;
            cursor.pass(part);
            if !part.last || parts.len() >= BATCH_PIECES {
                break;
            }
        }
        let batch = package.enqueue_pieces(self.queue, &asked, &self.batch_options());
        let batch = batch.map(Rc::new);
        tally.requests += batch.as_ref().map_or(0, |batch| batch.requests() as u64);
        let pieces = parts.into_iter().enumerate().map(|(nth, part)| Piece {
            part,
            ticket: match &batch {
                Ok(batch) => Ok(Load::Together(Rc::clone(batch), nth)),
                Err(error) => Err(crate::package::describe(package.path(), error)),
            },
        });
        pieces.collect()
    }

    fn batch_options(&self) -> BatchOptions {
        BatchOptions {
            timeout: self.timeout,
            ..BatchOptions::default()
        }
    }

    /// Waits for a piece, hashes and drops it, and counts its file if it was the last of it.
    fn claim(&mut self, piece: Piece, claim: &mut Claim, tally: &mut Tally) -> Result<(), Ending> {
        let found = &self.found[piece.part.index];
        let wanted = self.hashes.wanted();
        let mut landed = |bytes: &[u8]| {
            claim.bytes += bytes.len() as u64;
            if wanted {
                claim.hasher.get_or_insert_default().update(bytes);
            }
        };
        let ended = match piece.ticket {
            Ok(Load::Alone(mut ticket)) => {
                let loaded = ticket.wait().map(|bytes| landed(&bytes));
                loaded.map_err(|error| {
                    let kind = Some(error.kind());
                    not_loaded(kind, || describe(&found.path, &error))
                })
            }
            Ok(Load::Together(batch, nth)) => {
                let checked = batch.wait(nth).and_then(|bytes| {
                    check(&mut claim.check, found, &bytes)?;
                    landed(&bytes);
                    Ok(())
                });
                checked.map_err(|error| {
                    let kind = error.engine().map(millstream::Error::kind);
                    not_loaded(kind, || blamed(found, error))
                })
            }
            Err(refused) => Err(NotLoaded::Failed(refused)),
        };
        match ended {
            Ok(()) => {}
            Err(NotLoaded::Failed(failure)) => claim.fail(failure),
            Err(canceled) => {
                claim.ended.get_or_insert(canceled);
            }
        }
        if !piece.part.last {
            return Ok(());
        }
        self.count(piece.part.index, std::mem::take(claim), tally)
    }

    /// Counts a file whose pieces have all been claimed, and hands on its hash.
    fn count(&mut self, index: usize, claim: Claim, tally: &mut Tally) -> Result<(), Ending> {
        let found = &self.found[index];
        let Claim {
            hasher,
            bytes,
            ended,
            ..
        } = claim;
        match ended {
            Some(NotLoaded::Failed(failure)) => tally.failures.add_at(index, failure),
            Some(NotLoaded::Canceled) => tally.canceled += 1,
            None => {
                tally.bytes += bytes;
                tally.stored_bytes += match &found.entry {
                    None => bytes,
                    Some(entry) => {
                        let storing = entry.package.storing(entry.index);
                        storing.map_or(0, |storing| storing.stored_bytes)
                    }
                };
                // An entry of no bytes has a hash, too.
                let hasher = hasher.or_else(|| self.hashes.wanted().then(Box::default));
                if let Some(hasher) = hasher {
                    self.hashes.add(&found.name, hasher.digest())?;
                }
            }
        }
        Ok(())
    }
}

/// Compares an entry's bytes, which come in order, with its hash.
fn check(
    check: &mut Option<ContentCheck>,
    found: &Found,
    bytes: &[u8],
) -> millstream_pak::Result<()> {
    let entry = found.entry.as_ref().expect("a batch has entries only");
    let begun = match check {
        Some(begun) => begun,
        None => check.insert(entry.package.content_check(entry.index)?),
    };
    begun.take(bytes)
}

/// Why a request did not load its piece: `failed` says so, unless it was canceled.
fn not_loaded(kind: Option<ErrorKind>, failed: impl FnOnce() -> Failure) -> NotLoaded {
    match kind {
        Some(ErrorKind::Canceled) => NotLoaded::Canceled,
        _ => NotLoaded::Failed(failed()),
    }
}

/// The failure of an entry of a package.
fn blamed(found: &Found, error: millstream_pak::Error) -> Failure {
    let error = match &found.entry {
        Some(entry) => entry.package.blame(entry.index, error),
        None => error,
    };
    package::describe(&found.path, &error)
}

/// Bytes of the window while it is filled with a file.
fn window_of(found: &Found) -> u64 {
    found.entry.as_ref().map_or(WINDOW_BYTES, |entry| {
        let own = PACKAGE_WINDOW_RATIO.saturating_mul(entry.package.file_bytes());
        WINDOW_BYTES.min(PACKAGE_WINDOW_BYTES.saturating_add(own))
    })
}

/// Whether a quarter of the window is free.
fn has_room(window: &VecDeque<Piece>, window_bytes: u64) -> bool {
    window.len() <= WINDOW_REQUESTS / 4 * 3 && window_bytes <= WINDOW_BYTES / 4 * 3
}

/// The engine's error as the program words failures; `path` where it names none itself.
pub(crate) fn describe(path: &Path, error: &millstream::Error) -> Failure {
    let system = error.errno().map(std::io::Error::from_raw_os_error);
    let cause = match (system, error.cause()) {
        (Some(system), "") => failure::explain(&system),
        (Some(system), cause) => format!("{system}: {cause}"),
        (None, "") => format!("{:?}", error.kind()),
        (None, cause) => String::from(cause),
    };
    let offset = Some(error.offset()).filter(|_| !matches!(error.len(), 0 | u64::MAX));
    let failure = Failure::new(error.path().unwrap_or(path), cause);
    failure.kind(&error.kind()).at(offset)
}
