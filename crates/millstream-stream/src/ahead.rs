//! Windows in flight to a stream that reads.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream::{Buffer, Ticket};

use crate::cursor::{Alarm, Cursor};
use crate::error::Result;
use crate::limits::{FILE_BUFFER_BYTES, READS_AHEAD};

/// A window that was requested.
struct Window {
    offset: u64,
    len: u64,
    ticket: Ticket<Buffer>,
}

/// A window that could not be read.
pub(crate) struct Lost {
    pub(crate) error: millstream::Error,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Window {
    fn holds(&self, position: u64) -> bool {
        self.offset <= position && position - self.offset < self.len
    }
}

/// The windows in flight, adjacent and in the order of their offsets.
#[derive(Default)]
pub(crate) struct Ahead(VecDeque<Window>);

impl Ahead {
    /// Detaches what is in flight; the buffers return to the pool.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the windows before the one that holds `position`: a seek has skipped them.
    pub(crate) fn skip_to(&mut self, position: u64) {
        while self.0.front().is_some_and(|it| !it.holds(position)) {
            self.0.pop_front();
        }
    }

    pub(crate) fn push(&mut self, offset: u64, len: u64, ticket: Ticket<Buffer>) {
        self.0.push_back(Window {
            offset,
            len,
            ticket,
        });
    }

    /// Waits for the first window and puts it under the cursor, at `position`; returns its offset
    /// in its buffer. After an error none is in flight, and the cursor has no memory.
    pub(crate) fn wait(
        &mut self,
        cursor: &mut Cursor<Buffer, Arc<Alarm>>,
        position: u64,
    ) -> std::result::Result<usize, Lost> {
        let Some(mut first) = self.0.pop_front() else {
            unreachable!("a window was requested, or was on its way")
        };
        match first.ticket.wait() {
            Ok(buffer) => Ok(look_at(cursor, buffer, first.offset, position)),
            Err(error) => {
                self.clear();
                cursor.go(position, 0);
                Err(Lost {
                    error,
                    offset: first.offset,
                    len: first.len,
                })
            }
        }
    }

    /// Requests windows until [`READS_AHEAD`] are in flight after the current one, which ends at
    /// `end`, or after the first one in flight. The stream ends at `stream_end`.
    pub(crate) fn top_up(
        &mut self,
        end: u64,
        stream_end: u64,
        mut request: impl FnMut(u64, u64) -> Result<Ticket<Buffer>>,
    ) -> Result<()> {
        let count = READS_AHEAD + usize::from(!self.0.is_empty());
        while self.0.len() < count {
            let next = self.0.back().map_or(end, |last| last.offset + last.len);
            if next >= stream_end {
                break;
            }
            let len = (FILE_BUFFER_BYTES as u64).min(stream_end - next);
            let ticket = request(next, len)?;
            self.push(next, len, ticket);
        }
        Ok(())
    }
}

/// Puts a window under the cursor; returns its offset in its buffer.
pub(crate) fn look_at(
    cursor: &mut Cursor<Buffer, Arc<Alarm>>,
    buffer: Buffer,
    offset: u64,
    position: u64,
) -> usize {
    // The view of a buffer may begin inside its memory.
    let start = buffer.as_ptr().addr() - buffer.base().addr();
    let end = start + buffer.len();
    let at = start + (position - offset) as usize;
    let base = offset.wrapping_sub(start as u64);
    drop(cursor.replace(buffer, base, at));
    cursor.open(end, 0);
    start
}
