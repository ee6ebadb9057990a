//! Recycled destination buffers, shared by threads.
//!
//! The expensive part of a fresh buffer is its first touch (see [`region`](super::region)), so
//! memory is kept and given out again. Buffers up to 1.75 MiB are pieces of slabs, in 31 sizes,
//! four per octave (`buffer/slab.rs`): above 16 KiB at most a fifth is rounding. Larger ones own a
//! region, a multiple of 2 MiB, reused by best fit (`buffer/spare.rs`).
//!
//! A size class has one lock, held for a few loads and stores; the memory a pool keeps is counted
//! where slabs and regions become wholly free, not per buffer. A buffer holds a reference to its
//! *class*, whose count lies in the cache line of the class's lock, which the caller needs anyway.
//! So nothing that all threads share is written when buffers of different sizes are taken and
//! dropped, and a buffer may outlive the pool: its class then unmaps what becomes free.
//!
//! Bound: the wholly free memory a pool keeps (free regions, free slabs) is at most `retained_max`
//! bytes. A slab with a piece still out cannot be unmapped; its free pieces are not counted as
//! kept.
//!
//! # Safety
//! From `take` to its drop a [`Buffer`] is the only one that refers to its range: a slab gives each
//! piece to one buffer at a time, an own region belongs to one buffer. The class (or the buffer
//! itself) holds the region meanwhile. The range is initialized: zero pages or stale bytes.
#![expect(
    unsafe_code,
    reason = "makes slices of pooled regions; see the section Safety of this file"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::region::{Region, RegionAllocator};
use crate::error::{Errno, IoError};
use crate::limits::{BUFFER_PIECE_MAX, MEMORY_ALIGNMENT, REGION_BYTES_MAX};
use slab::Class;
use spare::Spare;

mod slab;
mod spare;
mod touch;

/// A pool that hands out buffers and takes them back when they are dropped. Shared by threads.
pub struct BufferPool {
    classes: Box<[Arc<Class>]>,
    spare: Arc<Spare>,
}

/// An owned, page-aligned buffer; dereferences to its bytes. It may be dropped on any thread: its
/// memory returns to the pool or, if that is gone, is unmapped. In a forked child (Linux) its bytes
/// are zero, unless they come from an application's allocator; the child may drop it.
pub struct Buffer {
    base: NonNull<u8>,
    capacity: usize,
    start: usize,
    len: usize,
    home: Home,
}

/// The owner of a buffer's memory.
enum Home {
    /// No memory.
    Nowhere,
    /// A piece of this slab of a class.
    Piece { class: Arc<Class>, slab: u32 },
    /// A region of the buffer's own.
    Own {
        spare: Arc<Spare>,
        region: Arc<Region>,
        /// The region was never used: its pages may be unpopulated.
        fresh: bool,
    },
}

// SAFETY: a Buffer is the only access to its bytes, which are plain memory; its home may be used
// from any thread.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for Buffer {}

impl BufferPool {
    /// Makes a pool that keeps up to `retained_max` free bytes for reuse. Maps nothing yet.
    #[must_use]
    pub fn new(
        retained_max: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Arc<BufferPool> {
        let spare = Arc::new(Spare::new(retained_max, allocator));
        let classes = (0..slab::CLASS_COUNT)
            .map(|index| Arc::new(Class::new(index, Arc::clone(&spare))))
            .collect();
        Arc::new(BufferPool { classes, spare })
    }

    /// Returns a buffer of `len` bytes with unspecified content. Costs tens of nanoseconds when
    /// memory of its size is free in the pool, a few microseconds when it must be mapped. `take(0)`
    /// is [`Buffer::empty`].
    ///
    /// # Errors
    /// `ENOMEM` if there is not enough memory, and in a forked child of the process that made the
    /// pool.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<Buffer, IoError> {
        if len == 0 {
            return Ok(Buffer::empty());
        }
        if len > REGION_BYTES_MAX {
            return Err(IoError::because(
                "buffer",
                Errno::NO_MEMORY,
                "a length that no memory can have",
            ));
        }
        if len <= BUFFER_PIECE_MAX {
            let class = &self.classes[slab::class_index(len)];
            let (base, slab) = class.take()?;
            let home = Home::Piece {
                class: Arc::clone(class),
                slab,
            };
            return Ok(Buffer::new(base, class.piece_bytes, len, home));
        }
        let (region, fresh) = self.spare.take(len)?;
        let base = NonNull::new(region.pointer()).expect("a region has an address");
        let capacity = region.len();
        let home = Home::Own {
            spare: Arc::clone(&self.spare),
            region,
            fresh,
        };
        Ok(Buffer::new(base, capacity, len, home))
    }
}

/// Returns the error of a forked child that takes a buffer from its parent's pool.
fn of_parent() -> IoError {
    let cause = "a forked child has no memory in a pool of its parent";
    IoError::because("buffer", Errno::NO_MEMORY, cause)
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        if self.spare.fork.is_child() {
            // A thread of the parent may hold its locks, so what it keeps is leaked.
            std::mem::forget((Arc::clone(&self.spare), std::mem::take(&mut self.classes)));
            return;
        }
        self.spare.close();
        for class in &self.classes {
            class.close();
        }
    }
}

debug!(BufferPool, _it:);

impl Buffer {
    fn new(base: NonNull<u8>, capacity: usize, len: usize, home: Home) -> Buffer {
        debug_assert!(len <= capacity);
        Buffer {
            base,
            capacity,
            start: 0,
            len,
            home,
        }
    }

    /// Returns a buffer of no bytes, without a pool; allocates nothing.
    #[must_use]
    pub fn empty() -> Buffer {
        let base = std::ptr::without_provenance_mut(MEMORY_ALIGNMENT);
        let base = NonNull::new(base).expect("the alignment is not zero");
        Buffer::new(base, 0, 0, Home::Nowhere)
    }

    /// Returns the size of the underlying memory, in bytes from its page-aligned start.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Address of the underlying memory (page-aligned), whatever the view; for devices.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Has a thread of the pool touch memory that was never used, ahead of a device that fills it
    /// from its start. Does not wait for it; the first call starts the thread.
    pub fn touch_ahead(&self) {
        if let Home::Own {
            spare,
            region,
            fresh: true,
        } = &self.home
            && !spare.fork.is_child()
        {
            spare.toucher.touch(region);
        }
    }

    /// Sets the view to `len` bytes at offset `start` of the memory.
    ///
    /// # Panics
    /// If the view exceeds the capacity.
    pub fn set_view(&mut self, start: usize, len: usize) {
        assert!(
            start <= self.capacity && len <= self.capacity - start,
            "a view of {len} bytes at {start} is beyond the capacity of {}",
            self.capacity
        );
        self.start = start;
        self.len = len;
    }

    /// Leaks the memory: it is neither reused nor unmapped, even after the pool is dropped. For
    /// memory that the kernel may still write to.
    pub fn leak(self) {
        // The home is forgotten with it: a class that is never dropped keeps its slabs, a region
        // its mapping.
        std::mem::forget(self);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &self.home {
            Home::Nowhere => {}
            Home::Piece { class, slab } => class.give(self.base, *slab),
            Home::Own { spare, region, .. } => spare.give(Arc::clone(region)),
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: start + len <= capacity (new, set_view); the range is this buffer's alone and
        // initialized (module's Safety). Without memory len is 0 and the base is aligned and not
        // null.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().wrapping_add(self.start), self.len) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref; the exclusive borrow makes it the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(self.base.as_ptr().wrapping_add(self.start), self.len)
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

debug!(Buffer, it: base = it.base, capacity = it.capacity, start = it.start, len = it.len);
