//! Memory that devices fill: regions on huge pages, a bounded arena, and recycled buffers.

pub mod arena;
pub mod buffer;
pub mod destination;
pub mod region;
#[cfg(target_os = "linux")]
pub mod shared;

pub use arena::{Arena, Block};
pub use buffer::{Buffer, BufferPool};
pub use destination::{Destination, Place};
pub use region::{Region, RegionAllocator};
#[cfg(target_os = "linux")]
pub use shared::{ByteLock, SharedMemory, SharedPart};

/// Advice to the system about how it backs memory. It affects only speed, and what the system
/// refuses stays unchanged.
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "madvise takes an address")
)]
pub mod advice {
    use crate::error::Errno;

    /// Asks for huge pages behind `bytes` of memory. The start is rounded down to a page, so that
    /// an allocator's header before the memory does not prevent its first huge page; the end is
    /// rounded down, since the page behind it may belong to other memory.
    pub fn ask_for_huge_pages(pointer: *mut u8, bytes: usize) {
        #[cfg(target_os = "linux")]
        {
            let over = pointer.addr().wrapping_add(bytes) % rustix::param::page_size();
            if let Some(bytes) = bytes.checked_sub(over) {
                let _ = advise(pointer, bytes, rustix::mm::Advice::LinuxHugepage);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (pointer, bytes);
    }

    /// Has the system back untouched memory at once, instead of page by page as it is touched. May
    /// block.
    pub fn populate(pointer: *mut u8, bytes: usize) {
        let _ = try_populate(pointer, bytes);
    }

    /// As [`populate`]; `EINVAL` from a system that does not support it (before Linux 5.14).
    pub(super) fn try_populate(pointer: *mut u8, bytes: usize) -> Result<(), Errno> {
        #[cfg(target_os = "linux")]
        return advise(pointer, bytes, rustix::mm::Advice::LinuxPopulateWrite);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (pointer, bytes);
            Err(Errno::INVALID)
        }
    }

    #[cfg(target_os = "linux")]
    fn advise(pointer: *mut u8, bytes: usize, advice: rustix::mm::Advice) -> Result<(), Errno> {
        let into_page = pointer.addr() % rustix::param::page_size();
        let start = pointer.wrapping_sub(into_page).cast();
        // SAFETY: neither advice changes what is in the memory, and the kernel checks the range.
        Ok(unsafe { rustix::mm::madvise(start, bytes.wrapping_add(into_page), advice) }?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn memory_keeps_what_is_in_it() {
            let mut memory = vec![7u8; 6 << 20];
            populate(memory[5..].as_mut_ptr(), memory.len() - 5);
            ask_for_huge_pages(memory.as_mut_ptr(), memory.len());
            // There is no such range: the system refuses it.
            ask_for_huge_pages(memory.as_mut_ptr(), usize::MAX);
            populate(memory[5..].as_mut_ptr(), usize::MAX);
            assert!(memory.iter().all(|&byte| byte == 7));
        }
    }
}
