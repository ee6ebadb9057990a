//! What all streams have in common: position, mode, and the hot and the cold half of every call.
//!
//! A call of a fixed number of bytes first asks the cursor over the current buffer
//! ([`ReadStream::next_at_hand`], [`WriteStream::put_at_hand`]): inlined, one comparison, no
//! virtual call. Only when that says no, the cold half looks why: a refill, a wrong mode, a closed
//! stream, the end. Code that is generic over these traits serialises to memory, to a file and
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
    /// Only read.
    #[default]
    Read,
    /// Only written.
    Write,
    /// Both.
    ReadWrite,
}

impl Mode {
    /// Whether it may be read.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Mode::Write
    }

    /// Whether it may be written.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// Refuses to use `len` bytes at `position` in a way that the mode does not allow.
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

/// A place in a sequence of bytes. Not shared by threads while it is used; may be sent.
pub trait Stream {
    /// Bytes from the start.
    fn position(&self) -> u64;

    /// Bytes that the stream has. May block until its file is open.
    ///
    /// # Errors
    /// The stream is closed, or its file cannot be opened.
    fn len(&mut self) -> Result<u64>;

    /// Whether it has no byte.
    ///
    /// # Errors
    /// As [`Stream::len`].
    fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Goes to a position, also one beyond the end: reads there find the end, a write there fills
    /// the gap with zeroes. May block until earlier writes have gone.
    ///
    /// # Errors
    /// The stream is closed or has failed, or no stream can have the position.
    fn seek_to(&mut self, position: u64) -> Result<()>;

    /// What it may be used for.
    fn mode(&self) -> Mode;

    /// Whether it can be used at all.
    ///
    /// # Errors
    /// It is closed, or failed before.
    fn check(&self) -> Result<()>;
}

/// A stream that bytes come out of.
pub trait ReadStream: Stream {
    /// The next `N` bytes if the current buffer has them.
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]>;

    /// Fills `into`, through refills. On an error the position has not moved.
    ///
    /// # Errors
    /// The stream ends before, cannot be read, is closed, or fails.
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()>;

    /// Reads at least one byte unless `into` is empty or the stream is at its end; how many.
    ///
    /// # Errors
    /// The stream cannot be read, is closed, or fails.
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize>;

    /// The bytes at hand, refilled if there are none; empty at the end.
    ///
    /// # Errors
    /// As [`ReadStream::read_some`].
    fn window(&mut self) -> Result<&[u8]>;

    /// Goes on by bytes that [`ReadStream::window`] returned.
    ///
    /// # Panics
    /// By more than it returned.
    fn advance(&mut self, count: usize);

    /// The next `N` bytes.
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

    /// The same where the current buffer does not have them.
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

/// A stream that bytes go into.
pub trait WriteStream: Stream {
    /// Puts `N` bytes if the current buffer has room for them.
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool;

    /// Writes all of `bytes`. An error of an earlier write that went on behind shows here.
    ///
    /// # Errors
    /// The stream cannot be written, is closed, its window ends before (then nothing was written),
    /// or an earlier write failed.
    fn write_slice(&mut self, bytes: &[u8]) -> Result<()>;

    /// Hands everything to the system, and waits until it has it.
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

    /// The same where the current buffer has no room.
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

/// Largest position of a stream: that of a file. Sums of a position and a length do not wrap.
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

/// The position that a seek of the standard library means.
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

/// The standard library's traits for a stream: `std_traits!(read|write|seek, generics, type)`.
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
