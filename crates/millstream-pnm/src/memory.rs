//! Large memory: how much to ask for, and hints about it.
//!
//! The first touch of an image's memory is a tenth to a fifth of the time that an image takes, and
//! less of it with huge pages. A system backs memory with huge pages only where whole ones lie in
//! it, and places a mapping at the border of one only if its length is a multiple of theirs: so an
//! allocation is made that long (which takes addresses, and no memory).

use millstream_io::memory::advice;

use crate::limits::{ALLOCATOR_BYTES, HUGE_PAGE_BYTES};

/// Bytes to allocate so that so many are backed by huge pages.
pub(crate) fn bytes_to_ask_for(bytes: usize) -> usize {
    match huge_bytes(bytes) {
        0 => bytes,
        _ => (bytes + ALLOCATOR_BYTES).next_multiple_of(HUGE_PAGE_BYTES) - ALLOCATOR_BYTES,
    }
}

/// How much of so many bytes huge pages are worth: a last one must be filled by half.
fn huge_bytes(bytes: usize) -> usize {
    bytes.saturating_add(HUGE_PAGE_BYTES / 2) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
}

/// Asks the system to back large memory with huge pages. Where it will not, nothing is lost.
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
