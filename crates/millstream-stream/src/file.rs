//! File streams: the engine reads ahead and writes behind while the caller works on a buffer.
//!
//! A stream that reads keeps [`READS_AHEAD`](crate::limits::READS_AHEAD) requests in flight ahead
//! of its position. A stream that writes submits each full buffer and continues in another, with at
//! most [`WRITES_BEHIND`](crate::limits::WRITES_BEHIND) in flight. A stream of both modes does one
//! at a time: before it reads, what it has written is submitted and waited for.
//!
//! For small files another thread costs more than the work. So a file is opened on the calling
//! thread, which also reads the first [`LOCAL_BYTES_MAX`](crate::limits::LOCAL_BYTES_MAX) if they
//! are in the page cache, writes as many, and serves single calls of at least a buffer without a
//! copy. After those bytes, and for whatever is not cached, the engine takes over the file.
//!
//! The error of a write-behind is returned by the next operation, by every one after it, and by
//! [`FileStream::flush_all`](crate::WriteStream::flush_all) and [`FileStream::close`]: a completed
//! write closes the cursor, so that the next call takes the slow path. A stream that is dropped
//! without being closed writes its buffer and logs a failure to the storage's log.
//!
//! A file opened by [`Streams::replace`] is written to a temporary file and replaces it as a whole
//! on [`FileStream::commit`]: readers and crashes see the old content or the new one. If the stream
//! is dropped before that, the new file is removed.
//!
//! A file that is only read keeps the length it had when it was opened.
//!
//! An entry of a [`Source`] is a file that is only read ([`Streams::open_entry`]): the source reads
//! and decodes only the blocks that hold a window. Windows begin at multiples of
//! [`FILE_BUFFER_BYTES`](crate::limits::FILE_BUFFER_BYTES), the size of blocks, so that reading in
//! order decodes no block twice.
//!
//! ```
//! use millstream::{Storage, StorageOptions};
//! use millstream_stream::{ReadTyped, Streams, WriteTyped};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-stream-{}", std::process::id()));
//! let storage = Storage::new(StorageOptions::default())?;
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
    AtomicFile, Buffer, FileId, FileOp, FileOptions, LocalFile, LogLevel, Queue, QueueOptions,
    Read, Storage,
};
use millstream_source::{Located, Source};

use crate::cursor::{Alarm, Cursor};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{
    Mode, POSITION_MAX, ReadStream, Stream, WriteStream, closed, out_of_range, std_traits,
};

mod ahead;
mod behind;

use ahead::Window;
use behind::Behind;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Whether to read, to write, or both.
    pub mode: Mode,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Truncate it to length 0.
    pub truncate: bool,
    /// Start at its end.
    pub append: bool,
}

/// Opens file streams on a storage. A clone is another handle; all methods may be called from any
/// thread.
#[derive(Debug, Clone)]
pub struct Streams {
    storage: Storage,
    /// Reads, writes, syncs and closes of all streams.
    data: Queue,
}

