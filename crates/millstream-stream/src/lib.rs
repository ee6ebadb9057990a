//! Streams: four bytes at a time, at memory speed, to memory, files and packages; and data that is
//! used in place.
//!
//! Engines save and load their objects field by field. Here a field costs one comparison and one
//! move, whatever is under the stream: buffers come and go behind the cursor, in requests of the
//! engine `millstream` that run while the caller works. The best load parses nothing: [`blob`] is
//! for that.
//!
//! | module | what is in it |
//! |---|---|
//! | [`stream`] | the traits: position, mode, hot and cold half |
//! | [`memory`], [`file`](mod@file) | streams of memory, of files and of entries of packages |
//! | [`view`] | bounded windows on them |
//! | [`typed`] | fields: numbers, plain data, strings |
//! | [`archive`] | tagged objects with references, forward and backward compatible |
//! | [`blob`] | whole object graphs, validated once and used in place |
//!
//! Every error names its position. What a write-behind fails with comes at the next buffer, and
//! at `flush` and `close`; a stream that is dropped instead of closed logs it.

pub mod archive;
pub mod blob;
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
