//! System calls that may block, on threads of their own: opens, lengths, closes, syncs, names.
//!
//! Three crews of threads: opens, short calls on open files (close, len), and long calls (sync,
//! rename, remove, commit, replace, prefetch), so that a save never delays an open, and opens that
//! hang stop no other call. Each call completes singly.
//!
//! - **Hung calls.** A call that has run for [`CALLS_HUNG_NS`](crate::limits::CALLS_HUNG_NS) no
//!   longer counts against its crew: another thread takes its place, up to
//!   [`CALLS_THREADS_MAX`](crate::limits::CALLS_THREADS_MAX), and the surplus ends when the call
//!   returns. While calls wait behind busy threads, one thread more sleeps until the next of those
//!   would count as hung: nothing is polled, and no push of the owner is needed.
//! - **Answers are held back** while [`CALLS_HOLD_RATIO`](crate::limits::CALLS_HOLD_RATIO) times as
//!   many calls wait, so that the owner wakes for several at once; not when none waits, nor when
//!   the crew has all its threads, which may all hang in their next calls.
//! - **Threads** start when there is work, and stay. If not even one can be started, or the storage
//!   has no threads, `reap` makes the calls.
//!
//! Invariant: each call is answered exactly once, by `reap` or `shutdown`, or `shutdown` reports
//! its id as hung. A panic of a custom file system is an `EIO` of its call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::{Descriptor, Doorbell, Segment, poll_until};
use crate::error::IoError;
use crate::fork::ForkGuard;
use crate::fs::{Access, FileSystem, MappedView, OpenMode, Opened};
use crate::thread::ThreadSettings;
use queue::Entry;
use shared::Shared;

mod execute;
mod offer;
mod queue;
mod shared;

pub use offer::{Offer, OfferMemory, OfferRead, OfferToken};

/// How to make a [`Calls`].
pub struct CallsOptions {
    /// What the calls are made on.
    pub fs: Arc<dyn FileSystem>,
    /// The bell of the device that the owner sleeps in.
    pub bell: Doorbell,
    /// Policy of the threads.
    pub threads: ThreadSettings,
    /// Start no thread: `reap` makes the calls. For a storage without threads.
    pub inline: bool,
}

