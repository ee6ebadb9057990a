//! Huge-page-backed memory.
use crate::error::IoError;
use std::sync::Arc;

/// The application's own memory for arenas.
pub trait RegionAllocator: Send + Sync {
    /// `len` zeroed bytes at a multiple of `align`, or null.
    fn allocate(&self, len: usize, align: usize) -> *mut u8;
    /// Gives back what `allocate` gave.
    ///
    /// # Safety
    /// `pointer`, `len` and `align` as they were; nobody uses the memory any more.
    #[expect(unsafe_code, reason = "declares the contract of freeing raw memory")]
    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize);
}

/// Memory from the system or the application's allocator, zeroed, page-aligned.
pub struct Region;

impl Region {
    /// Maps `len` bytes (rounded up to 2 MiB from 2 MiB on, else to pages), huge pages asked for, not inherited by fork.
    pub fn new(
        len: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Result<Arc<Region>, IoError> {
        let _ = (len, allocator);
        unimplemented!()
    }
    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        unimplemented!()
    }
    /// Bytes.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
}
