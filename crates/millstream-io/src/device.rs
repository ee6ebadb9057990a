//! Devices: they take operations and return completions.
//!
//! Implementations of one trait: `uring`, `iocp`, [`threads`], [`cached`], and [`null`], which
//! measures its owner. One owner (the engine thread, or the thread that pumps) calls a
//! device; only the [`Doorbell`] is shared between threads.
//!
//! Invariants, the same for every device:
//! - An operation pushed is completed exactly once, by [`Device::reap`], or reported as abandoned
//!   by [`Device::shutdown`]. Its memory belongs to it from `push` until then.
//! - `push` and `submit` never wait for I/O. Nothing starts before `submit` or `wait`.
//! - A completion may be short, or fail with `EINTR` or `EAGAIN`; the owner continues from there.
//!   Zero bytes from a read of more than zero mean the end of the file.
//! - Completions arrive in any order.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Errno, IoError};
use crate::limits::THREADS_HOLD_NS_MAX;
use crate::memory::Region;

/// The parts of [`Device`] that devices with the fields `depth`, `in_flight` and a list of pushed
/// operations share.
macro_rules! pushes {
    ($kind:expr, $list:ident) => {
        fn kind(&self) -> $crate::device::DeviceKind {
            $kind
        }

        fn depth(&self) -> usize {
            self.depth
        }

        fn in_flight(&self) -> usize {
            self.in_flight
        }

        unsafe fn push(&mut self, operations: &[$crate::device::Operation]) -> usize {
            let count = operations.len().min(self.depth - self.in_flight);
            self.$list.extend(&operations[..count]);
            self.in_flight += count;
            count
        }
    };
}

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
#[cfg_attr(unix, path = "device/unix.rs")]
#[cfg_attr(windows, path = "device/windows.rs")]
pub(crate) mod system;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;

pub use doorbell::Doorbell;
pub use features::{FeatureMask, UringFeatures};

/// The owner's identifier of an operation; a device only passes it on.
pub type OperationId = u64;

/// The number of an open file, as operations carry it: a file descriptor or handle of the system,
/// or a number of the application's, as the [`FileSystem`](crate::FileSystem) that opened the file
/// gave it. The holder of the [`OwnedDescriptor`] keeps the file open while operations are in
/// flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor(pub(crate) u64);

impl Descriptor {
    /// Returns the descriptor with this number, for a file system of the application.
    ///
    /// # Safety
    /// Devices and file systems read and write the file with this number: it must be open and the
    /// caller entitled to use it, as with `BorrowedFd::borrow_raw` (on Windows a handle opened for
    /// overlapped I/O), or the number must refer to no file.
    #[expect(unsafe_code, reason = "declares the contract of using a file")]
    #[must_use]
    pub unsafe fn from_raw(number: u64) -> Descriptor {
        Descriptor(number)
    }

    /// Returns its number.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }
}

/// Ownership of an open file: what [`FileSystem::open`](crate::FileSystem::open) returns and
/// [`FileSystem::close`](crate::FileSystem::close) consumes, so that a file is closed once.
/// Dereferences to its number. Dropped, it leaks the file: a close may block, and report an error.
///
/// ```compile_fail,E0382
/// use millstream_io::{FileSystem, OwnedDescriptor};
/// fn close_twice(files: &dyn FileSystem, file: OwnedDescriptor) {
///     let _ = files.close(file);
///     let _ = files.close(file);
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the file stays open until its descriptor is passed to `FileSystem::close`"]
pub struct OwnedDescriptor(pub(crate) Descriptor);

impl OwnedDescriptor {
    /// In place of one that was closed.
    pub(crate) const CLOSED: OwnedDescriptor = OwnedDescriptor(Descriptor(u64::MAX));

    /// Returns the ownership of the file with this number, for a file system of the application.
    ///
    /// # Safety
    /// As [`Descriptor::from_raw`]; and nothing else owns the file, as with
    /// `OwnedFd::from_raw_fd`.
    #[expect(unsafe_code, reason = "declares the contract of owning a file")]
    pub unsafe fn from_raw(number: u64) -> OwnedDescriptor {
        OwnedDescriptor(Descriptor(number))
    }
}

impl Deref for OwnedDescriptor {
    type Target = Descriptor;
    fn deref(&self) -> &Descriptor {
        &self.0
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

/// A contiguous range of memory: an address and a length. Has the layout of the system's `iovec`,
/// where there is one (asserted at its use).
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
    /// Returns the segment of `len` bytes at `pointer`.
    #[must_use]
    pub fn new(pointer: *mut u8, len: usize) -> Segment {
        Segment { pointer, len }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The source or destination of an operation's bytes, in file order. Addresses only: the owner of
/// the device keeps the memory, and the list of `Many`, in place until the completion.
#[derive(Debug, Clone, Copy)]
pub enum Segments {
    /// A single segment: the common case.
    One(Segment),
    /// A list of up to [`SEGMENTS_MAX`](crate::limits::SEGMENTS_MAX) segments.
    Many {
        /// The first segment.
        first: *const Segment,
        /// Number of segments.
        count: u32,
        /// Total length in bytes.
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
    /// Refers to a list of segments that stays in place until the operation's completion.
    ///
    /// # Panics
    /// If the list is empty, too long, or of more than [`OPERATION_BYTES_MAX`] bytes.
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

    /// Total length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Segments::One(segment) => segment.len(),
            Segments::Many { bytes, .. } => *bytes as usize,
        }
    }

    /// Returns the segments in order.
    ///
    /// # Safety
    /// Called between the operation's push and its completion: the list of `Many` is in place then.
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

/// A transfer between a file and memory. Plain data: the owner keeps what it points to valid.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Identifies the operation; returned with its completion.
    pub id: OperationId,
    /// Read or write.
    pub verb: Verb,
    /// The file, which stays open until the completion.
    pub file: Descriptor,
    /// File offset of the first byte.
    pub offset: u64,
    /// The memory, at most [`OPERATION_BYTES_MAX`](crate::limits::OPERATION_BYTES_MAX) bytes.
    pub segments: Segments,
    /// The transfer is likely to block or to copy much (a large buffered read): it runs on a worker
    /// thread of the kernel (`IOSQE_ASYNC`), so that neither the owner nor other operations wait
    /// for it.
    pub offload: bool,
    /// The number of a mount that can hang and has threads of its own, else 0. Devices ignore it.
    pub mount: u64,
}

/// The completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The operation's id.
    pub id: OperationId,
    /// Bytes moved (possibly fewer than requested), or the negated error number.
    pub result: i64,
}

impl Completion {
    /// Returns the number of bytes moved, or the error.
    ///
    /// # Errors
    /// The error with which the operation failed.
    pub fn moved(&self) -> Result<u64, Errno> {
        u64::try_from(self.result).map_err(|_| Errno(self.result.unsigned_abs() as i32))
    }

