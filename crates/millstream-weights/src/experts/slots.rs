//! Memory of experts: equal slots of one region, lent to reads in pieces.
//!
//! A slot is a value that owns its bytes. To be filled it is split into pieces, one for each read,
//! which own theirs. When all reads have completed, the pieces are joined into the slot. A piece
//! that the system still holds when a storage is closed is leaked, and its slot with it.
//!
//! # Safety
//! The ranges of the slots of a region, and of the pieces of a slot, do not overlap, and each range
//! has one owner at any time. The region lives as long as any owner.
#![expect(
    unsafe_code,
    reason = "hands out disjoint parts of one region as memory that devices fill"
)]

use std::ops::Range;
use std::sync::Arc;

use millstream::{Destination, Error, ErrorKind, Place, Region, RegionAllocator};

/// Alignment of slots and pieces, which suits direct I/O on all common disks.
pub(super) const ALIGNMENT: usize = 4096;

/// Bytes of a region that this value alone uses.
pub(super) struct Slot {
    region: Arc<Region>,
    range: Range<usize>,
}

/// A part of a slot that one read fills.
pub(super) struct Piece(Slot);

impl Slot {
    /// Allocates `count` slots of `bytes` each, rounded up to whole pages, in one region.
    pub(super) fn allocate(
        count: usize,
        bytes: usize,
        allocator: Option<Arc<dyn RegionAllocator>>,
    ) -> Result<Vec<Slot>, Error> {
        let sizes = bytes.max(1).checked_next_multiple_of(ALIGNMENT);
        let sizes = sizes.and_then(|each| Some((each, each.checked_mul(count)?)));
        let Some((each, all)) = sizes else {
            let cause = format!("{count} slots of {bytes} bytes exceed all memory");
            return Err(Error::new(ErrorKind::OutOfMemory, cause));
        };
        let region = Region::new(all, allocator)?;
        let slot = |nth: usize| Slot {
            region: Arc::clone(&region),
            range: nth * each..(nth + 1) * each,
        };
        Ok((0..count).map(slot).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.region.pointer().wrapping_add(self.range.start);
        // SAFETY: the range lies in the region, whose bytes are initialized, and this value is the
        // only one that has it: nothing writes there.
        unsafe { std::slice::from_raw_parts(start, self.len()) }
    }

    /// Splits it at ascending places.
    pub(super) fn split(self, places: impl IntoIterator<Item = usize>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut rest = self;
        let base = rest.range.start;
        for place in places {
            let at = base + place;
            assert!(rest.range.contains(&at), "a slot is split in its own range");
            let front = Slot {
                region: Arc::clone(&rest.region),
                range: rest.range.start..at,
            };
            rest.range.start = at;
            pieces.push(Piece(front));
        }
        pieces.push(Piece(rest));
        pieces
    }

    /// Joins all pieces of a slot, in their order.
    pub(super) fn join(pieces: Vec<Piece>) -> Option<Slot> {
        let mut pieces = pieces.into_iter().map(|piece| piece.0);
        let mut slot = pieces.next()?;
        for piece in pieces {
            let is_next = Arc::ptr_eq(&piece.region, &slot.region);
            assert!(
                is_next && piece.range.start == slot.range.end,
                "the next piece"
            );
            slot.range.end = piece.range.end;
        }
        Some(slot)
    }
}

// SAFETY: `place` returns the piece's range of the region, which is initialized, does not move with
// the value, and is used by no other slot or piece while this one lives.
unsafe impl Destination for Piece {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.0.region.pointer().wrapping_add(self.0.range.start),
            len: self.0.len(),
        }
    }
}
