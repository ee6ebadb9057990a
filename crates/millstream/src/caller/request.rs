//! Requests: [`Read`], [`Write`] and [`FileOp`], plain values built by chained calls and given to a
//! [`Queue`](crate::Queue) or [`Batch`](crate::Batch). The type parameter is the memory that comes
//! back with the completion.
//!
//! ```
//! use millstream::{CodecId, Decode, FileId, Priority, Read, Write};
//! # fn example(file: FileId) {
//! let texture = Read::range(file, 4096, 65_536)
//!     .decode(Decode::codec(CodecId::ZSTD).raw_len(262_144))
//!     .priority(Priority::High)
//!     .tag(7);
//! let header = Read::range(file, 0, 16).into(vec![0u8; 16]);
//! let save = Write::at(file, 0, vec![1u8; 100]);
//! # let _ = (texture, header, save);
//! # }
//! ```

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_codec::CodecId;
use millstream_io::device::calls::Call;
use millstream_io::{Buffer, Destination, MappedView, Segment};

use crate::caller::destination::{FileInfo, Memory, MemoryKind};
use crate::caller::fence::Fence;
use crate::caller::group::Group;
use crate::caller::sink::DeviceSink;
use crate::decode::spec::{BlockTable, Decode, RequestDecoder};
use crate::error::{Error, ErrorKind};
use crate::ids::FileId;
use crate::limits;
use crate::priority::Priority;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Verb {
    #[default]
    Read = 0,
    /// Decodes stored bytes that are in memory.
    Memory = 1,
    Write = 2,
    Append = 3,
    Sync = 4,
    /// Rename, remove, replace: starts once everything before it in its queue has completed.
    Names = 5,
    Prefetch = 6,
    /// Reports on a file once it is open.
    Info = 7,
}

impl Verb {
    /// The verb of a number below 8.
    #[inline(always)]
    pub(crate) fn from_index(index: u8) -> Verb {
        match index & 7 {
            0 => Verb::Read,
            1 => Verb::Memory,
            2 => Verb::Write,
            3 => Verb::Append,
            4 => Verb::Sync,
            5 => Verb::Names,
            6 => Verb::Prefetch,
            _ => Verb::Info,
        }
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Verb::Write | Verb::Append)
    }
}

/// Fields that few requests set, boxed beside the slot.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) after: Option<(Fence, u64)>,
    /// Only the write to the destination waits for this fence.
    pub(crate) write_after: Option<(Fence, u64)>,
    pub(crate) table: Option<Arc<BlockTable>>,
    pub(crate) decoder: Option<Arc<dyn RequestDecoder>>,
    /// As many bytes as there are, up to the length.
    pub(crate) at_most: bool,
    pub(crate) work: Work,
}

/// The operands of requests other than reads and writes of files.
#[derive(Default)]
pub(crate) enum Work {
    #[default]
    None,
    Memory(Stored),
    Sync {
        data_only: bool,
    },
    /// A call on names, made once everything before it has completed.
    Names(Call),
    Prefetch(Arc<MappedView>),
}

impl Work {
    /// The path that a call on names concerns.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Work::Names(
                Call::Rename { from: path, .. }
                | Call::Remove { path }
                | Call::Replace { path, .. },
            ) => Some(path),
            _ => None,
        }
    }
}

/// Stored bytes in memory.
#[derive(Clone)]
pub(crate) enum Stored {
    Shared(Arc<[u8]>),
    Buffer(Arc<Buffer>),
}

impl Stored {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Stored::Shared(bytes) => bytes,
            Stored::Buffer(buffer) => buffer,
        }
    }
}

/// Fields of every request, and its outcome once it has ended.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Body {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    /// Stored bytes requested, `u64::MAX` for the whole file; at the end, raw bytes that landed. In
    /// a free slot: the next slot of its chain.
    pub(crate) len: u64,
    /// Where raw bytes land, or come from; null before there is memory.
    pub(crate) pointer: *mut u8,
    /// Bytes that can land in the memory; for writes and syncs, their epoch.
    pub(crate) room: u64,
    pub(crate) user_data: u64,
}

/// Fields that some requests set: in the slot, with a flag.
pub(crate) struct Usual {
    pub(crate) group: Option<Group>,
    pub(crate) deadline: Option<Instant>,
    /// `u64::MAX`: not given.
    pub(crate) raw_len: u64,
    /// Most raw bytes of a stream that does not declare them.
    pub(crate) raw_len_max: u64,
    /// Bytes counted in the byte budget of its queue.
    pub(crate) charged: u64,
    /// The number of the latest change of its priority; 0: none.
    pub(crate) changed: u64,
}

