//! What decoders of whole blocks keep between calls: the stored bytes of a block that has not come
//! completely, and the raw bytes of one for which the caller had no room.

use crate::encode::reserve;
use crate::error::Fault;

/// The stored bytes of a block, when they come in pieces.
#[derive(Default)]
pub(super) struct Collected {
    bytes: Vec<u8>,
}

impl Collected {
    /// Takes bytes from `stored` until there are `wanted`, and has these decoded: how many it took,
    /// and what `decode` returned. A block that lies in `stored` as a whole is not copied.
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

/// The raw bytes of a block that had no room.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// Those that are not written yet.
    start: usize,
    end: usize,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Lets `decode` fill up to `len_max` bytes; returns those that it says it wrote.
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

    /// Writes what there is; the bytes written.
    pub(super) fn flush(&mut self, raw: &mut [u8]) -> usize {
        let written = (self.end - self.start).min(raw.len());
        raw[..written].copy_from_slice(&self.bytes[self.start..self.start + written]);
        self.start += written;
        written
    }
}
