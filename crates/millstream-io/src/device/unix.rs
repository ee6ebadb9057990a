//! Descriptors and `iovec` lists as the system calls of Unix take them, and the blocking calls
//! themselves.
#![expect(
    unsafe_code,
    reason = "reads and writes into memory lent as raw segments"
)]

use std::mem::{align_of, offset_of, size_of};
use std::os::fd::{IntoRawFd as _, OwnedFd, RawFd};

#[cfg(not(target_os = "linux"))]
use libc::{pread as pread64, preadv as preadv64, pwrite as pwrite64, pwritev as pwritev64};
#[cfg(target_os = "linux")]
use libc::{pread64, preadv64, pwrite64, pwritev64};

use super::{Descriptor, Operation, OwnedDescriptor, Segment, Segments, Verb};
use crate::error::Errno;
use crate::limits::OPERATION_BYTES_MAX;

// A list of segments is passed to the system as a list of `iovec`.
const _: () = assert!(size_of::<Segment>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<Segment>() == align_of::<libc::iovec>());
const _: () = assert!(offset_of!(Segment, pointer) == offset_of!(libc::iovec, iov_base));
const _: () = assert!(offset_of!(Segment, len) == offset_of!(libc::iovec, iov_len));

impl Descriptor {
    /// Returns the file descriptor; -1, for which calls fail with `EBADF`, if the number is none.
    pub(crate) fn fd(self) -> RawFd {
        RawFd::try_from(self.0).unwrap_or(-1)
    }
}

impl From<OwnedFd> for OwnedDescriptor {
    fn from(file: OwnedFd) -> OwnedDescriptor {
        let number = u64::try_from(file.into_raw_fd());
        OwnedDescriptor(Descriptor(number.expect("an owned descriptor is not -1")))
    }
}

impl Segments {
    /// Returns address and length of the list, as the system's types.
    pub(crate) fn vectors(&self) -> (*const libc::iovec, u32) {
        let (first, count) = match self {
            Segments::One(segment) => (std::ptr::from_ref(segment), 1),
            Segments::Many { first, count, .. } => (*first, *count),
        };
        (first.cast(), count)
    }
}

/// Moves the bytes of an operation, blocking, and returns the number moved.
///
/// # Safety
/// The operation's memory and list of segments are lent as for [`Device::push`], for as long as the
/// call lasts.
///
/// [`Device::push`]: super::Device::push
pub(super) unsafe fn transfer(operation: &Operation) -> Result<usize, Errno> {
    let offset = i64::try_from(operation.offset).map_err(|_| Errno::INVALID)?;
    let moved = match &operation.segments {
        Segments::One(segment) => one(operation, offset, segment),
        Segments::Many { .. } => many(operation, offset),
    };
    usize::try_from(moved).map_err(|_| Errno::last())
}

fn one(operation: &Operation, offset: i64, segment: &Segment) -> isize {
    let file = operation.file.fd();
    let pointer = segment.pointer().cast::<libc::c_void>();
    let len = segment.len().min(OPERATION_BYTES_MAX);
    match operation.verb {
        // SAFETY: the caller of `transfer` lends `len` writable bytes at `pointer`.
        Verb::Read => unsafe { pread64(file, pointer, len, offset) },
        // SAFETY: as above, readable bytes.
        Verb::Write => unsafe { pwrite64(file, pointer, len, offset) },
    }
}

/// Makes a vectored call. The kernel refuses more than 1024 segments with `EINVAL`.
fn many(operation: &Operation, offset: i64) -> isize {
    let file = operation.file.fd();
    let (vectors, count) = operation.segments.vectors();
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    match operation.verb {
        // SAFETY: `vectors` is a list of `count` segments, which the caller of `transfer` lends
        // with the writable memory they describe.
        Verb::Read => unsafe { preadv64(file, vectors, count, offset) },
        // SAFETY: as above, readable bytes.
        Verb::Write => unsafe { pwritev64(file, vectors, count, offset) },
    }
}