impl Default for Usual {
    #[inline(always)]
    fn default() -> Usual {
        Usual {
            group: None,
            deadline: None,
            raw_len: u64::MAX,
            raw_len_max: limits::RAW_BYTES_MAX_DEFAULT,
            charged: 0,
            changed: 0,
        }
    }
}

impl Usual {
    /// Whether any field is set.
    #[inline(always)]
    pub(crate) fn is_given(&self) -> bool {
        let is_limited = self.raw_len_max != limits::RAW_BYTES_MAX_DEFAULT;
        let is_numbered = self.raw_len != u64::MAX || is_limited || self.charged > 0;
        self.group.is_some() || self.deadline.is_some() || is_numbered
    }
}

/// The fields of a request, as its slot takes them.
pub struct Parts {
    pub(crate) verb: Verb,
    pub(crate) body: Body,
    pub(crate) memory: Memory,
    /// The memory is borrowed: only the body, or the call on names, says where it is.
    pub(crate) borrowed: bool,
    pub(crate) tag: u64,
    pub(crate) priority: Option<Priority>,
    pub(crate) codec: CodecId,
    pub(crate) usual: Usual,
    pub(crate) rare: Option<Box<Rare>>,
}

#[expect(
    unsafe_code,
    reason = "carries the address of borrowed memory, whose lender allows any thread"
)]
// SAFETY: the pointer is used only by the device and the workers, as `Read::borrowed` demands of
// its caller; everything else in it is Send.
unsafe impl Send for Parts {}

#[expect(unsafe_code, reason = "an error with a request is shown by any thread")]
// SAFETY: `&Parts` leads to no code of the application and to none of its memory: all of these are
// private, and taken through `&mut Parts` alone.
unsafe impl Sync for Parts {}

impl Parts {
    #[inline(always)]
    fn new(verb: Verb, file: FileId, offset: u64, len: u64, memory: Memory, room: u64) -> Parts {
        Parts {
            verb,
            body: Body {
                file,
                offset,
                len,
                pointer: std::ptr::null_mut(),
                room,
                user_data: 0,
            },
            memory,
            borrowed: false,
            tag: 0,
            priority: None,
            codec: CodecId::STORED,
            usual: Usual::default(),
            rare: None,
        }
    }

    fn names(call: Call) -> Parts {
        let mut parts = Parts::new(Verb::Names, FileId::NONE, 0, 0, Memory::None, 0);
        parts.rare().work = Work::Names(call);
        parts
    }

    fn replacing(path: PathBuf, content: Segment) -> Parts {
        let mut parts = Parts::names(Call::Replace { path, content });
        parts.body.len = content.len() as u64;
        parts
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    #[inline(always)]
    pub(crate) fn memory_kind(&self) -> MemoryKind {
        match self.borrowed {
            true => MemoryKind::Borrowed,
            false => self.memory.kind(),
        }
    }
}

mod sealed {
    pub trait Sealed {
        fn parts_mut(&mut self) -> &mut super::Parts;
    }
}

/// A request that a queue accepts: [`Read`], [`Write`] or [`FileOp`].
pub trait Request: sealed::Sealed + Sized {
    /// The memory that comes back with the completion.
    type Output: 'static;
}

/// Reads stored bytes of a file (or of memory), decodes them if they are encoded, and lands them in
/// `D`: by default a buffer of the library.
#[must_use = "a request does nothing until a queue has it"]
pub struct Read<D = Buffer>(Parts, PhantomData<fn() -> D>);

/// Writes bytes to a file. The memory `D` comes back with the completion.
#[must_use = "a request does nothing until a queue has it"]
pub struct Write<D>(Parts, PhantomData<fn() -> D>);

/// An operation on files, names or mapped memory. `D` is the memory that comes back.
#[must_use = "a request does nothing until a queue has it"]
pub struct FileOp<D = ()>(Parts, PhantomData<fn() -> D>);

impl Read<Buffer> {
    /// Reads `len` stored bytes at `offset`. A range that reaches past the end of the file fails.
    #[inline(always)]
    pub fn range(file: FileId, offset: u64, len: u64) -> Read<Buffer> {
        Read(
            Parts::new(Verb::Read, file, offset, len, Memory::Pool, u64::MAX),
            PhantomData,
        )
    }

