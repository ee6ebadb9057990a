//! Offers: memory that an open may fill at once.
//!
//! A small file whose bytes are in the page cache is read by the thread that opens it: one
//! hand-over instead of two, and several cores copy. An open may hang, so lent memory does not move
//! with the call: until the thread takes the offer, its owner may withdraw it. One compare-and-swap
//! decides. Memory that was taken is returned with the answer, within the time of a copy.
//!
//! # Safety
//! Lent memory is only touched between a successful `take` and the answer.
#![expect(unsafe_code, reason = "fills memory lent as a raw segment")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::OpenCall;
use crate::device::Segment;
use crate::error::guard;
use crate::fs::{Access, FileSystem, MountKind, Opened};
use crate::limits::OFFER_BYTES_MAX;
use crate::memory::{Buffer, BufferPool};

const OFFERED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Decides who may use the memory of an offer.
#[derive(Debug, Default)]
pub struct OfferToken(AtomicU8);

impl OfferToken {
    /// Called by the thread: whether it may use the memory.
    fn take(&self) -> bool {
        self.change(TAKEN)
    }

    /// Called by the owner: withdraws the offer. If false, a thread is using the memory or has used
    /// it: it is the owner's again with the answer of the open.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        self.change(WITHDRAWN)
    }

    fn change(&self, to: u8) -> bool {
        self.0
            .compare_exchange(OFFERED, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// The memory of an offer.
pub enum OfferMemory {
    /// A buffer of this pool, taken when the length is known.
    Pool(Arc<BufferPool>),
    /// Memory lent by the owner.
    Lent(Segment),
}

/// A range of a file and memory for it.
pub struct Offer {
    /// File offset of the first byte.
    pub offset: u64,
    /// Length in bytes; `u64::MAX` with offset 0 is the whole file.
    pub len: u64,
    /// The memory that the bytes are read into.
    pub memory: OfferMemory,
    /// Decides who may use the memory.
    pub token: Arc<OfferToken>,
}

/// The result of an offer that was used: all of its range was read.
#[derive(Debug)]
pub struct OfferRead {
    /// Length in bytes.
    pub len: u64,
    /// The buffer, if the memory came from a pool.
    pub buffer: Option<Buffer>,
}

/// Reads the offered range of a file that has just been opened, if that waits for no disk.
pub(super) fn read(fs: &dyn FileSystem, call: &OpenCall, file: &Opened) -> Option<OfferRead> {
    let offer = call.offer.as_ref()?;
    let whole = offer.len == u64::MAX && offer.offset == 0;
    let len = if whole { file.len } else { offer.len };
    let inside = offer.offset.checked_add(len)? <= file.len;
    let usable = inside && len > 0 && len <= OFFER_BYTES_MAX;
    if !usable || file.mount_kind == MountKind::Slow || call.access == Access::Direct {
        return None;
    }
    // A cold range that will be read directly must not be drawn into the cache. Its last byte
    // stands for the range: querying all of it costs as much as copying half of it.
    let long = call.access == Access::Auto && len >= call.direct_from && file.direct.is_some();
    if long {
        let last = offer.offset + len - 1;
        if guard(|| fs.cached(*file.descriptor, last, 1))?? == 0 {
            return None;
        }
    }
    let bytes = usize::try_from(len).ok()?;
    let fill = |into: &mut [u8]| {
        let asked = into.len();
        let read = guard(|| fs.read_cached(*file.descriptor, offer.offset, into))?;
        (read == Some(asked)).then_some(())
    };
    let buffer = match &offer.memory {
        OfferMemory::Pool(pool) => {
            // Nothing is read for a withdrawn offer.
            if !offer.token.take() {
                return None;
            }
            let mut buffer = guard(|| pool.take(bytes))?.ok()?;
            buffer.set_view(0, bytes);
            fill(&mut buffer)?;
            Some(buffer)
        }
        OfferMemory::Lent(segment) => {
            if segment.len() < bytes || !offer.token.take() {
                return None;
            }
            // SAFETY: the token was taken, so the memory is this thread's until the answer; `bytes`
            // is not 0 and within the segment.
            fill(unsafe { std::slice::from_raw_parts_mut(segment.pointer(), bytes) })?;
            None
        }
    };
    Some(OfferRead { len, buffer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_the_thread_takes_an_offer_or_the_owner_withdraws_it() {
        let token = OfferToken::default();
        assert!(token.take());
        assert!(!token.withdraw(), "a thread has the memory");
        let token = OfferToken::default();
        assert!(token.withdraw());
        assert!(!token.take(), "the memory is the owner's again");
    }
}
