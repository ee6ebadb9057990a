//! A bounded window on another stream that checks every call.
//!
//! Two comparisons check validity, mode, position and bounds before any byte moves: the end of the
//! call against the end of the window (0 for a direction that the mode does not allow), and the
//! stream's own, which tells whether it is open and has the bytes in its buffer (`cursor.rs`). That
//! the stream is where the view left it needs no check: the view owns or borrows it exclusively. A
//! call that fails either takes the slow path, which checks each condition and returns the reason.
//!
//! Positions and errors of a view count from the start of its window. Views of views work the same.
//!
//! ```
//! use millstream_stream::{ErrorKind, MemoryStream, Mode, ReadTyped, StreamView};
//! let mut stream = MemoryStream::from_vec((0..100).collect());
//! let mut view = StreamView::new(&mut stream, 10, 5, Mode::Read)?;
//! assert_eq!(view.read_u32_le()?, 0x0D0C_0B0A);
//! assert_eq!(view.read_u32_le().unwrap_err().kind(), ErrorKind::PastEnd);
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::stream::{
    Mode, POSITION_MAX, ReadStream, Stream, WriteStream, out_of_range, std_traits,
};

/// A window on a stream; see the module. The stream is owned or borrowed (`&mut S`). Moving a
/// borrowed stream while the view is used does not compile:
///
/// ```compile_fail,E0499
/// use millstream_stream::{MemoryStream, Mode, ReadTyped, Stream, StreamView};
/// let mut stream = MemoryStream::from_vec(vec![1, 2, 3]);
/// let mut view = StreamView::new(&mut stream, 1, 2, Mode::Read).unwrap();
/// stream.seek_to(0).unwrap();
/// view.read_u8().unwrap();
/// ```
#[derive(Debug)]
pub struct StreamView<S> {
    under: S,
    /// The window, in positions of the stream under it.
    start: u64,
    end: u64,
    /// `end`, or 0 where the mode does not allow it.
    read_end: u64,
    write_end: u64,
    mode: Mode,
}

impl<S: Stream> StreamView<S> {
    /// Creates a window of `len` bytes from `start` of the stream, positioned at its start.
    ///
    /// # Errors
    /// The stream is closed or has failed, its mode does not allow `mode`, it cannot seek to
    /// `start`, or (if the window is only read) it ends before the window does.
    pub fn new(mut under: S, start: u64, len: u64, mode: Mode) -> Result<StreamView<S>> {
        under.check()?;
        under.mode().check(mode, start, len)?;
        let end = start.checked_add(len).filter(|end| *end <= POSITION_MAX);
        let end = end.ok_or_else(|| out_of_range(start, len))?;
        if !mode.writes() && end > under.len()? {
            let cause = "the window ends beyond the stream";
            return Err(Error::new(ErrorKind::PastEnd, start, len, cause));
        }
        if under.position() != start {
            under.seek_to(start)?;
        }
        Ok(StreamView {
            under,
            start,
            end,
            read_end: if mode.reads() { end } else { 0 },
            write_end: if mode.writes() { end } else { 0 },
            mode,
        })
    }

    /// Checks what the fast path checks, one by one, and returns the reason of a failure.
    fn admit(&self, wanted: Mode, len: u64) -> Result<()> {
        self.check()?;
        self.mode.check(wanted, self.position(), len)?;
        if len > self.left() {
            let cause = "the window ends before";
            return Err(Error::new(ErrorKind::PastEnd, self.position(), len, cause));
        }
        Ok(())
    }

    /// Converts an error of the stream to positions of the window.
    fn seen<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| error.seen_from(self.start))
    }

    /// Returns the stream, at the view's position.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.under
    }

    /// Returns the number of bytes between the view's position and its end.
    fn left(&self) -> u64 {
        self.end.saturating_sub(self.under.position())
    }
}

impl<S: Stream> Stream for StreamView<S> {
    #[inline(always)]
    fn position(&self) -> u64 {
        // The stream is never before the window: only the view moves it.
        self.under.position() - self.start
    }

    fn len(&mut self) -> Result<u64> {
        self.check()?;
        Ok(self.end - self.start)
    }

    fn seek_to(&mut self, position: u64) -> Result<()> {
        self.check()?;
        let to = self.start.checked_add(position);
        let to = to.filter(|to| *to <= POSITION_MAX);
        let to = to.ok_or_else(|| out_of_range(position, 0))?;
        let done = self.under.seek_to(to);
        self.seen(done)
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn check(&self) -> Result<()> {
        self.seen(self.under.check())
    }
}

impl<S: ReadStream> ReadStream for StreamView<S> {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.under.position() + N as u64 > self.read_end {
            return None;
        }
        self.under.next_at_hand()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        self.admit(Mode::Read, into.len() as u64)?;
        let done = self.under.read_slice(into);
        self.seen(done)
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        self.admit(Mode::Read, 0)?;
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        let done = self.under.read_some(&mut into[..count]);
        self.seen(done)
    }

    fn window(&mut self) -> Result<&[u8]> {
        self.admit(Mode::Read, 0)?;
        let start = self.start;
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(&[]);
        }
        let window = self.under.window();
        let window = window.map_err(|error| error.seen_from(start))?;
        Ok(&window[..window.len().min(left)])
    }

    fn advance(&mut self, count: usize) {
        assert!(count as u64 <= self.left(), "no more than what was shown");
        self.under.advance(count);
    }
}

impl<S: WriteStream> WriteStream for StreamView<S> {
    #[inline(always)]
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        self.under.position() + N as u64 <= self.write_end && self.under.put_at_hand(bytes)
    }

    fn write_slice(&mut self, bytes: &[u8]) -> Result<()> {
        self.admit(Mode::Write, bytes.len() as u64)?;
        let done = self.under.write_slice(bytes);
        self.seen(done)
    }

    fn flush_all(&mut self) -> Result<()> {
        self.check()?;
        let done = self.under.flush_all();
        self.seen(done)
    }
}

std_traits!(read, [S: ReadStream], StreamView<S>);
std_traits!(write, [S: WriteStream], StreamView<S>);
std_traits!(seek, [S: Stream], StreamView<S>);