    /// Reads the whole file, as long as it is then. A file that reports no length
    /// (procfs) is read to its end.
    #[inline]
    pub fn whole(file: FileId) -> Read<Buffer> {
        Read::range(file, 0, u64::MAX)
    }

    /// Reads `len` stored bytes at `offset`, or as many as there are: none if the file ends before.
    /// Asks for the file's length, as each whole read but the first of a handle does. A destination
    /// of the application needs room for what there is alone.
    pub fn at_most(file: FileId, offset: u64, len: u64) -> Read<Buffer> {
        let mut read = Read::range(file, offset, len);
        read.0.rare().at_most = true;
        read
    }

    /// Decodes stored bytes from memory on the workers, ordered by priority and deadline and
    /// completed as reads are.
    pub fn memory(stored: Arc<[u8]>) -> Read<Buffer> {
        Read::stored(Stored::Shared(stored))
    }

    /// As [`Read::memory`], from a buffer in which another request landed.
    pub fn buffer(stored: Arc<Buffer>) -> Read<Buffer> {
        Read::stored(Stored::Buffer(stored))
    }

    fn stored(stored: Stored) -> Read<Buffer> {
        let len = stored.as_slice().len() as u64;
        let mut parts = Parts::new(Verb::Memory, FileId::NONE, 0, len, Memory::Pool, u64::MAX);
        parts.rare().work = Work::Memory(stored);
        Read(parts, PhantomData)
    }
}

impl<D> Read<D> {
    /// Sets how the stored bytes are encoded.
    #[inline]
    pub fn decode(mut self, decode: Decode) -> Read<D> {
        self.0.codec = decode.codec;
        self.0.usual.raw_len = decode.raw_len;
        self.0.usual.raw_len_max = decode.raw_len_max;
        if self.0.rare.is_some() || decode.table.is_some() || decode.decoder.is_some() {
            let rare = self.0.rare();
            (rare.table, rare.decoder) = (decode.table, decode.decoder);
        }
        self
    }

    /// Lands in memory of the application: a buffer, a `Vec<u8>` or any other [`Destination`], of
    /// at least the raw length. Page-aligned memory needs no copy.
    #[inline]
    pub fn into<T: Destination>(self, destination: T) -> Read<T> {
        self.into_memory(Memory::of(destination))
    }

    /// Returns the memory of the application that the request has, of one that was refused.
    pub fn into_destination(self) -> Option<D>
    where
        D: Destination,
    {
        self.0.memory.into_type(false).ok()
    }

    /// Replaces the destination.
    #[inline]
    fn into_memory<T>(mut self, mut memory: Memory) -> Read<T> {
        self.0.body.room = memory.room();
        self.0.memory = memory;
        (self.0.borrowed, self.0.body.pointer) = (false, std::ptr::null_mut());
        Read(self.0, PhantomData)
    }

    /// Lands in memory that `supply` returns, called with the raw size once it is known. `None`
    /// refuses. It runs on a worker thread and may block there; a panic fails the request.
    pub fn supplied<T, F>(self, supply: F) -> Read<T>
    where
        T: Destination,
        F: FnOnce(usize) -> Option<T> + Send + 'static,
    {
        let refused = || {
            let cause = "the application supplied no memory";
            Error::new(ErrorKind::Application, cause)
        };
        let supply = move |len| supply(len).map(Memory::of).ok_or_else(refused);
        self.into_memory(Memory::Supply(Box::new(supply)))
    }

    /// Lands in memory that the processor does not write: `sink` is given the bytes in parts. The
    /// request completes once every part is finished.
    ///
    /// Raw bytes, and what the sink decodes itself (blocks of a table, GDeflate tiles, streams that
    /// one window holds and that are not cut into units), pass through staging only. Anything else,
    /// including trimmed tables and external blocks, is decoded as a
    /// whole into memory of the library first.
    pub fn into_device(self, sink: Arc<dyn DeviceSink>) -> Read<()> {
        self.into_memory(Memory::Device(sink))
    }

    /// As [`Read::into_device`], with a sink that `supply` returns, which is called with the raw
    /// size once it is known. The ticket returns the sink; [`Any`](std::any::Any) recovers its
    /// type. `supply` runs on a worker thread and may block there; its error, or a panic, fails the
    /// request.
    pub fn into_device_of<F>(self, supply: F) -> Read<Arc<dyn DeviceSink>>
    where
        F: FnOnce(u64) -> Result<Arc<dyn DeviceSink>, Error> + Send + 'static,
    {
        let supply = move |len| supply(len as u64).map(Memory::Device);
        self.into_memory(Memory::Supply(Box::new(supply)))
    }

