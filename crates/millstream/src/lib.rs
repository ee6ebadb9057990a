//! Asynchronous storage I/O: a request names a range of a file, its encoding and its destination;
//! the engine reads it, decodes it into the destination and reports the completion.
//!
//! A portable counterpart of DirectStorage: batched queues over io_uring (or threads, where it is
//! refused), priorities and deadlines, cancellation, fences, decoding on worker threads, bounded
//! memory.
//!
//! # In five minutes
//!
//! | you have | you write | you get |
//! |---|---|---|
//! | a path | [`Storage::open`] | a [`FileId`], at once; the file is opened in the background |
//! | a range of a file | [`Read::range`] | a request: a plain value |
//! | a request | [`Queue::submit`], or [`Batch::add`] for many | a [`Ticket`] |
//! | a ticket | [`Ticket::wait`], `.await`, [`Ticket::cancel`] | the bytes, or an [`Error`] |
//! | many requests | [`Group`], [`Fence`], [`StatusArray`] | one completion for all of them |
//! | a frame loop | [`Batch::post`], [`Queue::drain_completions`] | one call a frame for all |
//!
//! Everything else is a property of a request: [`Read::decode`], [`Read::into`],
//! [`Read::priority`], [`Read::deadline`], [`Read::after`] and so on. [`Write`] and [`FileOp`]
//! share priority, deadline, fences, groups and tags.
//!
//! # Example
//!
//! ```
//! use millstream::{Priority, QueueOptions, Read, Storage, StorageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-doc-{}", std::process::id()));
//! # std::fs::write(&path, vec![7u8; 100_000])?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open(&path, Default::default());
//!
//! let mut batch = queue.batch();
//! let mut head = batch.add(Read::range(file, 0, 4096).priority(Priority::High))?;
//! let mut all = batch.add(Read::whole(file))?;
//! batch.submit();
//!
//! assert_eq!(head.wait()?.len(), 4096);
//! assert_eq!(all.wait()?.len(), 100_000);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Options
//!
//! Options are structs with public fields, made by `default()` and then set. Most are
//! `#[non_exhaustive]`, so that fields may be added: an expression that ends with
//! `..Default::default()` does not compile for these (E0639).
//!
//! ```
//! use millstream::{Priority, QueueOptions, StorageOptions};
//!
//! # fn main() -> Result<(), millstream::Error> {
//! let mut options = StorageOptions::default();
//! options.depth = 64;
//! options.threads.workers = Some(2);
//! let storage = millstream::Storage::new(options)?;
//! let mut options = QueueOptions::default();
//! (options.priority, options.capacity) = (Priority::High, 1024);
//! let streaming = storage.queue(options)?;
//! # assert_eq!(streaming.live(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! # The route of a request
//!
//! ```text
//! Request → Queue → Scheduler → Device → Staging → Codec → Destination → Completion
//! request   batch   scheduler   engine   staging   decode  destination   ticket, group, fence,
//!           queue               transfers                                status, completion queue
//! ```

#[cfg(test)]
millstream_testing::watch!();

/// Compiles the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod caller;
mod decode;
mod engine;
mod error;
mod handover;
mod ids;
pub mod limits;
#[cfg(all(test, model))]
mod models;
mod options;
mod priority;
mod start;
mod stats;
mod sync;
mod trace;

pub use caller::batch::{Batch, Queue, Refused};
pub use caller::destination::{FileInfo, FileOptions};
pub use caller::fence::Fence;
pub use caller::group::Group;
pub use caller::request::{FileOp, Read, Request, Write};
pub use caller::sink::{DevicePart, DeviceSink, PartForm};
pub use caller::status::StatusArray;
pub use caller::storage::Storage;
pub use caller::ticket::{Outcome, Ticket};
pub use caller::waits::WaitsFor;
pub use decode::jobs::{Codec, Job};
pub use decode::spec::{BlockSource, BlockTable, Decode, RequestDecoder};
pub use error::{Error, ErrorKind};
pub use handover::mailbox::CloseReport;
pub use handover::slots::{Completion, Delivery};
pub use handover::waiters::Reached;
pub use ids::FileId;
pub use options::{JobSystem, QueueOptions, StorageOptions, ThreadOptions};
pub use priority::Priority;
pub use stats::Stats;
pub use trace::Trace;

pub use millstream_codec::{CodecError, CodecErrorKind, CodecId, Progress, Scratch, StreamDecoder};
pub use millstream_io::fs::{AtomicFile, LocalFile};
pub use millstream_io::log::{LogHook, LogLevel};
pub use millstream_io::memory::{Region, RegionAllocator};
pub use millstream_io::thread::{Cores, Scheduling, ThreadSettings};
pub use millstream_io::{
    Access, Backend, Buffer, BufferPool, Destination, DeviceKind, DeviceMaker, DiskModel, Identity,
    IoError, MappedView, Place,
};
