//! Requests: what to move, how it is encoded, and where it must land.
//!
//! A request is a plain value, built by chained calls and given to a [`Queue`](crate::Queue).
//!
//! ```
//! use millstream::{CodecId, FileId, Priority, Request};
//! # fn example(file: FileId) -> Request {
//! Request::read(file, 4096, 65_536)
//!     .codec(CodecId::ZSTD)
//!     .raw_len(262_144)
//!     .priority(Priority::High)
//!     .tag(7)
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_codec::{CodecId, Dictionary};
use millstream_io::Buffer;
use millstream_io::fs::Beside;

use crate::destination::{Borrowed, Destination, Landing, Supply};
use crate::error::Error;
use crate::fence::Fence;
use crate::files::FileId;
use crate::group::{Counter, Group};
use crate::view::MappedView;

/// The class of a request. Within a class the earliest deadline goes first, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Priority {
    /// Background.
    Low = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Before normal.
    High = 2,
    /// Before everything, and bulk is kept small while such requests come.
    Realtime = 3,
}

impl Priority {
    /// All classes, lowest first.
    pub const ALL: [Priority; 4] = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Realtime,
    ];
}

/// What a gate holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The request's access to its source: nothing is read before the fence stands there.
    Source,
    /// Only the write to its destination: the source may be read into staging before.
    Destination,
}

/// An independently encoded part of a request's stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEntry {
    /// First stored byte, relative to the request's offset (or, of a block that lies elsewhere, the
    /// offset that [`OtherBytes::read_at`] is asked for).
    pub stored_offset: u64,
    /// Stored bytes.
    pub stored_len: u32,
    /// Raw bytes; blocks follow one another in the destination.
    pub raw_len: u32,
    /// Its codec.
    pub codec: CodecId,
    /// XXH3-64 (seed 0) of the stored bytes, if they are to be checked before they are decoded.
    pub checksum: Option<u64>,
    /// The stored bytes are not in the request's file, see [`Request::other_bytes`].
    pub elsewhere: bool,
    /// Of a zstd block, the dictionary that its frames name: its place from 1 on in
    /// [`Request::dictionaries`]; 0 for none.
    pub dictionary: u16,
}

/// Stored bytes of blocks that lie elsewhere than in the request's own file: the base that a patch
/// refers to. Read on a worker, which may block.
pub trait OtherBytes: Send + Sync {
    /// Fills `into` with the bytes at `offset`.
    ///
    /// # Errors
    /// They cannot be read in full.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// The file they lie in, for errors.
    fn path(&self) -> Option<Arc<Path>>;
}

/// Stored bytes in memory.
#[derive(Clone)]
pub(crate) enum Memory {
    Shared(Arc<[u8]>),
    Buffer(Arc<Buffer>),
}

impl Memory {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Memory::Shared(bytes) => bytes,
            Memory::Buffer(buffer) => buffer,
        }
    }
}

/// What a request reads, writes or does.
pub(crate) enum Source {
    File {
        file: FileId,
        offset: u64,
        len: u64,
    },
    Memory(Memory),
    Write {
        file: FileId,
        offset: u64,
    },
    Append {
        file: FileId,
    },
    Sync {
        file: FileId,
        data_only: bool,
    },
    Names(Box<NameWork>),
    Replace(Box<PathBuf>),
    Warm {
        view: Arc<MappedView>,
        offset: u64,
        len: u64,
    },
}

/// What is done to names.
pub(crate) enum NameWork {
    Rename { from: PathBuf, to: PathBuf },
    TakePlace { fresh: PathBuf, path: PathBuf },
    Remove { path: PathBuf },
}

/// What few requests have.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) gate: Option<(Fence, u64, Gate)>,
    pub(crate) blocks: Option<Arc<[BlockEntry]>>,
    pub(crate) other: Option<Arc<dyn OtherBytes>>,
    pub(crate) dictionaries: Option<Arc<[Dictionary]>>,
    /// Raw bytes to leave out in front, and how many to land then.
    pub(crate) trim: Option<(u64, u64)>,
}

