//! An entry of a [`Source`] (a package, or a folder of loose files) as a read-only stream.
//!
//! A seek costs one window: the source reads and decodes only the blocks that hold it. Windows
//! begin at multiples of [`FILE_BUFFER_BYTES`], the size of blocks, so that reading in order
//! decodes no block twice.
//!
//! ```
//! use std::sync::Arc;
//! use millstream::{Storage, StorageOptions};
//! use millstream_source::{Folder, Source};
//! use millstream_stream::{PackageStream, ReadTyped, Stream};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let root = std::env::temp_dir().join(format!("millstream-entry-{}", std::process::id()));
//! # std::fs::create_dir_all(&root)?;
//! # std::fs::write(root.join("a"), [1u8, 2, 3, 4, 5, 6, 7, 8])?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let source: Arc<dyn Source> = Arc::new(Folder::new(&storage, &root)?);
//! let mut stream = PackageStream::open(&storage, &source, b"a")?;
//! stream.seek_to(4)?;
//! assert_eq!(stream.read_u32_be()?, 0x0506_0708);
//! # std::fs::remove_dir_all(&root)?;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use millstream::{Batch, Buffer, Queue, QueueOptions, Storage, Ticket};
use millstream_source::{Located, Source};

use crate::ahead::Ahead;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_BUFFER_BYTES, READS_AHEAD};
use crate::stream::{
    Mode, POSITION_MAX, ReadStream, Stream, WindowStream, closed, out_of_range, std_traits,
};

/// An entry as a stream; see the module. Blocks while the window it needs is in flight. May be sent
/// to another thread.
pub struct PackageStream {
    cursor: Cursor<Buffer>,
    /// Offset of the window in its buffer.
    window_start: usize,
    ahead: Ahead,
    source: Arc<dyn Source>,
    entry: Located,
    queue: Queue,
    closed: bool,
}

impl PackageStream {
    /// Opens an entry.
    ///
    /// # Errors
    /// `NotFound`; the source's; the storage is closing.
    pub fn open(storage: &Storage, source: &Arc<dyn Source>, name: &[u8]) -> Result<PackageStream> {
        let failed = |error| Error::of_storage(error, 0, 0);
        let Some(entry) = source.find(name).map_err(failed)? else {
            let cause = "the source has no entry of this name";
            return Err(Error::new(ErrorKind::NotFound, 0, 0, cause));
        };
        let mut options = QueueOptions::default();
        options.name = String::from("package stream");
        options.capacity = 2 * (READS_AHEAD as u32 + 1);
        Ok(PackageStream {
            cursor: Cursor::new(Buffer::empty(), 0),
            window_start: 0,
            ahead: Ahead::default(),
            source: Arc::clone(source),
            entry,
            queue: storage.queue(options).map_err(failed)?,
            closed: false,
        })
    }

    /// Closes the stream; every later call is an error.
    pub fn close(&mut self) {
        let position = self.cursor.position();
        self.ahead.clear();
        drop(self.cursor.replace(Buffer::empty(), position, 0));
        self.closed = true;
    }

    fn request(&self, batch: &mut Batch, offset: u64, len: u64) -> Result<Ticket<Buffer>> {
        let request = self.source.request_range(&self.entry, offset, len);
        let added = request.and_then(|request| batch.add(request));
        added.map_err(|error| Error::of_storage(error, offset, len))
    }

    /// Makes at least one byte readable unless the entry ends here.
    fn refill(&mut self) -> Result<()> {
        self.check()?;
        let (position, end) = (self.cursor.position(), self.entry.raw_bytes());
        if !self.cursor.readable().is_empty() || position >= end {
            return Ok(());
        }
        self.ahead.skip_to(position);
        let in_order = position == 0 || self.cursor.read_end() > 0 || !self.ahead.is_empty();
        let step = FILE_BUFFER_BYTES as u64;
        let mut batch = self.queue.batch();
        if self.ahead.is_empty() {
            let offset = position / step * step;
            let len = step.min(end - offset);
            let ticket = self.request(&mut batch, offset, len)?;
            self.ahead.push(offset, len, ticket);
        }
        if in_order {
            let mut ahead = std::mem::take(&mut self.ahead);
            let topped = ahead.top_up(0, end, |offset, len| self.request(&mut batch, offset, len));
            self.ahead = ahead;
            topped?;
        }
        batch.submit();
        let read = self.ahead.wait(&mut self.cursor, position);
        self.window_start =
            read.map_err(|lost| Error::of_storage(lost.error, lost.offset, lost.len))?;
        Ok(())
    }
}

impl Stream for PackageStream {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn len(&mut self) -> Result<u64> {
        self.check()?;
        Ok(self.entry.raw_bytes())
    }

    fn seek_to(&mut self, position: u64) -> Result<()> {
        self.check()?;
        if position > POSITION_MAX {
            return Err(out_of_range(position, 0));
        }
        let window = self.window_start..=self.cursor.read_end();
        if !self.cursor.seek_within(window, position) {
            self.cursor.go(position, 0);
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        Mode::Read
    }

    fn check(&self) -> Result<()> {
        match self.closed {
            true => Err(closed(self.position())),
            false => Ok(()),
        }
    }
}

impl ReadStream for PackageStream {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cursor.take()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        self.check()?;
        let start = self.position();
        let len = into.len() as u64;
        if len > self.entry.raw_bytes().saturating_sub(start) {
            let cause = "the entry ends before the last byte of the read";
            return Err(Error::new(ErrorKind::PastEnd, start, len, cause));
        }
        let mut done = 0;
        while done < into.len() {
            if let Err(error) = self.refill() {
                // Back to where the call began, so that it can be repeated.
                self.cursor.go(start, 0);
                return Err(error);
            }
            done += self.cursor.read(&mut into[done..]);
        }
        Ok(())
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        self.refill()?;
        Ok(self.cursor.read(into))
    }
}

impl WindowStream for PackageStream {
    fn window(&mut self) -> Result<&[u8]> {
        self.refill()?;
        Ok(self.cursor.readable())
    }

    fn advance(&mut self, count: usize) {
        self.cursor.advance(count);
    }
}

std_traits!(read, [], PackageStream);
std_traits!(window, [], PackageStream);
std_traits!(seek, [], PackageStream);

impl std::fmt::Debug for PackageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackageStream")
            .field("entry", &self.entry)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
