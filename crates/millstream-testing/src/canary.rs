//! Memory that detects writes outside of it or at the wrong time.
//!
//! A [`Canary`] is a mapping with an inaccessible page before and after it. The body ends right
//! before the second guard page, so a write one byte too far by a thread faults at once, and one by
//! the kernel fails with `EFAULT`. The bytes before the body (it is rarely whole pages) and, while
//! nothing may write to it, the body itself hold a pattern, and [`Canary::intact`] finds the first
//! byte that has changed: this detects a write *after the end* of an operation, which no sanitizer
//! detects when the kernel makes it.
//!
//! # Safety
//! The mapping belongs to the `Canary` from `mmap` to `munmap` in `drop`. Devices write through
//! [`Canary::pointer`]; a caller that lends it out keeps the `Canary` alive and makes no slice of
//! it until the operation has ended.

#![expect(unsafe_code, reason = "maps and protects memory by hand")]

use std::fmt;
use std::io;

/// A byte that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Offset from the first byte of the body; negative before it.
    pub offset: isize,
    /// The byte that was written by `poison`.
    pub expected: u8,
    /// The byte that is there now.
    pub found: u8,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "byte {} of the guarded buffer is {:#04x}, not {:#04x}",
            self.offset, self.found, self.expected
        )
    }
}

impl std::error::Error for Damage {}

/// A buffer between guard pages. See the module.
pub struct Canary {
    mapping: *mut u8,
    mapping_len: usize,
    page_len: usize,
    len: usize,
    seed: u64,
}

// SAFETY: a Canary owns its mapping; nothing in it is bound to a thread.
unsafe impl Send for Canary {}