    /// Returns the completion of an operation that moved this many bytes, or failed with an error
    /// whose number is positive.
    #[must_use]
    pub fn new(id: OperationId, moved: Result<usize, Errno>) -> Completion {
        let result = moved.map_or_else(|errno| -i64::from(errno.0), |bytes| bytes as i64);
        Completion { id, result }
    }

    /// Returns the completion of an operation that was not started.
    #[must_use]
    pub fn canceled(operation: &Operation) -> Completion {
        Completion::failed(operation.id, Errno::CANCELED)
    }

    /// Returns the completion of an operation that failed.
    pub(crate) fn failed(id: OperationId, errno: Errno) -> Completion {
        Completion::new(id, Err(errno))
    }
}

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// io_uring.
    Uring,
    /// Overlapped calls on a completion port of Windows.
    Iocp,
    /// A pool of threads that make blocking calls (`preadv`, `pwritev`).
    Threads,
    /// A device of the application.
    Custom,
    /// Copies out of the page cache.
    Cached,
    /// Transfers nothing; for measurements.
    Null,
}

/// The operations that [`Device::shutdown`] could not complete.
#[derive(Debug, Default, Clone)]
pub struct Abandoned {
    /// Operations that the system still holds. Their memory must never be freed or used again.
    pub operations: Vec<OperationId>,
}

/// Takes operations and returns completions. See the module's invariants.
pub trait Device: Send {
    /// Returns the kind of the device.
    fn kind(&self) -> DeviceKind;

    /// Maximum number of operations pushed and not yet reaped.
    fn depth(&self) -> usize;

    /// Number of operations pushed and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Takes operations from the front of `operations` until `depth` is reached, and returns how
    /// many. Makes no system call.
    ///
    /// # Safety
    /// Every segment must be valid memory for the verb (writable and otherwise unused for a read,
    /// readable and unchanged for a write), and every list of segments must stay in place, until
    /// the operation's completion is reaped; forever if `shutdown` reports the operation as
    /// abandoned. The file must stay open as long.
    #[expect(unsafe_code, reason = "declares the contract of lending memory")]
    unsafe fn push(&mut self, operations: &[Operation]) -> usize;

    /// Starts all pushed operations, without waiting for any.
    ///
    /// # Errors
    /// The device has failed permanently (the ring refuses to take entries): its owner shuts it
    /// down and uses another. A full completion queue is not an error; the device keeps the rest
    /// for the next call.
    fn submit(&mut self) -> Result<(), IoError>;

    /// Appends the available completions without waiting, and returns their number.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize;

    /// Starts all pushed operations, then sleeps until a completion can be reaped, the doorbell
    /// rings, or the timeout expires. (With a ring this is a single system call.)
    ///
    /// `awake` is called once more after the doorbell has been armed; if it returns true, this call
    /// returns at once. (So no work is missed: a thread that adds work rings after adding it, and
    /// the owner checks again after arming.)
    ///
    /// # Errors
    /// As [`Device::submit`], returned at once.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError>;

    /// Returns when `reap` will next have a completion without further events, if the device knows:
    /// one that delays completions ([`modeled`]). The owner sleeps no longer than that.
    fn next_completion_at(&self) -> Option<Instant> {
        None
    }

    /// Returns the doorbell with which other threads end `wait`.
    fn doorbell(&self) -> Doorbell;

    /// Offers memory that many operations will use, for registration with the system, and returns
    /// the number of bytes registered. Registration affects only speed.
    ///
    /// The device keeps the region alive. A device that cannot register memory returns 0.
    fn register(&mut self, region: &Arc<Region>) -> usize {
        let _ = region;
        0
    }

    /// Reaps what is in flight into `completions` until `deadline`, and ends the device's threads
    /// and kernel objects. Operations that the system still holds then are reported, and their
    /// resources are leaked.
    fn shutdown(self: Box<Self>, deadline: Instant, completions: &mut Vec<Completion>)
    -> Abandoned;
}

/// Reaps what a device has in flight, until `until` or until the device fails.
fn reap_until(device: &mut dyn Device, until: Instant, completions: &mut Vec<Completion>) {
    while device.in_flight() > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || device.wait(Some(left), &mut || false).is_err() {
            return;
        }
        device.reap(completions);
    }
}

/// Polls `ready` until it returns true or `until` is reached, at intervals that grow from 16 µs to
/// 1 ms: for an owner that must not arm the doorbell, because it belongs to another device.
pub(crate) fn poll_until(until: Option<Instant>, mut ready: impl FnMut() -> bool) {
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
