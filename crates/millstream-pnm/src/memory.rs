//! A hint about memory.
//!
//! # Safety
//! The advice changes how the system backs memory, and nothing that a program can see but speed.
#![expect(unsafe_code, reason = "madvise takes an address")]

use rustix::mm::{Advice, madvise};

use crate::limits::HUGE_BYTES_MIN;

/// Asks the system to back large memory with huge pages. Where it will not, nothing is lost.
pub(crate) fn ask_for_huge_pages(pointer: *mut u8, bytes: usize) {
    if bytes < HUGE_BYTES_MIN {
        return;
    }
    let page = rustix::param::page_size();
    let begin = (pointer as usize).next_multiple_of(page);
    let end = (pointer as usize + bytes) / page * page;
    let skipped = begin - pointer as usize;
    // SAFETY: the range lies within memory that the caller owns; see the module.
    let _ = unsafe {
        madvise(
            pointer.add(skipped).cast(),
            end - begin,
            Advice::LinuxHugepage,
        )
    };
}
