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
use std::ffi::OsStr;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::{Batch, Buffer, ErrorKind, FileId, FileOptions, Queue, Read, Storage, Ticket};
use millstream_pak::{BatchOptions, ContentCheck, names};
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3Default;

use crate::failure::{self, Ending, Failure, Failures};
use crate::limits::{BATCH_BYTES, BATCH_PIECES, PIECE_BYTES, WINDOW_BYTES, WINDOW_REQUESTS};
use crate::output::Output;
use crate::package;
use crate::progress::Progress;
use crate::walk::Found;

/// How the files went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Files named and found, those that failed included.
    pub(crate) files: u64,
    /// Requests submitted.
    pub(crate) requests: u64,
    /// Bytes that landed.
    pub(crate) bytes: u64,
    /// Bytes that they were on the disk.
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
    hash: String,
    name: String,
}

impl Hashes {
    fn wanted(&self) -> bool {
        !matches!(self, Hashes::Unwanted)
    }

    fn add(&mut self, name: &OsStr, hash: u64) -> Result<(), Ending> {
        let (hash, name) = (format!("{hash:016x}"), names::escape(name.as_bytes()));
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
    /// Entries of packages are requests of their own, though neighbors could be read at once.
    pub(crate) apart: bool,
    /// Where hashes go.
    pub(crate) hashes: Hashes,
    /// Set by an interruption.
    pub(crate) interrupted: Arc<AtomicBool>,
}

/// A request on its way.
struct Piece {
    /// Which of the files.
    index: usize,
    /// The request, or why the queue did not take it.
    ticket: Result<Load, Failure>,
    /// Bytes that it takes of the window.
    len: u64,
    /// The last of its file.
    last: bool,
}

/// What brings a piece.
enum Load {
    /// A request.
    Alone(Ticket<Buffer>),
    /// A part of a batch, which pieces of a package share.
    Together(Arc<millstream_pak::Batch>, usize),
}

/// What is being submitted: a file and how much of it.
#[derive(Default)]
struct Cursor {
    index: usize,
    offset: u64,
    open: Option<FileId>,
}

/// What is being claimed: the pieces of one file, in order.
#[derive(Default)]
struct Landing {
    hasher: Option<Box<Xxh3Default>>,
    /// Of an entry of a package.
    check: Option<ContentCheck>,
    ended: Option<NotLoaded>,
}

impl Landing {
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
        let total_bytes = self
            .found
            .iter()
            .filter_map(|found| found.len.as_ref().ok())
            .sum();
        let mut progress = Progress::new("loading", Some(total_bytes));
        let mut window = VecDeque::new();
        let mut window_bytes = 0;
        let mut cursor = Cursor::default();
        let mut landing = Landing::default();
        let (begun, processor_begun) = (Instant::now(), processor_time());
        loop {
            if has_room(&window, window_bytes) {
                self.fill(&mut cursor, &mut window, &mut window_bytes, &mut tally);
            }
            let Some(piece) = window.pop_front() else {
                break;
            };
            window_bytes -= piece.len;
            progress.advance(piece.len);
            self.claim(piece, &mut landing, &mut tally)?;
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
        while window.len() < WINDOW_REQUESTS && *window_bytes < WINDOW_BYTES {
            let Some(found) = self.found.get(cursor.index) else {
                break;
            };
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
                    *window_bytes += pieces.iter().map(|piece| piece.len).sum::<u64>();
                    window.extend(pieces);
                }
                Ok(len) => {
                    let piece = self.add(&mut batch, cursor, found, *len);
                    tally.requests += u64::from(piece.ticket.is_ok());
                    *window_bytes += piece.len;
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
        let piece_len = (len - cursor.offset).min(PIECE_BYTES);
        let last = cursor.offset + piece_len == len;
        let mut request = if cursor.offset == 0 && last {
            Read::whole(file)
        } else {
            Read::range(file, cursor.offset, piece_len)
        };
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        if self.apart {
            request = request.name(found.name.to_string_lossy());
        }
        let index = cursor.index;
        cursor.offset += piece_len;
        if last {
            *cursor = Cursor {
                index: index + 1,
                ..Cursor::default()
            };
        }
        let added = batch.add(request);
        if last {
            // Refused only by a storage that is closing, which closes the file itself.
            let _ = batch.close(file);
        }
        let ticket = added.map(Load::Alone);
        let ticket = ticket.map_err(|error| describe(&found.path, &error));
        Piece {
            index,
            ticket,
            len: piece_len,
            last,
        }
    }

    /// Submits the next entries of a package as one batch, or the next piece of a long one.
    fn submit_entries(&self, cursor: &mut Cursor, tally: &mut Tally) -> Vec<Piece> {
        let first = self.found[cursor.index]
            .entry
            .as_ref()
            .expect("looked at by the caller");
        let package = &first.package;
        let mut pieces: Vec<(Piece, millstream_pak::Piece)> = Vec::new();
        let mut bytes = 0;
        while let Some(found) = self.found.get(cursor.index) {
            let (Some(entry), Ok(len)) = (&found.entry, &found.len) else {
                break;
            };
            let piece_len = (len - cursor.offset).min(PIECE_BYTES);
            let alone = self.apart || bytes + piece_len > BATCH_BYTES;
            if !pieces.is_empty() && (alone || entry.package.root() != package.root()) {
                break;
            }
            let last = cursor.offset + piece_len == *len;
            let asked = millstream_pak::Piece {
                index: entry.index,
                offset: cursor.offset,
                len: piece_len,
            };
            let piece = Piece {
                index: cursor.index,
                ticket: Err(Failure::new(found.path.as_os_str(), "")),
                len: piece_len,
                last,
            };
            pieces.push((piece, asked));
            bytes += piece_len;
            cursor.offset += piece_len;
            if !last {
                break;
            }
            *cursor = Cursor {
                index: cursor.index + 1,
                ..Cursor::default()
            };
            if self.apart || pieces.len() >= BATCH_PIECES {
                break;
            }
        }
        let asked: Vec<millstream_pak::Piece> = pieces.iter().map(|(_, asked)| *asked).collect();
        let options = BatchOptions {
            timeout: self.timeout,
            ..BatchOptions::default()
        };
        let whole = package
            .enqueue_pieces(self.queue, &asked, &options)
            .map(Arc::new);
        if let Ok(batch) = &whole {
            tally.requests += batch.requests() as u64;
        }
        let mut out = Vec::with_capacity(pieces.len());
        for (nth, (mut piece, asked)) in pieces.into_iter().enumerate() {
            piece.ticket = match &whole {
                Ok(batch) => Ok(Load::Together(Arc::clone(batch), nth)),
                // One of them cannot be planned: each by itself tells which.
                Err(_) => match package.enqueue_pieces(self.queue, &[asked], &options) {
                    Ok(batch) => {
                        tally.requests += batch.requests() as u64;
                        Ok(Load::Together(Arc::new(batch), 0))
                    }
                    Err(error) => Err(package::describe(package.path(), &error)),
                },
            };
            out.push(piece);
        }
        out
    }

    /// Waits for a piece, hashes and drops it, and counts its file if it was the last of it.
    fn claim(
        &mut self,
        piece: Piece,
        landing: &mut Landing,
        tally: &mut Tally,
    ) -> Result<(), Ending> {
        let found = &self.found[piece.index];
        let wanted = self.hashes.wanted();
        let mut landed = |bytes: &[u8]| {
            if wanted {
                landing.hasher.get_or_insert_default().update(bytes);
            }
        };
        let failed = match piece.ticket {
            Ok(Load::Alone(mut ticket)) => match ticket.wait() {
                Ok(bytes) => {
                    tally.bytes += bytes.len() as u64;
                    tally.stored_bytes += bytes.len() as u64;
                    landed(&bytes);
                    None
                }
                Err(error) if error == ErrorKind::Canceled => Some(NotLoaded::Canceled),
                Err(error) => Some(NotLoaded::Failed(describe(&found.path, &error))),
            },
            Ok(Load::Together(batch, nth)) => {
                let checked = batch.wait(nth).and_then(|bytes| {
                    check(&mut landing.check, found, &bytes)?;
                    Ok(bytes)
                });
                match checked {
                    Ok(bytes) => {
                        tally.bytes += bytes.len() as u64;
                        landed(&bytes);
                        None
                    }
                    Err(error) => Some(not_loaded(found, error)),
                }
            }
            Err(refused) => Some(NotLoaded::Failed(refused)),
        };
        match failed {
            None => {}
            Some(NotLoaded::Failed(failure)) => landing.fail(failure),
            Some(NotLoaded::Canceled) => {
                landing.ended.get_or_insert(NotLoaded::Canceled);
            }
        }
        if !piece.last {
            return Ok(());
        }
        let Landing { hasher, ended, .. } = std::mem::take(landing);
        match ended {
            Some(NotLoaded::Failed(failure)) => tally.failures.add_at(piece.index, failure),
            Some(NotLoaded::Canceled) => tally.canceled += 1,
            None => {
                if let Some(entry) = &found.entry {
                    let storing = entry.package.storing(entry.index);
                    tally.stored_bytes += storing.map_or(0, |storing| storing.stored_bytes);
                }
                // An entry of no bytes has a hash, too.
                let hasher = hasher.or_else(|| wanted.then(Box::default));
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

/// Why an entry of a package was not loaded.
fn not_loaded(found: &Found, error: millstream_pak::Error) -> NotLoaded {
    if error
        .engine()
        .is_some_and(|error| *error == ErrorKind::Canceled)
    {
        return NotLoaded::Canceled;
    }
    let error = match &found.entry {
        Some(entry) => entry.package.blame(entry.index, error),
        None => error,
    };
    NotLoaded::Failed(package::describe(&found.path, &error))
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
    let failure = Failure::new(error.path().unwrap_or(path).as_os_str(), cause);
    let failure = failure.kind(&error.kind());
    match error.len() {
        0 | u64::MAX => failure,
        _ => failure.at(error.offset()),
    }
}

/// Processor time of all threads of the program so far.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
