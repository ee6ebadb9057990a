//! What requests and calls fail with: values that name file, offset, length and likely cause.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_codec::{CodecError, CodecErrorKind};
use millstream_io::{Errno, IoError};

/// The kind of an error; the numbers are stable and meant for a C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request was cancelled (not a failure).
    Cancelled = 1,
    /// The device or the file system failed.
    Io = 2,
    /// No such file.
    NotFound = 3,
    /// The user may not.
    PermissionDenied = 4,
    /// The name is a folder.
    IsDirectory = 5,
    /// The name is a FIFO, a socket or a terminal.
    NotAFile = 6,
    /// The range reaches past the end of the file.
    PastEnd = 7,
    /// Offset plus length overflows, or the length is beyond the address space.
    Overflow = 8,
    /// An argument makes no sense.
    InvalidArgument = 9,
    /// Direct I/O was demanded where there is none.
    NoDirectIo = 10,
    /// The stored bytes break their format, are cut, or followed by others.
    Corrupt = 11,
    /// The raw size is not the declared one.
    RawSize = 12,
    /// The raw size is neither declared by the request nor by the stored bytes.
    RawSizeUnknown = 13,
    /// The codec is not known, or cannot do this.
    UnknownCodec = 14,
    /// The file was closed by an earlier entry, or the id was never valid.
    StaleFile = 15,
    /// The request's time ran out.
    TimedOut = 16,
    /// Memory could not be had.
    OutOfMemory = 17,
    /// The storage is closing.
    Closed = 18,
    /// The queue is full and the caller must not block.
    QueueFull = 19,
    /// Too many tickets have ended without being claimed or dropped.
    TooManyTickets = 20,
    /// The disk is full.
    NoSpace = 21,
    /// Application code (a codec, a memory callback) panicked or refused.
    Application = 22,
    /// A bound of the storage was reached (queues, descriptors).
    Limit = 23,
    /// The destination is smaller than what must land in it.
    DestinationTooSmall = 24,
}

/// An error with its circumstances.
#[derive(Debug, Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Debug, Clone)]
struct Circumstances {
    kind: ErrorKind,
    path: Option<Arc<Path>>,
    offset: u64,
    len: u64,
    name: Option<Arc<str>>,
    errno: Option<Errno>,
    call: &'static str,
    cause: &'static str,
    codec: Option<CodecError>,
}

impl Error {
    /// An error of a kind, with the likely cause in words (may be empty).
    #[must_use]
    pub fn new(kind: ErrorKind, cause: &'static str) -> Error {
        Error(Box::new(Circumstances {
            kind,
            path: None,
            offset: 0,
            len: 0,
            name: None,
            errno: None,
            call: "",
            cause,
            codec: None,
        }))
    }

    pub(crate) fn from_io(error: &IoError) -> Error {
        let kind = kind_of(error.errno);
        let mut made = Error::new(kind, error.cause);
        made.0.errno = Some(error.errno);
        made.0.call = error.call;
        made
    }

    pub(crate) fn from_errno(call: &'static str, errno: Errno) -> Error {
        Error::from_io(&IoError::new(call, errno))
    }

    pub(crate) fn from_codec(error: CodecError) -> Error {
        let (kind, cause) = match error.kind {
            CodecErrorKind::RawTooLong => (
                ErrorKind::RawSize,
                "the stream holds more raw bytes than declared",
            ),
            CodecErrorKind::RawTooShort => (
                ErrorKind::RawSize,
                "the stream holds fewer raw bytes than declared",
            ),
            CodecErrorKind::Truncated => (ErrorKind::Corrupt, "the stored bytes are cut"),
            CodecErrorKind::TrailingBytes => {
                (ErrorKind::Corrupt, "bytes follow the end of the stream")
            }
            CodecErrorKind::Checksum => (ErrorKind::Corrupt, "a checksum does not match"),
            CodecErrorKind::Unsupported => (
                ErrorKind::UnknownCodec,
                "the codec cannot do this, or is not built in",
            ),
            CodecErrorKind::OutOfMemory => (ErrorKind::OutOfMemory, "no memory for the decoder"),
            _ => (ErrorKind::Corrupt, "the stored bytes break their format"),
        };
        let mut made = Error::new(kind, cause);
        made.0.codec = Some(error);
        made
    }

    /// The same error, of `len` bytes at `offset` of a file.
    #[must_use]
    pub fn at(mut self, path: Option<Arc<Path>>, offset: u64, len: u64) -> Error {
        self.0.path = path;
        self.0.offset = offset;
        self.0.len = len;
        self
    }

    /// The same error, of a request or an entry with a name.
    #[must_use]
    pub fn named(mut self, name: Option<Arc<str>>) -> Error {
        self.0.name = name;
        self
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file, if one is concerned.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    pub(crate) fn shared_path(&self) -> Option<Arc<Path>> {
        self.0.path.clone()
    }

    /// First byte of the request in its source; of the block at fault, if it had a table of blocks.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Length of the request, or of the block at fault, in its source; `u64::MAX` for a whole file
    /// that was never opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether the request was for no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The request's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The system's error number, if the system is the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.0.errno.map(|errno| errno.0)
    }

    /// The likely cause in words; may be empty.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        self.0.cause
    }

    /// What the codec said, if a codec is the cause.
    #[must_use]
    pub fn codec_error(&self) -> Option<CodecError> {
        self.0.codec
    }
}

fn kind_of(errno: Errno) -> ErrorKind {
    use rustix::io::Errno as E;
    match E::from_raw_os_error(errno.0) {
        E::NOENT | E::NOTDIR => ErrorKind::NotFound,
        E::ACCESS | E::PERM => ErrorKind::PermissionDenied,
        E::ISDIR => ErrorKind::IsDirectory,
        E::NOSPC | E::DQUOT => ErrorKind::NoSpace,
        E::NOMEM => ErrorKind::OutOfMemory,
        E::NXIO => ErrorKind::NotAFile,
        _ => ErrorKind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &*self.0;
        if let Some(path) = &c.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(name) = &c.name {
            write!(f, "request '{name}': ")?;
        }
        write!(f, "{:?}", c.kind)?;
        if c.path.is_some() {
            if c.len == u64::MAX {
                write!(f, " (whole file)")?;
            } else {
                write!(f, " (offset {}, length {})", c.offset, c.len)?;
            }
        }
        if let Some(errno) = c.errno {
            write!(f, ": {}: {errno}", c.call)?;
        }
        if let Some(codec) = &c.codec {
            write!(f, ": {codec}")?;
        }
        if !c.cause.is_empty() {
            write!(f, "; likely cause: {}", c.cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl PartialEq<ErrorKind> for Error {
    fn eq(&self, other: &ErrorKind) -> bool {
        self.0.kind == *other
    }
}
