//! Blocking system calls on threads of their own: opens, lengths, closes, syncs, renames, reads and
//! writes for which the kernel could start no thread of a ring, and blocking code of the owner.
//!
//! Four [crews](crate::crew): opens; short calls on open files (close, len, content, transfer);
//! long calls (sync, rename, remove, replace, prefetch); and code of the owner (run). So a save
//! never delays an open, and opens or code that hang stop no other kind of call. Each call
//! completes on its own, and counts as hung after [`CALLS_HUNG_NS`].
//!
//! Answers of fast calls are held back while many calls wait, so that the owner wakes for several
//! at once ([`CALLS_HOLD_MAX`](crate::limits::CALLS_HOLD_MAX)); not when none waits, nor when a
//! call was urgent or slow, nor when the crew has all its threads. If no thread can be started, or
//! the storage has none, `reap` makes the calls.
//!
//! Invariant: each call is answered exactly once, by `reap` or `shutdown`, or `shutdown` returns
//! its id as hung. A panic of a custom file system or of code of the owner is an `EIO` of its call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{Completion, Descriptor, Doorbell, Operation, OwnedDescriptor, Segment, poll_until};
use crate::crew::{Crew, CrewOptions};
use crate::error::IoError;
use crate::fs::{Access, FileSystem, Known, MappedView, OpenMode, Opened};
use crate::limits::{CALLS_CLOSE_THREADS, CALLS_HUNG_NS, CALLS_LONG_THREADS, CALLS_THREADS_MAX};
use crate::thread::{ThreadSettings, available_cores};
use execute::execute;
use work::{Entry, Maker};

mod execute;
mod offer;
mod work;

pub use offer::{Offer, OfferMemory, OfferRead, OfferToken};

/// Options of a [`Calls`].
pub struct CallsOptions {
    /// The file system that the calls are made on.
    pub fs: Arc<dyn FileSystem>,
    /// The bell of the device that the owner sleeps in.
    pub bell: Doorbell,
    /// Settings of the threads.
    pub threads: ThreadSettings,
    /// Start no thread: `reap` makes the calls. For a storage without threads.
    pub inline: bool,
}

