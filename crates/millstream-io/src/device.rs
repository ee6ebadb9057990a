//! The device: takes operations, gives completions.
//!
//! Siblings of one shape: `uring`, `iocp`, [`threads`] and [`sim`] (and [`null`], which measures
//! its owner). One owner (the engine thread, or
//! the thread that pumps) calls a device; nothing here is shared but the [`Doorbell`].
//!
//! Invariants, the same for every device:
//! - An operation pushed is completed exactly once, by [`Device::reap`], or reported as abandoned
//!   by [`Device::shutdown`]. Its memory belongs to it from `push` until then.
//! - `push` and `submit` never wait for I/O. Nothing starts before `submit` or `wait`.
//! - A completion may be short, or fail with `EINTR` or `EAGAIN`; the owner goes on from there.
//!   Zero bytes of a read that asked for more mean the end of the file.
//! - Completions arrive in any order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Errno, IoError};
use crate::limits::THREADS_HOLD_NS_MAX;
use crate::memory::Region;

pub mod cached;
pub mod calls;
pub mod doorbell;
#[cfg(test)]
mod fake;
mod features;
#[cfg(windows)]
pub mod iocp;
pub mod modeled;
pub mod null;
mod outbox;
pub mod sim;
#[cfg_attr(unix, path = "device/unix.rs")]
#[cfg_attr(windows, path = "device/windows.rs")]
pub(crate) mod system;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;

pub use doorbell::Doorbell;
pub use features::{FeatureMask, UringFeatures};

/// The owner's name for an operation; a device only carries it.
pub type OperationId = u64;

/// An open file, as the [`FileSystem`](crate::FileSystem) that opened it names it: a file
/// descriptor or handle of the system, or a number of the simulator. Copyable: its holder keeps the
/// file open while operations are in flight (the engine counts them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor(pub(crate) u64);

impl Descriptor {
    /// The descriptor with a number, for a file system of the application.
    ///
    /// # Safety
    /// Devices and file systems read and write the file that has this number: it is open and its
    /// use is the caller's, as with `BorrowedFd::borrow_raw` (on Windows a handle opened for
    /// overlapped calls), or it is no file's.
    #[expect(unsafe_code, reason = "declares the contract of using a file")]
    #[must_use]
    pub unsafe fn from_raw(number: u64) -> Descriptor {
        Descriptor(number)
    }

    /// Its number.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

/// One piece of memory: an address and a length. Laid out as the system's `iovec` where there is
/// one (asserted where it matters).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Segment {
    pointer: *mut u8,
    len: usize,
}

#[expect(
    unsafe_code,
    reason = "a segment holds a raw pointer, which is Send by the contract of push"
)]
// SAFETY: a Segment is an address and a length and does nothing by itself; the caller of
// Device::push promises that the memory may be used from other threads until the completion.
unsafe impl Send for Segment {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above; through a shared reference only the two numbers can be read.
unsafe impl Sync for Segment {}

impl Segment {
    /// `len` bytes from `pointer` on.
    #[must_use]
    pub fn new(pointer: *mut u8, len: usize) -> Segment {
        Segment { pointer, len }
    }

    /// First byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Where an operation's bytes go to, or come from, in file order. Addresses only: the owner of the
/// device keeps the memory, and the list of `Many`, in place until the completion.
#[derive(Debug, Clone, Copy)]
pub enum Segments {
    /// One piece: the common case.
    One(Segment),
    /// A list of 2 to [`SEGMENTS_MAX`](crate::limits::SEGMENTS_MAX) pieces.
    Many {
        /// The first of them.
        first: *const Segment,
        /// How many there are.
        count: u32,
        /// Bytes of all of them.
        bytes: u32,
    },
}

#[expect(unsafe_code, reason = "as for Segment")]
// SAFETY: as for Segment: addresses whose use the contract of Device::push allows on any thread.
unsafe impl Send for Segments {}
#[expect(unsafe_code, reason = "as for Segment")]
// SAFETY: as above.
unsafe impl Sync for Segments {}

impl Segments {
    /// The pieces of a list that stays where it is until the operation's completion.
    ///
    /// # Panics
    /// The list is empty, too long, or of more than [`OPERATION_BYTES_MAX`] bytes.
    ///
    /// [`OPERATION_BYTES_MAX`]: crate::limits::OPERATION_BYTES_MAX
    #[must_use]
    pub fn list(segments: &[Segment]) -> Segments {
        assert!(!segments.is_empty() && segments.len() <= crate::limits::SEGMENTS_MAX);
        let bytes: usize = segments.iter().map(Segment::len).sum();
        assert!(bytes <= crate::limits::OPERATION_BYTES_MAX);
        Segments::Many {
            first: segments.as_ptr(),
            count: segments.len() as u32,
            bytes: bytes as u32,
        }
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Segments::One(segment) => segment.len(),
            Segments::Many { bytes, .. } => *bytes as usize,
        }
    }

    /// The pieces in order.
    ///
    /// # Safety
    /// Between the operation's push and its completion only: the list of `Many` is in place then.
    #[expect(
        unsafe_code,
        reason = "reads the list that the contract of push keeps in place"
    )]
    #[must_use]
    pub unsafe fn as_slice(&self) -> &[Segment] {
        match self {
            Segments::One(segment) => std::slice::from_ref(segment),
            Segments::Many { first, count, .. } => {
                // SAFETY: the caller's promise; `list` took address and count from a slice.
                unsafe { std::slice::from_raw_parts(*first, *count as usize) }
            }
        }
    }
}

