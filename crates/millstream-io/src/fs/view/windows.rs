//! Mappings on Windows. A range is prefetched without waiting for it, and access to a page that the
//! file has lost ends the process, as SIGBUS does elsewhere.
#![expect(unsafe_code, reason = "maps and unmaps files")]

use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::{NonNull, null};

use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_READONLY,
    PrefetchVirtualMemory, UnmapViewOfFile, WIN32_MEMORY_RANGE_ENTRY,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use crate::device::Descriptor;
use crate::error::{Errno, IoError};
use crate::fs::explain;
use crate::fs::os::calls;

/// The granularity of a mapping's file offset: 64 KiB on every Windows.
pub(super) fn granularity() -> u64 {
    64 << 10
}

/// Returns the length of an open file.
pub(super) fn len(descriptor: Descriptor) -> Result<u64, IoError> {
    calls::len(descriptor.handle()).map_err(|errno| explain("GetFileSizeEx", errno))
}

/// Maps `len` bytes of an open file for reading, at an offset that is a multiple of the
/// granularity.
pub(super) fn map(descriptor: Descriptor, offset: u64, len: usize) -> Result<NonNull<u8>, IoError> {
    // SAFETY: passes an open handle; no name and no attributes.
    let mapping =
        unsafe { CreateFileMappingW(descriptor.handle(), null(), PAGE_READONLY, 0, 0, null()) };
    if mapping.is_null() {
        return Err(explain("CreateFileMapping", Errno::last()));
    }
    // SAFETY: a handle just made, which nothing else owns. The view keeps the mapping.
    let mapping = unsafe { OwnedHandle::from_raw_handle(mapping) };
    // SAFETY: maps at an address of the system's choice, which overlaps no existing memory.
    let view = unsafe {
        let (high, low) = ((offset >> 32) as u32, offset as u32);
        MapViewOfFile(mapping.as_raw_handle(), FILE_MAP_READ, high, low, len)
    };
    NonNull::new(view.Value.cast()).ok_or_else(|| explain("MapViewOfFile", Errno::last()))
}

/// Unmaps what `map` returned.
///
/// # Safety
/// The address is that of one call of `map`, and the memory is no longer used.
pub(super) unsafe fn unmap(base: NonNull<u8>, _len: usize) {
    let view = MEMORY_MAPPED_VIEW_ADDRESS {
        Value: base.as_ptr().cast(),
    };
    // SAFETY: by the contract of this function.
    unsafe { UnmapViewOfFile(view) };
}

/// Starts to load whole pages into memory. A hint: on failure they are read when touched.
///
/// # Safety
/// The range is within a mapping.
pub(super) unsafe fn populate(address: NonNull<u8>, len: usize) -> Result<(), IoError> {
    let range = WIN32_MEMORY_RANGE_ENTRY {
        VirtualAddress: address.as_ptr().cast(),
        NumberOfBytes: len,
    };
    // SAFETY: one range of this process, within a mapping; its content does not change.
    unsafe { PrefetchVirtualMemory(GetCurrentProcess(), 1, &raw const range, 0) };
    Ok(())
}
