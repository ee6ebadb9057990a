//! Reading: windows of the file, requested ahead of the cursor.
//!
//! A stream that is read in order requests whole buffers. The first request after a seek is small
//! and has none ahead of it, so that random access pays only for what it reads. Requests in flight
//! for another position are dropped.

use millstream::{Batch, Buffer, LocalFile, Ticket};

use super::{FileStream, Handle, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_BUFFER_BYTES, LOCAL_BYTES_MAX, READS_AHEAD, SEEK_BUFFER_BYTES};

/// Windows begin at multiples of a page, so that the kernel reads no partial page.
const PAGE_BYTES: u64 = 4096;

/// A requested window.
pub(super) struct Window {
    offset: u64,
    len: u64,
    ticket: Ticket<Buffer>,
}

impl Handle {
    fn read_fully(&self, local: &LocalFile, offset: u64, into: &mut [u8]) -> Result<()> {
        let len = into.len() as u64;
        match local.read_at(offset, into) {
            Ok(read) if read == into.len() => Ok(()),
            Ok(read) => {
                let cause = "the file was truncated while it was read";
                let at = offset + read as u64;
                Err(Error::new(ErrorKind::PastEnd, at, len, cause).of_file(&self.path))
            }
            Err(error) => Err(self.error(error, offset, len)),
        }
    }
}

impl FileStream {
    /// Makes at least one byte readable unless the file ends here. The caller is going to read
    /// `wanted` bytes.
    pub(super) fn refill(&mut self, wanted: usize) -> Result<()> {
        if !self.cursor.readable().is_empty() {
            return Ok(());
        }
        let position = self.cursor.position();
        if position >= self.len {
            return Ok(());
        }
        // A seek has skipped the windows before the one that holds the position.
        let holds = |it: &Window| (it.offset..it.offset + it.len).contains(&position);
        while self.ahead.front().is_some_and(|it| !holds(it)) {
            self.ahead.pop_front();
        }
        // Read in order: from the start, or past the end of a window.
        let in_order = position == 0 || self.cursor.read_end() > 0 || !self.ahead.is_empty();
        let in_order = in_order || wanted > SEEK_BUFFER_BYTES;
        let mut batch = self.handle.streams.data.batch();
        if self.ahead.is_empty() {
            let (unit, len) = match (&self.handle.place, in_order) {
                // Each window would be decoded from the start of the entry on.
                (Place::Entry(source, entry), _) if source.is_read_whole(entry) => {
                    (self.len, self.len)
                }
                (Place::Entry(..), _) => (FILE_BUFFER_BYTES as u64, FILE_BUFFER_BYTES as u64),
                (_, true) => (PAGE_BYTES, FILE_BUFFER_BYTES as u64),
                (_, false) => (PAGE_BYTES, SEEK_BUFFER_BYTES as u64),
            };
            let offset = position / unit * unit;
            let len = len.min(self.len - offset);
            if self.read_local(offset, len, position)? {
                // Requests ahead pay off only after many bytes: cached bytes need no wait.
                let many = self.local_bytes >= LOCAL_BYTES_MAX;
                if in_order && many && offset + len < self.len {
                    self.read_ahead(&mut batch, offset + len)?;
                }
                return Ok(());
            }
            self.request_window(&mut batch, offset, len)?;
        }
        if in_order {
            self.read_ahead(&mut batch, 0)?;
        }
        batch.submit();
        let first = self.ahead.pop_front();
        let mut first = first.expect("a window was requested, or was on its way");
        match first.ticket.wait() {
            Ok(buffer) => {
                self.look_at(buffer, first.offset, position);
                Ok(())
            }
            Err(error) => {
                self.ahead.clear();
                self.cursor.go(position, 0);
                Err(self.handle.error(error, first.offset, first.len))
            }
        }
    }

    /// Reads at least one byte into `into`, which is not empty, unless the file ends here; returns
    /// how many.
    pub(super) fn read_piece(&mut self, into: &mut [u8]) -> Result<usize> {
        let position = self.cursor.position();
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let len = into.len().min(left);
        if len >= FILE_BUFFER_BYTES
            && self.cursor.readable().is_empty()
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

    /// Reads a window on the calling thread if it is in the page cache; returns whether it did.
    fn read_local(&mut self, offset: u64, len: u64, position: u64) -> Result<bool> {
        let Place::Local(local) = &self.handle.place else {
            return Ok(false);
        };
        if !local.is_cached(offset, len) {
            return Ok(false);
        }
        // Reuses the buffer that was read to its end.
        let mut buffer = self.cursor.replace(Buffer::empty(), position, 0);
        if buffer.capacity() < len as usize {
            buffer = self.handle.buffer(len as usize, offset)?;
        }
        buffer.set_view(0, len as usize);
        self.handle.read_fully(local, offset, &mut buffer)?;
        self.look_at(buffer, offset, position);
        self.local_bytes += len;
        Ok(true)
    }

    fn request_window(&mut self, batch: &mut Batch, offset: u64, len: u64) -> Result<()> {
        let added = batch.add(self.request(offset, len)?);
        let ticket = added.map_err(|error| self.handle.error(error, offset, len))?;
        self.ahead.push_back(Window {
            offset,
            len,
            ticket,
        });
        Ok(())
    }

    /// Requests windows until [`READS_AHEAD`] are in flight after the current one, which ends at
    /// `end`, or after the first one in flight.
    fn read_ahead(&mut self, batch: &mut Batch, end: u64) -> Result<()> {
        let count = READS_AHEAD + usize::from(!self.ahead.is_empty());
        while self.ahead.len() < count {
            let next = self.ahead.back().map_or(end, |last| last.offset + last.len);
            if next >= self.len {
                break;
            }
            let len = (FILE_BUFFER_BYTES as u64).min(self.len - next);
            self.request_window(batch, next, len)?;
        }
        Ok(())
    }

    /// Puts a window under the cursor, at `position`.
    fn look_at(&mut self, buffer: Buffer, offset: u64, position: u64) {
        // The view of a buffer may begin inside its memory.
        let start = buffer.as_ptr().addr() - buffer.base().addr();
        let end = start + buffer.len();
        let at = start + (position - offset) as usize;
        let base = offset.wrapping_sub(start as u64);
        drop(self.cursor.replace(buffer, base, at));
        self.cursor.open(end, 0);
        self.window_start = start;
    }
}
