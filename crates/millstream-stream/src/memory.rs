//! A stream in memory that grows as it is written.
//!
//! The vector under it is grown ahead of the writer with zeros, doubling each time, so that the
//! fast path only compares and stores. The stream ends at the cursor or at `len`, whichever is
//! larger: `len` is brought up to date by the calls that move the cursor back, not by each write.
//!
//! ```
//! use millstream_stream::{MemoryStream, WriteTyped};
//! let mut stream = MemoryStream::new();
//! for vector in [[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]] {
//!     stream.write_plain(&vector)?;
//! }
//! assert_eq!(stream.into_vec().len(), 24);
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::stream::{
    Mode, POSITION_MAX, ReadStream, Stream, WriteStream, out_of_range, std_traits,
};

/// A stream in memory that grows as it is written; see the module. Never blocks.
#[derive(Default)]
pub struct MemoryStream {
    /// Over the memory from position 0 on; closed while it is beyond the end.
    cursor: Cursor<Vec<u8>>,
    /// Length of the stream, unless writes have moved the cursor beyond it.
    len: usize,
    len_max: Option<u64>,
}

impl MemoryStream {
    /// Creates an empty stream.
    #[must_use]
    pub fn new() -> MemoryStream {
        MemoryStream::default()
    }

    /// Creates a stream of these bytes, positioned at their start.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> MemoryStream {
        let len = bytes.len();
        let mut stream = MemoryStream {
            cursor: Cursor::new(bytes, 0),
            len,
            len_max: None,
        };
        stream.open();
        stream
    }

    /// Sets the length beyond which the stream refuses to grow (`Limit`).
    #[must_use]
    pub fn len_max(mut self, bytes: u64) -> MemoryStream {
        self.len_max = Some(bytes);
        self.len = self.used();
        self.open();
        self
    }

    /// Returns the bytes of the stream.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.cursor.memory()[..self.used()]
    }

    /// Removes all bytes, keeps the memory, and returns to position 0.
    pub fn clear(&mut self) {
        self.cursor.go(0, 0);
        self.len = 0;
        self.open();
    }

    /// Returns the bytes.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        let used = self.used();
        let mut bytes = self.cursor.replace(Vec::new(), 0, 0);
        bytes.truncate(used);
        bytes
    }

    fn used(&self) -> usize {
        // Beyond the end the cursor is closed.
        match self.cursor.at() <= *self.cursor.write_end() {
            true => self.len.max(self.cursor.at()),
            false => self.len,
        }
    }

    /// Allows reads up to `len` and writes up to the memory's end, unless the cursor is beyond
    /// `len`.
    fn open(&mut self) {
        if self.cursor.at() <= self.len {
            let all = self.cursor.memory().len();
            let max = self.len_max.and_then(|max| usize::try_from(max).ok());
            self.cursor
                .open(self.len, max.map_or(all, |max| all.min(max)));
        }
    }

    /// Makes room for `more` bytes at the position, and fills a gap before it with zeros.
    fn grow(&mut self, more: usize) -> Result<()> {
        let at = self.cursor.at();
        let fail = |kind, cause| Err(Error::new(kind, at as u64, more as u64, cause));
        let Some(end) = at.checked_add(more) else {
            return fail(ErrorKind::OutOfMemory, "longer than the address space");
        };
        if self.len_max.is_some_and(|max| end as u64 > max) {
            return fail(ErrorKind::Limit, "the stream may not grow beyond its bound");
        }
        self.len = self.used();
        let len = self.len;
        let grown = self.cursor.with_memory(|bytes| {
            if end > bytes.len() {
                let wanted = end.max(bytes.len() * 2).max(limits::MEMORY_BYTES_MIN);
                let exact = end - bytes.len();
                if bytes.try_reserve_exact(wanted - bytes.len()).is_err() {
                    bytes.try_reserve_exact(exact)?;
                }
                bytes.resize(bytes.capacity().min(wanted), 0);
            }
            if at > len {
                // Stale bytes from before a `clear` must not show in the gap.
                bytes[len..at].fill(0);
            }
            Ok::<(), std::collections::TryReserveError>(())
        });
        if grown.is_err() {
            self.open();
            return fail(ErrorKind::OutOfMemory, "no memory for the stream to grow");
        }
        self.len = len.max(at);
        self.open();
        Ok(())
    }
}

impl Stream for MemoryStream {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn len(&mut self) -> Result<u64> {
        Ok(self.used() as u64)
    }

    fn seek_to(&mut self, position: u64) -> Result<()> {
        let at = usize::try_from(position).ok();
        // No allocation is longer, and adding a few bytes does not wrap.
        let at = at.filter(|&at| at <= isize::MAX as usize && position <= POSITION_MAX);
        let at = at.ok_or_else(|| out_of_range(position, 0))?;
        self.len = self.used();
        self.cursor.go(0, at);
        self.open();
        Ok(())
    }

    fn mode(&self) -> Mode {
        Mode::ReadWrite
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl ReadStream for MemoryStream {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cursor.take()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        if self.cursor.readable().len() < into.len() {
            let (at, len) = (self.position(), into.len() as u64);
            let cause = "the stream ends before";
            return Err(Error::new(ErrorKind::PastEnd, at, len, cause));
        }
        self.cursor.read(into);
        Ok(())
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        Ok(self.cursor.read(into))
    }

    fn window(&mut self) -> Result<&[u8]> {
        Ok(self.cursor.readable())
    }

    fn advance(&mut self, count: usize) {
        self.cursor.advance(count);
    }
}

impl WriteStream for MemoryStream {
    #[inline(always)]
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        self.cursor.put(bytes)
    }

    fn write_slice(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.cursor.writable().len() < bytes.len() {
            self.grow(bytes.len())?;
        }
        let written = self.cursor.write(bytes);
        assert_eq!(written, bytes.len(), "room was made");
        Ok(())
    }

    fn flush_all(&mut self) -> Result<()> {
        Ok(())
    }
}

std_traits!(read, [], MemoryStream);
std_traits!(write, [], MemoryStream);
std_traits!(seek, [], MemoryStream);

impl std::fmt::Debug for MemoryStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStream")
            .field("position", &self.position())
            .field("len", &self.used())
            .finish()
    }
}
