//! What streams, archives and blobs fail with: values that name the position and the likely cause.
//!
//! An error is one pointer, so that a result of four bytes stays in registers.
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
    /// The stream or the window ends before.
    PastEnd = 1,
    /// The stream is not open for this.
    WrongMode = 2,
    /// The stream was closed.
    Closed = 3,
    /// A position that no stream can have.
    OutOfRange = 4,
    /// The bytes break their format.
    Corrupt = 5,
    /// A length beyond what the caller allowed, or a bound of this crate.
    Limit = 6,
    /// Memory could not be had.
    OutOfMemory = 7,
    /// The memory is not aligned as the blob needs it.
    Misaligned = 8,
    /// Made by another version of the format, or for another layout.
    Schema = 9,
    /// The disk is full.
    NoSpace = 10,
    /// No such file or entry.
    NotFound = 11,
    /// The storage failed otherwise; [`Error::storage`] says how.
    Storage = 12,
    /// The stream failed before; the first error is told again.
    InvalidArgument = 13,
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its circumstances.
#[derive(Debug, Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Debug, Clone)]
struct Circumstances {
    kind: ErrorKind,
    position: u64,
    len: u64,
    cause: &'static str,
    path: Option<PathBuf>,
    storage: Option<millstream::Error>,
}

impl Error {
    /// An error at `position` about `len` bytes from there, with the likely cause in words.
    #[must_use]
    #[cold]
    pub fn new(kind: ErrorKind, position: u64, len: u64, cause: &'static str) -> Error {
        Error(Box::new(Circumstances {
            kind,
            position,
            len,
            cause,
            path: None,
            storage: None,
        }))
    }

    /// An error of the storage, at `position` of the stream.
    #[must_use]
    #[cold]
    pub fn of_storage(error: millstream::Error, position: u64, len: u64) -> Error {
        use millstream::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::NoSpace => ErrorKind::NoSpace,
            Kind::NotFound => ErrorKind::NotFound,
            Kind::OutOfMemory => ErrorKind::OutOfMemory,
            Kind::PastEnd => ErrorKind::PastEnd,
            Kind::Corrupt | Kind::RawSize => ErrorKind::Corrupt,
            _ => ErrorKind::Storage,
        };
        let mut made = Error::new(kind, position, len, error.cause());
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

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// First byte concerned, from the start of the stream, archive or blob.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.position
    }

    /// Bytes concerned.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether no byte is concerned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The likely cause in words.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        self.0.cause
    }

    /// The file, if one is concerned.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// What the storage said, if it is the cause.
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.storage.as_ref().map(|error| error as _)
    }
}

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
