//! File streams: the engine reads ahead and writes behind while the caller works on a buffer.
//!
//! [`Streams`] opens them on a storage. A stream that reads keeps
//! [`READS_AHEAD`](crate::limits::READS_AHEAD) requests in flight before its position; one that
//! writes hands each full buffer to the engine and goes on in another, with at most
//! [`WRITES_BEHIND`](crate::limits::WRITES_BEHIND) on their way. A stream of both modes does the
//! one or the other, and what it has written is handed over and waited for before it reads.
//!
//! Asking another thread takes longer than a small file takes: waking the engine, its worker and
//! the caller again was measured as 60 to 180 µs on a virtual machine, opening a cached file and
//! reading 1.2 MB of it as 35 µs. So a file is opened on the calling thread, which also reads the
//! first [`LOCAL_BYTES_MAX`](crate::limits::LOCAL_BYTES_MAX) if they are in the page cache, writes
//! as many, and serves single calls of a buffer or more without a copy. The engine gets the file
//! when it begins to pay: behind those bytes, and for whatever is not cached.
//!
//! What a write-behind fails with comes out of the next call, whatever it is, of every call after
//! it, and of [`FileStream::flush_all`](crate::WriteStream::flush_all) and [`FileStream::close`]:
//! the end of a write shuts the cursor, so that the next call looks. A stream that is dropped
//! without being closed writes what it has, and what fails then goes to the storage's log.
//!
//! A file opened by [`Streams::replace`] is written beside the old one and takes its place, whole,
//! by [`FileStream::commit`]: readers and crashes see the old content or the new one. Dropped
//! before that, the new file is removed.
//!
//! The length of a file that is only read is the one it had when it was opened.
//!
//! ```
//! use std::sync::Arc;
//! use millstream::{Storage, StorageOptions};
//! use millstream_stream::{ReadTyped, Streams, WriteTyped};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-stream-{}", std::process::id()));
//! let storage = Arc::new(Storage::new(StorageOptions::default())?);
//! let streams = Streams::new(&storage)?;
//! let mut out = streams.replace(&path)?;
//! out.write_u32_le(7)?;
//! out.write_string("hull")?;
//! out.commit()?;
//!
//! let mut input = streams.open(&path)?;
//! assert_eq!((input.read_u32_le()?, input.read_string(64)?), (7, "hull".into()));
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use millstream::{
    Beside, Buffer, FileId, FileOptions, LocalFile, LogLevel, Queue, QueueOptions, Request,
    Storage, Ticket,
};

use crate::ahead::Ahead;
use crate::cursor::{Alarm, Cursor};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{
    Mode, NOT_READABLE, NOT_WRITABLE, POSITION_MAX, ReadStream, Stream, WindowStream, WriteStream,
    out_of_range, std_traits, wrong_mode,
};

mod ahead;
mod behind;

use behind::Behind;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// What for.
    pub mode: Mode,
    /// Make it if it does not exist.
    pub create: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Begin at its end.
    pub append: bool,
}

/// Opens file streams on a storage. Cloning gives another handle; any thread may call.
#[derive(Clone)]
pub struct Streams(Arc<Inner>);

struct Inner {
    storage: Arc<Storage>,
    /// Reads, writes, syncs and closes of all streams.
    data: Queue,
    /// Work on names, which waits for all before it in its queue.
    names: Queue,
}

