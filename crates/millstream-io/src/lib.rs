//! Devices, files and memory: the layer between Millstream's engine and the operating system.
//!
//! An [`Operation`] is pushed to a [`Device`] (`uring`, `iocp` or `threads`, implementations
//! of one trait), which moves bytes between a file opened by a [`FileSystem`] and memory of an
//! [`Arena`], a [`BufferPool`] or the caller, and returns a [`Completion`].
//!
//! Nothing here depends on requests, priorities or codecs; those are in the crate `millstream`.

/// Implements `Debug` for a type whose other fields say nothing.
macro_rules! debug {
    ($of:ident, $it:ident: $($field:ident = $value:expr),*) => {
        impl std::fmt::Debug for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let ($it, mut shown) = (self, f.debug_struct(stringify!($of)));
                shown$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub mod backend;
pub mod crew;
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
    Completion, Descriptor, Device, DeviceKind, Doorbell, Operation, OperationId, OwnedDescriptor,
    Segment, Segments, Verb,
};
pub use error::{Errno, IoError};
pub use eventfd::{BorrowedEvent, EventFd};
pub use fork::ForkGuard;
pub use fs::{
    Access, FileSystem, Identity, Known, LocalFile, MappedView, MountKind, Numbering, OpenMode,
    Opened,
};
pub use log::{Log, LogHook, LogLevel};
pub use memory::{Arena, Block, Buffer, BufferPool, Destination, Place, Region};
pub use thread::{Cores, Scheduling, ThreadSettings, available_cores};

#[cfg(test)]
millstream_testing::watch!();