impl Streams {
    /// Creates the queue of streams on `storage`.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn new(storage: &Storage) -> Result<Streams> {
        let mut options = QueueOptions::default();
        options.name = String::from("streams");
        let data = storage.queue(options);
        Ok(Streams {
            storage: storage.clone(),
            data: data.map_err(|error| Error::of_storage(error, 0, 0))?,
        })
    }

    /// Opens a file for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        self.open_with(path, OpenOptions::default())
    }

    /// Creates a file, or truncates an existing one, for writing.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        let options = OpenOptions {
            mode: Mode::Write,
            create: true,
            truncate: true,
            append: false,
        };
        self.open_with(path, options)
    }

    /// Opens an entry of a source (a package, an archive, or a folder of loose files) for reading.
    /// An entry that is decoded from its start on ([`Source::is_read_whole`]) is loaded as a whole
    /// by the first read.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use millstream::{Storage, StorageOptions};
    /// use millstream_source::{Folder, Source};
    /// use millstream_stream::{ReadTyped, Stream, Streams};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let root = std::env::temp_dir().join(format!("millstream-entry-{}", std::process::id()));
    /// # std::fs::create_dir_all(&root)?;
    /// # std::fs::write(root.join("a"), [1u8, 2, 3, 4, 5, 6, 7, 8])?;
    /// let storage = Storage::new(StorageOptions::default())?;
    /// let source: Arc<dyn Source> = Arc::new(Folder::new(&storage, &root)?);
    /// let mut stream = Streams::new(&storage)?.open_entry(&source, b"a")?;
    /// stream.seek_to(4)?;
    /// assert_eq!(stream.read_u32_be()?, 0x0506_0708);
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if the source has no such entry; errors of the source.
    pub fn open_entry(&self, source: &Arc<dyn Source>, name: &[u8]) -> Result<FileStream> {
        let found = source.find(name);
        let Some(entry) = found.map_err(|error| Error::of_storage(error, 0, 0))? else {
            let cause = "the source has no entry of this name";
            return Err(Error::new(ErrorKind::NotFound, 0, 0, cause));
        };
        let path = String::from_utf8_lossy(name);
        let place = Place::Entry(Arc::clone(source), entry);
        Ok(self.stream(Path::new(&*path), place, entry.raw_bytes(), Mode::Read))
    }

    /// Opens a file, on the calling thread.
    ///
    /// # Errors
    /// The system's error; `InvalidArgument` for `create`, `truncate` or `append` with
    /// [`Mode::Read`].
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<FileStream> {
        if !options.mode.writes() && (options.create || options.truncate || options.append) {
            let cause = "create, truncate and append need a mode that writes";
            return Err(Error::new(ErrorKind::InvalidArgument, 0, 0, cause));
        }
        let with = FileOptions {
            write: options.mode.writes(),
            create: options.create,
            truncate: options.truncate,
            ..FileOptions::default()
        };
        let mut stream = self.local(path.as_ref(), with, options.mode)?;
        if options.append {
            stream.cursor.go(stream.len, 0);
        }
        Ok(stream)
    }

    /// Begins to replace a file as a whole, or to create it: see the module and
    /// [`FileStream::commit`]. Follows symbolic links.
    ///
    /// # Errors
    /// `path` is a directory or a dangling symbolic link; the new file cannot be created.
    pub fn replace(&self, path: impl AsRef<Path>) -> Result<FileStream> {
        let path = path.as_ref();
        let begun = AtomicFile::create_named(path);
        let (replaces, temporary) = begun.map_err(|error| {
            Error::of_storage(millstream::Error::from(error), 0, 0).of_file(path)
        })?;
        let options = FileOptions {
            write: true,
            ..FileOptions::default()
        };
        let mut stream = self.local(&temporary, options, Mode::Write)?;
        stream.replaces = Some(replaces);
        Ok(stream)
    }

    fn local(&self, path: &Path, options: FileOptions, mode: Mode) -> Result<FileStream> {
        let opened = self.storage.open_local(path, options);
        let local = opened.map_err(|error| Error::of_storage(error, 0, 0))?;
        let len = local.opened().len;
        Ok(self.stream(path, Place::Local(local), len, mode))
    }

    fn stream(&self, path: &Path, place: Place, len: u64, mode: Mode) -> FileStream {
        FileStream {
            cursor: Cursor::new(Buffer::empty(), 0),
            filled: 0,
            window_start: 0,
            len,
            handle: Handle {
                streams: self.clone(),
                path: Arc::from(path),
                place,
            },
            mode,
            doing: Doing::Nothing,
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            spare: Vec::new(),
            local_bytes: 0,
            failed: None,
            replaces: None,
        }
    }
}

/// The owner of the file.
enum Place {
    /// A source, of which it is an entry.
    Entry(Arc<dyn Source>, Located),
    /// The stream: it reads and writes on the calling thread.
    Local(LocalFile),
    /// The engine.
    Engine(FileId),
    /// None: the engine refused the file, and the stream has failed.
    Lost,
    /// None: the stream was closed.
    Closed,
}

