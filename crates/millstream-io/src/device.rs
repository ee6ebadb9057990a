//! The device: takes operations, gives completions.
//!
//! Siblings of one shape: [`uring`], [`threads`] and [`sim`] (and [`null`], which measures its
//! owner). One owner (the engine thread, or
//! the thread that pumps) calls a device; nothing here is shared but the [`Doorbell`].
//!
//! Invariants, the same for every device:
//! - An operation pushed is completed exactly once, by [`Device::reap`], or reported as abandoned
//!   by [`Device::shutdown`]. Its memory belongs to it from `push` until then.
//! - `push` and `submit` never wait for I/O. Nothing starts before `submit` or `wait`.
//! - A completion may be short, or fail with `EINTR` or `EAGAIN`; the owner goes on from there.
//!   Zero bytes of a read that asked for more mean the end of the file.
//! - Completions arrive in any order.

use std::time::{Duration, Instant};

use crate::error::{Errno, IoError};
use crate::memory::Region;

pub mod doorbell;
pub mod null;
pub mod sim;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;

pub use doorbell::Doorbell;

/// The owner's name for an operation; a device only carries it.
pub type OperationId = u64;

/// An open file, as the [`FileSystem`](crate::FileSystem) that opened it names it: a raw file
/// descriptor of the system, or a number of the simulator. Copyable: who holds it must keep the
/// file open while operations are in flight (the engine counts them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor(pub i32);

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

/// One piece of memory, laid out as the system's `iovec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Segment(libc::iovec);

#[expect(
    unsafe_code,
    reason = "an iovec holds a raw pointer, which is Send by the contract of push"
)]
// SAFETY: a Segment is an address and a length, it does nothing by itself; who builds an Operation
// of it promises (see Device::push) that the memory may be used from other threads until the
// completion.
unsafe impl Send for Segment {}
#[expect(
    unsafe_code,
    reason = "as above; shared references only read the address"
)]
// SAFETY: as above; through a shared reference only the two numbers can be read.
unsafe impl Sync for Segment {}

impl Segment {
    /// `len` bytes from `pointer` on.
    #[must_use]
    pub fn new(pointer: *mut u8, len: usize) -> Segment {
        Segment(libc::iovec {
            iov_base: pointer.cast(),
            iov_len: len,
        })
    }

    /// First byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where an operation's bytes go to, or come from, in file order.
pub enum Segments {
    /// One piece: the usual case, without an allocation.
    One(Segment),
    /// Up to [`SEGMENTS_MAX`](crate::limits::SEGMENTS_MAX) pieces. The vector comes back with the
    /// completion, to be used again.
    Many(Vec<Segment>),
}

impl Segments {
    /// The pieces in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Segment] {
        match self {
            Segments::One(segment) => std::slice::from_ref(segment),
            Segments::Many(segments) => segments,
        }
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Segments::One(segment) => segment.len(),
            Segments::Many(segments) => segments.iter().map(Segment::len).sum(),
        }
    }
}

/// One transfer between a file and memory.
pub struct Operation {
    /// Comes back with the completion.
    pub id: OperationId,
    /// Read or write.
    pub verb: Verb,
    /// The file, open until the completion.
    pub file: Descriptor,
    /// First byte in the file.
    pub offset: u64,
    /// The memory.
    pub segments: Segments,
    /// The transfer is likely to block or to copy much (a large buffered read): do it on a helper
    /// thread of the device (`IOSQE_ASYNC`) so that neither the owner nor other operations wait for
    /// it.
    pub offload: bool,
    /// Groups operations of which only few may be in flight at a time, because a thread may hang in
    /// them: the mount's number for slow mounts, 0 for no limit. Only `threads` looks at it.
    pub mount: u64,
}

/// The end of an operation.
pub struct Completion {
    /// The operation's id.
    pub id: OperationId,
    /// Bytes moved (maybe fewer than asked for), or the error.
    pub result: Result<usize, Errno>,
    /// The operation's memory, back with its owner.
    pub segments: Segments,
}

/// Which device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// io_uring.
    Uring,
    /// A pool of threads in `preadv`.
    Threads,
    /// The seeded simulator.
    Sim,
    /// Does nothing; for measurements.
    Null,
}

/// What [`Device::shutdown`] could not get back.
#[derive(Debug, Default, Clone)]
pub struct Abandoned {
    /// Operations that the system still holds. Their memory must never be freed or used again.
    pub operations: Vec<OperationId>,
}

/// Takes operations, gives completions. See the module's invariants.
pub trait Device: Send {
    /// Which device this is.
    fn kind(&self) -> DeviceKind;

    /// Most operations pushed and not yet reaped.
    fn depth(&self) -> usize;

    /// Operations pushed and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Takes an operation, or gives it back if `depth` is reached. Makes no system call.
    ///
    /// # Safety
    /// Every segment must be valid memory for the verb (writable and otherwise unused for a read,
    /// readable and unchanged for a write) until this operation's completion was reaped; if
    /// `shutdown` reports it as abandoned, for ever. The file must stay open as long.
    #[expect(unsafe_code, reason = "declares the contract of lending memory")]
    unsafe fn push(&mut self, operation: Operation) -> Result<(), Operation>;

    /// Starts everything pushed. Does not wait for any of it.
    ///
    /// # Errors
    /// The device is broken (the ring refuses to take entries): fatal for this device. A full
    /// completion queue is not an error; the device keeps the rest for the next call.
    fn submit(&mut self) -> Result<(), IoError>;

    /// Appends what has completed, without waiting; the number appended.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize;

    /// Starts everything pushed, then sleeps until a completion can be reaped, the doorbell rings,
    /// or the timeout passes. (With a ring both are one call to the system.)
    ///
    /// `awake` is asked once more after the doorbell has been armed; if it says true the call
    /// returns at once. (So nobody's work is slept over: who adds work rings after adding, who
    /// sleeps looks again after arming.)
    fn wait(&mut self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool);

    /// The bell that ends `wait`, for other threads.
    fn doorbell(&self) -> Doorbell;

    /// Offers memory that many operations will use, so that the device can register it with the
    /// system. Whether it did is a matter of speed alone; the number of bytes registered comes
    /// back.
    ///
    /// The device keeps the region alive.
    fn register(&mut self, region: &std::sync::Arc<Region>) -> usize;

    /// Waits until `deadline` for what is in flight, reaping into `completions`, and ends the
    /// device's threads and kernel objects. What the system still holds then is reported, and its
    /// resources are leaked.
    fn shutdown(self: Box<Self>, deadline: Instant, completions: &mut Vec<Completion>)
    -> Abandoned;
}
