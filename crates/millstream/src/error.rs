//! The error type of this crate: what failed, on what file and range, and the likely cause.
//!
//! ```
//! use millstream::{Error, ErrorKind};
//! let error = Error::new(ErrorKind::PastEnd, "the file has 10 bytes").at(None, 8, 4);
//! assert_eq!((error.kind(), error.offset(), error.len()), (ErrorKind::PastEnd, 8, 4));
//! let io: std::io::Error = error.into();
//! assert_eq!(io.kind(), std::io::ErrorKind::UnexpectedEof);
//! ```

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use millstream_codec::{CodecError, CodecErrorKind};
use millstream_io::{Errno, IoError};

/// Declares the kinds of errors, each with its number and its message.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $number:literal, $text:literal;)*) => {
        /// The kind of an error. The numbers are stable and meant for a C interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$about])* $kind = $number,)*
        }

        impl ErrorKind {
            const ALL: &[ErrorKind] = &[$(ErrorKind::$kind),*];
        }

        impl fmt::Display for ErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(ErrorKind::$kind => $text,)*
                })
            }
        }
    };
}

kinds! {
    /// The request was canceled (which is not a failure).
    Canceled = 1, "the request was canceled";
    /// The device or the file system failed.
    Io = 2, "input/output error";
    /// No such file.
    NotFound = 3, "no such file";
    /// Permission denied.
    PermissionDenied = 4, "permission denied";
    /// The path is a directory.
    IsDirectory = 5, "the path is a directory";
    /// The path is a FIFO, a socket or a terminal.
    NotAFile = 6, "not a regular file";
    /// The range reaches past the end of the file.
    PastEnd = 7, "the range reaches past the end of the file";
    /// Offset plus length overflows, or the length exceeds the address space.
    Overflow = 8, "offset plus length overflows";
    /// An argument is invalid.
    InvalidArgument = 9, "invalid argument";
    /// Direct I/O was requested where there is none.
    NoDirectIo = 10, "direct I/O is not possible";
    /// The stored bytes are damaged, truncated, or followed by others.
    Corrupt = 11, "the stored bytes are corrupt";
    /// The raw size is not the declared one.
    RawSize = 12, "the raw size is not the declared one";
    /// The raw size is neither given by the request nor declared by the stored bytes, and these are
    /// no stream, or hold more raw bytes than there is room for.
    RawSizeUnknown = 13, "the raw size is unknown";
    /// The codec is unknown, or cannot do this.
    UnknownCodec = 14, "unknown codec";
    /// The file was closed, or the id belongs to another storage.
    StaleFile = 15, "the file is closed or belongs to another storage";
    /// The request's timeout passed.
    TimedOut = 16, "the request timed out";
    /// Out of memory.
    OutOfMemory = 17, "out of memory";
    /// The storage is closed or closing.
    Closed = 18, "the storage is closed";
    /// The queue is full, and the call must not block or blocking would never end.
    QueueFull = 19, "the queue is full";
    /// Too many completed requests were neither claimed nor dropped.
    TooManyTickets = 20, "too many unclaimed tickets";
    /// The disk is full.
    NoSpace = 21, "no space left on the device";
    /// Code of the application (a codec, a memory callback) panicked or refused.
    Application = 22, "code of the application failed";
    /// A limit of the storage was reached.
    Limit = 23, "a limit of the storage was reached";
    /// The destination is smaller than what must land in it.
    DestinationTooSmall = 24, "the destination is too small";
    /// A blocking call on a thread of the storage (in a callback, a codec or a waker), where it
    /// could never return.
    OnStorageThread = 25, "a blocking call on a thread of the storage";
    /// The ticket's batch was not submitted yet.
    NotSubmitted = 26, "the ticket's batch was not submitted";
    /// The device broke while it held the request's memory.
    Broken = 27, "the device broke";
    /// The stored bytes are of another format than the codec expects.
    WrongFormat = 28, "the stored bytes have another format";
    /// The GPU was lost.
    DeviceLost = 29, "the GPU was lost";
    /// The storage was closed while the system held the request's borrowed memory, which must stay
    /// valid forever.
    StillHeld = 30, "the system still holds the memory";
}

