//! Zeroed memory for all slots that a storage may have, of which only what is used becomes
//! resident. In models it is two slices.
#![cfg_attr(
    not(model),
    expect(unsafe_code, reason = "a value is found by its index alone")
)]

#[cfg(not(model))]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::ptr::NonNull;

    use crate::limits::SLOTS_MAX;
    use crate::slots::Hot;
    use crate::sync::AtomicU64;

    /// Zeroed memory for the hot halves and tags of `SLOTS_MAX` slots, for both of which all zeroes
    /// is a value. In one piece of more than 32 MiB: the system allocator gets such a one from the
    /// system, and would clear a smaller one itself, if a storage before had used its memory.
    pub(in crate::slots) struct Reserved {
        hot: NonNull<Hot>,
        tags: NonNull<AtomicU64>,
        allocation: NonNull<u8>,
    }

    const HOT_BYTES: usize = size_of::<Hot>() * SLOTS_MAX as usize;
    const TAG_BYTES: usize = size_of::<AtomicU64>() * SLOTS_MAX as usize;

    /// Of bytes, with room to align the values: the system allocator writes zeroes itself, and so
    /// makes all of it resident, if it is asked for more than its own alignment.
    const LAYOUT: Layout = {
        match Layout::from_size_align(HOT_BYTES + TAG_BYTES + align_of::<Hot>(), 1) {
            Ok(layout) => layout,
            Err(_) => panic!("the reservation exceeds the address space"),
        }
    };

    impl Reserved {
        pub(in crate::slots) fn new() -> Reserved {
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc_zeroed(LAYOUT) };
            let Some(allocation) = NonNull::new(memory) else {
                handle_alloc_error(LAYOUT)
            };
            let skip = allocation.align_offset(align_of::<Hot>());
            // SAFETY: less than the alignment, for which the layout has room.
            let hot = unsafe { allocation.add(skip) };
            // SAFETY: the layout has room for both, and the tags need less alignment.
            let tags = unsafe { hot.add(HOT_BYTES) }.cast();
            Reserved {
                hot: hot.cast(),
                tags,
                allocation,
            }
        }

        #[inline(always)]
        pub(in crate::slots) fn hot(&self, index: u32) -> &Hot {
            assert!(index < SLOTS_MAX, "a slot's index");
            // SAFETY: inside the reservation, which lives as long as `self`; zeroes are a value.
            unsafe { self.hot.add(index as usize).as_ref() }
        }

        #[inline(always)]
        pub(in crate::slots) fn tag(&self, index: u32) -> &AtomicU64 {
            assert!(index < SLOTS_MAX, "a slot's index");
            // SAFETY: as above.
            unsafe { self.tags.add(index as usize).as_ref() }
        }
    }

    impl Drop for Reserved {
        fn drop(&mut self) {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.allocation.as_ptr(), LAYOUT) }
        }
    }
}

#[cfg(model)]
mod memory {
    use crate::ids::FileId;
    use crate::limits::SLOTS_MAX;
    use crate::slots::{Body, Hot};
    use crate::sync::{AtomicU64, SharedCell};

    pub(in crate::slots) struct Reserved(Box<[(Hot, AtomicU64)]>);

    fn hot() -> Hot {
        let body = Body {
            file: FileId::from_bits(0),
            offset: 0,
            len: 0,
            pointer: std::ptr::null_mut(),
            room: 0,
            user_data: 0,
        };
        Hot {
            word: AtomicU64::new(0),
            interest: AtomicU64::new(0),
            body: SharedCell::new(body),
        }
    }

    impl Reserved {
        pub(in crate::slots) fn new() -> Reserved {
            let slot = |_| (hot(), AtomicU64::new(0));
            Reserved((0..SLOTS_MAX).map(slot).collect())
        }

        pub(in crate::slots) fn hot(&self, index: u32) -> &Hot {
            &self.0[index as usize].0
        }

        pub(in crate::slots) fn tag(&self, index: u32) -> &AtomicU64 {
            &self.0[index as usize].1
        }
    }
}

pub(super) use memory::Reserved;