/// One blocking call.
pub enum Call {
    /// Opens a file.
    Open(Box<OpenCall>),
    /// Closes a file.
    Close(Descriptor),
    /// Asks for the length of an open file.
    Len(Descriptor),
    /// Reads an open file that reports no length (procfs) to its end, up to 64 MiB.
    Content(Descriptor),
    /// Makes what was written durable.
    Sync {
        /// The open file.
        file: Descriptor,
        /// Only the bytes and the length (`fdatasync`).
        data_only: bool,
    },
    /// Renames a file durably.
    Rename {
        /// Its name.
        from: PathBuf,
        /// Its new name.
        to: PathBuf,
    },
    /// Removes a file's name.
    Remove {
        /// The name.
        path: PathBuf,
    },
    /// Replaces a file's content as a whole.
    Replace {
        /// Its name.
        path: PathBuf,
        /// The content, lent until the answer.
        content: Segment,
    },
    /// Brings a range of a view into memory.
    Prefetch {
        /// The view.
        view: Arc<MappedView>,
        /// First byte, counted from the view's beginning.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// An open: the descriptor for the page cache, and the direct one if the file is to have it.
pub struct OpenCall {
    /// The name.
    pub path: Arc<Path>,
    /// How to open; `direct` is ignored.
    pub mode: OpenMode,
    /// Open the descriptor for the page cache, and the direct one as `access` says; else the direct
    /// one only.
    pub buffered: bool,
    /// How the file will be read: `Direct` opens the direct descriptor where there is direct I/O,
    /// `Buffered` never, `Auto` if the file is long and not cached.
    pub access: Access,
    /// With [`Access::Auto`], the length from which a file gets its direct descriptor.
    pub direct_from: u64,
    /// Device and inode that a reopened name must still have; else the open fails with `ESTALE`,
    /// and never creates or truncates anything.
    pub expected: Option<(u64, u64)>,
    /// A range to be read at once if it is cached.
    pub offer: Option<Offer>,
}

/// An answered call.
#[derive(Debug)]
pub struct CallDone {
    /// The id it was pushed with.
    pub id: u64,
    /// Its answer.
    pub answer: CallAnswer,
}

/// The answer of a call.
#[derive(Debug)]
pub enum CallAnswer {
    /// Of an open.
    Opened(Box<OpenAnswer>),
    /// Of a question for a length.
    Len(Result<u64, IoError>),
    /// Of a file read to its end.
    Content(Result<Vec<u8>, IoError>),
    /// Of any other call.
    Done(Result<(), IoError>),
}

/// What an open brought.
#[derive(Debug)]
pub struct OpenAnswer {
    /// The file, if its descriptor for the page cache was to be opened. Without direct I/O if that
    /// needs more than [`MEMORY_ALIGNMENT`](crate::limits::MEMORY_ALIGNMENT).
    pub opened: Option<Result<Opened, IoError>>,
    /// The direct descriptor, if it was tried.
    pub direct: Option<Result<Descriptor, IoError>>,
    /// The offer's bytes, if it was used.
    pub read: Option<OfferRead>,
    /// How long the call took.
    pub spent_ns: u64,
}

/// Makes blocking calls. See the module.
pub struct Calls {
    shared: Arc<Shared>,
    /// Pushed, not submitted, for each crew.
    pushed: [Vec<Entry>; 3],
    in_flight: usize,
    guard: ForkGuard,
}

impl Calls {
    /// Makes the device. Starts no thread yet.
    #[must_use]
    pub fn new(options: CallsOptions) -> Calls {
        Calls {
            shared: Arc::new(Shared::new(options)),
            pushed: Default::default(),
            in_flight: 0,
            guard: ForkGuard::new(),
        }
    }

    /// Adds a call; urgent ones overtake others of their crew. Makes no system call.
    ///
    /// # Safety
    /// Memory that the call names ([`Call::Replace`]) must be readable and unchanged until the call
    /// is answered; if `shutdown` reports its id, for ever. Memory lent by an offer must be
    /// writable and otherwise unused until the answer or until its token was withdrawn. Descriptors
    /// must be open, and stay so; a close gives its descriptor up.
    #[expect(unsafe_code, reason = "declares the contract of lending memory")]
    pub unsafe fn push(&mut self, id: u64, urgent: bool, call: Call) {
        self.in_flight += 1;
        self.pushed[call.crew()].push(Entry { id, urgent, call });
    }

    /// Hands everything pushed to the threads. Wakes or starts at most one thread of each crew; it
    /// wakes the next.
    pub fn submit(&mut self) {
        for (crew, pushed) in self.pushed.iter_mut().enumerate() {
            if !pushed.is_empty() {
                self.shared.add(crew, pushed);
            }
        }
    }

    /// Appends the answers that have come; how many. Where there are no threads it makes the calls.
    pub fn reap(&mut self, into: &mut Vec<CallDone>) -> usize {
        if self.in_flight == 0 {
            return 0;
        }
        let before = into.len();
        self.shared.attend(into);
        self.shared.done.take(into);
        let count = into.len() - before;
        self.in_flight -= count;
        count
    }

    /// Calls pushed and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether answers can be reaped, or calls wait for `reap` to make them. For a look before
    /// sleeping.
    #[must_use]
    pub fn has_done(&self) -> bool {
        self.shared.done.has_any() || self.shared.is_inline_due()
    }

    /// Ends the device. Opens, lengths and prefetches that no thread has begun are answered with
    /// `ECANCELED` at once, other calls if they have not begun by the deadline. Returns the ids of
    /// calls that still hang: their threads and memory are left behind, and descriptors that they
    /// open are closed again. A close that was not begun leaks its descriptor.
    pub fn shutdown(mut self, deadline: Instant, into: &mut Vec<CallDone>) -> Vec<u64> {
        if self.guard.is_child() {
            return Vec::new();
        }
        self.submit();
        self.shared.stop(into);
        poll_until(Some(deadline), || {
            self.shared.attend(into);
            self.shared.done.take(into);
            self.shared.is_empty()
        });
        self.shared.close(into)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // In a forked child the threads do not exist, and one of them may have held a lock. After a
        // shutdown this finds nothing.
        if !self.guard.is_child() {
            self.shared.abandon();
        }
    }
}

#[cfg(test)]
mod tests;
