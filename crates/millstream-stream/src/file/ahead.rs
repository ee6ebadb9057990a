//! Reading: windows of the file, requested ahead of the cursor.
//!
//! A stream that is read in order requests whole buffers. The first request after a seek is small
//! and has none ahead of it, so that random access pays only for what it reads. Requests in flight
//! for another position are dropped.

use millstream::{Batch, Buffer, LocalFile};

use super::{FileStream, Handle, Place};
use crate::ahead::look_at;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_BUFFER_BYTES, LOCAL_BYTES_MAX, SEEK_BUFFER_BYTES};

/// Windows begin at multiples of a page, so that the kernel reads no partial page.
const PAGE_BYTES: u64 = 4096;

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
        self.ahead.skip_to(position);
        // Read in order: from the start, or past the end of a window.
        let in_order = position == 0 || self.cursor.read_end() > 0 || !self.ahead.is_empty();
        let in_order = in_order || wanted > SEEK_BUFFER_BYTES;
        let mut batch = self.handle.data().batch();
        if self.ahead.is_empty() {
            let (unit, len) = match (&self.handle.place, in_order) {
                (Place::Entry(..), _) => (FILE_BUFFER_BYTES as u64, FILE_BUFFER_BYTES),
                (_, true) => (PAGE_BYTES, FILE_BUFFER_BYTES),
                (_, false) => (PAGE_BYTES, SEEK_BUFFER_BYTES),
            };
            let offset = position / unit * unit;
            let len = (len as u64).min(self.len - offset);
            if self.read_local(offset, len, position)? {
                // Requests ahead only pay off once much was read: cached bytes need no wait.
                let many = self.local_bytes >= LOCAL_BYTES_MAX;
                if in_order && many && offset + len < self.len {
                    self.read_ahead(&mut batch, offset + len)?;
                }
                return Ok(());
            }
            let added = batch.add(self.request(offset, len)?);
            let ticket = added.map_err(|error| self.handle.error(error, offset, len))?;
            self.ahead.push(offset, len, ticket);
        }
        if in_order {
            self.read_ahead(&mut batch, 0)?;
        }
        batch.submit();
        let read = self.ahead.wait(&mut self.cursor, position);
        self.window_start =
            read.map_err(|lost| self.handle.error(lost.error, lost.offset, lost.len))?;
        Ok(())
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
        self.window_start = look_at(&mut self.cursor, buffer, offset, position);
        self.local_bytes += len;
        Ok(true)
    }

    /// Requests the windows after the current one, which ends at `end`.
    fn read_ahead(&mut self, batch: &mut Batch, end: u64) -> Result<()> {
        let (mut ahead, stream_end) = (std::mem::take(&mut self.ahead), self.len);
        let requested = ahead.top_up(end, stream_end, |offset, len| {
            let added = batch.add(self.request(offset, len)?);
            added.map_err(|error| self.handle.error(error, offset, len))
        });
        self.ahead = ahead;
        requested
    }
}