impl Streams {
    /// A maker of streams on `storage`.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn new(storage: &Arc<Storage>) -> Result<Streams> {
        let queue = |name: &str| {
            let options = QueueOptions {
                name: name.into(),
                ..QueueOptions::default()
            };
            let queue = storage.queue(options);
            queue.map_err(|error| Error::of_storage(error, 0, 0))
        };
        Ok(Streams(Arc::new(Inner {
            storage: Arc::clone(storage),
            data: queue("streams")?,
            names: queue("stream names")?,
        })))
    }

    /// Opens a file to be read.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        self.open_with(path, OpenOptions::default())
    }

    /// Makes a file, or cuts the one that is there, to be written.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        let options = OpenOptions {
            mode: Mode::Write,
            create: true,
            truncate: true,
            append: false,
        };
        self.open_with(path, options)
    }

    /// Opens a file, on the calling thread.
    ///
    /// # Errors
    /// Why it cannot be opened; `create`, `truncate` or `append` without a mode that writes.
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<FileStream> {
        if !options.mode.writes() && (options.create || options.truncate || options.append) {
            let cause = "a file is made, cut or appended to only by a mode that writes";
            return Err(Error::new(ErrorKind::InvalidArgument, 0, 0, cause));
        }
        let with = FileOptions {
            write: options.mode.writes(),
            create: options.create,
            truncate: options.truncate,
            ..FileOptions::default()
        };
        let mut stream = self.stream(path.as_ref(), with, options.mode)?;
        if options.append {
            stream.cursor.go(stream.len, 0);
        }
        Ok(stream)
    }

    /// Begins to replace a file as a whole, or to make it: see the module and
    /// [`FileStream::commit`]. Follows links.
    ///
    /// # Errors
    /// `path` names a folder, or a link that leads nowhere; the new file cannot be made beside it.
    pub fn replace(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        let beside = self.0.storage.beside(path);
        let beside = beside.map_err(|error| Error::of_storage(error, 0, 0))?;
        let options = FileOptions {
            write: true,
            create: true,
            exclusive: true,
            ..FileOptions::default()
        };
        let mut stream = self.stream(&beside.fresh, options, Mode::Write)?;
        stream.replaces = Some(beside);
        Ok(stream)
    }

    fn stream(&self, path: &Path, options: FileOptions, mode: Mode) -> Result<FileStream> {
        let opened = self.0.storage.open_local(path, options);
        let local = opened.map_err(|error| Error::of_storage(error, 0, 0))?;
        Ok(FileStream {
            cursor: Cursor::new(Buffer::empty(), 0),
            filled: 0,
            window_start: 0,
            len: local.info().len,
            handle: Handle {
                streams: self.clone(),
                path: Arc::from(path),
                place: Place::Local(local),
            },
            mode,
            doing: Doing::Nothing,
            ahead: Ahead::default(),
            behind: VecDeque::new(),
            spare: Vec::new(),
            local_bytes: 0,
            failed: None,
            replaces: None,
        })
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Streams").field(&self.0.storage).finish()
    }
}

/// Who has the file.
enum Place {
    /// The stream: it reads and writes on the calling thread.
    Local(LocalFile),
    /// The engine.
    Engine(FileId),
    /// Nobody: the stream was closed.
    Nowhere,
}

struct Handle {
    streams: Streams,
    path: Arc<Path>,
    place: Place,
}

impl Handle {
    fn storage(&self) -> &Storage {
        &self.streams.0.storage
    }

    /// The file, with the engine from now on.
    fn engine(&mut self) -> FileId {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Local(local) => {
                let file = self.storage().adopt(local);
                self.place = Place::Engine(file);
                file
            }
            Place::Engine(file) => {
                self.place = Place::Engine(file);
                file
            }
            Place::Nowhere => unreachable!("every call checks first that the stream is open"),
        }
    }

    fn enqueue(&self, request: Request, position: u64, len: u64) -> Result<Ticket> {
        let taken = self.streams.0.data.enqueue(request);
        taken.map_err(|rejected| self.error(rejected.error, position, len))
    }

    fn submit(&self) {
        self.streams.0.data.submit();
    }

    fn buffer(&self, len: usize, position: u64) -> Result<Buffer> {
        let taken = self.storage().buffer(len);
        taken.map_err(|error| self.error(error, position, len as u64))
    }

    fn error(&self, error: millstream::Error, position: u64, len: u64) -> Error {
        Error::of_storage(error, position, len).of_file(&self.path)
    }

    /// Enqueues work on names and waits for it.
    fn names(&self, request: Request) -> Result<()> {
        let taken = self.streams.0.names.enqueue(request);
        let ticket = taken.map_err(|rejected| self.error(rejected.error, 0, 0))?;
        match ticket.wait() {
            Ok(_) => Ok(()),
            Err(failed) => Err(self.error(failed.error, 0, 0)),
        }
    }

    /// Gives the file back.
    fn close(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Local(local) => local.close().map_err(|error| self.error(error, 0, 0)),
            Place::Engine(file) => {
                self.streams.0.data.enqueue_close(file);
                self.submit();
                Ok(())
            }
            Place::Nowhere => Ok(()),
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.place, Place::Nowhere)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Reading,
    Writing,
}

