//! Devices, files and memory: the only crate of Millstream that talks to the operating system.
//!
//! An [`Operation`] is pushed to a [`Device`] (`uring`, `iocp`, `threads` or `sim`, siblings of one
//! shape), which moves bytes between a file that a [`FileSystem`] opened and memory of an
//! [`Arena`], a [`BufferPool`] or the caller, and returns a [`Completion`].
//!
//! Nothing here knows of requests, priorities or codecs; that is the crate `millstream`.

pub mod backend;
pub mod device;
pub mod error;
pub mod eventfd;
pub mod fork;
pub mod fs;
pub mod limits;
pub mod log;
pub mod memory;
#[cfg(windows)]
mod system;
pub mod thread;

pub use backend::{Backend, DeviceMaker};
pub use device::modeled::DiskModel;
pub use device::{
    Completion, Descriptor, Device, DeviceKind, Doorbell, Operation, OperationId, Segment,
    Segments, Verb,
};
pub use error::{Errno, IoError};
pub use eventfd::{BorrowedEvent, EventFd};
pub use fork::ForkGuard;
pub use fs::{Access, FileSystem, Identity, LocalFile, MappedView, MountKind, OpenMode, Opened};
pub use log::{Log, LogHook, LogLevel};
pub use memory::{Arena, Block, Buffer, BufferPool, Destination, Place, Region};
pub use thread::{Cores, Scheduling, ThreadSettings, available_cores};
