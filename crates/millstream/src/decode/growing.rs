//! Raw memory for a stream that declares no raw size: a buffer of the library that doubles.

use std::sync::Arc;

use millstream_codec::Progress;
use millstream_io::{Buffer, BufferPool};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// Raw bytes so far, in a buffer with room for more.
pub(crate) struct Growing {
    pool: Arc<BufferPool>,
    buffer: Buffer,
    written: usize,
    bytes_max: usize,
}

impl Growing {
    /// Takes a buffer for the raw bytes that the stream's head declares, else for a small multiple
    /// of its stored bytes. It begins with at most `bytes_max`, and grows up to that or to what is
    /// declared.
    pub(crate) fn new(
        pool: &Arc<BufferPool>,
        declared: Option<u64>,
        stored_len: u64,
        bytes_max: u64,
    ) -> Result<Growing, Error> {
        let guess = stored_len.saturating_mul(4);
        let guess = guess.clamp(limits::GROW_BYTES.start, limits::GROW_BYTES.end);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Growing {
            buffer: pool.take(size(declared.unwrap_or(guess).min(bytes_max)))?,
            pool: Arc::clone(pool),
            written: 0,
            bytes_max: size(bytes_max.max(declared.unwrap_or(0))),
        })
    }

    /// Calls a decoder with room for raw bytes. Where the buffer is full the room is beside it, so
    /// that the buffer grows only if the stream goes on.
    pub(crate) fn offer(
        &mut self,
        decode: impl FnOnce(&mut [u8]) -> Result<Progress, Error>,
    ) -> Result<Progress, Error> {
        if self.written < self.buffer.len() {
            let progress = decode(&mut self.buffer[self.written..])?;
            self.written += progress.produced;
            return Ok(progress);
        }
        let mut beside = [0; 64];
        let progress = decode(&mut beside)?;
        if progress.produced > 0 {
            self.grow(&beside[..progress.produced])?;
        }
        Ok(progress)
    }

    /// Moves the raw bytes to a buffer twice as long, and appends `bytes`.
    fn grow(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let needed = self.written + bytes.len();
        if needed > self.bytes_max {
            let cause = format!(
                "the stream declares no raw size, and holds more than max_raw, {} bytes: give its \
                 size as raw_len, or a larger max_raw",
                self.bytes_max
            );
            return Err(Error::new(ErrorKind::RawSizeUnknown, cause));
        }
        let len = self.written.saturating_mul(2).min(self.bytes_max);
        let mut buffer = self.pool.take(len.max(needed))?;
        buffer[..self.written].copy_from_slice(&self.buffer);
        buffer[self.written..needed].copy_from_slice(bytes);
        (self.buffer, self.written) = (buffer, needed);
        Ok(())
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}
