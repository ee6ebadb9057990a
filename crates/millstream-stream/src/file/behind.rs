//! Writing: full buffers in flight to the file, behind the cursor.
//!
//! Requests complete in any order, so two that overlap are never in flight together: a second write
//! to the same bytes waits for the first.
//!
//! Each write wakes the cursor's alarm when it completes: the next call of four bytes finds no
//! room, and [`FileStream::take_errors`] takes the outcomes and opens the cursor again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Outcome, Ticket, Write};

use super::{Doing, FileStream, Place};
use crate::error::Result;
use crate::limits::{FILE_BUFFER_BYTES, LOCAL_BYTES_MAX, WRITES_BEHIND};

/// A buffer in flight.
pub(super) struct Behind {
    offset: u64,
    len: u64,
    ticket: Ticket<Buffer>,
    /// Set if the write completed before the alarm was registered.
    outcome: Option<Outcome<Buffer>>,
}

impl FileStream {
    /// End of what was written to the current buffer; 0 if nothing was.
    pub(super) fn written_end(&self) -> u64 {
        let filled = self.filled.max(self.cursor.at());
        if filled == 0 {
            return 0;
        }
        self.cursor.base().wrapping_add(filled as u64)
    }

    /// Moves to a position inside the current buffer; returns whether it is inside.
    pub(super) fn seek_within(&mut self, position: u64) -> bool {
        let (start, end) = match self.doing {
            Doing::Reading => (self.window_start, self.cursor.read_end()),
            Doing::Writing => {
                self.filled = self.filled.max(self.cursor.at());
                (0, self.filled)
            }
            Doing::Nothing => (0, 0),
        };
        self.cursor.seek_within(start..=end, position)
    }

    /// Writes what the buffer holds, and leaves the cursor without a buffer at the same position.
    /// The calling thread writes until the first full buffer after [`LOCAL_BYTES_MAX`], the engine
    /// from then on.
    pub(super) fn hand_over(&mut self, full: bool) -> Result<()> {
        let (base, position) = (self.cursor.base(), self.cursor.position());
        let len = self.filled.max(self.cursor.at());
        self.filled = 0;
        if self.cursor.memory().capacity() == 0 || len == 0 {
            self.cursor.go(position, 0);
            return Ok(());
        }
        let mut buffer = self.cursor.replace(Buffer::empty(), position, 0);
        buffer.set_view(0, len);
        let len = len as u64;
        let here = !full || self.local_bytes < LOCAL_BYTES_MAX;
        if here && self.write_here(base, &buffer)? {
            self.spare.push(buffer);
            return Ok(());
        }
        let overlaps = |it: &Behind| it.offset < base + len && base < it.offset + it.len;
        if self.behind.iter().any(overlaps) {
            self.drain()?;
        }
        self.len = self.len.max(base + len);
        let write = Write::at(self.engine()?, base, buffer);
        let mut ticket = match self.handle.streams.data.submit(write) {
            Ok(ticket) => ticket,
            Err(error) => {
                let error = self.handle.error(error, base, len);
                return Err(self.fail(error));
            }
        };
        let alarm = Waker::from(Arc::clone(self.cursor.write_end()));
        let outcome = match ticket.poll_outcome(&mut Context::from_waker(&alarm)) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        };
        self.behind.push_back(Behind {
            offset: base,
            len,
            ticket,
            outcome,
        });
        while self.behind.len() > WRITES_BEHIND {
            self.take_back(0)?;
        }
        self.take_completed()
    }

    /// Handles writes that have completed since the last call; returns the error of one that
    /// failed.
    pub(super) fn take_errors(&mut self) -> Result<()> {
        if self.behind.is_empty() {
            return Ok(());
        }
        // Opened first: what completes from here on wakes the alarm again.
        if self.cursor.memory().capacity() > 0 {
            self.cursor.open(0, FILE_BUFFER_BYTES);
        }
        self.take_completed()
    }

    fn take_completed(&mut self) -> Result<()> {
        while let Some(index) = self.behind.iter().position(|it| it.ticket.is_complete()) {
            self.take_back(index)?;
        }
        Ok(())
    }

    /// Waits for the write at `index` and keeps its buffer for reuse.
    fn take_back(&mut self, index: usize) -> Result<()> {
        let Some(mut behind) = self.behind.remove(index) else {
            return Ok(());
        };
        let outcome = behind.outcome.take();
        let outcome = outcome.unwrap_or_else(|| behind.ticket.outcome());
        match outcome.into_result() {
            Ok(buffer) => {
                self.spare.push(buffer);
                Ok(())
            }
            Err(error) => {
                let error = self.handle.error(error, behind.offset, behind.len);
                Err(self.fail(error))
            }
        }
    }

    /// Waits for all writes; returns the first error.
    pub(super) fn drain(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.behind.is_empty() {
            result = result.and(self.take_back(0));
        }
        result
    }

    /// Writes on the calling thread, unless the engine has the file; returns whether it did.
    fn write_here(&mut self, at: u64, bytes: &[u8]) -> Result<bool> {
        let Place::Local(local) = &self.handle.place else {
            return Ok(false);
        };
        let len = bytes.len() as u64;
        if let Err(error) = local.write_at(at, bytes) {
            let error = self.handle.error(error, at, len);
            return Err(self.fail(error));
        }
        self.local_bytes += len;
        self.len = self.len.max(at + len);
        Ok(true)
    }

    /// Writes at least a buffer on the calling thread, without a copy, within the first
    /// [`LOCAL_BYTES_MAX`]; returns whether it did.
    pub(super) fn write_large(&mut self, bytes: &[u8]) -> Result<bool> {
        if bytes.len() < FILE_BUFFER_BYTES || self.local_bytes >= LOCAL_BYTES_MAX {
            return Ok(false);
        }
        self.hand_over(false)?;
        let at = self.cursor.position();
        let written = self.write_here(at, bytes)?;
        if written {
            self.cursor.go(at + bytes.len() as u64, 0);
        }
        Ok(written)
    }

    /// Writes the current buffer and puts an empty one under the cursor.
    pub(super) fn next_buffer(&mut self) -> Result<()> {
        self.hand_over(true)?;
        let position = self.cursor.position();
        let buffer = match self.spare.pop() {
            Some(buffer) => buffer,
            None => self.handle.buffer(FILE_BUFFER_BYTES, position)?,
        };
        drop(self.cursor.replace(buffer, position, 0));
        self.cursor.open(0, FILE_BUFFER_BYTES);
        Ok(())
    }
}