/// A blocking call.
pub enum Call {
    /// Opens a file.
    Open(Box<OpenCall>),
    /// Closes a file.
    Close(OwnedDescriptor),
    /// Looks at what a path leads to, without opening it.
    Look(Arc<Path>),
    /// Closes a file that is opened again when it is needed.
    LetGo(Box<LetGoCall>),
    /// Queries the length of an open file.
    Len(Descriptor),
    /// Reads an open file that reports no length (procfs) to its end, up to 64 MiB.
    Content(Descriptor),
    /// Makes written data durable.
    Sync {
        /// The open file.
        file: Descriptor,
        /// Only the data and the length (`fdatasync`).
        data_only: bool,
    },
    /// Renames a file durably.
    Rename {
        /// Its current path.
        from: PathBuf,
        /// Its new path.
        to: PathBuf,
    },
    /// Removes a file's name.
    Remove {
        /// Its path.
        path: PathBuf,
    },
    /// Replaces a file's content atomically.
    Replace {
        /// Its path.
        path: PathBuf,
        /// The content, lent until the call is answered.
        content: Segment,
    },
    /// Reads or writes.
    Transfer(Operation),
    /// Loads a range of a view into memory.
    Prefetch {
        /// The view.
        view: Arc<MappedView>,
        /// Start of the range, relative to the view.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Runs code that may block. Canceled, it is dropped instead.
    Run(Box<dyn FnOnce() + Send>),
}

/// A close of a file that can be opened again by its path. If the path no longer leads to the file
/// (it was renamed, replaced or unlinked), the file stays open.
#[derive(Debug)]
pub struct LetGoCall {
    /// The buffered descriptor.
    pub file: OwnedDescriptor,
    /// The direct descriptor, if it is open.
    pub direct: Option<OwnedDescriptor>,
    /// The path.
    pub path: Arc<Path>,
    /// Keep it open if the file system does not say what identifies files.
    pub certain: bool,
}

/// What became of a [`LetGoCall`].
#[derive(Debug)]
pub enum LetGoAnswer {
    /// It stays open.
    Kept(LetGoCall),
    /// It was closed.
    Closed {
        /// By what it is recognized, if the file system says so.
        known: Option<Known>,
        /// The error of the close, if it failed.
        result: Result<(), IoError>,
    },
}

/// An open of the buffered descriptor, and of the direct one if the file gets one.
pub struct OpenCall {
    /// The path.
    pub path: Arc<Path>,
    /// How to open; `direct` is ignored.
    pub mode: OpenMode,
    /// Open the buffered descriptor, and the direct one as `access` says; else only the direct one.
    pub buffered: bool,
    /// How the file will be read: `Direct` opens the direct descriptor where there is direct I/O,
    /// `Buffered` never does, `Auto` does if the file is long and not cached.
    pub access: Access,
    /// With [`Access::Auto`], the minimum length of a file that gets a direct descriptor.
    pub direct_from: u64,
    /// What a reopened name must still lead to; else the open fails with `ESTALE`, and never
    /// creates or truncates anything.
    pub expected: Option<Known>,
    /// Files that are open to read only, and to be opened once more after this open for writing:
    /// descriptors of before may lead to another file then ([`Numbering::Layered`]).
    ///
    /// [`Numbering::Layered`]: crate::Numbering::Layered
    pub renew: Vec<Known>,
    /// A range to read at once if it is cached.
    pub offer: Option<Offer>,
    /// Close the file again once that is read, if the file system says what identifies it.
    pub close_read: bool,
}

/// A call's answer, with its id.
#[derive(Debug)]
pub struct CallDone {
    /// The id that the call was pushed with.
    pub id: u64,
    /// The answer.
    pub answer: CallAnswer,
}

/// The answer of a call.
#[derive(Debug)]
pub enum CallAnswer {
    /// The answer of an open.
    Opened(Box<OpenAnswer>),
    /// What a path leads to.
    Known(Result<Known, IoError>),
    /// The answer of a [`LetGoCall`].
    LetGo(Box<LetGoAnswer>),
    /// The answer of a query for a length.
    Len(Result<u64, IoError>),
    /// The content of a file read to its end.
    Content(Result<Vec<u8>, IoError>),
    /// The completion of a transfer.
    Moved(Completion),
    /// The answer of any other call.
    Done(Result<(), IoError>),
}

/// The outcome of an open.
#[derive(Debug)]
pub struct OpenAnswer {
    /// The file, if its buffered descriptor was to be opened. Its `direct` is `None` also if that
    /// needs more than [`MEMORY_ALIGNMENT`](crate::limits::MEMORY_ALIGNMENT).
    pub opened: Option<Result<Opened, IoError>>,
    /// The direct descriptor, if its open was tried.
    pub direct: Option<Result<OwnedDescriptor, IoError>>,
    /// The bytes read for the offer, if it was used.
    pub read: Option<OfferRead>,
    /// The file was closed again ([`OpenCall::close_read`]), with this result: its descriptor
    /// means nothing any more.
    pub closed: Option<Result<(), IoError>>,
    /// The descriptors that [`OpenCall::renew`] asks for: none for files that the path did not lead
    /// to before, and for those that could not be opened.
    pub renewed: Vec<Option<OwnedDescriptor>>,
    /// How long the call took, in nanoseconds.
    pub spent_ns: u64,
}

/// Number of crews.
const CREWS: usize = 4;

/// Makes blocking calls. See the module.
pub struct Calls {
    /// By [`Call::crew`].
    crews: [Crew<Maker>; CREWS],
    fs: Arc<dyn FileSystem>,
    done: Arc<Outbox<CallDone>>,
    /// Pushed, not yet submitted, per crew.
    pushed: [Vec<Entry>; CREWS],
    in_flight: usize,
}

impl Calls {
    /// Makes the device. Starts no thread yet.
    #[must_use]
    pub fn new(options: CallsOptions) -> Calls {
        let done = Arc::new(Outbox::new(0));
        // Querying the number of cores takes a dozen system calls.
        let cores = match options.inline {
            true => 1,
            false => available_cores().clamp(2, CALLS_THREADS_MAX / 2),
        };
        let crew = |(name, base)| {
            let own = CrewOptions {
                name,
                base,
                most: if options.inline { 0 } else { CALLS_THREADS_MAX },
                hung: Some(Duration::from_nanos(CALLS_HUNG_NS)),
                ..CrewOptions::default()
            };
            let maker = Maker {
                fs: Arc::clone(&options.fs),
                bell: options.bell.clone(),
                settings: options.threads.clone(),
                done: Arc::clone(&done),
                fast: AtomicUsize::new(0),
            };
            Crew::new(&own, maker)
        };
        let crews = [
            ("ms-open-", cores),
            ("ms-close-", CALLS_CLOSE_THREADS),
            ("ms-save-", CALLS_LONG_THREADS),
            ("ms-run-", cores),
        ];
        Calls {
            crews: crews.map(crew),
            done,
            fs: options.fs,
            pushed: Default::default(),
            in_flight: 0,
        }
    }

