//! Bounded staging blocks (one owner, no locks).
use super::region::{Region, RegionAllocator};
use crate::error::IoError;
use std::sync::Arc;

/// A bounded arena of blocks in one region.
pub struct Arena;

/// A block of an arena: owned memory, sent to workers and back; to be given back to its arena.
/// Dropping it instead makes its space unusable (that is the quarantine of a hung read).
pub struct Block;

impl Arena {
    /// An arena of `bytes` (rounded up to its smallest block).
    pub fn new(
        bytes: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Result<Arena, IoError> {
        let _ = (bytes, allocator);
        unimplemented!()
    }
    /// A page-aligned block of at least `len` bytes, or `None` if none is free now.
    pub fn take(&mut self, len: usize) -> Option<Block> {
        let _ = len;
        unimplemented!()
    }
    /// Takes a block back.
    pub fn give(&mut self, block: Block) {
        let _ = block;
    }
    /// Bytes in blocks that are out.
    pub fn in_use(&self) -> usize {
        0
    }
    /// Most that `in_use` ever was.
    pub fn peak(&self) -> usize {
        0
    }
    /// The bound.
    pub fn capacity(&self) -> usize {
        0
    }
    /// Its memory, to be registered.
    pub fn region(&self) -> &Arc<Region> {
        unimplemented!()
    }
}

impl Block {
    /// Bytes (as asked for, rounded up to whole pages).
    pub fn len(&self) -> usize {
        0
    }
    /// First byte; for devices.
    pub fn pointer(&self) -> *mut u8 {
        unimplemented!()
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &[]
    }
    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut []
    }
}
