//! The stream traits: position, mode, and the fast and the slow path of every call.
//!
//! A call of a fixed number of bytes first tries the cursor over the current buffer
//! ([`ReadStream::next_at_hand`], [`WriteStream::put_at_hand`]): inlined, one comparison, no
//! virtual call. If that fails, the slow path finds the reason: a refill, a wrong mode, a closed
//! stream, the end. Code that is generic over these traits serializes to memory, to files and
//! through views at the same speed.
//!
//! ```
//! use millstream_stream::{MemoryStream, ReadStream, ReadTyped, Result, Stream, WriteTyped};
//!
//! fn save<W: millstream_stream::WriteStream>(out: &mut W) -> Result<()> {
//!     out.write_u32_le(7)?;
//!     out.write_f32_le(0.5)
//! }
//! let mut stream = MemoryStream::new();
//! save(&mut stream)?;
//! stream.seek_to(0)?;
//! assert_eq!((stream.read_u32_le()?, stream.read_f32_le()?), (7, 0.5));
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Result};

/// What a stream may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Reading only.
    #[default]
    Read,
    /// Writing only.
    Write,
    /// Reading and writing.
    ReadWrite,
}

impl Mode {
    /// Whether the mode allows reading.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Mode::Write
    }

    /// Whether the mode allows writing.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// Returns an error about `len` bytes at `position` if the mode does not allow `wanted`.
    pub(crate) fn check(self, wanted: Mode, position: u64, len: u64) -> Result<()> {
        let cause = if wanted.reads() && !self.reads() {
            "the stream was not opened for reading"
        } else if wanted.writes() && !self.writes() {
            "the stream was not opened for writing"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::WrongMode, position, len, cause))
    }
}

/// A sequence of bytes with a current position. This crate's streams may be sent between threads.
pub trait Stream {
    /// Returns the position, in bytes from the start.
    fn position(&self) -> u64;

    /// Returns the length in bytes, with what was written and not flushed yet.
    ///
    /// # Errors
    /// The stream is closed or has failed.
    fn len(&mut self) -> Result<u64>;

    /// Whether the length is 0.
    ///
    /// # Errors
    /// As [`Stream::len`].
    fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Moves to a position, which may be beyond the end: reads there find the end, a write there
    /// fills the gap with zeros. May block until earlier writes complete.
    ///
    /// # Errors
    /// The stream is closed or has failed, or the position exceeds the largest one.
    fn seek_to(&mut self, position: u64) -> Result<()>;

    /// Returns the mode.
    fn mode(&self) -> Mode;

    /// Checks that the stream can be used.
    ///
    /// # Errors
    /// The stream is closed or has failed.
    fn check(&self) -> Result<()>;
}

/// Reading from a stream.
pub trait ReadStream: Stream {
    /// Returns the next `N` bytes if the current buffer holds them all.
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]>;

    /// Fills `into`, refilling the buffer as needed. On an error the position is unchanged.
    ///
    /// # Errors
    /// The stream ends before `into` is full, cannot be read, is closed, or fails.
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()>;

    /// Reads at least one byte unless `into` is empty or the stream has ended; returns how many.
    ///
    /// # Errors
    /// The stream cannot be read, is closed, or fails.
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize>;

    /// Returns the buffered bytes, refilled if there are none; empty at the end of the stream.
    ///
    /// # Errors
    /// As [`ReadStream::read_some`].
    fn window(&mut self) -> Result<&[u8]>;

    /// Moves past `count` of the bytes that [`ReadStream::window`] returned.
    ///
    /// # Panics
    /// If `count` exceeds what it returned.
    fn advance(&mut self, count: usize);

    /// Returns the next `N` bytes.
    ///
    /// # Errors
    /// As [`ReadStream::read_slice`].
    #[inline(always)]
    fn next<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.next_at_hand() {
            Some(bytes) => Ok(bytes),
            None => self.next_cold(),
        }
    }

    /// The slow path of [`ReadStream::next`], for bytes that the current buffer does not hold.
    ///
    /// # Errors
    /// As [`ReadStream::read_slice`].
    #[cold]
    #[inline(never)]
    fn next_cold<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_slice(&mut bytes)?;
        Ok(bytes)
    }
}

/// Writing to a stream.
pub trait WriteStream: Stream {
    /// Writes `N` bytes if the current buffer has room for them; returns whether it did.
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool;