    /// Adds a call; urgent calls overtake others of their crew. Makes no system call.
    ///
    /// # Safety
    /// Memory that the call refers to ([`Call::Replace`]) must be readable and unchanged until the
    /// call is answered; forever if `shutdown` returns its id. For a [`Call::Transfer`] the
    /// contract of [`Device::push`](super::Device::push) holds. Memory lent by an offer must be
    /// writable and otherwise unused until the answer or until its token is withdrawn. Descriptors
    /// must be open, and stay so; a close takes over its descriptor.
    #[expect(unsafe_code, reason = "declares the contract of lending memory")]
    pub unsafe fn push(&mut self, id: u64, urgent: bool, call: Call) {
        self.in_flight += 1;
        self.pushed[call.crew()].push(Entry { id, urgent, call });
    }

    /// Hands everything pushed to the threads. Wakes or starts at most one thread of each crew;
    /// that thread wakes the next.
    pub fn submit(&mut self) {
        for (crew, pushed) in self.crews.iter().zip(&mut self.pushed) {
            if !pushed.is_empty() {
                crew.add(|list| list.add(pushed));
            }
        }
    }

    /// Has an open that was pushed overtake others, if no thread has begun it.
    pub fn hurry(&mut self, id: u64) {
        self.submit();
        self.crews[0].with(|list, _| list.hurry(id));
    }

    /// Appends the available answers, and returns their number. Without threads, makes the calls.
    pub fn reap(&mut self, into: &mut Vec<CallDone>) -> usize {
        if self.in_flight == 0 {
            return 0;
        }
        let before = into.len();
        self.collect(into);
        let count = into.len() - before;
        self.in_flight -= count;
        count
    }

    /// Makes the calls that no thread will make, and takes the answers of others.
    fn collect(&self, into: &mut Vec<CallDone>) {
        let mut own = Vec::new();
        for crew in &self.crews {
            crew.stranded(&mut own);
        }
        for Entry { id, call, .. } in own {
            let answer = execute(self.fs.as_ref(), call);
            into.push(CallDone { id, answer });
        }
        self.done.take(into);
    }

    /// Returns the number of calls pushed and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether answers can be reaped, or calls wait for `reap` to make them; checked before
    /// sleeping.
    #[must_use]
    pub fn has_done(&self) -> bool {
        self.done.has_any() || self.crews.iter().any(Crew::is_stranded)
    }

    /// Ends the device. Opens, lengths, contents, transfers, prefetches and code that have not
    /// begun are answered with `ECANCELED` at once, other calls if they have not begun by the
    /// deadline.
    /// Returns the ids of calls that still hang: their threads and memory are leaked, and
    /// descriptors that they open are closed again. Closes that have not begun are made by the
    /// threads, later; a [`LetGoCall`] gives its descriptors back.
    pub fn shutdown(mut self, deadline: Instant, into: &mut Vec<CallDone>) -> Vec<u64> {
        if self.crews[0].is_child() {
            return Vec::new();
        }
        self.submit();
        for crew in &self.crews {
            crew.stop();
            let idle = crew.with(|list, _| list.take_where(|call| call.is_idle()));
            into.extend(idle.into_iter().map(Entry::cancel));
        }
        poll_until(Some(deadline), || {
            self.collect(into);
            self.crews.iter().all(Crew::is_idle)
        });
        let mut hung = Vec::new();
        for crew in &self.crews {
            let (rest, running) = crew.end(work::Waiting::end);
            into.extend(rest);
            hung.extend(running);
        }
        self.done.take(into);
        hung
    }
}

impl Drop for Calls {
    /// Waits for no call: those that wait are not made, but closes, and what is answered later is
    /// discarded.
    fn drop(&mut self) {
        if self.crews[0].is_child() {
            return;
        }
        let mut answers = Vec::new();
        for crew in &self.crews {
            answers.extend(crew.end(work::Waiting::end).0);
        }
        self.done.take(&mut answers);
        for CallDone { answer, .. } in answers {
            answer.discard(self.fs.as_ref());
        }
    }
}

#[cfg(test)]
mod tests;
