//! The error type of streams and archives, with its position and likely cause.
//!
//! An error is one pointer, so that a result of four bytes fits in registers.
//!
//! ```
//! use millstream_stream::{ErrorKind, MemoryStream, ReadTyped};
//! let mut stream = MemoryStream::from_vec(vec![1, 2, 3]);
//! let error = stream.read_u32_le().unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::PastEnd);
//! assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::UnexpectedEof);
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of an error; the numbers are stable and meant for a C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The range reaches past the end of the stream or window.
    PastEnd = 1,
    /// The stream's mode does not allow the call.
    WrongMode = 2,
    /// The stream was closed.
    Closed = 3,
    /// The position is beyond the largest one.
    OutOfRange = 4,
    /// The bytes violate their format.
    Corrupt = 5,
    /// A length exceeds the caller's limit, or one of this crate.
    Limit = 6,
    /// Out of memory.
    OutOfMemory = 7,
    /// Written by another version of the format, for another layout, byte order or application.
    Schema = 9,
    /// The disk is full.
    NoSpace = 10,
    /// No such file or entry.
    NotFound = 11,
    /// Another error of the storage; see [`Error::storage`].
    Storage = 12,
    /// An argument is invalid.
    InvalidArgument = 13,
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its context.
#[derive(Debug, Clone)]
pub struct Error(Box<Context>);

#[derive(Debug, Clone)]
struct Context {
    kind: ErrorKind,
    position: u64,
    len: u64,
    cause: &'static str,
    path: Option<PathBuf>,
    storage: Option<millstream::Error>,
}

impl Error {
    /// Creates an error about `len` bytes at `position`, with the likely cause in words.
    #[must_use]
    #[cold]
    pub fn new(kind: ErrorKind, position: u64, len: u64, cause: &'static str) -> Error {
        Error(Box::new(Context {
            kind,
            position,
            len,
            cause,
            path: None,
            storage: None,
        }))
    }

    /// Wraps an error of the storage, about `len` bytes at `position` of the stream.
    #[must_use]
    #[cold]
    pub fn of_storage(error: millstream::Error, position: u64, len: u64) -> Error {
        use millstream::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::NoSpace => ErrorKind::NoSpace,
            Kind::NotFound => ErrorKind::NotFound,
            Kind::OutOfMemory => ErrorKind::OutOfMemory,
            Kind::PastEnd => ErrorKind::PastEnd,
            Kind::Corrupt | Kind::RawSize | Kind::WrongFormat => ErrorKind::Corrupt,
            _ => ErrorKind::Storage,
        };
        let mut made = Error::new(kind, position, len, "");
        made.0.path = error.path().map(Path::to_path_buf);
        made.0.storage = Some(error);
        made
    }

    pub(crate) fn of_file(mut self, path: &Path) -> Error {
        self.0.path = Some(path.to_path_buf());
        self
    }

    /// The same error as seen from a window that begins at `start` of the stream.
    pub(crate) fn seen_from(mut self, start: u64) -> Error {
        self.0.position = self.0.position.saturating_sub(start);
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Offset of the first byte concerned, from the start of the stream or archive.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.position
    }

    /// Number of bytes concerned.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether the error concerns no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The likely cause in words.
    #[must_use]
    pub fn cause(&self) -> &str {
        let storage = self.0.storage.as_ref();
        storage.map_or(self.0.cause, millstream::Error::cause)
    }

    /// The file, if one is concerned.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The error of the storage, if that is the cause.
    #[must_use]
    pub fn storage(&self) -> Option<&millstream::Error> {
        self.0.storage.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &*self.0;
        if let Some(path) = &c.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{:?} at {} (length {})", c.kind, c.position, c.len)?;
        if let Some(storage) = &c.storage {
            write!(f, ": {storage}")?;
        } else if !c.cause.is_empty() {
            write!(f, ": {}", c.cause)?;
        }
        Ok(())
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for Error {}

impl From<Error> for io::Error {
    #[cold]
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::PastEnd => io::ErrorKind::UnexpectedEof,
            ErrorKind::WrongMode => io::ErrorKind::PermissionDenied,
            ErrorKind::OutOfRange | ErrorKind::InvalidArgument => io::ErrorKind::InvalidInput,
            ErrorKind::Corrupt | ErrorKind::Schema | ErrorKind::Limit => io::ErrorKind::InvalidData,
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