impl Canary {
    /// Creates a body of `len` bytes that ends at a guard page, filled with the pattern of `seed`.
    /// If `len` is whole pages, the body is page-aligned, as direct I/O requires.
    ///
    /// # Panics
    /// If there is no memory, or `len` is 0.
    #[must_use]
    pub fn new(len: usize, seed: u64) -> Canary {
        assert!(len > 0, "a canary of no bytes guards nothing");
        let page_len = rustix::param::page_size();
        let mapping_len = len.next_multiple_of(page_len) + 2 * page_len;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing
        // that exists.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(
            mapping != libc::MAP_FAILED,
            "mmap: {}",
            io::Error::last_os_error()
        );
        let mut canary = Canary {
            mapping: mapping.cast(),
            mapping_len,
            page_len,
            len,
            seed,
        };
        canary.protect(0, page_len, libc::PROT_NONE);
        canary.protect(mapping_len - page_len, page_len, libc::PROT_NONE);
        canary.poison();
        canary
    }

    /// Returns the length of the body in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "new refuses an empty body")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the first byte of the body, for devices.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        // SAFETY: the body lies inside the mapping, one guard page before its end.
        unsafe {
            self.mapping
                .add(self.mapping_len - self.page_len - self.len)
        }
    }

    /// Returns the body. No operation may be writing to it.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` readable bytes of our mapping; no operation is in flight on it, which the
        // caller that lent it out guarantees (module docs).
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }

    /// Fills everything between the guard pages with the pattern.
    pub fn poison(&mut self) {
        let seed = self.seed;
        for (index, byte) in self.middle_mut().iter_mut().enumerate() {
            *byte = pattern(seed, index);
        }
    }

    /// Checks that nothing was written anywhere since `poison`.
    ///
    /// # Errors
    /// Returns the first byte that differs.
    pub fn intact(&self) -> Result<(), Damage> {
        self.check(self.middle().len())
    }

    /// Checks that nothing was written before the body since `poison`: for after a read that filled
    /// the body. (A write beyond the body hits the guard page.)
    ///
    /// # Errors
    /// Returns the first byte that differs.
    pub fn edges_intact(&self) -> Result<(), Damage> {
        self.check(self.slack_len())
    }

    /// Makes the body read-only: from now on a thread that writes to it faults, and a system call
    /// that writes to it fails with `EFAULT`.
    pub fn freeze(&mut self) {
        self.protect(self.page_len, self.middle().len(), libc::PROT_READ);
    }

    /// Undoes `freeze`.
    pub fn thaw(&mut self) {
        self.protect(
            self.page_len,
            self.middle().len(),
            libc::PROT_READ | libc::PROT_WRITE,
        );
    }

    fn check(&self, count: usize) -> Result<(), Damage> {
        for (index, &found) in self.middle()[..count].iter().enumerate() {
            let expected = pattern(self.seed, index);
            if found != expected {
                let offset = index as isize - self.slack_len() as isize;
                return Err(Damage {
                    offset,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Returns the number of bytes between the first guard page and the body.
    fn slack_len(&self) -> usize {
        self.mapping_len - 2 * self.page_len - self.len
    }

    fn middle(&self) -> &[u8] {
        // SAFETY: all between the guard pages is readable and ours.
        unsafe {
            std::slice::from_raw_parts(
                self.mapping.add(self.page_len),
                self.mapping_len - 2 * self.page_len,
            )
        }
    }

    fn middle_mut(&mut self) -> &mut [u8] {
        // SAFETY: all between the guard pages is ours, and we hold it exclusively.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.mapping.add(self.page_len),
                self.mapping_len - 2 * self.page_len,
            )
        }
    }

    fn protect(&mut self, start: usize, len: usize, protection: i32) {
        assert!(start + len <= self.mapping_len);
        // SAFETY: the range lies in our own mapping, as just asserted; no slice of it is alive,
        // because we hold it exclusively.
        let result = unsafe { libc::mprotect(self.mapping.add(start).cast(), len, protection) };
        assert!(result == 0, "mprotect: {}", io::Error::last_os_error());
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nothing refers to it any more.
        let result = unsafe { libc::munmap(self.mapping.cast(), self.mapping_len) };
        debug_assert!(result == 0, "munmap: {}", io::Error::last_os_error());
    }
}

/// Returns the pattern's byte at `index`. Pages differ, so that a block written to the wrong place
/// is detected, too.
fn pattern(seed: u64, index: usize) -> u8 {
    let mixed = (index as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_to_the_body_or_before_it_is_found_at_its_place() {
        let canary = Canary::new(1000, 7);
        canary.intact().expect("fresh");
        for offset in [0_isize, 999, -1, -3096] {
            // SAFETY: all four offsets lie between the guard pages of a 4 KiB page machine, and
            // no slice of the canary is alive.
            let byte = unsafe { canary.pointer().offset(offset) };
            // SAFETY: as above.
            let before = unsafe { byte.read() };
            // SAFETY: as above.
            unsafe { byte.write(!before) };
            let damage = canary.intact().expect_err("written");
            assert_eq!((damage.offset, damage.found), (offset, !before));
            assert_eq!(canary.edges_intact().is_err(), offset < 0);
            // SAFETY: as above.
            unsafe { byte.write(before) };
            canary.intact().expect("restored");
        }
    }

    #[test]
    fn the_kernel_cannot_write_past_the_end_or_into_a_frozen_body() {
        let zero = std::fs::File::open("/dev/zero").expect("/dev/zero");
        let mut canary = Canary::new(4096, 1);
        // SAFETY: the kernel checks the address, and finds the guard page.
        let past = unsafe { libc::read(raw(&zero), canary.pointer().add(4096).cast(), 1) };
        assert_eq!(
            (past, io::Error::last_os_error().raw_os_error()),
            (-1, Some(libc::EFAULT))
        );
        canary.freeze();
        // SAFETY: as above; the page is read-only.
        let frozen = unsafe { libc::read(raw(&zero), canary.pointer().cast(), 1) };
        assert_eq!(
            (frozen, io::Error::last_os_error().raw_os_error()),
            (-1, Some(libc::EFAULT))
        );
        canary.intact().expect("nothing was written");
        canary.thaw();
        // SAFETY: one writable byte of the body.
        let thawed = unsafe { libc::read(raw(&zero), canary.pointer().cast(), 1) };
        assert_eq!(thawed, 1);
    }

    fn raw(file: &std::fs::File) -> i32 {
        use std::os::fd::AsRawFd as _;
        file.as_raw_fd()
    }
}
