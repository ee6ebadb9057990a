//! Large allocations: their size, and hints to the system.
//!
//! The first touch of an image's memory takes a tenth to a fifth of the time to load it, and less
//! with huge pages. A system backs memory with huge pages only where whole ones fit, and aligns a
//! mapping to them only if its length is a multiple of their size: so allocations are made that
//! long (which takes address space, but no memory).

use millstream_io::memory::advice;

use crate::limits::{ALLOCATOR_BYTES, HUGE_PAGE_BYTES};

/// Returns the bytes to allocate so that `bytes` of them can be backed by huge pages.
pub(crate) fn bytes_to_ask_for(bytes: usize) -> usize {
    match huge_bytes(bytes) {
        0 => bytes,
        _ => (bytes + ALLOCATOR_BYTES).next_multiple_of(HUGE_PAGE_BYTES) - ALLOCATOR_BYTES,
    }
}

/// Rounds `bytes` to whole huge pages; the last one must be at least half full.
fn huge_bytes(bytes: usize) -> usize {
    bytes.saturating_add(HUGE_PAGE_BYTES / 2) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
}

/// Asks the system to back large memory with huge pages. It may ignore the hint.
pub(crate) fn ask_for_huge_pages(pointer: *mut u8, bytes: usize) {
    let bytes = huge_bytes(bytes);
    if bytes > 0 {
        advice::ask_for_huge_pages(pointer, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_given_whole_huge_pages_from_half_of_one_on() {
        for bytes in [0, 1, 4096, HUGE_PAGE_BYTES / 2 - 1] {
            assert_eq!(bytes_to_ask_for(bytes), bytes);
        }
        for bytes in [
            HUGE_PAGE_BYTES / 2,
            HUGE_PAGE_BYTES,
            5 * HUGE_PAGE_BYTES + 9,
        ] {
            let asked = bytes_to_ask_for(bytes);
            assert!(asked >= bytes && asked < bytes + ALLOCATOR_BYTES + HUGE_PAGE_BYTES);
            assert_eq!((asked + ALLOCATOR_BYTES) % HUGE_PAGE_BYTES, 0);
        }
    }
}
