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

use std::io;

/// A buffer between guard pages. See the module.
pub(super) struct Canary {
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
    pub(super) fn new(len: usize, seed: u64) -> Canary {
        assert!(len > 0, "a canary of no bytes guards nothing");
        let page_len = rustix::param::page_size();
        let mapping_len = len.next_multiple_of(page_len) + 2 * page_len;
        let (flags, none) = (
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            std::ptr::null_mut(),
        );
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing
        // that exists.
        let mapping = unsafe { libc::mmap(none, mapping_len, libc::PROT_NONE, flags, -1, 0) };
        let made = mapping != libc::MAP_FAILED;
        assert!(made, "mmap: {}", io::Error::last_os_error());
        let mut canary = Canary {
            mapping: mapping.cast(),
            mapping_len,
            page_len,
            len,
            seed,
        };
        let (middle, middle_len) = canary.middle();
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range lies in our own mapping, and no slice of it is alive.
        let result = unsafe { libc::mprotect(middle.cast(), middle_len, writable) };
        assert!(result == 0, "mprotect: {}", io::Error::last_os_error());
        canary.poison();
        canary
    }

    /// Returns the length of the body in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the start and the length of what lies between the guard pages.
    fn middle(&self) -> (*mut u8, usize) {
        let start = self.mapping.wrapping_add(self.page_len);
        (start, self.mapping_len - 2 * self.page_len)
    }

    /// Returns a pointer to the first byte of the body, for devices.
    pub(super) fn pointer(&self) -> *mut u8 {
        let (start, len) = self.middle();
        start.wrapping_add(len - self.len)
    }

    /// Returns the body. No operation may be writing to it.
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` readable bytes of our mapping; no operation is in flight on it, which the
        // caller that lent it out guarantees (module docs).
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }

    /// Fills everything between the guard pages with the pattern.
    pub(super) fn poison(&mut self) {
        let (start, len) = self.middle();
        // SAFETY: all between the guard pages is ours, and we hold it exclusively.
        let middle = unsafe { std::slice::from_raw_parts_mut(start, len) };
        for (index, byte) in middle.iter_mut().enumerate() {
            *byte = pattern(self.seed, index);
        }
    }

    /// Checks that nothing was written anywhere since `poison`.
    ///
    /// # Errors
    /// Names the first byte that differs.
    pub(super) fn intact(&self) -> Result<(), String> {
        self.check(self.middle().1)
    }

    /// Checks that nothing was written before the body since `poison`: for after a read that filled
    /// the body. (A write beyond the body hits the guard page.)
    ///
    /// # Errors
    /// Names the first byte that differs.
    pub(super) fn edges_intact(&self) -> Result<(), String> {
        self.check(self.middle().1 - self.len)
    }

    fn check(&self, count: usize) -> Result<(), String> {
        let (start, len) = self.middle();
        // SAFETY: all between the guard pages is readable and ours.
        let middle = unsafe { std::slice::from_raw_parts(start, len) };
        for (index, found) in middle[..count].iter().enumerate() {
            let expected = pattern(self.seed, index);
            if *found != expected {
                let at = index as isize - (len - self.len) as isize;
                return Err(format!(
                    "byte {at} of the guarded buffer is {found:#04x}, not {expected:#04x}"
                ));
            }
        }
        Ok(())
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
        assert!(damage.starts_with(&format!("byte {offset} ")), "{damage}");
        assert_eq!(canary.edges_intact().is_err(), offset < 0);
        // SAFETY: as above.
        unsafe { byte.write(before) };
        canary.intact().expect("restored");
    }
}

#[test]
fn the_kernel_cannot_write_past_the_end() {
    use std::os::fd::AsRawFd as _;
    let zero = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let canary = Canary::new(4096, 1);
    // SAFETY: the kernel checks the address, and finds the guard page.
    let past = unsafe { libc::read(zero.as_raw_fd(), canary.pointer().add(4096).cast(), 1) };
    let error = io::Error::last_os_error().raw_os_error();
    assert_eq!((past, error), (-1, Some(libc::EFAULT)));
    canary.intact().expect("nothing was written");
}
