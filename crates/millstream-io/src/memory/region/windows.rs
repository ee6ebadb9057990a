//! Memory on Windows. `VirtualAlloc` does not align beyond 64 KiB: a longer range is reserved, and
//! only its aligned part is committed.
#![expect(unsafe_code, reason = "reserves, commits and releases memory")]

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::NonNull;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, PAGE_NOACCESS, PAGE_READWRITE,
    VirtualAlloc, VirtualFree, VirtualQuery,
};

use crate::error::{Errno, IoError};
use crate::limits::MEMORY_ALIGNMENT;

/// Maps `len` zeroed bytes at a multiple of `align`, both multiples of the page size.
pub(super) fn map(len: usize, align: usize) -> Result<NonNull<u8>, IoError> {
    let slack = if align > MEMORY_ALIGNMENT { align } else { 0 };
    // No overflow: len is at most REGION_BYTES_MAX rounded up.
    let reserved = reserve(len + slack)?;
    let start =
        reserved.wrapping_byte_add(reserved.addr().next_multiple_of(align) - reserved.addr());
    // SAFETY: [start, start + len) is within the reservation made above, which no other code knows:
    // aligning moves the start by at most `slack`.
    let committed = unsafe { VirtualAlloc(start, len, MEM_COMMIT, PAGE_READWRITE) };
    NonNull::new(committed.cast::<u8>()).ok_or_else(|| {
        // SAFETY: the reservation made above.
        unsafe { VirtualFree(reserved, 0, MEM_RELEASE) };
        let cause = "not enough memory; the paging file may be too small";
        IoError::because("VirtualAlloc", Errno::NO_MEMORY, cause)
    })
}

fn reserve(len: usize) -> Result<*mut c_void, IoError> {
    // SAFETY: reserves fresh address space; nothing is there.
    let reserved = unsafe { VirtualAlloc(std::ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
    if reserved.is_null() {
        let cause = "not enough address space";
        return Err(IoError::because("VirtualAlloc", Errno::NO_MEMORY, cause));
    }
    Ok(reserved)
}

/// Releases what `map` returned, with the address space around it.
///
/// # Safety
/// Pointer and length are those of one call of `map`, and the memory is no longer used.
pub(super) unsafe fn unmap(pointer: NonNull<u8>, _len: usize) {
    let mut about = MEMORY_BASIC_INFORMATION::default();
    let bytes = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: the system writes one struct of that size.
    let known = unsafe { VirtualQuery(pointer.as_ptr().cast(), &raw mut about, bytes) };
    assert!(
        known != 0,
        "the memory of a region is mapped until its drop"
    );
    // SAFETY: the whole reservation that `map` made; by the contract of this function it is unused.
    unsafe { VirtualFree(about.AllocationBase, 0, MEM_RELEASE) };
}