impl ErrorKind {
    /// Returns the kind of a number that a [`StatusArray`](crate::StatusArray) or a C interface
    /// has.
    #[must_use]
    pub fn from_number(number: u32) -> Option<ErrorKind> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        ErrorKind::ALL.get(index).copied()
    }
}

/// An error with its context. Cheap to move (one pointer), cheap to clone.
#[derive(Debug, Clone)]
pub struct Error(Box<Context>);

#[derive(Debug, Clone)]
struct Context {
    kind: ErrorKind,
    path: Option<Arc<Path>>,
    range: Option<(u64, u64)>,
    name: Option<Arc<str>>,
    cause: Cow<'static, str>,
    source: Source,
}

/// The error of a lower layer.
#[derive(Debug, Clone)]
enum Source {
    None,
    System(IoError),
    Codec(CodecError),
}

impl Error {
    /// Creates an error of this kind with its likely cause, which may be empty.
    #[must_use]
    pub fn new(kind: ErrorKind, cause: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Context {
            kind,
            path: None,
            range: None,
            name: None,
            cause: cause.into(),
            source: Source::None,
        }))
    }

    /// Creates the error of a system call made by the caller.
    #[must_use]
    pub fn from_os(call: &'static str, error: &io::Error) -> Error {
        let errno = Errno(error.raw_os_error().unwrap_or(0));
        Error::from(IoError::new(call, errno))
    }

    /// Sets the file and range concerned: `len` bytes at `offset`; `u64::MAX` for a whole file.
    #[must_use]
    pub fn at(mut self, path: Option<Arc<Path>>, offset: u64, len: u64) -> Error {
        self.0.path = path;
        self.0.range = Some((offset, len));
        self
    }

    /// Sets the file and range concerned, where it has none yet.
    pub(crate) fn or_at(mut self, path: Option<Arc<Path>>, offset: u64, len: u64) -> Error {
        self.0.path = self.0.path.or(path);
        self.0.range.get_or_insert((offset, len));
        self
    }

    /// Sets the name of the request or entry concerned.
    #[must_use]
    pub fn named(mut self, name: Option<Arc<str>>) -> Error {
        self.0.name = name;
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path of the file concerned, if any.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the offset of the request in its file, or of the block at fault if it had a table.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.range.map_or(0, |(offset, _)| offset)
    }

    /// Returns the length of the request, or of the block at fault; `u64::MAX` for a whole file
    /// that was never opened.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length of the range that failed, not of a collection"
    )]
    pub fn len(&self) -> u64 {
        self.0.range.map_or(0, |(_, len)| len)
    }

    /// Returns the name of the request, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns the system's error number, if the system is the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match &self.0.source {
            Source::System(error) => Some(error.errno.0),
            _ => None,
        }
    }

    /// Returns the codec's error, if a codec is the cause. Which of several faults it is may depend
    /// on the route that the bytes took.
    #[must_use]
    pub fn codec(&self) -> Option<&CodecError> {
        match &self.0.source {
            Source::Codec(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the likely cause in words; may be empty.
    #[must_use]
    pub fn cause(&self) -> &str {
        match (&self.0.source, &*self.0.cause) {
            (Source::System(error), "") => error.cause,
            (_, cause) => cause,
        }
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Error {
        let mut made = Error::new(kind_of(&error), "");
        made.0.source = Source::System(error);
        made
    }
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Error {
        use CodecErrorKind as C;
        let (kind, cause) = match error.kind {
            C::RawTooLong => (
                ErrorKind::RawSize,
                "the stream holds more raw bytes than declared",
            ),
            C::RawTooShort => (
                ErrorKind::RawSize,
                "the stream holds fewer raw bytes than declared",
            ),
            C::Truncated => (ErrorKind::Corrupt, "the stored bytes are truncated"),
            C::TrailingBytes => (ErrorKind::Corrupt, "bytes follow the end of the stream"),
            C::Checksum => (ErrorKind::Corrupt, "a checksum does not match"),
            C::Unsupported => (
                ErrorKind::UnknownCodec,
                "the codec cannot do this, or is not built in",
            ),
            C::OutOfMemory => (ErrorKind::OutOfMemory, "no memory for the decoder"),
            _ => (ErrorKind::Corrupt, "the stored bytes violate their format"),
        };
        let mut made = Error::new(kind, cause);
        made.0.source = Source::Codec(error);
        made
    }
}

fn kind_of(error: &IoError) -> ErrorKind {
    match io::Error::from_raw_os_error(error.errno.0).kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ErrorKind::PermissionDenied
        }
        io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        _ if error.errno == Errno::NOT_A_FILE => ErrorKind::NotAFile,
        _ => ErrorKind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = &*self.0;
        if let Some(path) = &context.path {
            write!(f, "\"{}\"", path.display())?;
            match context.range {
                Some((_, u64::MAX)) | None => {}
                Some((offset, len)) => write!(f, " (offset {offset}, length {len})")?,
            }
            write!(f, ": ")?;
        }
        if let Some(name) = &context.name {
            write!(f, "request \"{}\": ", crate::trace::title(name))?;
        }
        let kind = context.kind;
        match &context.source {
            Source::None => write!(f, "{kind}")?,
            Source::System(error) => write!(f, "{kind}: {}: {}", error.call, error.errno)?,
            // A known codec says what it does not support.
            Source::Codec(error) if kind == ErrorKind::UnknownCodec => write!(f, "{error}")?,
            Source::Codec(error) => write!(f, "{kind}: {error}")?,
        }
        match (&context.source, self.cause()) {
            // The codec's own message is more exact.
            (Source::Codec(_), _) | (_, "") => Ok(()),
            (_, cause) => write!(f, "; likely cause: {cause}"),
        }
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match (&error.0.source, error.kind()) {
            (Source::System(system), _) => io::Error::from_raw_os_error(system.errno.0).kind(),
            (_, ErrorKind::NotFound | ErrorKind::StaleFile) => io::ErrorKind::NotFound,
            (_, ErrorKind::PastEnd) => io::ErrorKind::UnexpectedEof,
            (_, ErrorKind::InvalidArgument | ErrorKind::Overflow) => io::ErrorKind::InvalidInput,
            (_, ErrorKind::Corrupt | ErrorKind::RawSize | ErrorKind::WrongFormat) => {
                io::ErrorKind::InvalidData
            }
            (_, ErrorKind::TimedOut) => io::ErrorKind::TimedOut,
            (_, ErrorKind::OutOfMemory) => io::ErrorKind::OutOfMemory,
            (_, ErrorKind::QueueFull) => io::ErrorKind::WouldBlock,
            (_, ErrorKind::UnknownCodec | ErrorKind::NoDirectIo) => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl PartialEq<ErrorKind> for Error {
    fn eq(&self, other: &ErrorKind) -> bool {
        self.0.kind == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_lead_back() {
        for (index, kind) in ErrorKind::ALL.iter().copied().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(ErrorKind::from_number(kind as u32), Some(kind));
        }
        assert_eq!(ErrorKind::from_number(0), None);
        assert_eq!(ErrorKind::from_number(31), None);
    }

    #[test]
    fn a_message_names_file_range_request_and_cause() {
        let error = Error::from(IoError::because("read", Errno::IO, "a bad sector"))
            .at(Some(Arc::from(Path::new("a.bin"))), 4096, 512)
            .named(Some(Arc::from("floor")));
        let text = error.to_string();
        for part in [
            "\"a.bin\"",
            "offset 4096, length 512",
            "\"floor\"",
            "read",
            "a bad sector",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        let io = io::Error::from(error);
        assert!(
            io.get_ref().is_some(),
            "the whole error travels in an io::Error"
        );
    }

    #[test]
    fn the_cause_of_a_codec_error_is_said_once() {
        let codec = millstream_codec::CodecId::ZLIB;
        let error = Error::from(CodecError::new(CodecErrorKind::RawTooLong, codec, 7));
        let text = error.to_string();
        let cause = "more raw bytes than declared";
        assert_eq!(text.matches(cause).count(), 1, "{text}");
    }
}