    /// Lands in borrowed memory.
    ///
    /// # Safety
    /// `len` bytes from `pointer` on must be valid, initialized, and not used by any other code
    /// until the request has completed (as its ticket, completion queue, group, status or fence
    /// reports); if the outcome is `StillHeld`, forever.
    #[inline(always)]
    #[expect(
        unsafe_code,
        reason = "the one entry for memory whose lifetime only the caller knows"
    )]
    pub unsafe fn borrowed(mut self, pointer: *mut u8, len: usize) -> Read<()> {
        self.0.memory.clear();
        (self.0.body.pointer, self.0.body.room) = (pointer, len as u64);
        self.0.borrowed = true;
        Read(self.0, PhantomData)
    }

    /// Holds the destination back until `fence` has reached `value`: nothing is written to it
    /// before, but the source may be read into staging.
    pub fn write_after(mut self, fence: &Fence, value: u64) -> Read<D> {
        self.0.rare().write_after = Some((fence.clone(), value));
        self
    }
}

impl<D: Destination> Write<D> {
    /// Writes all of `bytes` at `offset` of a file opened for writing.
    pub fn at(file: FileId, offset: u64, bytes: D) -> Write<D> {
        Write::new(Verb::Write, file, offset, bytes)
    }

    /// Writes at the end of the file, behind what earlier appends of this storage will add.
    pub fn append(file: FileId, bytes: D) -> Write<D> {
        Write::new(Verb::Append, file, 0, bytes)
    }

    fn new(verb: Verb, file: FileId, offset: u64, bytes: D) -> Write<D> {
        let mut memory = Memory::of(bytes);
        let span = memory.span().expect("a destination is one piece");
        let len = span.len() as u64;
        let mut parts = Parts::new(verb, file, offset, len, memory, len);
        parts.body.pointer = span.pointer();
        Write(parts, PhantomData)
    }
}

impl Write<()> {
    /// Writes borrowed bytes at `offset`, or at the end of the file (`None`, as [`Write::append`]).
    ///
    /// # Safety
    /// `len` bytes from `pointer` on must be valid and must not change until the request has
    /// completed; if the outcome is `StillHeld`, forever.
    #[expect(
        unsafe_code,
        reason = "the entry for memory whose lifetime only the caller knows"
    )]
    pub unsafe fn borrowed(
        file: FileId,
        offset: Option<u64>,
        pointer: *const u8,
        len: usize,
    ) -> Write<()> {
        let (verb, offset) = match offset {
            Some(offset) => (Verb::Write, offset),
            None => (Verb::Append, 0),
        };
        let len = len as u64;
        let mut parts = Parts::new(verb, file, offset, len, Memory::None, len);
        (parts.body.pointer, parts.borrowed) = (pointer.cast_mut(), true);
        Write(parts, PhantomData)
    }
}

impl FileOp<FileInfo> {
    /// The request of `Storage::opened`.
    pub(crate) fn info(file: FileId) -> FileOp<FileInfo> {
        let parts = Parts::new(Verb::Info, file, 0, 0, Memory::None, 0);
        FileOp(parts, PhantomData)
    }
}

impl FileOp<()> {
    /// Makes what earlier requests wrote to the file durable: waits for them, then syncs. Fails
    /// with the first write error since the last sync, so that write-behind never loses one.
    pub fn sync(file: FileId) -> FileOp {
        FileOp::syncing(file, false)
    }

    /// As [`FileOp::sync`], without metadata that is not needed to read the bytes again.
    pub fn sync_data(file: FileId) -> FileOp {
        FileOp::syncing(file, true)
    }

    fn syncing(file: FileId, data_only: bool) -> FileOp {
        let mut parts = Parts::new(Verb::Sync, file, 0, 0, Memory::None, 0);
        parts.rare().work = Work::Sync { data_only };
        FileOp(parts, PhantomData)
    }

