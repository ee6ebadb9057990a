//! A stream in memory that grows as it is written.
//!
//! The vector under it is filled with zeroes ahead of the writer, twice as much each time, so that
//! the hot path only compares and stores. What has been written ends at the cursor or at `len`,
//! whichever is more: `len` is brought up to date by the calls that move the cursor back, not by
//! each write.
//!
//! ```
//! use millstream_stream::{MemoryStream, WriteTyped};
//! let mut stream = MemoryStream::new();
//! for vector in [[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]] {
//!     stream.write_vector(vector)?;
//! }
//! assert_eq!(stream.into_vec().len(), 24);
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::stream::{
    Mode, POSITION_MAX, ReadStream, Stream, WindowStream, WriteStream, closed, out_of_range,
    std_traits,
};

/// See the module. Blocks never.
pub struct MemoryStream {
    cursor: Cursor<Vec<u8>>,
    /// Bytes that the stream has, unless the cursor is beyond.
    len: usize,
    len_max: u64,
    mode: Mode,
    closed: bool,
}

impl Default for MemoryStream {
    fn default() -> MemoryStream {
        MemoryStream::new()
    }
}

impl MemoryStream {
    /// An empty stream for both directions.
    #[must_use]
    pub fn new() -> MemoryStream {
        MemoryStream::over(Vec::new(), 0, Mode::ReadWrite)
    }

    /// An empty stream that has memory for `bytes` already.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> MemoryStream {
        MemoryStream::over(vec![0; bytes], 0, Mode::ReadWrite)
    }

    /// A stream of these bytes, at their start, for both directions.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> MemoryStream {
        MemoryStream::with_mode(bytes, Mode::ReadWrite)
    }

    /// A stream of these bytes, at their start.
    #[must_use]
    pub fn with_mode(bytes: Vec<u8>, mode: Mode) -> MemoryStream {
        let len = bytes.len();
        MemoryStream::over(bytes, len, mode)
    }

    fn over(bytes: Vec<u8>, len: usize, mode: Mode) -> MemoryStream {
        let mut stream = MemoryStream {
            cursor: Cursor::new(bytes, 0),
            len,
            len_max: u64::MAX,
            mode,
            closed: false,
        };
        stream.open();
        stream
    }

    /// Refuses to grow beyond `bytes`.
    #[must_use]
    pub fn len_max(mut self, bytes: u64) -> MemoryStream {
        self.len_max = bytes;
        if self.is_inside() {
            self.len = self.used();
            self.open();
        }
        self
    }

    /// Bytes written, or there from the start.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.cursor.memory()[..self.used()]
    }

    /// Forgets what it holds and keeps the memory; at position 0. A closed stream stays closed.
    pub fn clear(&mut self) {
        self.cursor.go(0, 0);
        self.len = 0;
        self.open();
    }

    /// The bytes.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        let used = self.used();
        let mut bytes = self.cursor.replace(Vec::new(), 0, 0);
        bytes.truncate(used);
        bytes
    }

    /// Ends its use: every later call is an error, the bytes stay.
    pub fn close(&mut self) {
        self.len = self.used();
        let position = self.cursor.position();
        self.cursor.go(position, 0);
        self.closed = true;
    }

    /// Whether the cursor stands in the memory (else beyond the end, in a gap or closed).
    fn is_inside(&self) -> bool {
        self.cursor.base() == 0
    }

    fn used(&self) -> usize {
        if self.is_inside() {
            self.len.max(self.cursor.at())
        } else {
            self.len
        }
    }

    /// Opens the cursor for what the mode allows; it stands inside the memory.
    fn open(&mut self) {
        if self.closed {
            return;
        }
        let reads = if self.mode.reads() { self.len } else { 0 };
        let all = self.cursor.memory().len();
        let writes = if self.mode.writes() {
            usize::try_from(self.len_max).map_or(all, |max| all.min(max))
        } else {
            0
        };
        self.cursor.open(reads, writes);
    }

    fn reading(&self, len: usize) -> Result<()> {
        self.check()?;
        self.mode.check_reads(self.position(), len as u64)
    }

    /// Makes room for `more` bytes at the position, and fills a gap before it with zeroes.
    fn grow(&mut self, more: usize) -> Result<()> {
        let position = self.position();
        let fail = |kind, cause| Err(Error::new(kind, position, more as u64, cause));
        let Some(end) = position.checked_add(more as u64) else {
            return fail(ErrorKind::OutOfRange, "no stream is as long");
        };
        if end > self.len_max {
            return fail(ErrorKind::Limit, "the stream may not grow beyond its bound");
        }
        let (Ok(end), Ok(at)) = (usize::try_from(end), usize::try_from(position)) else {
            return fail(ErrorKind::OutOfMemory, "longer than the address space");
        };
        let len = self.used();
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
                // Stale bytes of before a `clear` must not show in the gap.
                bytes[len..at].fill(0);
            }
            Ok::<(), std::collections::TryReserveError>(())
        });
        self.len = len;
        if grown.is_err() {
            self.restore(position);
            return fail(ErrorKind::OutOfMemory, "no memory for the stream to grow");
        }
        self.cursor.go(0, at);
        self.open();
        Ok(())
    }

    /// Stands at `position` again, inside or beyond the end.
    fn restore(&mut self, position: u64) {
        match usize::try_from(position) {
            Ok(at) if at <= self.len => {
                self.cursor.go(0, at);
                self.open();
            }
            _ => self.cursor.go(position, 0),
        }
    }
}

impl Stream for MemoryStream {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn len(&mut self) -> Result<u64> {
        self.check()?;
        Ok(self.used() as u64)
    }

    fn seek_to(&mut self, position: u64) -> Result<()> {
        self.check()?;
        if position > POSITION_MAX {
            return Err(out_of_range(position, 0));
        }
        self.len = self.used();
        self.restore(position);
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn check(&self) -> Result<()> {
        match self.closed {
            true => Err(closed(self.position())),
            false => Ok(()),
        }
    }
}

impl ReadStream for MemoryStream {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cursor.take()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        self.reading(into.len())?;
        if self.cursor.readable().len() < into.len() {
            let (at, len) = (self.position(), into.len() as u64);
            let cause = "the stream ends before";
            return Err(Error::new(ErrorKind::PastEnd, at, len, cause));
        }
        self.cursor.read(into);
        Ok(())
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        self.reading(into.len())?;
        Ok(self.cursor.read(into))
    }
}

impl WindowStream for MemoryStream {
    fn window(&mut self) -> Result<&[u8]> {
        self.reading(0)?;
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
        self.check()?;
        self.mode
            .check_writes(self.position(), bytes.len() as u64)?;
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
        self.check()
    }
}

std_traits!(read, [], MemoryStream);
std_traits!(window, [], MemoryStream);
std_traits!(write, [], MemoryStream);
std_traits!(seek, [], MemoryStream);

impl std::fmt::Debug for MemoryStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStream")
            .field("position", &self.position())
            .field("len", &self.used())
            .field("closed", &self.closed)
            .finish()
    }
}
