//! Millstream: requests name bytes in storage, how they are encoded, and where they must land.
//! Millstream lands them there as fast as the hardware allows, and says when.
//!
//! An open, portable DirectStorage: batched queues over io_uring (or threads, where it is refused),
//! priorities and deadlines, cancellation, gates and fences, decoding on the workers, bounded
//! memory.
//!
//! The way of the data, and the module of each station:
//!
//! ```text
//! Request → Queue → Scheduler → Device → Staging → Codec → Destination → Completion
//! request   queue   scheduler   engine   engine    job     destination   ticket, group, fence,
//!                               ::issue  ::staged  codec                 status, event
//! ```
//!
//! # Example
//!
//! ```
//! use millstream::{Priority, QueueOptions, Request, Storage, StorageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-doc-{}", std::process::id()));
//! # std::fs::write(&path, vec![7u8; 100_000])?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open(&path); // an id at once; workers open it
//! let head = queue.enqueue(Request::read(file, 0, 4096).priority(Priority::High))?;
//! let all = queue.enqueue(Request::read_file(file))?;
//! queue.submit();
//! assert_eq!(head.wait()?.into_buffer().len(), 4096);
//! assert_eq!(all.wait()?.into_buffer().len(), 100_000);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod cells;
pub mod codec;
mod copies;
pub mod destination;
mod engine;
mod entries;
pub mod error;
pub mod event;
pub mod fence;
pub mod files;
pub mod group;
pub mod histogram;
mod job;
pub mod limits;
pub mod local;
mod offer;
pub mod options;
mod park;
pub mod queue;
pub mod request;
mod scheduler;
mod sequence;
pub mod source;
pub mod stats;
pub mod status;
pub mod storage;
pub mod ticket;
pub mod trace;
mod turns;
pub mod view;
mod waiters;
mod worker;

pub use destination::{Landed, Landing, Place};
pub use error::{Error, ErrorKind};
pub use event::Event;
pub use fence::Fence;
pub use files::{Access, FileId, FileInfo, FileOptions, Opening};
pub use group::{Counter, Group, Progress};
pub use histogram::Histogram;
pub use local::LocalFile;
pub use millstream_codec::{CodecId, Dictionary};
pub use millstream_io::fs::Beside;
pub use millstream_io::{Buffer, BufferPool, DeviceKind};
pub use options::{Backend, JobSystem, LogLevel, PortableJob, StorageOptions, ThreadOptions};
pub use queue::{ErrorRecord, Queue, QueueOptions, Rejected};
pub use request::{BlockEntry, Gate, OtherBytes, Priority, Request};
pub use source::{Folder, Located, Source};
pub use stats::Stats;
pub use status::StatusArray;
pub use storage::{CloseReport, Storage};
pub use ticket::{CancelOnDrop, Done, Failed, Ticket};
pub use trace::Trace;
pub use view::MappedView;