/// One transfer between a file and memory. Plain data: the owner keeps what it points to.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Comes back with the completion.
    pub id: OperationId,
    /// Read or write.
    pub verb: Verb,
    /// The file, open until the completion.
    pub file: Descriptor,
    /// First byte in the file.
    pub offset: u64,
    /// The memory, at most [`OPERATION_BYTES_MAX`](crate::limits::OPERATION_BYTES_MAX) bytes.
    pub segments: Segments,
    /// The transfer is likely to block or to copy much (a large buffered read): do it on a helper
    /// thread of the device (`IOSQE_ASYNC`), so that neither the owner nor other operations
    /// wait for it.
    pub offload: bool,
    /// The number of a mount that can hang, which has threads of its own; else 0. Devices do not
    /// look at it.
    pub mount: u64,
}

/// The completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The operation's id.
    pub id: OperationId,
    /// Bytes moved (maybe fewer than asked for), or the negated error number.
    pub result: i64,
}

impl Completion {
    /// Bytes moved, or the error.
    ///
    /// # Errors
    /// The operation failed.
    pub fn moved(&self) -> Result<u64, Errno> {
        u64::try_from(self.result).map_err(|_| Errno(self.result.unsigned_abs() as i32))
    }

    /// The completion of an operation that moved so many bytes, or failed.
    pub(crate) fn new(id: OperationId, moved: Result<usize, Errno>) -> Completion {
        let result = moved.map_or_else(|errno| -i64::from(errno.0), |bytes| bytes as i64);
        Completion { id, result }
    }

    /// The completion of an operation that was never begun.
    pub(crate) fn canceled(operation: &Operation) -> Completion {
        Completion::failed(operation.id, Errno::CANCELED)
    }

    /// The completion of an operation that failed.
    pub(crate) fn failed(id: OperationId, errno: Errno) -> Completion {
        Completion::new(id, Err(errno))
    }
}

/// Which device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// io_uring.
    Uring,
    /// Overlapped calls on a completion port of Windows.
    Iocp,
    /// A pool of threads in `preadv`.
    Threads,
    /// The seeded simulator.
    Sim,
    /// Copies out of the page cache.
    Cached,
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

    /// Takes operations from the front of `operations` until `depth` is reached; how many it took.
    /// Makes no system call.
    ///
    /// # Safety
    /// Every segment must be valid memory for the verb (writable and otherwise unused for a read,
    /// readable and unchanged for a write), and every list of segments in place, until the
    /// operation's completion was reaped; if `shutdown` reports it as abandoned, for ever. The file
    /// must stay open as long.
    #[expect(unsafe_code, reason = "declares the contract of lending memory")]
    unsafe fn push(&mut self, operations: &[Operation]) -> usize;

    /// Starts everything pushed. Does not wait for any of it.
    ///
    /// # Errors
    /// The device is broken for good (the ring refuses to take entries): its owner shuts it down
    /// and uses another. A full completion queue is not an error; the device keeps the rest for the
    /// next call.
    fn submit(&mut self) -> Result<(), IoError>;

    /// Appends what has completed, without waiting; the number appended.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize;

    /// Starts everything pushed, then sleeps until a completion can be reaped, the doorbell rings,
    /// or the timeout passes. (With a ring both are one call to the system.)
    ///
    /// `awake` is asked once more after the doorbell has been armed; if it says true the call
    /// returns at once. (So no work is missed: a thread that adds work rings after adding it, and
    /// the owner looks again after arming.)
    ///
    /// # Errors
    /// As [`Device::submit`]; returns at once then.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError>;

    /// When `reap` will have something without anything else happening, if the device knows: a
    /// device that delays completions ([`modeled`]). The owner sleeps no longer than that.
    fn next_completion_at(&self) -> Option<Instant> {
        None
    }

    /// The bell that ends `wait`, for other threads.
    fn doorbell(&self) -> Doorbell;

    /// Offers memory that many operations will use, so that the device can register it with the
    /// system. Whether it did is a matter of speed alone; the number of bytes registered comes
    /// back.
    ///
    /// The device keeps the region alive. One that cannot register memory returns 0.
    fn register(&mut self, region: &Arc<Region>) -> usize {
        let _ = region;
        0
    }

    /// Waits until `deadline` for what is in flight, reaping into `completions`, and ends the
    /// device's threads and kernel objects. What the system still holds then is reported, and its
    /// resources are leaked.
    fn shutdown(self: Box<Self>, deadline: Instant, completions: &mut Vec<Completion>)
    -> Abandoned;
}

/// Takes what a device has in flight as it completes, until the time or until the device breaks.
fn reap_until(device: &mut dyn Device, until: Instant, completions: &mut Vec<Completion>) {
    while device.in_flight() > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || device.wait(Some(left), &mut || false).is_err() {
            return;
        }
        device.reap(completions);
    }
}

/// Waits until `ready` or the time, looking soon at first and then once a millisecond: for an owner
/// that must not arm the bell, because it belongs to another device.
fn poll_until(until: Option<Instant>, mut ready: impl FnMut() -> bool) {
    let mut step = Duration::from_micros(16);
    while !ready() {
        let left = until.map_or(step, |until| {
            until.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(step));
        step = Duration::from_nanos(THREADS_HOLD_NS_MAX).min(step * 2);
    }
}
