//! Mappings on Unix.
#![expect(unsafe_code, reason = "maps and unmaps files")]

use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::device::Descriptor;
use crate::error::IoError;
use crate::fs::explain;
use crate::fs::unix::{borrow, len_of};

/// The granularity of a mapping's file offset.
pub(super) fn granularity() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the length of an open file.
pub(super) fn len(descriptor: Descriptor) -> Result<u64, IoError> {
    len_of(borrow(&descriptor).map_err(|errno| explain("mmap", errno))?)
}

/// Maps `len` bytes of an open file for reading, at an offset that is a multiple of the
/// granularity.
pub(super) fn map(descriptor: Descriptor, offset: u64, len: usize) -> Result<NonNull<u8>, IoError> {
    let file = borrow(&descriptor).map_err(|errno| explain("mmap", errno))?;
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps no existing memory.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            offset,
        )
    };
    let base = base.map_err(|errno| match errno {
        Errno::NODEV => IoError::because("mmap", errno, "the file system cannot map files"),
        _ => explain("mmap", errno),
    })?;
    Ok(NonNull::new(base.cast()).expect("mmap never answers with address zero"))
}

/// Unmaps what `map` returned. This cannot fail for such a range.
///
/// # Safety
/// Address and length are those of one call of `map`, and the memory is no longer used.
pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: by the contract of this function.
    let _ = unsafe { munmap(base.as_ptr().cast(), len) };
}

/// Loads whole pages into memory.
///
/// # Safety
/// The range is within a mapping.
pub(super) unsafe fn populate(address: NonNull<u8>, len: usize) -> Result<(), IoError> {
    // SAFETY: by the contract of this function.
    match unsafe { advise(address, len, populating()) } {
        Ok(()) => Ok(()),
        // The advice is unknown before Linux 5.14. (The range is valid, so it cannot be the cause.)
        Err(Errno::INVAL) => {
            // SAFETY: as above.
            let advised = unsafe { advise(address, len, Advice::WillNeed) };
            advised.map_err(|errno| explain("madvise", errno))
        }
        Err(errno) if is_lost(errno) => {
            let cause = "the file has become shorter, or its device failed";
            Err(IoError::because("populate", errno, cause))
        }
        Err(errno) => Err(explain("populate", errno)),
    }
}

#[cfg(target_os = "linux")]
fn populating() -> Advice {
    Advice::LinuxPopulateRead
}

#[cfg(not(target_os = "linux"))]
fn populating() -> Advice {
    Advice::WillNeed
}

fn is_lost(errno: Errno) -> bool {
    #[cfg(target_os = "linux")]
    if errno == Errno::HWPOISON {
        return true;
    }
    errno == Errno::FAULT
}

/// # Safety
/// The range is within a mapping, and the advice changes none of its content.
unsafe fn advise(address: NonNull<u8>, len: usize, advice: Advice) -> Result<(), Errno> {
    loop {
        // SAFETY: by the contract of this function.
        match unsafe { madvise(address.as_ptr().cast(), len, advice) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return result,
        }
    }
}