struct Handle {
    streams: Streams,
    path: Arc<Path>,
    place: Place,
}

impl Handle {
    /// Hands the file to the engine, unless it has it.
    fn engine(&mut self) -> Result<FileId> {
        let file = match std::mem::replace(&mut self.place, Place::Lost) {
            Place::Engine(file) => file,
            Place::Local(local) => {
                let adopted = self.streams.storage.adopt(local);
                adopted.map_err(|error| self.error(error, 0, 0))?
            }
            Place::Entry(..) | Place::Lost | Place::Closed => {
                unreachable!("every call checks first that the stream is usable")
            }
        };
        self.place = Place::Engine(file);
        Ok(file)
    }

    fn buffer(&self, len: usize, position: u64) -> Result<Buffer> {
        let taken = self.streams.storage.buffer(len);
        taken.map_err(|error| self.error(error, position, len as u64))
    }

    fn error(&self, error: impl Into<millstream::Error>, position: u64, len: u64) -> Error {
        let error = Error::of_storage(error.into(), position, len);
        match self.place {
            // The error of the source names its file.
            Place::Entry(..) => error,
            _ => error.of_file(&self.path),
        }
    }

    /// Closes the file.
    fn close(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.place, Place::Closed) {
            Place::Local(local) => local.close().map_err(|error| self.error(error, 0, 0)),
            Place::Engine(file) => {
                let closed = self.streams.data.batch().close(file);
                closed.map_err(|error| self.error(error, 0, 0))
            }
            Place::Entry(..) | Place::Lost | Place::Closed => Ok(()),
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.place, Place::Closed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Reading,
    Writing,
}

/// A file as a stream; see the module. Blocks while the buffer it needs is in flight. May be sent
/// to another thread.
pub struct FileStream {
    cursor: Cursor<Buffer, Arc<Alarm>>,
    /// While writing: bytes of the buffer that were written, unless the cursor is beyond.
    filled: usize,
    /// While reading: offset of the window in the buffer.
    window_start: usize,
    handle: Handle,
    /// Length when opened, raised by writes that were submitted since.
    len: u64,
    mode: Mode,
    doing: Doing,
    /// Windows in flight, adjacent and in the order of their offsets.
    ahead: VecDeque<Window>,
    behind: VecDeque<Behind>,
    /// Buffers for reuse.
    spare: Vec<Buffer>,
    /// Bytes of buffers that were read or written on the calling thread.
    local_bytes: u64,
    /// The first error of a write (or sync, or of handing the file over), returned by every call
    /// since.
    failed: Option<Error>,
    /// The replacement, if the stream writes one; dropping it removes the new file.
    replaces: Option<AtomicFile>,
}

impl FileStream {
    /// The path of the file; of a replacement, that of the new file; of an entry, its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.path
    }

    /// Flushes, then makes everything written durable.
    ///
    /// # Errors
    /// A write or the sync failed.
    pub fn sync(&mut self) -> Result<()> {
        self.flush_all()?;
        let at = self.cursor.position();
        let synced = match &self.handle.place {
            Place::Local(local) => local
                .sync()
                .map_err(|error| self.handle.error(error, at, 0)),
            Place::Engine(file) => {
                let submitted = self.handle.streams.data.submit(FileOp::sync(*file));
                let completed = submitted.and_then(|mut ticket| ticket.wait());
                completed.map_err(|error| self.handle.error(error, at, 0))
            }
            Place::Entry(..) => Ok(()),
            Place::Lost | Place::Closed => unreachable!("the flush checked that it is usable"),
        };
        synced.map_err(|error| self.fail(error))
    }

