//! Recycled destination buffers.
use super::region::RegionAllocator;
use crate::error::IoError;
use std::sync::Arc;

/// Gives out buffers and takes them back when they are dropped. Shared by threads.
pub struct BufferPool;

/// Page-aligned memory of a pool, owned; derefs to its bytes. Goes back to the pool when dropped.
pub struct Buffer;

impl BufferPool {
    /// A pool that keeps up to `retained_max` bytes of free memory for reuse.
    pub fn new(
        retained_max: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Arc<BufferPool> {
        let _ = (retained_max, allocator);
        unimplemented!()
    }
    /// A buffer of `len` bytes with unspecified content.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<Buffer, IoError> {
        let _ = len;
        unimplemented!()
    }
}

impl Buffer {
    /// Bytes that the memory under it holds, from its page-aligned start on.
    pub fn capacity(&self) -> usize {
        0
    }
    /// First byte of the memory under it (page-aligned), whatever the view; for devices.
    pub fn base(&self) -> *mut u8 {
        unimplemented!()
    }
    /// Shows `len` bytes from `start` of the memory on.
    ///
    /// # Panics
    /// If that is beyond the capacity.
    pub fn set_view(&mut self, start: usize, len: usize) {
        let _ = (start, len);
    }
}
impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &[]
    }
}
impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}
