//! Offers: memory that an open may fill at once.
//!
//! A small file whose bytes are in the page cache is read by the worker that opens it: a request
//! then costs one hand-over instead of two, and several cores copy. The engine offers the memory of
//! one waiting request with the order to open; the worker takes the offer when the file is open,
//! lies on a disk of this machine, and the bytes are there without waiting.
//!
//! An open may hang, so the memory is not lent with the order: until the worker has taken the
//! offer, the engine may withdraw it, and the request can end. One compare-and-swap decides. What
//! was taken is given back within the time of a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use millstream_io::{Buffer, BufferPool, FileSystem, MountKind, Opened};

use crate::job::{Span, Target};
use crate::limits;

const OFFERED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Who has the memory of an offer.
#[derive(Default)]
pub(crate) struct Token(AtomicU8);

impl Token {
    fn take(&self) -> bool {
        self.change(TAKEN)
    }

    /// Engine: whether the memory is the engine's again; else a worker is reading into it.
    pub(crate) fn withdraw(&self) -> bool {
        self.change(WITHDRAWN)
    }

    fn change(&self, to: u8) -> bool {
        self.0
            .compare_exchange(OFFERED, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Where the bytes of an offer go.
pub(crate) enum Room {
    /// A buffer of this pool, taken when the size is known.
    Library(Arc<BufferPool>),
    /// Memory of the request.
    Lent(Span),
}

/// A request's range and memory.
pub(crate) struct Offer {
    pub(crate) target: Target,
    pub(crate) offset: u64,
    /// `u64::MAX`: the whole file.
    pub(crate) len: u64,
    pub(crate) room: Room,
    pub(crate) token: Arc<Token>,
}

/// What became of an offer.
pub(crate) struct Answer {
    pub(crate) target: Target,
    /// The bytes that were read, all of the range; `None`: the offer was not used.
    pub(crate) read: Option<Brought>,
}

/// The range of an offer that was used.
pub(crate) struct Brought {
    pub(crate) len: u64,
    /// For a destination of the library's.
    pub(crate) buffer: Option<Buffer>,
}

impl Offer {
    /// Reads the range of a file that has just been opened, if that does not wait.
    pub(crate) fn use_on(self, fs: &dyn FileSystem, file: &Opened) -> Answer {
        let target = self.target;
        let read = self.read(fs, file);
        Answer { target, read }
    }

    /// The file could not be opened.
    pub(crate) fn decline(self) -> Answer {
        Answer {
            target: self.target,
            read: None,
        }
    }

    fn read(mut self, fs: &dyn FileSystem, file: &Opened) -> Option<Brought> {
        let whole = self.len == u64::MAX && self.offset == 0;
        let len = if whole { file.len } else { self.len };
        let inside = self.offset.checked_add(len)? <= file.len;
        if !inside
            || len == 0
            || len > limits::OFFER_BYTES_MAX
            || file.mount_kind == MountKind::Slow
        {
            return None;
        }
        // A cold range that will be read past the cache must not be drawn into it. Its last byte
        // speaks for it: to ask for all costs as much as copying half of it.
        let large = len >= limits::DIRECT_BYTES_MIN && file.direct.is_some();
        if large && fs.cached(file.descriptor, self.offset + len - 1, 1)? == 0 {
            return None;
        }
        let bytes = usize::try_from(len).ok()?;
        let fill = |into: &mut [u8]| {
            let read = fs.read_cached(file.descriptor, self.offset, into);
            (read == Some(into.len())).then_some(())
        };
        let buffer = match &mut self.room {
            Room::Library(pool) => {
                let mut buffer = pool.take(bytes).ok()?;
                buffer.set_view(0, bytes);
                fill(&mut buffer)?;
                Some(buffer)
            }
            Room::Lent(span) => {
                if !self.token.take() {
                    return None;
                }
                fill(span.slice().get_mut(..bytes)?)?;
                None
            }
        };
        Some(Brought { len, buffer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_the_worker_takes_an_offer_or_the_engine_withdraws_it() {
        let token = Token::default();
        assert!(token.take());
        assert!(!token.withdraw(), "a worker has the memory");
        let token = Token::default();
        assert!(token.withdraw());
        assert!(!token.take(), "the request may have ended");
    }
}
