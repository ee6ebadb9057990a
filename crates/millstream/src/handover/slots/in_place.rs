//! The slot of a read that the engine has not taken: the thread that waits for it fills its memory,
//! and ends it.
#![expect(
    unsafe_code,
    reason = "uses a slot that its caller keeps the engine from taking"
)]

use std::sync::Arc;

use millstream_codec::CodecId;
use millstream_io::{BufferPool, Segment};

use super::{
    CANCEL, CAUSE, Delivery, ENGINE, Ended, GENERATION, HELD, Head, Hot, PoolOwner, STATE,
    SlotTicket, WAITING, end, life,
};
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::request::{Body, Verb};
use crate::ids::Id;
use crate::sync::Ordering;

/// Whether a request was published, nothing of it has begun, and it asks for stored bytes of a file
/// in ordinary memory, with nothing that few requests ask for.
fn is_plain_read(hot: &Hot, id: Id) -> bool {
    let word = hot.word.load(Ordering::Acquire);
    let head = Head::of(word);
    let is_ordinary = matches!(
        head.memory,
        MemoryKind::Pool | MemoryKind::Buffer | MemoryKind::Owned | MemoryKind::Borrowed
    );
    word & (GENERATION | STATE | CAUSE) == life(id) | ENGINE
        && (head.verb, head.mode) == (Verb::Read, Delivery::Ticket)
        && head.codec == CodecId::STORED
        && is_ordinary
        && !(head.usual || head.rare)
        && hot.interest.load(Ordering::Relaxed) & (WAITING | CANCEL) == 0
}

impl<S> SlotTicket<S> {
    /// Whether it may be worth a look at the request's parcel.
    pub(crate) fn is_plain_read(&self) -> bool {
        !self.is_claimed() && is_plain_read(self.hot(), self.id)
    }
}

impl<S> PoolOwner<S> {
    /// The body of a published request, if it is a plain read.
    ///
    /// # Safety
    /// The engine has not taken the slot's parcel, and the caller keeps it from doing so.
    pub(crate) unsafe fn plain_read(&self, id: Id) -> Option<Body> {
        let hot = self.table.hot(id.index());
        // SAFETY: the caller's promise: nobody writes the body.
        is_plain_read(hot, id).then(|| unsafe { *hot.body.get() })
    }

    /// Has `read` fill the memory of a plain read, and if it fills all of it ends the request.
    /// Returns whether it did; if not, the request is as it was.
    ///
    /// # Safety
    /// As [`PoolOwner::plain_read`], which has returned its body, and the caller has its ticket.
    pub(crate) unsafe fn serve(
        &self,
        id: Id,
        buffers: &Arc<BufferPool>,
        read: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let (hot, cold) = (self.table.hot(id.index()), self.table.cold(id.index()));
        // SAFETY: the caller's promise: the slot is used by this thread alone.
        let (body, memory) = unsafe { (*hot.body.get(), &mut *cold.memory.get()) };
        let len = usize::try_from(body.len).unwrap_or(usize::MAX);
        let word = hot.word.load(Ordering::Relaxed);
        let (kind, mut taken) = (Head::of(word).memory, Memory::None);
        if kind == MemoryKind::Pool {
            let Ok(buffer) = buffers.take(len) else {
                return false;
            };
            taken = Memory::Buffer(buffer);
        }
        let place = match (kind, &mut *memory) {
            (MemoryKind::Pool, _) => taken.span(),
            (MemoryKind::Borrowed, _) => usize::try_from(body.room)
                .ok()
                .map(|room| Segment::new(body.pointer, room)),
            (_, Memory::Buffer(buffer)) => {
                buffer.set_view(0, len.min(buffer.capacity()));
                memory.span()
            }
            _ => memory.span(),
        };
        let fits = |place: &Segment| place.len() >= len && !place.pointer().is_null();
        let Some(place) = place.filter(fits) else {
            return false;
        };
        // SAFETY: the request's memory, which has room for so many bytes, lent to its slot.
        let bytes = unsafe { std::slice::from_raw_parts_mut(place.pointer(), len) };
        if read(bytes) != Some(len) {
            return false;
        }
        let word = match kind {
            MemoryKind::Pool => {
                *memory = taken;
                word & !(7 << 12) | (MemoryKind::Buffer as u64) << 12
            }
            _ => word,
        };
        // SAFETY: the caller's promise; what it ends is ENGINE.
        let ended = unsafe { end(&self.table, id.index(), word, body.len, None) };
        assert!(matches!(ended, Ended::Ticket(_)), "its ticket waits for it");
        true
    }

    /// Makes published slots HELD again, whose parcel has come back to the caller.
    pub(crate) fn unpublish(&self, indices: impl Iterator<Item = u32>) {
        for index in indices {
            let word = &self.table.hot(index).word;
            let own = word.load(Ordering::Relaxed);
            debug_assert_eq!(own & STATE, ENGINE, "a published slot");
            word.store(own & !STATE | HELD, Ordering::Relaxed);
        }
    }
}
