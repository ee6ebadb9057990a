//! Byte streams over memory, files and entries of packages, read and written field by field at
//! memory speed.
//!
//! Engines save and load their objects field by field. Here a field costs one comparison and one
//! move, whatever is under the stream: the engine `millstream` reads ahead and writes behind the
//! cursor while the caller works. A load that parses nothing is faster still: the engine's
//! buffers are aligned for `rkyv::access`, see the example `in_place`.
//!
//! | module | what is in it |
//! |---|---|
//! | [`stream`] | the traits: position, mode, fast and slow path |
//! | [`memory`], [`file`](mod@file) | streams of memory, of files and of entries of packages |
//! | [`view`] | bounded windows on them |
//! | [`typed`] | fields: numbers, plain data, strings |
//! | [`archive`] | tagged objects with references, forward and backward compatible |
//!
//! Every error names its position. The error of a write-behind is returned by the stream's next
//! operation, and by `flush` and `close`; a stream that is dropped instead of closed logs it.

pub mod archive;
mod cursor;
pub mod error;
pub mod file;
pub mod limits;
pub mod memory;
pub mod stream;
pub mod typed;
pub mod view;

pub use archive::{ArchiveReader, ArchiveWriter, ObjectId, ReadObject, WriteObject};
pub use error::{Error, ErrorKind, Result};
pub use file::{FileStream, OpenOptions, Streams};
pub use memory::MemoryStream;
pub use stream::{Mode, ReadStream, Stream, WriteStream};
pub use typed::{ReadTyped, WriteTyped};
pub use view::StreamView;

#[cfg(test)]
millstream_testing::watch!();