/// A request, see the module.
pub struct Request {
    pub(crate) source: Source,
    pub(crate) destination: Destination,
    pub(crate) raw_len: Option<u64>,
    pub(crate) tag: u64,
    pub(crate) user_data: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) group: Option<Group>,
    pub(crate) counter: Option<Counter>,
    pub(crate) rare: Option<Box<Rare>>,
    pub(crate) codec: CodecId,
    pub(crate) class: Option<Priority>,
}

impl Request {
    #[inline]
    fn new(source: Source, destination: Destination) -> Request {
        Request {
            source,
            destination,
            raw_len: None,
            tag: 0,
            user_data: 0,
            deadline: None,
            group: None,
            counter: None,
            rare: None,
            codec: CodecId::STORED,
            class: None,
        }
    }

    /// Reads `len` bytes at `offset`. A range that reaches past the end of the file fails.
    #[must_use]
    #[inline]
    pub fn read(file: FileId, offset: u64, len: u64) -> Request {
        Request::new(Source::File { file, offset, len }, Destination::Library)
    }

    /// Reads the whole file, whatever its size turns out to be.
    #[must_use]
    #[inline]
    pub fn read_file(file: FileId) -> Request {
        Request::new(
            Source::File {
                file,
                offset: 0,
                len: u64::MAX,
            },
            Destination::Library,
        )
    }

    /// Takes stored bytes from memory: for decoding on the workers, in the same order and with the
    /// same completion as reads.
    #[must_use]
    #[inline]
    pub fn from_memory(stored: Arc<[u8]>) -> Request {
        Request::new(Source::Memory(Memory::Shared(stored)), Destination::Library)
    }

    /// As [`Request::from_memory`], from a buffer that another request has landed in. It goes back
    /// to its pool when nobody holds it any more.
    #[must_use]
    #[inline]
    pub fn from_buffer(stored: Arc<Buffer>) -> Request {
        Request::new(Source::Memory(Memory::Buffer(stored)), Destination::Library)
    }

    /// Writes a buffer at `offset` of a file opened for writing. The buffer comes back with the
    /// ticket.
    #[must_use]
    #[inline]
    pub fn write(file: FileId, offset: u64, bytes: Buffer) -> Request {
        Request::new(Source::Write { file, offset }, Destination::Buffer(bytes))
    }

    /// Writes memory of the application at `offset` of a file opened for writing.
    #[must_use]
    #[inline]
    pub fn write_from(file: FileId, offset: u64, bytes: Box<dyn Landing>) -> Request {
        Request::new(Source::Write { file, offset }, Destination::Landing(bytes))
    }

    /// Writes a buffer behind what the file holds and what earlier appends through this storage
    /// will add.
    #[must_use]
    #[inline]
    pub fn append(file: FileId, bytes: Buffer) -> Request {
        Request::new(Source::Append { file }, Destination::Buffer(bytes))
    }

    /// Makes durable what earlier requests wrote to the file: waits for them, then syncs. Fails
    /// with the first write error since the last sync, so that write-behind never loses one.
    #[must_use]
    #[inline]
    pub fn sync(file: FileId) -> Request {
        Request::new(
            Source::Sync {
                file,
                data_only: false,
            },
            Destination::Nothing,
        )
    }

    /// As [`Request::sync`], without metadata that is not needed to read the bytes again.
    #[must_use]
    #[inline]
    pub fn sync_data(file: FileId) -> Request {
        Request::new(
            Source::Sync {
                file,
                data_only: true,
            },
            Destination::Nothing,
        )
    }

