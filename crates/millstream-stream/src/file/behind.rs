//! The writing half: full buffers on their way to the file, behind the cursor.
//!
//! Requests may end in any order, so two that touch the same bytes are never in flight together:
//! who goes back and writes again waits for the first.
//!
//! Each write rings the cursor's alarm when it ends: the next call of four bytes finds no room, and
//! [`FileStream::notice`] looks which have ended, how, and opens the cursor again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Done, Failed, Request, Ticket};

use super::{Doing, FileStream, Place};
use crate::cursor::Alarm;
use crate::error::Result;
use crate::limits::{FILE_BUFFER_BYTES, LOCAL_BYTES_MAX, WRITES_BEHIND};

/// A buffer on its way.
pub(super) struct Behind {
    offset: u64,
    len: u64,
    write: Write,
}

enum Write {
    Out(Ticket),
    /// It had ended before it could be watched.
    Ended(std::result::Result<Done, Box<Failed>>),
}

impl Write {
    /// Has the alarm rung when it ends.
    fn watched(mut ticket: Ticket, alarm: &Arc<Alarm>) -> Write {
        let waker = Waker::from(Arc::clone(alarm));
        match Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ended) => Write::Ended(ended.map_err(Box::new)),
            Poll::Pending => Write::Out(ticket),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Write::Out(ticket) => ticket.is_ended(),
            Write::Ended(_) => true,
        }
    }
}

impl FileStream {
    /// End of what the buffer under the cursor holds.
    pub(super) fn written_end(&self) -> u64 {
        let filled = self.filled.max(self.cursor.at());
        if filled == 0 {
            return 0;
        }
        self.cursor.base().wrapping_add(filled as u64)
    }

    /// Goes to a position inside what is at hand; whether it is.
    pub(super) fn seek_within(&mut self, position: u64) -> bool {
        let at = position.wrapping_sub(self.cursor.base());
        let (start, end) = match self.doing {
            Doing::Reading => (self.window_start, self.cursor.read_end()),
            Doing::Writing => {
                self.filled = self.filled.max(self.cursor.at());
                (0, self.filled)
            }
            Doing::Nothing => (0, 0),
        };
        let inside = end > 0 && start as u64 <= at && at <= end as u64;
        if inside {
            self.cursor.set_at(at as usize);
        }
        inside
    }

    /// Hands over what the buffer holds; the cursor then has none, at the same position. The engine
    /// gets the file at the first full buffer after [`LOCAL_BYTES_MAX`]; until then the calling
    /// thread writes.
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
        let local = !full || self.local_bytes < LOCAL_BYTES_MAX;
        if local && let Place::Local(local) = &self.handle.place {
            self.local_bytes += len;
            self.len = self.len.max(base + len);
            if let Err(error) = local.write_at(base, &buffer) {
                let error = self.handle.error(error, base, len);
                return Err(self.fail(error));
            }
            self.spare.push(buffer);
            return Ok(());
        }
        let overlaps = |it: &Behind| it.offset < base + len && base < it.offset + it.len;
        if self.behind.iter().any(overlaps) {
            self.drain()?;
        }
        self.len = self.len.max(base + len);
        let request = Request::write(self.handle.engine(), base, buffer);
        let ticket = match self.handle.enqueue(request, base, len) {
            Ok(ticket) => ticket,
            Err(error) => return Err(self.fail(error)),
        };
        self.handle.submit();
        let write = Write::watched(ticket, self.cursor.write_end());
        self.behind.push_back(Behind {
            offset: base,
            len,
            write,
        });
        while self.behind.len() > WRITES_BEHIND {
            self.take_back(0)?;
        }
        self.take_ended()
    }

    /// Sees to writes that have ended since the last call; the error of one that failed.
    pub(super) fn notice(&mut self) -> Result<()> {
        if self.behind.is_empty() {
            return Ok(());
        }
        // Opened first: what ends from here on rings again.
        if self.cursor.memory().capacity() > 0 {
            self.cursor.open(0, FILE_BUFFER_BYTES);
        }
        self.take_ended()
    }

    fn take_ended(&mut self) -> Result<()> {
        while let Some(ended) = self.behind.iter().position(|it| it.write.has_ended()) {
            self.take_back(ended)?;
        }
        Ok(())
    }

    /// Waits for one write, of which there are so many before it; its buffer can be used again.
    fn take_back(&mut self, index: usize) -> Result<()> {
        let Some(Behind { offset, len, write }) = self.behind.remove(index) else {
            return Ok(());
        };
        let ended = match write {
            Write::Out(ticket) => ticket.wait().map_err(Box::new),
            Write::Ended(ended) => ended,
        };
        match ended {
            Ok(done) => {
                self.spare.push(done.into_buffer());
                Ok(())
            }
            Err(failed) => {
                let error = self.handle.error(failed.error, offset, len);
                Err(self.fail(error))
            }
        }
    }

    /// Waits for all writes; the first error, if there is one.
    pub(super) fn drain(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.behind.is_empty() {
            result = result.and(self.take_back(0));
        }
        result
    }

    /// Writes a buffer's worth or more on the calling thread, without a copy, as long as that has
    /// not become a stream of them; whether it did.
    pub(super) fn write_straight(&mut self, bytes: &[u8]) -> Result<bool> {
        let large = bytes.len() >= FILE_BUFFER_BYTES && self.local_bytes < LOCAL_BYTES_MAX;
        if !large || !matches!(self.handle.place, Place::Local(_)) {
            return Ok(false);
        }
        self.hand_over(false)?;
        let (at, len) = (self.cursor.position(), bytes.len() as u64);
        if let Place::Local(local) = &self.handle.place
            && let Err(error) = local.write_at(at, bytes)
        {
            let error = self.handle.error(error, at, len);
            return Err(self.fail(error));
        }
        self.local_bytes += len;
        self.len = self.len.max(at + len);
        self.cursor.go(at + len, 0);
        Ok(true)
    }

    /// An empty buffer under the cursor, at its position.
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
