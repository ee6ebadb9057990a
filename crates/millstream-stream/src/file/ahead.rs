//! The reading half: windows of the file, requested ahead of the cursor.
//!
//! A stream that reads on gets whole buffers; the first one after a seek to elsewhere is small and
//! has none behind it, so that who jumps about pays only for what it looks at. Whatever is in
//! flight for another place is dropped.

use millstream::{Buffer, LocalFile, Request};

use super::{FileStream, Handle, Place};
use crate::ahead::look_at;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_BUFFER_BYTES, LOCAL_BYTES_MAX, SEEK_BUFFER_BYTES};

/// Windows begin at multiples of a page, which spares the kernel half pages.
const PAGE_BYTES: u64 = 4096;

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
        self.ahead.pass(position);
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
                // What is cached has nothing to wait for: requests ahead only cost, until they are
                // many.
                let many = self.local_bytes >= LOCAL_BYTES_MAX;
                if reads_on && many && offset + len < self.len {
                    self.read_on(offset + len)?;
                }
                return Ok(());
            }
            let request = Request::read(self.handle.engine(), offset, len);
            let ticket = self.handle.enqueue(request, offset, len)?;
            self.ahead.push(offset, len, ticket);
        }
        if reads_on {
            self.read_on(0)?;
        }
        self.handle.submit();
        let Some(first) = self.ahead.take() else {
            unreachable!("a window was requested, or was on its way")
        };
        match first.ticket.wait() {
            Ok(done) => {
                let buffer = done.into_buffer();
                self.window_start = look_at(&mut self.cursor, buffer, first.offset, position);
                Ok(())
            }
            Err(failed) => {
                self.ahead.clear();
                self.cursor.go(position, 0);
                Err(self.handle.error(failed.error, first.offset, first.len))
            }
        }
    }

    /// Reads some of `into`, which is not empty; nothing only at the end of the file.
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

    /// Reads a window on the calling thread if nothing has to be waited for; whether it did.
    fn read_local(&mut self, offset: u64, len: u64, position: u64) -> Result<bool> {
        let Place::Local(local) = &self.handle.place else {
            return Ok(false);
        };
        if !local.is_cached(offset, len) {
            return Ok(false);
        }
        // The buffer that was read to its end is used again.
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

    /// Has windows on their way behind the one at hand, which ends at `end`.
    fn read_on(&mut self, end: u64) -> Result<()> {
        let (handle, file) = (&mut self.handle, self.len);
        self.ahead.top_up(end, file, |offset, len| {
            let request = Request::read(handle.engine(), offset, len);
            handle.enqueue(request, offset, len)
        })?;
        self.handle.submit();
        Ok(())
    }
}
