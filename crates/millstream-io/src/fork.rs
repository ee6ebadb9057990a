//! Detects that this process is a forked child of the one that made an object.
//!
//! Threads, locks and rings do not survive a `fork`: a child must not touch what they own. A
//! [`ForkGuard`] owns one page that the kernel clears in a child (`MADV_WIPEONFORK`, Linux 4.14),
//! so that asking costs one load. Where the kernel cannot, the process id is compared instead (on
//! Windows nothing forks).
//!
//! # Safety
//! The page belongs to the guard from `map_page` to its drop, and is only accessed as one atomic
//! word.
#![expect(
    unsafe_code,
    reason = "maps a page and reads it; see the section Safety of this file"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Value of the word in the process that made the guard; the kernel makes it 0 in a child.
const PARENT: u32 = 0x6d73_6677;

/// Tells a forked child from the process that made the guard.
#[derive(Debug)]
pub struct ForkGuard {
    /// The page that a fork clears, if the kernel offers it.
    word: Option<NonNull<AtomicU32>>,
    process: u32,
}

// SAFETY: the word is atomic and lives as long as the guard; any thread may read and unmap it.
unsafe impl Send for ForkGuard {}
// SAFETY: as above.
unsafe impl Sync for ForkGuard {}

impl Default for ForkGuard {
    fn default() -> ForkGuard {
        ForkGuard::new()
    }
}

impl ForkGuard {
    /// A guard for the calling process. Maps one page.
    #[must_use]
    pub fn new() -> ForkGuard {
        ForkGuard {
            word: map_page(),
            process: std::process::id(),
        }
    }

    /// Whether the calling process is a forked child of the one that made the guard.
    #[inline]
    #[must_use]
    pub fn is_child(&self) -> bool {
        match self.word {
            // SAFETY: the page is mapped until the guard is dropped (module's Safety).
            Some(word) => unsafe { word.as_ref() }.load(Ordering::Relaxed) != PARENT,
            None => std::process::id() != self.process,
        }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(word) = self.word {
            // SAFETY: the page that `map_page` mapped, which no reference points to any more.
            unsafe { libc::munmap(word.as_ptr().cast(), rustix::param::page_size()) };
        }
    }
}

/// A page that holds [`PARENT`] here and 0 in every child.
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
    let word = NonNull::new(address.cast::<AtomicU32>())?;
    // SAFETY: the page is writable, zeroed and aligned for any type.
    unsafe { word.as_ref() }.store(PARENT, Ordering::Relaxed);
    Some(word)
}

#[cfg(not(target_os = "linux"))]
fn map_page() -> Option<NonNull<AtomicU32>> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// What `is_child` says in a real forked child.
    fn asked_in_child(guard: &ForkGuard) -> bool {
        // SAFETY: the child only reads the guard and leaves by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(guard.is_child());
            // SAFETY: ends the child at once; takes a number.
            unsafe { libc::_exit(status) };
        }
        assert!(child > 0, "fork failed");
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is a valid int.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(waited == child && libc::WIFEXITED(status));
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn only_a_forked_child_is_a_child() {
        let guard = ForkGuard::new();
        assert!(cfg!(not(target_os = "linux")) || guard.word.is_some());
        assert!(!guard.is_child());
        assert!(asked_in_child(&guard));
        assert!(!guard.is_child(), "a fork changes nothing in the parent");
    }

    #[test]
    fn without_the_page_the_process_id_decides() {
        let guard = ForkGuard {
            word: None,
            process: std::process::id(),
        };
        assert!(!guard.is_child());
        assert!(asked_in_child(&guard));
    }
}
