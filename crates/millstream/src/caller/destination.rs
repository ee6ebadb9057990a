//! Memory of a request: where bytes land, or come from, while its slot owns it.
//!
//! The library's own buffers are the safe and fast default. Memory of the application arrives by
//! ownership ([`Destination`]), by a callback that supplies it once the size is known, or borrowed,
//! through one unsafe call.

use std::any::Any;
use std::sync::Arc;

use millstream_io::error::guard;
use millstream_io::{Access, Buffer, Destination, Identity, Place, Segment};

use crate::caller::sink::DeviceSink;
use crate::error::Error;

/// Facts about an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Length in bytes.
    pub len: u64,
    /// The identity of the file: device, inode, time of the last modification.
    pub identity: Identity,
    /// Whether direct I/O is possible.
    pub direct: bool,
    /// When it was made, if callers may read it on their own threads: through another descriptor of
    /// the same identity and the same time.
    pub(crate) local: Option<i128>,
}

/// Options for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileOptions {
    /// Open it for writing as well.
    pub write: bool,
    /// Create it if it does not exist.
    pub create: bool,
    /// With `create`: fail if the path exists, even as a symbolic link.
    pub exclusive: bool,
    /// Truncate it to length 0.
    pub truncate: bool,
    /// Whether reads go through the page cache; `None` for the storage's setting.
    pub access: Option<Access>,
    /// Many small reads in parallel are expected (a package): small cold reads bypass the page
    /// cache, too.
    pub package: bool,
}

impl FileOptions {
    /// Whether the open may change the file.
    pub(crate) fn changes(&self) -> bool {
        self.create || self.truncate
    }
}

/// Supplies memory once the raw size is known, or refuses.
pub(crate) type Supply = Box<dyn FnOnce(usize) -> Result<Memory, Error> + Send>;

/// Memory owned by a request's slot, or what completes a request in its place.
#[derive(Default)]
pub(crate) enum Memory {
    /// None: nothing lands, or the memory is borrowed, or the system still holds it.
    #[default]
    None,
    /// A buffer of the library, taken when the size is known.
    Pool,
    Buffer(Buffer),
    /// Memory of the application, and where it is.
    Owned(Box<dyn Destination>, Segment),
    /// Memory that a callback supplies.
    Supply(Supply),
    /// Memory that the processor does not write.
    Device(Arc<dyn DeviceSink>),
    /// The answer of `Storage::opened`.
    Info(FileInfo),
}

/// Which [`Memory`] a slot has, known without touching its cold half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MemoryKind {
    None = 0,
    Pool = 1,
    Buffer = 2,
    Owned = 3,
    Supply = 4,
    Borrowed = 5,
    Device = 6,
}

impl MemoryKind {
    /// The kind of a number below 8.
    #[inline(always)]
    pub(crate) fn from_index(index: u8) -> MemoryKind {
        // A match on the declared numbers costs nothing, unlike a table.
        match index & 7 {
            0 => MemoryKind::None,
            1 => MemoryKind::Pool,
            2 => MemoryKind::Buffer,
            3 => MemoryKind::Owned,
            4 => MemoryKind::Supply,
            5 => MemoryKind::Borrowed,
            _ => MemoryKind::Device,
        }
    }

    /// Whether the slot has a value to be dropped.
    #[inline]
    pub(crate) fn is_in_slot(self) -> bool {
        !matches!(
            self,
            MemoryKind::None | MemoryKind::Pool | MemoryKind::Borrowed
        )
    }
}

impl Memory {
    /// The memory of a destination, whose address is asked for here and never again. Buffers are
    /// recognized, so that they need no box.
    pub(crate) fn of<D: Destination>(destination: D) -> Memory {
        match as_type(destination) {
            Ok(buffer) => Memory::Buffer(buffer),
            Err(destination) => {
                let mut memory = Box::new(destination);
                let place = match memory.place() {
                    Place::Host { pointer, len } => Segment::new(pointer, len),
                    _ => Segment::new(std::ptr::null_mut(), 0),
                };
                Memory::Owned(memory, place)
            }
        }
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        match self {
            Memory::None => MemoryKind::None,
            Memory::Pool => MemoryKind::Pool,
            Memory::Buffer(_) => MemoryKind::Buffer,
            // An answer is in the slot, and dropped with it, as memory of the application is.
            Memory::Owned(..) | Memory::Info(_) => MemoryKind::Owned,
            Memory::Supply(_) => MemoryKind::Supply,
            Memory::Device(_) => MemoryKind::Device,
        }
    }

    /// Its address and length, if it is one piece that exists already.
    pub(crate) fn span(&mut self) -> Option<Segment> {
        match self {
            Memory::Buffer(buffer) => Some(Segment::new(buffer.as_mut_ptr(), buffer.len())),
            Memory::Owned(_, place) => Some(*place),
            _ => None,
        }
    }

    /// Drops it on a thread of the storage, which a panic in its destructor does not end.
    #[inline]
    pub(crate) fn discard(self) {
        if matches!(self, Memory::None | Memory::Pool) {
            return;
        }
        let _ = guard(|| drop(self));
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        match self {
            // Without calling the destructor: there is nothing to drop.
            Memory::Pool | Memory::None => std::mem::forget(std::mem::take(self)),
            _ => *self = Memory::None,
        }
    }

    /// Bytes that can land in it; for a buffer its capacity.
    pub(crate) fn room(&mut self) -> u64 {
        match self {
            Memory::Pool | Memory::Supply(_) => u64::MAX,
            Memory::Buffer(buffer) => buffer.capacity() as u64,
            Memory::None | Memory::Info(_) => 0,
            Memory::Owned(_, place) => place.len() as u64,
            Memory::Device(sink) => guard(|| sink.room()).unwrap_or(0),
        }
    }

    /// The memory as the type that the request was made with.
    ///
    /// # Errors
    /// It is of another type, or the system still holds it.
    pub(crate) fn into_type<T: 'static>(self, succeeded: bool) -> Result<T, Memory> {
        match self {
            Memory::Buffer(buffer) => as_type(buffer).map_err(Memory::Buffer),
            // A request for no bytes takes no buffer.
            Memory::Pool if succeeded => as_type(Buffer::empty()).map_err(|_| Memory::Pool),
            Memory::Info(info) => as_type(info).map_err(Memory::Info),
            Memory::Owned(memory, _) if (&*memory as &dyn Any).is::<T>() => {
                let memory: Box<dyn Any> = memory;
                Ok(*memory.downcast::<T>().expect("looked at before"))
            }
            Memory::Device(sink) => as_type(()).or_else(|()| as_type(sink).map_err(Memory::Device)),
            Memory::None => as_type(()).map_err(|()| Memory::None),
            other => Err(other),
        }
    }
}

/// A value as a type that it may have.
fn as_type<V: 'static, T: 'static>(value: V) -> Result<T, V> {
    let mut value = Some(value);
    let typed = (&mut value as &mut dyn Any).downcast_mut::<Option<T>>();
    match typed.and_then(Option::take) {
        Some(typed) => Ok(typed),
        None => Err(value.expect("it was not taken")),
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind())
    }
}