/// See the module. Blocks when the buffer it needs is not there yet; may be sent to another thread.
pub struct FileStream {
    cursor: Cursor<Buffer, Arc<Alarm>>,
    /// While writing: bytes of the buffer that hold something, unless the cursor is beyond.
    filled: usize,
    /// While reading: where the window begins in the buffer.
    window_start: usize,
    handle: Handle,
    /// As opened, or as far as was handed over since.
    len: u64,
    mode: Mode,
    doing: Doing,
    ahead: Ahead,
    behind: VecDeque<Behind>,
    /// Buffers to be written to.
    spare: Vec<Buffer>,
    /// Bytes of buffers that were read or written on the calling thread.
    local_bytes: u64,
    /// The first write that failed.
    failed: Option<Error>,
    replaces: Option<Beside>,
}

impl FileStream {
    /// The file's name; of a replacement, the new file's.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.path
    }

    /// Makes durable what was written: flushes, then syncs the file.
    ///
    /// # Errors
    /// Any write, or the sync, failed.
    pub fn sync(&mut self) -> Result<()> {
        self.flush_all()?;
        let at = self.cursor.position();
        let synced = match &self.handle.place {
            Place::Local(local) => local.sync(),
            Place::Engine(file) => {
                let ticket = self.handle.enqueue(Request::sync(*file), at, 0)?;
                self.handle.submit();
                ticket.wait().map(|_| ()).map_err(|failed| failed.error)
            }
            Place::Nowhere => return Err(self.closed_error()),
        };
        if let Err(error) = synced {
            let error = self.handle.error(error, at, 0);
            return Err(self.fail(error));
        }
        Ok(())
    }

    /// Puts the new content in the old one's place, durably, and closes: see [`Streams::replace`].
    /// Waits for the system.
    ///
    /// # Errors
    /// A write failed, or the last step: then the old content is as it was, and the new file is
    /// removed. (If only making the new name durable failed, the new content is in place.) The
    /// stream was not made by `replace`.
    pub fn commit(mut self) -> Result<()> {
        let Some(beside) = self.replaces.clone() else {
            let cause = "only a stream that replaces a file can be committed";
            let at = self.position();
            return Err(Error::new(ErrorKind::InvalidArgument, at, 0, cause));
        };
        // Through the descriptor that wrote, which is told of failed write-backs in any case.
        let synced = self.sync();
        let placed = synced.and_then(|()| self.handle.names(Request::take_place(beside)));
        if let Err(error) = placed {
            // What the removal of the new file fails with would only hide this.
            let _ = self.close();
            return Err(error);
        }
        self.replaces = None;
        self.release()
    }

    /// Flushes and closes: every later call is an error. A replacement that was not committed is
    /// given up. Closing twice does nothing.
    ///
    /// # Errors
    /// Any write failed. The stream is closed all the same.
    pub fn close(&mut self) -> Result<()> {
        if self.handle.is_closed() {
            return Ok(());
        }
        let ended = match self.replaces.take() {
            Some(beside) => self.give_up(beside),
            None if self.mode.writes() => self.flush_all(),
            None => Ok(()),
        };
        ended.and(self.release())
    }

    /// Removes the new file of a replacement.
    fn give_up(&mut self, beside: Beside) -> Result<()> {
        self.cursor.shut();
        let written = self.drain();
        match self.handle.names(Request::remove(beside.fresh)) {
            // A commit that failed after the rename.
            Err(error) if error.kind() == ErrorKind::NotFound => written,
            removed => written.and(removed),
        }
    }

    /// Gives everything back; nothing is written any more.
    fn release(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.ahead.clear();
        // After a failure, too: nothing may land in the file once it is closed. (The first error
        // was told, and is told again.)
        let _ = self.drain();
        self.spare.clear();
        drop(self.cursor.replace(Buffer::empty(), position, 0));
        self.handle.close()
    }

    #[cold]
    fn closed_error(&self) -> Error {
        let cause = "the stream was closed";
        Error::new(ErrorKind::Closed, self.position(), 0, cause).of_file(&self.handle.path)
    }

    /// Remembers an error of a write; gives it back.
    fn fail(&mut self, error: Error) -> Error {
        self.cursor.shut();
        self.failed.get_or_insert(error).clone()
    }

    /// Whether the stream may be read; then it reads.
    fn reading(&mut self, len: u64) -> Result<()> {
        self.check()?;
        if !self.mode.reads() {
            return Err(wrong_mode(self.position(), len, NOT_READABLE));
        }
        if self.doing == Doing::Writing {
            self.flush_all()?;
            let position = self.position();
            self.cursor.go(position, 0);
        }
        self.doing = Doing::Reading;
        Ok(())
    }

    /// Whether the stream may be written; then it writes.
    fn writing(&mut self, len: u64) -> Result<()> {
        self.check()?;
        if !self.mode.writes() {
            return Err(wrong_mode(self.position(), len, NOT_WRITABLE));
        }
        if self.doing != Doing::Writing {
            self.ahead.clear();
            let position = self.position();
            self.cursor.replace(Buffer::empty(), position, 0);
            self.filled = 0;
            self.doing = Doing::Writing;
        }
        self.notice()
    }
}