    /// Writes all of `bytes`. Returns the error of an earlier write that failed in the background.
    ///
    /// # Errors
    /// The stream cannot be written or is closed, its window has less room (then nothing was
    /// written), or an earlier write failed.
    fn write_slice(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes everything to the operating system, and waits until it is accepted.
    ///
    /// # Errors
    /// Any write since the last flush failed.
    fn flush_all(&mut self) -> Result<()>;

    /// Writes `N` bytes.
    ///
    /// # Errors
    /// As [`WriteStream::write_slice`].
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<()> {
        if self.put_at_hand(&bytes) {
            Ok(())
        } else {
            self.put_cold(&bytes)
        }
    }

    /// The slow path of [`WriteStream::put`], for a buffer that has no room.
    ///
    /// # Errors
    /// As [`WriteStream::write_slice`].
    #[cold]
    #[inline(never)]
    fn put_cold(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_slice(bytes)
    }
}

impl<S: Stream> Stream for &mut S {
    #[inline(always)]
    fn position(&self) -> u64 {
        (**self).position()
    }
    fn len(&mut self) -> Result<u64> {
        (**self).len()
    }
    fn seek_to(&mut self, position: u64) -> Result<()> {
        (**self).seek_to(position)
    }
    fn mode(&self) -> Mode {
        (**self).mode()
    }
    fn check(&self) -> Result<()> {
        (**self).check()
    }
}

impl<S: ReadStream> ReadStream for &mut S {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        (**self).next_at_hand()
    }
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        (**self).read_slice(into)
    }
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        (**self).read_some(into)
    }
    fn window(&mut self) -> Result<&[u8]> {
        (**self).window()
    }
    fn advance(&mut self, count: usize) {
        (**self).advance(count);
    }
}

impl<S: WriteStream> WriteStream for &mut S {
    #[inline(always)]
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        (**self).put_at_hand(bytes)
    }
    fn write_slice(&mut self, bytes: &[u8]) -> Result<()> {
        (**self).write_slice(bytes)
    }
    fn flush_all(&mut self) -> Result<()> {
        (**self).flush_all()
    }
}

/// Largest position of a stream (a file offset). Sums of a position and a length do not wrap.
pub(crate) const POSITION_MAX: u64 = i64::MAX as u64;

/// The error of a position that no stream can have.
#[cold]
pub(crate) fn out_of_range(position: u64, len: u64) -> Error {
    let cause = "beyond the largest position of any file";
    Error::new(ErrorKind::OutOfRange, position, len, cause)
}

/// The error of every call after `close`.
#[cold]
pub(crate) fn closed(position: u64) -> Error {
    Error::new(ErrorKind::Closed, position, 0, "the stream was closed")
}

/// Converts a `SeekFrom` to a position.
pub(crate) fn position_of(
    from: std::io::SeekFrom,
    position: u64,
    len: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    let (base, delta) = match from {
        std::io::SeekFrom::Start(start) => return Ok(start),
        std::io::SeekFrom::Current(delta) => (position, delta),
        std::io::SeekFrom::End(delta) => (len()?, delta),
    };
    base.checked_add_signed(delta).ok_or_else(|| {
        let cause = "a seek to before the start, or beyond the largest position";
        Error::new(ErrorKind::OutOfRange, position, delta.unsigned_abs(), cause)
    })
}

/// Implements the traits of `std::io` for a stream: `std_traits!(read|write|seek, generics, type)`.
macro_rules! std_traits {
    (read, [$($generics:tt)*], $stream:ty) => {
        impl<$($generics)*> std::io::Read for $stream {
            #[inline]
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                Ok($crate::stream::ReadStream::read_some(self, into)?)
            }
            #[inline]
            fn read_exact(&mut self, into: &mut [u8]) -> std::io::Result<()> {
                Ok($crate::stream::ReadStream::read_slice(self, into)?)
            }
        }
        impl<$($generics)*> std::io::BufRead for $stream {
            #[inline]
            fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
                Ok($crate::stream::ReadStream::window(self)?)
            }
            #[inline]
            fn consume(&mut self, count: usize) {
                $crate::stream::ReadStream::advance(self, count);
            }
        }
    };
    (write, [$($generics:tt)*], $stream:ty) => {
        impl<$($generics)*> std::io::Write for $stream {
            #[inline]
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                $crate::stream::WriteStream::write_slice(self, bytes)?;
                Ok(bytes.len())
            }
            #[inline]
            fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
                Ok($crate::stream::WriteStream::write_slice(self, bytes)?)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok($crate::stream::WriteStream::flush_all(self)?)
            }
        }
    };
    (seek, [$($generics:tt)*], $stream:ty) => {
        impl<$($generics)*> std::io::Seek for $stream {
            fn seek(&mut self, from: std::io::SeekFrom) -> std::io::Result<u64> {
                use $crate::stream::Stream;
                let position = Stream::position(self);
                let to = $crate::stream::position_of(from, position, || Stream::len(self))?;
                Stream::seek_to(self, to)?;
                Ok(to)
            }
            fn stream_position(&mut self) -> std::io::Result<u64> {
                Ok($crate::stream::Stream::position(self))
            }
        }
    };
}
pub(crate) use std_traits;
