//! Memory on Unix. `mmap` does not align beyond a page: a longer range is mapped, and both ends are
//! unmapped.
#![expect(unsafe_code, reason = "maps and unmaps memory")]

use std::ptr::NonNull;

use crate::error::{Errno, IoError};
use crate::limits::MEMORY_ALIGNMENT;

/// Maps `len` bytes at a multiple of `align`, both multiples of the page size.
pub(super) fn map(len: usize, align: usize) -> Result<NonNull<u8>, IoError> {
    let slack = if align > MEMORY_ALIGNMENT { align } else { 0 };
    let mapped_bytes = len + slack; // No overflow: len is at most REGION_BYTES_MAX rounded up.
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps no existing
    // memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            mapped_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(IoError::because(
            "mmap",
            Errno::last(),
            "not enough memory or address space, or too many mappings \
             (ulimit -v, vm.overcommit_memory, vm.max_map_count)",
        ));
    }
    let address: *mut u8 = address.cast();
    let head = address.addr().next_multiple_of(align) - address.addr();
    let start = address.wrapping_add(head);
    // SAFETY: head + len <= mapped_bytes since head <= slack, so both cuts lie in the mapping made
    // above, which no other code knows yet, and leave [start, start + len). A cut that fails leaves
    // address space mapped but untouched.
    unsafe {
        if head > 0 {
            libc::munmap(address.cast(), head);
        }
        if slack > head {
            libc::munmap(start.wrapping_add(len).cast(), slack - head);
        }
    }
    #[cfg(target_os = "linux")]
    // SAFETY: advice on the range owned here; it changes no content in this process.
    unsafe {
        libc::madvise(start.cast(), len, libc::MADV_WIPEONFORK);
        if slack > 0 {
            libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE);
        }
    }
    Ok(NonNull::new(start).expect("mmap never answers with address zero"))
}

/// Unmaps what `map` returned.
///
/// # Safety
/// Pointer and length are those of one call of `map`, and the memory is no longer used.
pub(super) unsafe fn unmap(pointer: NonNull<u8>, len: usize) {
    // SAFETY: by the contract of this function.
    unsafe { libc::munmap(pointer.as_ptr().cast(), len) };
}
