//! Devices, files and memory: the only crate of Millstream that talks to the operating system.
//!
//! The way of the data through this crate: an [`Operation`] is pushed to a [`Device`]
//! (`uring`, `threads` or `sim`, siblings of one shape), which moves bytes between a file that a
//! [`FileSystem`] opened and memory from a [`Arena`] or a [`BufferPool`] (or the caller's own),
//! and gives the operation back as a [`Completion`].
//!
//! Nothing here knows of requests, priorities or codecs; that is the crate `millstream`.

pub mod device;
pub mod error;
pub mod fs;
pub mod limits;
pub mod memory;

pub use device::{
    Completion, Descriptor, Device, DeviceKind, Doorbell, Operation, OperationId, Segment,
    Segments, Verb,
};
pub use error::{Errno, IoError};
pub use fs::{FileSystem, Identity, MountKind, OpenMode, Opened};
pub use memory::{Arena, Block, Buffer, BufferPool, Region};
