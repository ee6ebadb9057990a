//! The destination that every contender gets: huge-page-backed, touched before the first run, and
//! recycled from run to run.
//!
//! Fresh pages cost more than the read itself (100 MiB into fresh 4 KiB pages: 28 ms of processor
//! time; into recycled huge pages: 1.4 ms), so a contender with an own policy would be measured by
//! its memory instead of its reads. One region therefore serves all contenders of a case in turn.
//!
//! # Safety
//! [`Destination`] owns one anonymous mapping of `len` bytes from construction to drop; its slices
//! borrow it as usual. Contenders that lend it to the kernel must get every operation back before
//! their borrow ends; the ring (`crate::ring`) upholds that by draining before it returns.
#![expect(unsafe_code, reason = "maps and unmaps anonymous memory")]

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{Error, Result};

/// Size of a huge page on x86-64 and (with 4 KiB pages) aarch64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Recycled, pre-faulted memory for results, aligned to a huge page.
pub struct Destination {
    /// Start of the mapping, which is longer than the memory shown, by up to one huge page.
    mapping: NonNull<c_void>,
    mapping_len: usize,
    start: usize,
    len: usize,
}

// SAFETY: the mapping is owned memory without thread affinity, reached through the usual borrows.
unsafe impl Send for Destination {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Destination {}

impl Destination {
    /// At least `len` bytes, zeroed, touched.
    ///
    /// # Errors
    /// The system has not that much memory.
    pub fn new(len: usize) -> Result<Destination> {
        let len = len.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        let mapping_len = len + HUGE_PAGE_BYTES;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no other
        // memory.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapping_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|error| Error::io(format!("map {mapping_len} bytes for results"), error))?;
        let start = (mapping as usize).next_multiple_of(HUGE_PAGE_BYTES) - mapping as usize;
        let mapping = NonNull::new(mapping).expect("the kernel never maps address 0 on its own");
        let mut destination = Destination {
            mapping,
            mapping_len,
            start,
            len,
        };
        // SAFETY: the range is the mapping just made; the advice changes no content.
        // Where huge pages are switched off the advice fails, and small pages are then everyone's
        // lot.
        let _ = unsafe { madvise(mapping.as_ptr(), mapping_len, Advice::LinuxHugepage) };
        destination.fill(0);
        Ok(destination)
    }

    /// Overwrites everything, so that bytes of an earlier run cannot pass for a result.
    pub fn poison(&mut self) {
        self.fill(0xA5);
    }
}

impl Deref for Destination {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start + len <= mapping_len` by construction; the mapping is initialised and
        // owned by self.
        unsafe {
            std::slice::from_raw_parts(self.mapping.as_ptr().cast::<u8>().add(self.start), self.len)
        }
    }
}

impl DerefMut for Destination {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref, and self is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.mapping.as_ptr().cast::<u8>().add(self.start),
                self.len,
            )
        }
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nobody can borrow it any more.
        let result = unsafe { munmap(self.mapping.as_ptr(), self.mapping_len) };
        debug_assert!(result.is_ok(), "the mapping's own bounds unmap");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_writable_and_of_the_length_asked_for() {
        for len in [0, 1, 4096, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let mut destination = Destination::new(len).unwrap();
            assert!(destination.len() >= len);
            assert_eq!(destination.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            let last = destination.len() - 1;
            destination[0] = 1;
            destination[last] = 2;
            assert_eq!((destination[0], destination[last]), (1, 2));
            destination.poison();
            assert!(destination.iter().all(|byte| *byte == 0xA5));
        }
    }
}
