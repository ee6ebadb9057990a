//! Memory on huge pages, from which the arena and the buffers are allocated.
//!
//! Filling fresh 4 KiB pages costs more CPU than reading the bytes does. So regions of 2 MiB and
//! more are aligned to it, on Linux request huge pages, and are recycled above.
//!
//! The pages are not touched here, so a region costs address space until it is used. On Linux a
//! forked child has zero pages in their place (`MADV_WIPEONFORK`): it must not make pages that a
//! device writes copy-on-write, and the addresses must stay mapped, because the child may read
//! inherited buffers, and unmaps them. An application's own memory (see [`RegionAllocator`]) gets
//! no advice, except that large buffers of it may be touched ahead of reads.
//!
//! # Safety
//! A `Region` owns its bytes from `new` to its drop, and they are initialized (zero pages of the
//! system, or the allocator's contract). It hands out a raw pointer only; code that makes
//! references from it keeps the region alive and the references disjoint.
#![expect(
    unsafe_code,
    reason = "maps and unmaps memory; see the section Safety of this file"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Errno, IoError, guard};
use crate::limits::{HUGE_PAGE_BYTES, MEMORY_ALIGNMENT, REGION_BYTES_MAX};

/// The application's own memory for arenas and buffers.
///
/// # Safety
/// `allocate` returns null, or `len` bytes at a multiple of `align` that are readable, writable,
/// zeroed and not used otherwise until `free`. (The trait is unsafe to implement because safe code
/// relies on it.)
pub unsafe trait RegionAllocator: Send + Sync {
    /// Returns `len` zeroed bytes at a multiple of `align`, or null.
    fn allocate(&self, len: usize, align: usize) -> *mut u8;
    /// Frees memory that `allocate` returned.
    ///
    /// # Safety
    /// `pointer`, `len` and `align` are those of the allocation; the memory is no longer used.
    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize);
}

/// Memory from the system or the application's allocator, zeroed, page-aligned.
pub struct Region {
    pointer: NonNull<u8>,
    len: usize,
    align: usize,
    allocator: Option<Arc<dyn RegionAllocator>>,
}

// SAFETY: a Region is an address range that it owns; its methods only read its own fields, and
// unmapping works from any thread.
unsafe impl Send for Region {}
// SAFETY: as above; nothing behind a shared reference changes.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes, rounded up to whole pages; from 2 MiB on to a multiple of 2 MiB, with huge
    /// pages requested. A forked child has zeros there (Linux).
    ///
    /// # Errors
    /// `ENOMEM` if the length is zero or exceeds any address space, if the system has no memory, or
    /// if the application's allocator panics or returns null or a misaligned address.
    pub fn new(
        len: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Result<Arc<Region>, IoError> {
        if len == 0 || len > REGION_BYTES_MAX {
            return Err(IoError::because(
                "mmap",
                Errno::NO_MEMORY,
                "a length that no memory can have",
            ));
        }
        let align = if len >= HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            MEMORY_ALIGNMENT
        };
        let len = len.next_multiple_of(align);
        let pointer = match &allocator {
            None => system::map(len, align)?,
            Some(allocator) => allocate_aligned(allocator.as_ref(), len, align)?,
        };
        Ok(Arc::new(Region {
            pointer,
            len,
            align,
            allocator,
        }))
    }

    /// Address of the first byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Length in bytes.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a region of no bytes cannot be made"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Keeps the memory mapped forever, even without other handles: the quarantine of memory that
    /// the kernel may still write to.
    pub fn leak(self: &Arc<Self>) {
        std::mem::forget(Arc::clone(self));
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.allocator {
            // SAFETY: the range was mapped by system::map with this length and belongs to this
            // region alone; this is the last handle, and code that made pointers from it promised
            // (module's Safety) to keep a handle.
            None => unsafe { system::unmap(self.pointer, self.len) },
            // SAFETY: pointer, len and align are those of the call of `allocate` in `new`; the
            // memory is unused, as above.
            Some(allocator) => unsafe {
                free(allocator.as_ref(), self.pointer, self.len, self.align);
            },
        }
    }
}

debug!(Region, it: pointer = it.pointer, len = it.len);

/// Allocates `len` bytes of the application's memory at a multiple of `align`.
fn allocate_aligned(
    allocator: &dyn RegionAllocator,
    len: usize,
    align: usize,
) -> Result<NonNull<u8>, IoError> {
    let failed = |cause| IoError::because("allocate", Errno::NO_MEMORY, cause);
    let pointer = guard(|| allocator.allocate(len, align))
        .ok_or_else(|| failed("the application's allocator panicked"))?;
    let pointer =
        NonNull::new(pointer).ok_or_else(|| failed("the application's allocator has no memory"))?;
    if !pointer.as_ptr().addr().is_multiple_of(align) {
        // SAFETY: just allocated with these arguments, and not used.
        unsafe { free(allocator, pointer, len, align) };
        return Err(failed(
            "the application's allocator did not keep to the alignment",
        ));
    }
    Ok(pointer)
}

/// Frees memory of the application. If its allocator panics, the memory is leaked.
///
/// # Safety
/// As for [`RegionAllocator::free`].
unsafe fn free(allocator: &dyn RegionAllocator, pointer: NonNull<u8>, len: usize, align: usize) {
    // SAFETY: by the contract of this function.
    let _ = guard(|| unsafe { allocator.free(pointer.as_ptr(), len, align) });
}

/// Memory on Unix. `mmap` does not align beyond a page: a longer range is mapped, and both ends are
/// unmapped.
#[cfg(unix)]
#[expect(unsafe_code, reason = "maps and unmaps memory")]
mod system {
    use std::ptr::NonNull;

    use crate::error::{Errno, IoError};
    use crate::limits::MEMORY_ALIGNMENT;

    /// Maps `len` bytes at a multiple of `align`, both multiples of the page size.
    pub(super) fn map(len: usize, align: usize) -> Result<NonNull<u8>, IoError> {
        let slack = if align > MEMORY_ALIGNMENT { align } else { 0 };
        let mapped_bytes = len + slack; // No overflow: len is at most REGION_BYTES_MAX rounded up.
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps no
        // existing memory.
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
        // SAFETY: head + len <= mapped_bytes since head <= slack, so both cuts lie in the mapping
        // made above, which no other code knows yet, and leave [start, start + len). A cut that
        // fails leaves address space mapped but untouched.
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
}

/// Memory on Windows. `VirtualAlloc` does not align beyond 64 KiB: a longer range is reserved, and
/// only its aligned part is committed.
#[cfg(windows)]
#[expect(unsafe_code, reason = "reserves, commits and releases memory")]
mod system {
    use std::ffi::c_void;
    use std::mem::size_of;
    use std::ptr::NonNull;

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, PAGE_NOACCESS,
        PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualQuery,
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
        // SAFETY: [start, start + len) is within the reservation made above, which no other code
        // knows: aligning moves the start by at most `slack`.
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
        // SAFETY: the whole reservation that `map` made; by the contract of this function it is
        // unused.
        unsafe { VirtualFree(about.AllocationBase, 0, MEM_RELEASE) };
    }
}