    /// Renames a file, durably. Starts after everything before it in its queue has completed.
    pub fn rename(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> FileOp {
        let (from, to) = (from.into(), to.into());
        FileOp(Parts::names(Call::Rename { from, to }), PhantomData)
    }

    /// Removes a file's name. Starts after everything before it in its queue has completed.
    pub fn remove(path: impl Into<PathBuf>) -> FileOp {
        let path = path.into();
        FileOp(Parts::names(Call::Remove { path }), PhantomData)
    }

    /// Brings a range of a mapped view into memory ahead of its use (at low priority by default).
    pub fn prefetch(view: &Arc<MappedView>, offset: u64, len: u64) -> FileOp {
        let none = FileId::NONE;
        let mut parts = Parts::new(Verb::Prefetch, none, offset, len, Memory::None, 0);
        parts.rare().work = Work::Prefetch(Arc::clone(view));
        parts.priority = Some(Priority::Low);
        FileOp(parts, PhantomData)
    }

    /// As [`FileOp::replace`], with borrowed bytes.
    ///
    /// # Safety
    /// As [`Write::borrowed`].
    #[expect(
        unsafe_code,
        reason = "the entry for memory whose lifetime only the caller knows"
    )]
    pub unsafe fn replace_borrowed(
        path: impl Into<PathBuf>,
        pointer: *const u8,
        len: usize,
    ) -> FileOp {
        let content = Segment::new(pointer.cast_mut(), len);
        let mut parts = Parts::replacing(path.into(), content);
        parts.borrowed = true;
        FileOp(parts, PhantomData)
    }
}

impl<D: Destination> FileOp<D> {
    /// Replaces a file's content as a whole: readers and crashes see the old content or the new
    /// one. Starts after everything before it in its queue has completed. Once begun it is not
    /// canceled: its outcome reports what happened.
    pub fn replace(path: impl Into<PathBuf>, bytes: D) -> FileOp<D> {
        let mut memory = Memory::of(bytes);
        let content = memory.span().expect("a destination is one piece");
        let mut parts = Parts::replacing(path.into(), content);
        parts.memory = memory;
        FileOp(parts, PhantomData)
    }
}

/// Implements what all kinds of requests have in common.
macro_rules! request {
    ($name:ident) => {
        impl<D: 'static> sealed::Sealed for $name<D> {
            #[inline(always)]
            fn parts_mut(&mut self) -> &mut Parts {
                &mut self.0
            }
        }

        impl<D: 'static> Request for $name<D> {
            type Output = D;
        }

        impl<D> $name<D> {
            /// Tags it for [`Queue::cancel_tagged`](crate::Queue::cancel_tagged) and
            /// [`Queue::reprioritize_tagged`](crate::Queue::reprioritize_tagged); 0 by default.
            #[inline(always)]
            pub fn tag(mut self, tag: u64) -> Self {
                self.0.tag = tag;
                self
            }

            /// Sets a number that comes back with the completion.
            #[inline(always)]
            pub fn user_data(mut self, value: u64) -> Self {
                self.0.body.user_data = value;
                self
            }

            /// Sets the name for error messages and traces, or several names, separated by NUL.
            pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
                self.0.rare().name = Some(name.into());
                self
            }

            /// Sets the priority, instead of the queue's.
            #[inline(always)]
            pub fn priority(mut self, priority: Priority) -> Self {
                self.0.priority = Some(priority);
                self
            }

            /// Sets the time by which it is wanted. Earlier deadlines are served first within a
            /// priority; a missed one is counted, never an error.
            #[inline]
            pub fn deadline(mut self, deadline: Instant) -> Self {
                self.0.usual.deadline = Some(deadline);
                self
            }

            /// Sets how long it may take from submission. The request then fails with
            /// [`TimedOut`](crate::ErrorKind::TimedOut), unless its borrowed or device memory is in
            /// use, or too much memory of other such requests: then it is counted as overdue and
            /// completes once that is released.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.0.rare().timeout = Some(timeout);
                self
            }

            /// Counts the request in a group.
            #[inline]
            pub fn group(mut self, group: &Group) -> Self {
                self.0.usual.group = Some(group.clone());
                self
            }

            /// Holds it back until `fence` has reached `value`: nothing is read or written before.
            pub fn after(mut self, fence: &Fence, value: u64) -> Self {
                self.0.rare().after = Some((fence.clone(), value));
                self
            }
        }

        impl<D> std::fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("verb", &self.0.verb)
                    .field("offset", &self.0.body.offset)
                    .field("len", &self.0.body.len)
                    .field("tag", &self.0.tag)
                    .finish_non_exhaustive()
            }
        }
    };
}

request!(Read);
request!(Write);
request!(FileOp);
