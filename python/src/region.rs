//! Memory of buffers, inherited by forked children.
//!
//! The engine's own regions are zeros in a forked child, so that a fork costs nothing and copies no
//! page that a device writes to. Python programs fork with arrays in hand (multiprocessing, torch's
//! workers), and expect to read them in the child: these regions are ordinary private memory, as
//! numpy's are.
//!
//! Huge pages make fresh memory cheaper, but not where free pages are reported to a hypervisor:
//! that happens in blocks of just this size, so each huge page has to be had back from the host.
//! Loading 1.2 GB from the page cache took 0.4 s into recycled huge pages, 1.2 s into fresh small
//! ones, and 4.7 s into fresh huge ones.
//!
//! # Safety
//! A region is a mapping of its own, from `allocate` to `free`.
#![expect(unsafe_code, reason = "maps memory for the engine")]

use std::fs;

use millstream::RegionAllocator;

/// From this length on memory is aligned for huge pages, and asks for them.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The bit of a balloon device that reports free pages (VIRTIO_BALLOON_F_REPORTING).
const REPORTING_BIT: usize = 5;

/// Maps private anonymous memory.
pub(crate) struct Inherited {
    huge_pages: bool,
}

impl Inherited {
    /// Looks at what this machine is.
    pub(crate) fn new() -> Inherited {
        Inherited {
            huge_pages: !reports_free_pages(),
        }
    }
}

/// Whether the kernel reports free pages to a hypervisor.
fn reports_free_pages() -> bool {
    let Ok(devices) = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon") else {
        return false;
    };
    let features = devices
        .flatten()
        .map(|device| fs::read(device.path().join("features")));
    features
        .flatten()
        .any(|bits| bits.get(REPORTING_BIT) == Some(&b'1'))
}

// SAFETY: a fresh anonymous mapping is zeroed, readable, writable and nobody else's; `allocate`
// cuts it to an aligned part.
unsafe impl RegionAllocator for Inherited {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        let Some(mapped_bytes) = len.checked_add(align) else {
            return std::ptr::null_mut();
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a mapping at an address of the kernel's choice touches no memory of anybody.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        let address: *mut u8 = address.cast();
        let head = address.addr().next_multiple_of(align) - address.addr();
        let start = address.wrapping_add(head);
        // SAFETY: `head` is below `align`, so both cuts lie in the mapping made above and leave
        // `len` bytes from `start` on; lengths are multiples of the page size, as the engine asks
        // for. A cut that fails leaves address space mapped but untouched. Advice changes no bytes.
        unsafe {
            if head > 0 {
                libc::munmap(address.cast(), head);
            }
            libc::munmap(start.wrapping_add(len).cast(), align - head);
            if self.huge_pages && len >= HUGE_PAGE_BYTES {
                libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE);
            }
        }
        start
    }

    unsafe fn free(&self, pointer: *mut u8, len: usize, _align: usize) {
        // SAFETY: the caller's promise: the range is one that `allocate` gave, and unused.
        unsafe { libc::munmap(pointer.cast(), len) };
    }
}
