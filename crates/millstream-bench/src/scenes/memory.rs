//! The memory of scenes: recycled and already touched, for every contender.
//!
//! A page's first touch costs more than decoding into it: if a hypervisor allocates memory lazily,
//! filling the 250 MB of a large scene for the first time takes longer than inflating its PNGs, and
//! which contender pays for it depends on their order. So memory that one run frees is reused by
//! the next one. Millstream's storages share an allocator ([`Recycled`]); rivals use the process's
//! heap, which keeps what they free while scenes are measured ([`KeptHeap`]).
//!
//! # Safety
//! [`Recycled`] gives each [`Destination`] to one region at a time: it is in `out` from `allocate`
//! to `free`, and is zeroed before it can be given again.
#![expect(
    unsafe_code,
    reason = "implements an allocator of regions, and sets limits of the C library's"
)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use millstream::RegionAllocator;

use crate::memory::trim_heap;
use crate::prelude::*;

/// Regions by their length, given again to the next storage.
#[derive(Default)]
pub(super) struct Recycled {
    store: Mutex<Store>,
}

#[derive(Default)]
struct Store {
    free: BTreeMap<usize, Vec<Destination>>,
    out: BTreeMap<usize, Destination>,
}

// SAFETY: a `Destination` is zeroed, at a multiple of 2 MiB and at least `len` bytes long; with
// another alignment null is returned. It stays in `out`, not borrowed, until `free`.
unsafe impl RegionAllocator for Recycled {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let free = store.free.get_mut(&len).and_then(Vec::pop);
        let Some(mut memory) = free.or_else(|| Destination::new(len).ok()) else {
            return std::ptr::null_mut();
        };
        let pointer = memory.as_mut_ptr();
        if !pointer.addr().is_multiple_of(align) {
            return std::ptr::null_mut();
        }
        store.out.insert(pointer.addr(), memory);
        pointer
    }

    unsafe fn free(&self, pointer: *mut u8, len: usize, _: usize) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = store.out.remove(&pointer.addr()).expect("was given out");
        memory[..len].fill(0);
        store.free.entry(len).or_default().push(memory);
    }
}

/// While it lives, the C library's heap keeps freed memory instead of returning it to the system.
pub(super) struct KeptHeap;

impl KeptHeap {
    pub(super) fn new() -> KeptHeap {
        // The most that glibc accepts as its threshold for separate mappings.
        set_thresholds(32 << 20, libc::c_int::MAX);
        KeptHeap
    }
}

impl Drop for KeptHeap {
    fn drop(&mut self) {
        // glibc's initial thresholds.
        set_thresholds(128 << 10, 128 << 10);
        trim_heap();
    }
}

fn set_thresholds(mapped_from: libc::c_int, trimmed_from: libc::c_int) {
    // SAFETY: sets numbers of the allocator, under its own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, mapped_from);
        libc::mallopt(libc::M_TRIM_THRESHOLD, trimmed_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_given_again_zeroed() {
        let memory = Recycled::default();
        let len = 3 << 20;
        let first = memory.allocate(len, 2 << 20);
        assert!(!first.is_null() && first.addr().is_multiple_of(2 << 20));
        assert_ne!(memory.allocate(len, 4096), first);
        // SAFETY: just allocated, of this length, and not used elsewhere.
        unsafe {
            first.write_bytes(7, len);
            memory.free(first, len, 2 << 20);
        }
        assert_eq!(memory.allocate(len, 2 << 20), first);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(first, len) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        assert!(
            memory.allocate(len, 1 << 62).is_null(),
            "an alignment that no memory has"
        );
    }
}
