//! Detects that this process is a forked child of the one that made an object.
//!
//! Threads, locks and rings do not survive a `fork`: a child must not touch what they own. The
//! process has one page that the kernel clears in a child (`MADV_WIPEONFORK`, Linux 4.14); it holds
//! a number that no ancestor of the process has. A [`ForkGuard`] compares it with the number that
//! it was made under, so a check costs one load. Where the kernel cannot clear pages, process ids
//! are compared instead (Windows has no `fork`).
//!
//! # Safety
//! The page is mapped once, never unmapped, and only accessed as one atomic word.
#![expect(
    unsafe_code,
    reason = "maps a page and reads it; see the section Safety of this file"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page; null until the first guard is made. Atomic, not locked: another thread may fork.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Numbers given out so far. A child continues its parent's count, so its number differs from those
/// of all its ancestors.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// Distinguishes a forked child from the process that made the guard.
#[derive(Debug)]
pub struct ForkGuard {
    /// The page that a fork clears, if the kernel supports it.
    word: Option<&'static AtomicU32>,
    /// The content of the page when the guard was made, or the id of the process.
    own: u32,
}

impl Default for ForkGuard {
    fn default() -> ForkGuard {
        ForkGuard::new()
    }
}

impl ForkGuard {
    /// Makes a guard for the calling process.
    #[must_use]
    pub fn new() -> ForkGuard {
        ForkGuard::with(page())
    }

    fn with(word: Option<&'static AtomicU32>) -> ForkGuard {
        let own = word.map_or_else(std::process::id, |word| {
            let order = Ordering::Relaxed;
            match word.load(order) {
                // The first guard of the program or of a forked child.
                0 => {
                    let number = NUMBERS.fetch_add(1, order) + 1;
                    let held = word.compare_exchange(0, number, order, order);
                    held.err().unwrap_or(number)
                }
                number => number,
            }
        });
        ForkGuard { word, own }
    }

    /// Whether the calling process is a forked child of the one that made the guard.
    #[inline]
    #[must_use]
    pub fn is_child(&self) -> bool {
        match self.word {
            Some(word) => word.load(Ordering::Relaxed) != self.own,
            None => std::process::id() != self.own,
        }
    }
}

/// Returns the page of the process, mapped at the first call.
fn page() -> Option<&'static AtomicU32> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let mapped = map_page()?.as_ptr();
        let order = (Ordering::AcqRel, Ordering::Acquire);
        // If two threads map a page at the same time, that of the second stays unused.
        page = match PAGE.compare_exchange(page, mapped, order.0, order.1) {
            Ok(_) => mapped,
            Err(other) => other,
        };
    }
    // SAFETY: mapped by `map_page`, and never unmapped.
    Some(unsafe { &*page })
}

/// Maps a page that is zero here and in every child.
#[cfg(target_os = "linux")]
fn map_page() -> Option<NonNull<AtomicU32>> {
    let page_bytes = rustix::param::page_size();
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            page_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: advice on the page mapped above.
    if unsafe { libc::madvise(address, page_bytes, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: the page mapped above, known to no other code.
        unsafe { libc::munmap(address, page_bytes) };
        return None;
    }
    NonNull::new(address.cast())
}

#[cfg(not(target_os = "linux"))]
fn map_page() -> Option<NonNull<AtomicU32>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use millstream_testing::forked;

    use super::*;

    fn asked_in_child(ask: impl FnOnce() -> bool) -> bool {
        forked(|| i32::from(ask())) == 1
    }

    /// A guard detects a child, also one with a guard of its own, and that guard detects its child.
    fn tells_children(word: Option<&'static AtomicU32>) {
        let guard = ForkGuard::with(word);
        assert!(!guard.is_child());
        assert!(asked_in_child(|| guard.is_child()));
        assert!(asked_in_child(|| {
            let own = ForkGuard::with(word);
            let of_both = || guard.is_child() && own.is_child();
            guard.is_child() && !own.is_child() && asked_in_child(of_both)
        }));
        assert!(!guard.is_child(), "a fork changes nothing in the parent");
    }

    #[test]
    fn only_a_forked_child_is_a_child() {
        assert!(page().is_some());
        tells_children(page());
    }

    #[test]
    fn without_the_page_the_process_id_decides() {
        tells_children(None);
    }
}