impl Stream for FileStream {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn len(&mut self) -> Result<u64> {
        self.check()?;
        self.notice()?;
        let here = if self.doing == Doing::Writing {
            self.written_end()
        } else {
            0
        };
        Ok(self.len.max(here))
    }

    fn seek_to(&mut self, position: u64) -> Result<()> {
        self.check()?;
        if position > POSITION_MAX {
            return Err(out_of_range(position, 0));
        }
        self.notice()?;
        if self.seek_within(position) {
            return Ok(());
        }
        if self.doing == Doing::Writing {
            self.hand_over(false)?;
        }
        self.cursor.go(position, 0);
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn check(&self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.handle.is_closed() {
            return Err(self.closed_error());
        }
        Ok(())
    }
}

impl ReadStream for FileStream {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cursor.take()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        self.reading(into.len() as u64)?;
        let start = self.position();
        if into.len() as u64 > self.len.saturating_sub(start) {
            let cause = "the file ends before";
            let error = Error::new(ErrorKind::PastEnd, start, into.len() as u64, cause);
            return Err(error.of_file(&self.handle.path));
        }
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            match self.read_piece(rest) {
                Ok(read) => done += read,
                Err(error) => {
                    // Back to where the call began, so that it can be tried again.
                    self.cursor.go(start, 0);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        self.reading(into.len() as u64)?;
        if into.is_empty() {
            return Ok(0);
        }
        self.read_piece(into)
    }
}

impl WindowStream for FileStream {
    fn window(&mut self) -> Result<&[u8]> {
        self.reading(0)?;
        self.refill(1)?;
        Ok(self.cursor.readable())
    }

    fn advance(&mut self, count: usize) {
        self.cursor.advance(count);
    }
}

impl WriteStream for FileStream {
    #[inline(always)]
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        self.cursor.put(bytes)
    }

    fn write_slice(&mut self, bytes: &[u8]) -> Result<()> {
        self.writing(bytes.len() as u64)?;
        if bytes.len() as u64 > POSITION_MAX - self.position().min(POSITION_MAX) {
            return Err(out_of_range(self.position(), bytes.len() as u64));
        }
        if self.write_straight(bytes)? {
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.cursor.write(rest);
            rest = &rest[written..];
            if !rest.is_empty() {
                self.next_buffer()?;
            }
        }
        Ok(())
    }

    fn flush_all(&mut self) -> Result<()> {
        self.check()?;
        if self.doing == Doing::Writing {
            self.hand_over(false)?;
        }
        self.drain()
    }
}

impl Drop for FileStream {
    fn drop(&mut self) {
        if self.handle.is_closed() {
            return;
        }
        let path = self.handle.path.display().to_string();
        let storage = Arc::clone(&self.handle.streams.0.storage);
        if self.replaces.is_some() {
            let text = format!("{path}: a replacement was given up");
            storage.log(LogLevel::Warning, &text);
        }
        if let Err(error) = self.close() {
            let text = format!("a stream was dropped without being closed, and lost: {error}");
            storage.log(LogLevel::Warning, &text);
        }
    }
}

std_traits!(read, [], FileStream);
std_traits!(window, [], FileStream);
std_traits!(write, [], FileStream);
std_traits!(seek, [], FileStream);

impl std::fmt::Debug for FileStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStream")
            .field("path", &self.handle.path)
            .field("position", &self.position())
            .field("mode", &self.mode)
            .field("closed", &self.handle.is_closed())
            .finish_non_exhaustive()
    }
}