    /// Renames a file, durably. Starts after everything before it in its queue has ended.
    #[must_use]
    #[inline]
    pub fn rename(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Request {
        Request::names(NameWork::Rename {
            from: from.into(),
            to: to.into(),
        })
    }

    /// The last step of a replacement whose new content was written to a file of its own, named by
    /// [`Storage::beside`](crate::Storage::beside): gives that file the permissions of the one it
    /// replaces, makes it durable, and renames it. Readers and crashes see the old content or the
    /// new one. Starts after everything before it in its queue has ended.
    #[must_use]
    #[inline]
    pub fn take_place(beside: Beside) -> Request {
        let Beside { path, fresh } = beside;
        Request::names(NameWork::TakePlace { fresh, path })
    }

    /// Removes a file's name. Starts after everything before it in its queue has ended.
    #[must_use]
    #[inline]
    pub fn remove(path: impl Into<PathBuf>) -> Request {
        Request::names(NameWork::Remove { path: path.into() })
    }

    fn names(work: NameWork) -> Request {
        Request::new(Source::Names(Box::new(work)), Destination::Nothing)
    }

    /// Replaces a file's content as a whole: readers and crashes see the old content or the new
    /// one. Starts after everything before it in its queue has ended.
    #[must_use]
    #[inline]
    pub fn replace(path: impl AsRef<Path>, bytes: Box<dyn Landing>) -> Request {
        let path = Box::new(path.as_ref().to_path_buf());
        Request::new(Source::Replace(path), Destination::Landing(bytes))
    }

    /// Brings a range of a mapped view into memory ahead of its use (at low priority unless said
    /// otherwise).
    #[must_use]
    #[inline]
    pub fn warm(view: &Arc<MappedView>, offset: u64, len: u64) -> Request {
        let source = Source::Warm {
            view: Arc::clone(view),
            offset,
            len,
        };
        Request::new(source, Destination::Nothing).priority(Priority::Low)
    }

    /// How the source is encoded. Codecs from 0x80 on are the application's, see
    /// [`Codecs`](crate::codec::Codecs).
    #[must_use]
    #[inline]
    pub fn codec(mut self, codec: CodecId) -> Request {
        self.codec = codec;
        self
    }

    /// Raw bytes that the source decodes to, exactly. May be left out where the stored bytes
    /// declare it.
    #[must_use]
    #[inline]
    pub fn raw_len(mut self, bytes: u64) -> Request {
        self.raw_len = Some(bytes);
        self
    }

    /// The source consists of independently encoded blocks: they decode on all workers at once,
    /// each with its own codec. Blocks must lie in ascending order without overlap inside the
    /// range.
    #[must_use]
    #[inline]
    pub fn blocks(mut self, blocks: Arc<[BlockEntry]>) -> Request {
        self.rare().blocks = Some(blocks);
        self
    }

    /// Where the blocks of the table that lie elsewhere have their stored bytes. Each is read and
    /// decoded by a worker. The request itself must still have bytes of its own to read.
    #[must_use]
    pub fn other_bytes(mut self, other: Arc<dyn OtherBytes>) -> Request {
        self.rare().other = Some(other);
        self
    }

    /// The dictionaries that blocks of the table name. They are made ready once, by
    /// [`Dictionary::new`], and serve any number of requests.
    #[must_use]
    pub fn dictionaries(mut self, dictionaries: Arc<[Dictionary]>) -> Request {
        self.rare().dictionaries = Some(dictionaries);
        self
    }

    /// Of the raw bytes that the table of blocks holds, lands `take` after leaving out `skip`: a
    /// range that begins and ends within blocks. A buffer of the library shows just the range,
    /// without a copy; so does a buffer of the caller's with room for all raw bytes of the blocks.
    /// Other memory needs room for `take`, and gets a copy, made by a worker.
    #[must_use]
    #[inline]
    pub fn trim(mut self, skip: u64, take: u64) -> Request {
        self.rare().trim = Some((skip, take));
        self
    }

    /// Lands in this buffer (of at least the raw length), which comes back with the ticket.
    #[must_use]
    #[inline]
    pub fn into_buffer(mut self, buffer: Buffer) -> Request {
        self.destination = Destination::Buffer(buffer);
        self
    }

    /// Lands in several buffers, filled one after the other.
    #[must_use]
    #[inline]
    pub fn into_pieces(mut self, pieces: Vec<Buffer>) -> Request {
        self.destination = Destination::Pieces(pieces);
        self
    }

    /// Lands in memory of the application, which comes back with the ticket. Page-aligned memory
    /// spares a copy.
    #[must_use]
    #[inline]
    pub fn into_landing(mut self, memory: Box<dyn Landing>) -> Request {
        self.destination = Destination::Landing(memory);
        self
    }

    /// Lands in memory that `supply` gives once the raw size is known. It runs on a worker and may
    /// block there; a panic fails the request.
    #[must_use]
    #[inline]
    pub fn into_supplied(mut self, supply: Supply) -> Request {
        self.destination = Destination::Supply(supply);
        self
    }

    /// Lands in borrowed memory.
    ///
    /// # Safety
    /// `len` bytes from `pointer` on must be valid, initialised, and used by nobody else until the
    /// request has ended (its ticket says so, or its group, counter, status, signal or event); if
    /// closing the storage reports operations as held, for ever.
    #[must_use]
    #[expect(
        unsafe_code,
        reason = "the one entry for memory whose lifetime only the caller knows"
    )]
    #[inline]
    pub unsafe fn into_borrowed(mut self, pointer: *mut u8, len: usize) -> Request {
        self.destination = Destination::Borrowed(Borrowed { pointer, len });
        self
    }

    /// For [`Queue::cancel_tagged`](crate::Queue::cancel_tagged); 0 by default.
    #[must_use]
    #[inline]
    pub fn tag(mut self, tag: u64) -> Request {
        self.tag = tag;
        self
    }

    /// A number of the caller's that comes back with the ticket.
    #[must_use]
    #[inline]
    pub fn user_data(mut self, value: u64) -> Request {
        self.user_data = value;
        self
    }

    /// A name for error messages and traces.
    #[must_use]
    #[inline]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Request {
        self.rare().name = Some(name.into());
        self
    }

    /// Its class, instead of the queue's.
    #[must_use]
    #[inline]
    pub fn priority(mut self, class: Priority) -> Request {
        self.class = Some(class);
        self
    }

    /// When it is wanted. Earlier deadlines go first within a class; a missed one is counted, never
    /// an error.
    #[must_use]
    #[inline]
    pub fn deadline(mut self, deadline: Instant) -> Request {
        self.deadline = Some(deadline);
        self
    }

    /// How long it may take from submission. Ends the request with
    /// [`TimedOut`](crate::ErrorKind::TimedOut) unless its memory is borrowed and with the kernel:
    /// then it is counted as overdue and ends when the kernel lets go.
    #[must_use]
    #[inline]
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.rare().timeout = Some(timeout);
        self
    }

    /// Makes it count in a group.
    #[must_use]
    #[inline]
    pub fn group(mut self, group: &Group) -> Request {
        self.group = Some(group.clone());
        self
    }

    /// Makes it count in a counter.
    #[must_use]
    #[inline]
    pub fn counter(mut self, counter: &Counter) -> Request {
        self.counter = Some(counter.clone());
        self
    }

    /// Holds it back until `fence` stands at `value`.
    #[must_use]
    #[inline]
    pub fn gate(mut self, gate: Gate, fence: &Fence, value: u64) -> Request {
        self.rare().gate = Some((fence.clone(), value, gate));
        self
    }

    /// Whether all that it could own was taken out of it.
    pub(crate) fn owns_nothing(&self) -> bool {
        matches!(self.source, Source::File { .. })
            && matches!(self.destination, Destination::Nothing)
            && self.group.is_none()
            && self.counter.is_none()
            && self.rare.is_none()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("codec", &self.codec)
            .field("tag", &self.tag)
            .field("user_data", &self.user_data)
            .finish_non_exhaustive()
    }
}
