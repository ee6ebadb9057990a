//! Buffers of decoders that decode whole blocks: the stored bytes of an incomplete block, and the
//! raw bytes of one that did not fit the caller's room.

use crate::encode::reserve;
use crate::error::Fault;

/// The stored bytes of a block that arrives in pieces.
#[derive(Default)]
pub(super) struct Collected {
    bytes: Vec<u8>,
}

impl Collected {
    /// Takes bytes from `stored` until there are `wanted`, then calls `decode` on them; returns how
    /// many it took, and the result of `decode`. A block that is whole in `stored` is not copied.
    pub(super) fn take<R>(
        &mut self,
        stored: &[u8],
        wanted: usize,
        decode: impl FnOnce(&[u8]) -> Result<R, Fault>,
    ) -> Result<(usize, Option<R>), Fault> {
        let taken = (wanted - self.bytes.len()).min(stored.len());
        if taken == wanted {
            return Ok((taken, Some(decode(&stored[..taken])?)));
        }
        reserve(&mut self.bytes, taken)?;
        self.bytes.extend_from_slice(&stored[..taken]);
        if self.bytes.len() < wanted {
            return Ok((taken, None));
        }
        let decoded = decode(&self.bytes)?;
        self.bytes.clear();
        Ok((taken, Some(decoded)))
    }
}

/// The raw bytes of a block that did not fit the caller's room.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// Range of the bytes that are not written yet.
    start: usize,
    end: usize,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Lets `decode` fill up to `len_max` bytes; returns the bytes it wrote.
    pub(super) fn fill(
        &mut self,
        len_max: usize,
        decode: impl FnOnce(&mut [u8]) -> Result<usize, Fault>,
    ) -> Result<&[u8], Fault> {
        if let Some(missing) = len_max.checked_sub(self.bytes.len()) {
            reserve(&mut self.bytes, missing)?;
            self.bytes.resize(len_max, 0);
        }
        (self.start, self.end) = (0, decode(&mut self.bytes[..len_max])?);
        Ok(&self.bytes[..self.end])
    }

    /// Writes pending bytes to `raw`; returns how many.
    pub(super) fn flush(&mut self, raw: &mut [u8]) -> usize {
        let written = (self.end - self.start).min(raw.len());
        raw[..written].copy_from_slice(&self.bytes[self.start..self.start + written]);
        self.start += written;
        written
    }
}
