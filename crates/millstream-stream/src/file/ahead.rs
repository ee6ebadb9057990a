//! The reading half: windows of the file, requested ahead of the cursor.
//!
//! A stream that reads on gets whole buffers; the first one after a seek to elsewhere is small and
//! has none behind it, so that who jumps about pays only for what it looks at. Whatever is in
//! flight for another place is dropped: its request goes on, and its buffer returns to the pool.

use millstream::{Buffer, Request, Ticket};

use millstream::LocalFile;

use super::{FileStream, Handle, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_BUFFER_BYTES, READS_AHEAD, SEEK_BUFFER_BYTES};

/// Windows begin at multiples of a page, which spares the kernel half pages.
const PAGE_BYTES: u64 = 4096;

/// A window on its way.
pub(super) struct Ahead {
    offset: u64,
    len: u64,
    ticket: Ticket,
}

impl Ahead {
    fn holds(&self, position: u64) -> bool {
        self.offset <= position && position - self.offset < self.len
    }
}

impl Handle {
    fn read_fully(&self, local: &LocalFile, offset: u64, into: &mut [u8]) -> Result<()> {
        let len = into.len() as u64;
        match local.read_at(offset, into) {
            Ok(read) if read == into.len() => Ok(()),
            Ok(read) => {
                let cause = "the file was cut while it was read";
                let at = offset + read as u64;
                Err(Error::new(ErrorKind::PastEnd, at, len, cause).of_file(&self.path))
            }
            Err(error) => Err(self.error(error, offset, len)),
        }
    }
}

impl FileStream {
    /// Has at least one byte at hand unless the file ends here. The stream reads; the caller is
    /// going to take `wanted` bytes.
    pub(super) fn refill(&mut self, wanted: usize) -> Result<()> {
        if !self.cursor.readable().is_empty() {
            return Ok(());
        }
        let position = self.cursor.position();
        if position >= self.len {
            return Ok(());
        }
        // Windows before the one with the position were passed over by a seek.
        while self.ahead.front().is_some_and(|it| !it.holds(position)) {
            self.ahead.pop_front();
        }
        // Who has read a window to its end, or begins at the start, reads on.
        let reads_on = position == 0 || self.cursor.read_end() > 0 || !self.ahead.is_empty();
        let reads_on = reads_on || wanted > SEEK_BUFFER_BYTES;
        if self.ahead.is_empty() {
            let offset = position / PAGE_BYTES * PAGE_BYTES;
            let len = if reads_on {
                FILE_BUFFER_BYTES
            } else {
                SEEK_BUFFER_BYTES
            };
            let len = (len as u64).min(self.len - offset);
            if self.read_local(offset, len, position)? {
                if reads_on {
                    self.request_more(offset + len)?;
                }
                return Ok(());
            }
            self.request(offset, len)?;
        }
        if reads_on {
            self.request_more(0)?;
        }
        self.handle.submit();
        let Some(front) = self.ahead.pop_front() else {
            unreachable!("a window was requested, or was on its way")
        };
        let (offset, len) = (front.offset, front.len);
        let buffer = match front.ticket.wait() {
            Ok(done) => done.into_buffer(),
            Err(failed) => {
                self.ahead.clear();
                self.cursor.go(position, 0);
                return Err(self.handle.error(failed.error, offset, len));
            }
        };
        self.look_at(buffer, offset, position);
        Ok(())
    }

    /// Reads some of `into`, which is not empty; nothing only at the end of the file.
    pub(super) fn read_piece(&mut self, into: &mut [u8]) -> Result<usize> {
        let position = self.cursor.position();
        let len = into
            .len()
            .min(usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX));
        let large = len >= FILE_BUFFER_BYTES && self.cursor.readable().is_empty();
        if large
            && let Place::Local(local) = &self.handle.place
            && local.is_cached(position, len as u64)
        {
            self.handle.read_fully(local, position, &mut into[..len])?;
            self.cursor.go(position + len as u64, 0);
            return Ok(len);
        }
        self.refill(into.len())?;
        Ok(self.cursor.read(into))
    }

    /// Reads a window on the calling thread if nothing has to be waited for; whether it did.
    fn read_local(&mut self, offset: u64, len: u64, position: u64) -> Result<bool> {
        let Place::Local(local) = &self.handle.place else {
            return Ok(false);
        };
        if !local.is_cached(offset, len) {
            return Ok(false);
        }
        let mut buffer = self.handle.buffer(len as usize, offset)?;
        self.handle.read_fully(local, offset, &mut buffer)?;
        self.look_at(buffer, offset, position);
        Ok(true)
    }

    /// Has [`READS_AHEAD`] windows on their way behind the one at hand, or waited for, whose end is
    /// `end`; one more where that one is among them.
    fn request_more(&mut self, end: u64) -> Result<()> {
        let count = READS_AHEAD + usize::from(!self.ahead.is_empty());
        while self.ahead.len() < count {
            let next = self.ahead.back().map_or(end, |last| last.offset + last.len);
            if next >= self.len {
                break;
            }
            self.request(next, FILE_BUFFER_BYTES as u64)?;
        }
        if !self.ahead.is_empty() {
            self.handle.submit();
        }
        Ok(())
    }

    fn request(&mut self, offset: u64, len: u64) -> Result<()> {
        let len = len.min(self.len - offset);
        let request = Request::read(self.handle.engine(), offset, len);
        let ticket = self.handle.enqueue(request, offset, len)?;
        self.ahead.push_back(Ahead {
            offset,
            len,
            ticket,
        });
        Ok(())
    }

    /// Puts a window under the cursor.
    fn look_at(&mut self, buffer: Buffer, offset: u64, position: u64) {
        // The view of a buffer may begin after its memory does.
        let start = buffer.as_ptr() as usize - buffer.base() as usize;
        let end = start + buffer.len();
        let at = start + (position - offset) as usize;
        let base = offset.wrapping_sub(start as u64);
        drop(self.cursor.replace(buffer, base, at));
        self.cursor.open(end, 0);
        self.window_start = start;
    }
}
