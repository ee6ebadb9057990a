//! Bounded staging blocks: one owner, no locks.
//!
//! The arena of a storage is the staging memory for bytes that cannot be read directly into their
//! destination. Its bound is the back-pressure of the engine: while `take` returns `None`, nothing
//! more is read until a block is given back.
//!
//! The space is divided by `Pages` (`arena/pages.rs`): whole pages, first fit from either end, in a
//! few steps of a tree. So the pages in use lie together at the ends, there is no internal
//! fragmentation, and unneeded pages are never touched (a fresh arena costs no memory, only address
//! space). Blocks that may be out for long are taken from the end (`take_last`), so that they do
//! not split the space of the others.
//!
//! A [`Block`] is an address and a length, 16 bytes, without a reference count. That is sound
//! because an arena that is dropped while blocks are out (or were dropped) leaks its region; and
//! since a leaked region's addresses are never reused, the address alone tells whether a block is
//! from this arena.
//!
//! # Safety
//! The memory of a block is referenced by that block alone from when it is taken until it is
//! given back: `Pages` never
//! gives a page out twice (checked against a model in tests, and by an assert per page run), and
//! its region is unmapped only if no block is out.
#![expect(
    unsafe_code,
    reason = "makes slices of the arena's region; see the section Safety of this file"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::region::{Region, RegionAllocator};
use crate::error::{Errno, IoError};
use crate::limits::{ARENA_BYTES_MAX, MEMORY_ALIGNMENT};
use pages::Pages;

mod pages;

/// A bounded arena of blocks in one region.
pub struct Arena {
    region: Arc<Region>,
    pages: Pages,
    peak_bytes: usize,
}

/// A block of an arena: owned memory, sent to workers and back; to be given back to its arena.
/// Dropping it instead makes its space unusable (the quarantine of a hung read).
#[derive(Debug)]
#[must_use = "a dropped block is lost to its arena"]
pub struct Block {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: a Block is the only access to its bytes, which are plain memory; any thread may use them
// in turn.
unsafe impl Send for Block {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for Block {}

impl Arena {
    /// Makes an arena of `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// There is not enough memory, or `bytes` is zero or more than [`ARENA_BYTES_MAX`].
    pub fn new(
        bytes: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Result<Arena, IoError> {
        if bytes == 0 || bytes > ARENA_BYTES_MAX {
            return Err(IoError::because(
                "arena",
                Errno::INVALID,
                "the size of staging must be between one byte and 64 GiB",
            ));
        }
        let page_count = bytes.div_ceil(MEMORY_ALIGNMENT);
        Ok(Arena {
            region: Region::new(page_count * MEMORY_ALIGNMENT, allocator)?,
            pages: Pages::new(page_count),
            peak_bytes: 0,
        })
    }

    /// Returns whether a block of `len` bytes is free now: whether `take` and `take_last` return
    /// one.
    #[must_use]
    pub fn fits(&self, len: usize) -> bool {
        self.pages.fits(pages_of(len))
    }

    /// Returns a page-aligned block of at least `len` bytes (at least one page), the first that is
    /// free, or `None` if none is free now. Its content is unspecified.
    pub fn take(&mut self, len: usize) -> Option<Block> {
        let first = self.pages.take(pages_of(len))?;
        Some(self.block(first, len))
    }

    /// Returns a block as `take` does, but the last that is free: at the end of the last free space
    /// that is large enough, so that blocks taken from the two ends grow towards each other.
    pub fn take_last(&mut self, len: usize) -> Option<Block> {
        let first = self.pages.take_last(pages_of(len))?;
        Some(self.block(first, len))
    }

    /// Makes the block of pages that were just taken.
    fn block(&mut self, first: usize, len: usize) -> Block {
        self.peak_bytes = self.peak_bytes.max(self.in_use());
        let offset = first * MEMORY_ALIGNMENT;
        let len = pages_of(len) * MEMORY_ALIGNMENT;
        assert!(offset + len <= self.region.len());
        // SAFETY: offset + len lies within the region, asserted above.
        let pointer = unsafe { NonNull::new_unchecked(self.region.pointer().add(offset)) };
        Block { pointer, len }
    }

    /// Takes a block back.
    ///
    /// # Panics
    /// If the block is from another arena.
    pub fn give(&mut self, block: Block) {
        let offset = block
            .pointer
            .as_ptr()
            .addr()
            .wrapping_sub(self.region.pointer().addr());
        assert!(
            offset < self.capacity() && block.len <= self.capacity() - offset,
            "a block was given to an arena that it is not from"
        );
        self.pages
            .give(offset / MEMORY_ALIGNMENT, block.len / MEMORY_ALIGNMENT);
    }

    /// Returns the number of bytes in blocks that are out (or were dropped).
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.pages.used() * MEMORY_ALIGNMENT
    }

    /// Returns the maximum that `in_use` reached.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.peak_bytes
    }

    /// Returns the size of the arena, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pages.count() * MEMORY_ALIGNMENT
    }

    /// Returns the arena's memory, for registration.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }
}

fn pages_of(len: usize) -> usize {
    len.div_ceil(MEMORY_ALIGNMENT).max(1)
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Blocks that are out still point into the region, and the kernel may write to dropped
        // ones.
        if self.pages.used() > 0 {
            self.region.leak();
        }
    }
}

debug!(Arena, it: capacity = it.capacity(), in_use = it.in_use(), peak = it.peak_bytes);

impl Block {
    /// Length in bytes (as requested, rounded up to whole pages).
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a block has at least a page")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte, for devices.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range is this block's alone and initialized (module's Safety); the borrow of
        // the block keeps it.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// Returns the bytes, mutable.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in as_slice; the exclusive borrow of the block makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}
