//! Zeroed memory for all slots that a storage may have, of which only what is used becomes
//! resident. In models it is two slices.
#![cfg_attr(
    not(model),
    expect(unsafe_code, reason = "a value is found by its index alone")
)]

#[cfg(not(model))]
mod memory {
    use std::alloc::{Layout, alloc_zeroed};
    use std::ptr::NonNull;

    use crate::handover::slots::Hot;
    use crate::limits::SLOTS_MAX;
    use crate::sync::AtomicU64;

    /// Zeroed memory for the hot halves and tags of `SLOTS_MAX` slots, for both of which all zeroes
    /// is a value. In one piece of more than 32 MiB, which the allocator maps from the system; it
    /// would clear a smaller one itself if an earlier storage had used its memory.
    pub(in crate::handover::slots) struct Reserved {
        hot: NonNull<Hot>,
        tags: NonNull<AtomicU64>,
        /// Owns the memory, and has room to align the values: the system allocator writes zeroes
        /// itself, and so makes all of it resident, if it is asked for more than its own alignment.
        _words: Vec<u64>,
    }

    const HOT_WORDS: usize = size_of::<Hot>() / size_of::<u64>() * SLOTS_MAX as usize;
    const WORDS: usize = HOT_WORDS + SLOTS_MAX as usize + align_of::<Hot>() / size_of::<u64>();

    impl Reserved {
        /// `None` if the allocator has no memory.
        pub(in crate::handover::slots) fn new() -> Option<Reserved> {
            let layout = Layout::array::<u64>(WORDS).ok()?;
            // SAFETY: the layout has a size.
            let zeroed = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast();
            // SAFETY: allocated by the global allocator as that many words, all of them zero, which
            // is a value.
            let mut words = unsafe { Vec::<u64>::from_raw_parts(zeroed.as_ptr(), WORDS, WORDS) };
            let skip = words.as_ptr().align_offset(align_of::<Hot>());
            let (hot, tags) = words[skip..].split_at_mut(HOT_WORDS);
            assert!(tags.len() >= SLOTS_MAX as usize, "a tag for each slot");
            Some(Reserved {
                hot: NonNull::from(hot).cast(),
                tags: NonNull::from(tags).cast(),
                _words: words,
            })
        }

        #[inline(always)]
        pub(in crate::handover::slots) fn hot(&self, index: u32) -> &Hot {
            assert!(index < SLOTS_MAX, "a slot's index");
            // SAFETY: aligned and inside the memory, which lives as long as `self` and is used only
            // in this way; zeroes are a value.
            unsafe { self.hot.add(index as usize).as_ref() }
        }

        #[inline(always)]
        pub(in crate::handover::slots) fn tag(&self, index: u32) -> &AtomicU64 {
            assert!(index < SLOTS_MAX, "a slot's index");
            // SAFETY: as above.
            unsafe { self.tags.add(index as usize).as_ref() }
        }
    }
}

#[cfg(model)]
mod memory {
    use crate::caller::request::Body;
    use crate::handover::slots::Hot;
    use crate::ids::FileId;
    use crate::limits::SLOTS_MAX;
    use crate::sync::{AtomicU64, SharedCell};

    pub(in crate::handover::slots) struct Reserved(Box<[(Hot, AtomicU64)]>);

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
        pub(in crate::handover::slots) fn new() -> Option<Reserved> {
            let slot = |_| (hot(), AtomicU64::new(0));
            Some(Reserved((0..SLOTS_MAX).map(slot).collect()))
        }

        pub(in crate::handover::slots) fn hot(&self, index: u32) -> &Hot {
            &self.0[index as usize].0
        }

        pub(in crate::handover::slots) fn tag(&self, index: u32) -> &AtomicU64 {
            &self.0[index as usize].1
        }
    }
}

pub(super) use memory::Reserved;