    /// Replaces the old file by the new one, durably, and closes the stream: see
    /// [`Streams::replace`]. Blocks.
    ///
    /// # Errors
    /// A write or the rename failed: the old content is unchanged, and the new file is removed. (If
    /// only making the rename durable failed, the new content is in place.) `InvalidArgument` if
    /// the stream was not opened by `replace`.
    pub fn commit(mut self) -> Result<()> {
        let Some(replaces) = self.replaces.take() else {
            let cause = "only a stream opened by `replace` can be committed";
            let at = self.position();
            return Err(Error::new(ErrorKind::InvalidArgument, at, 0, cause));
        };
        // Synced through the descriptor that wrote, to which the kernel always reports failed
        // write-back.
        let synced = self.sync();
        let placed = synced.and_then(|()| {
            let committed = replaces.commit(AtomicFile::KEEP_ALL);
            committed.map_err(|error| self.handle.error(error, 0, 0))
        });
        placed.and(self.release())
    }

    /// Flushes and closes; every later call is an error. A replacement that was not committed is
    /// discarded. Closing twice does nothing.
    ///
    /// # Errors
    /// A write failed. The stream is closed nevertheless.
    pub fn close(&mut self) -> Result<()> {
        if self.handle.is_closed() {
            return Ok(());
        }
        let ended = match self.replaces.take() {
            Some(_) => {
                self.cursor.shut();
                self.drain()
            }
            None if self.mode.writes() => self.flush_all(),
            None => Ok(()),
        };
        ended.and(self.release())
    }

    /// Releases buffers and the file, without writing.
    fn release(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.ahead.clear();
        // After a failure, too: no write may be in flight once the file is closed. The first error
        // was returned, and is returned again.
        let _ = self.drain();
        self.spare.clear();
        drop(self.cursor.replace(Buffer::empty(), position, 0));
        self.handle.close()
    }

    /// Hands the file to the engine, unless it has it. If the engine refuses it, the stream fails.
    fn engine(&mut self) -> Result<FileId> {
        self.handle.engine().map_err(|error| self.fail(error))
    }

    /// Makes a request to the engine for bytes of the file or entry.
    fn request(&mut self, offset: u64, len: u64) -> Result<Read> {
        match &self.handle.place {
            Place::Entry(source, entry) => {
                let request = source.request_range(entry, offset, len);
                request.map_err(|error| self.handle.error(error, offset, len))
            }
            _ => Ok(Read::range(self.engine()?, offset, len)),
        }
    }

    /// Records an error that makes the stream unusable; returns the first one recorded.
    fn fail(&mut self, error: Error) -> Error {
        self.cursor.shut();
        self.failed.get_or_insert(error).clone()
    }

    /// Checks that the stream may be read, and switches it to reading.
    fn reading(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.mode.check(Mode::Read, self.position(), len)?;
        if self.doing == Doing::Writing {
            self.flush_all()?;
            let position = self.position();
            self.cursor.go(position, 0);
        }
        self.doing = Doing::Reading;
        Ok(())
    }

    /// Checks that the stream may be written, and switches it to writing.
    fn writing(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.mode.check(Mode::Write, self.position(), len)?;
        if self.doing != Doing::Writing {
            self.ahead.clear();
            let position = self.position();
            self.cursor.replace(Buffer::empty(), position, 0);
            self.filled = 0;
            self.doing = Doing::Writing;
        }
        self.take_errors()
    }
}

impl Stream for FileStream {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn len(&mut self) -> Result<u64> {
        self.check()?;
        self.take_errors()?;
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
        self.take_errors()?;
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
            return Err(closed(self.position()).of_file(&self.handle.path));
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
            let cause = "the file ends before the last byte of the read";
            let error = Error::new(ErrorKind::PastEnd, start, into.len() as u64, cause);
            return Err(error.of_file(&self.handle.path));
        }
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            match self.read_piece(rest) {
                Ok(read) => done += read,
                Err(error) => {
                    // Back to where the call began, so that it can be repeated.
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
        if self.write_large(bytes)? {
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
        let storage = self.handle.streams.storage.clone();
        if self.replaces.is_some() {
            let text = format!("\"{path}\": a replacement was dropped without a commit");
            storage.log(LogLevel::Warning, text);
        }
        if let Err(error) = self.close() {
            let text = format!("a stream was dropped without being closed, and lost data: {error}");
            storage.log(LogLevel::Warning, text);
        }
    }
}

std_traits!(read, [], FileStream);
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
