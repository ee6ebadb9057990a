//! Zeroed memory for all slots that a storage may have, of which only what is used becomes
//! resident. In models it is a slice.
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

    /// Types for which all zeroes is a value, and which need no drop.
    pub(in crate::slots) trait Zeroed {}
    impl Zeroed for Hot {}
    impl Zeroed for AtomicU64 {}

    /// Zeroed memory for `SLOTS_MAX` values.
    pub(in crate::slots) struct Reserved<T: Zeroed> {
        values: NonNull<T>,
        allocation: NonNull<u8>,
    }

    impl<T: Zeroed> Reserved<T> {
        /// Of bytes, with room to align the values: the system allocator writes zeroes itself, and
        /// so makes all of it resident, if it is asked for more than its own alignment.
        const LAYOUT: Layout = {
            let bytes = size_of::<T>() * SLOTS_MAX as usize + align_of::<T>();
            match Layout::from_size_align(bytes, 1) {
                Ok(layout) => layout,
                Err(_) => panic!("the reservation exceeds the address space"),
            }
        };

        pub(in crate::slots) fn new() -> Reserved<T> {
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc_zeroed(Self::LAYOUT) };
            let Some(allocation) = NonNull::new(memory) else {
                handle_alloc_error(Self::LAYOUT)
            };
            let skip = allocation.align_offset(align_of::<T>());
            // SAFETY: less than the alignment, for which the layout has room.
            let values = unsafe { allocation.add(skip) }.cast();
            Reserved { values, allocation }
        }

        #[inline(always)]
        pub(in crate::slots) fn at(&self, index: u32) -> &T {
            assert!(index < SLOTS_MAX, "a slot's index");
            // SAFETY: inside the reservation, which lives as long as `self`; zeroes are a value.
            unsafe { self.values.add(index as usize).as_ref() }
        }
    }

    impl<T: Zeroed> Drop for Reserved<T> {
        fn drop(&mut self) {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.allocation.as_ptr(), Self::LAYOUT) }
        }
    }
}

#[cfg(model)]
mod memory {
    use crate::ids::FileId;
    use crate::limits::SLOTS_MAX;
    use crate::slots::{Body, Hot};
    use crate::sync::{AtomicU64, SharedCell};

    pub(in crate::slots) trait Zeroed {
        fn zeroed() -> Self;
    }
    impl Zeroed for AtomicU64 {
        fn zeroed() -> AtomicU64 {
            AtomicU64::new(0)
        }
    }
    impl Zeroed for Hot {
        fn zeroed() -> Hot {
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
    }

    pub(in crate::slots) struct Reserved<T: Zeroed>(Box<[T]>);

    impl<T: Zeroed> Reserved<T> {
        pub(in crate::slots) fn new() -> Reserved<T> {
            Reserved((0..SLOTS_MAX).map(|_| T::zeroed()).collect())
        }

        pub(in crate::slots) fn at(&self, index: u32) -> &T {
            &self.0[index as usize]
        }
    }
}

pub(super) use memory::Reserved;
