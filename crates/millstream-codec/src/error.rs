//! Errors of decoding, encoding and transferring streams.
//!
//! Inside the crate an error is a [`Fault`]: kind, cause and an offset within the current input.
//! The public API returns a [`CodecError`], with the codec and an offset from the stream's start.

use std::fmt;
use std::io;

use crate::CodecId;

/// The kind of a [`CodecError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// The bytes violate the format.
    Corrupt,
    /// The stored bytes end before the stream does.
    Truncated,
    /// Bytes follow the end of the stream.
    TrailingBytes,
    /// The stream holds more raw bytes than declared, or than there is room for.
    RawTooLong,
    /// The stream holds fewer raw bytes than declared.
    RawTooShort,
    /// A checksum does not match.
    Checksum,
    /// A valid feature, codec or level that is not supported, or not in this build.
    Unsupported,
    /// Memory for tables or buffers could not be allocated.
    OutOfMemory,
}

impl CodecErrorKind {
    /// Returns the cause to report when nothing more specific is known.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            CodecErrorKind::Corrupt => "the bytes break the format",
            CodecErrorKind::Truncated => "the stored bytes end before the stream does",
            CodecErrorKind::TrailingBytes => "bytes follow the end of the stream",
            CodecErrorKind::RawTooLong => "the stream holds more raw bytes than declared",
            CodecErrorKind::RawTooShort => "the stream holds fewer raw bytes than declared",
            CodecErrorKind::Checksum => "a checksum does not match: the data is damaged",
            CodecErrorKind::Unsupported => "not supported, or not built in",
            CodecErrorKind::OutOfMemory => "no memory for the codec's tables",
        }
    }
}

/// An error and its position in the stored stream, as far as the codec reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecError {
    /// What is wrong.
    pub kind: CodecErrorKind,
    /// The codec that reports it.
    pub codec: CodecId,
    /// Stored bytes consumed before the error was detected, from the first byte given to the
    /// decoder.
    pub offset: u64,
    /// A description of the likely cause: a sentence fragment without a full stop.
    pub cause: &'static str,
}

impl CodecError {
    /// Creates an error with the general cause of its kind.
    #[must_use]
    pub const fn new(kind: CodecErrorKind, codec: CodecId, offset: u64) -> CodecError {
        CodecError {
            kind,
            codec,
            offset,
            cause: kind.cause(),
        }
    }

    /// Replaces the cause with a more specific one.
    #[must_use]
    pub const fn because(self, cause: &'static str) -> CodecError {
        CodecError { cause, ..self }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} (at stored offset {})",
            self.codec.name(),
            self.cause,
            self.offset
        )
    }
}

impl std::error::Error for CodecError {}

/// An error without its codec and with an offset relative to the current input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: CodecErrorKind,
    pub(crate) cause: &'static str,
    /// Bytes of the current input consumed before the fault was detected.
    pub(crate) offset: usize,
}

impl Fault {
    /// Creates a fault at the first byte of the input.
    const fn new(kind: CodecErrorKind, cause: &'static str) -> Fault {
        Fault {
            kind,
            cause,
            offset: 0,
        }
    }

    pub(crate) const TRUNCATED: Fault = Fault::of(CodecErrorKind::Truncated);
    pub(crate) const TRAILING_BYTES: Fault = Fault::of(CodecErrorKind::TrailingBytes);
    pub(crate) const RAW_TOO_LONG: Fault = Fault::of(CodecErrorKind::RawTooLong);
    pub(crate) const RAW_TOO_SHORT: Fault = Fault::of(CodecErrorKind::RawTooShort);
    pub(crate) const UNSUPPORTED: Fault = Fault::of(CodecErrorKind::Unsupported);
    pub(crate) const OUT_OF_MEMORY: Fault = Fault::of(CodecErrorKind::OutOfMemory);
    pub(crate) const UNKNOWN_CODEC: Fault =
        Fault::unsupported("a codec that this library does not know");

    /// Creates a fault with the general cause of its kind.
    const fn of(kind: CodecErrorKind) -> Fault {
        Fault::new(kind, kind.cause())
    }

    pub(crate) const fn corrupt(cause: &'static str) -> Fault {
        Fault::new(CodecErrorKind::Corrupt, cause)
    }

    pub(crate) const fn unsupported(cause: &'static str) -> Fault {
        Fault::new(CodecErrorKind::Unsupported, cause)
    }

    pub(crate) const fn checksum(cause: &'static str) -> Fault {
        Fault::new(CodecErrorKind::Checksum, cause)
    }

    /// Moves the fault's offset forward by `bytes`.
    pub(crate) const fn after(self, bytes: usize) -> Fault {
        Fault {
            offset: self.offset.saturating_add(bytes),
            ..self
        }
    }

    /// Converts to the public error; the current input begins at `base` in the stream.
    pub(crate) fn at(self, codec: CodecId, base: u64) -> CodecError {
        CodecError {
            kind: self.kind,
            codec,
            offset: base.saturating_add(self.offset as u64),
            cause: self.cause,
        }
    }
}

/// The result of processing a part of the input.
pub(crate) trait After {
    /// Adjusts a fault's offset for a part that begins `bytes` after the start of the input.
    fn after(self, bytes: usize) -> Self;
}

impl<T> After for Result<T, Fault> {
    fn after(self, bytes: usize) -> Self {
        self.map_err(|fault| fault.after(bytes))
    }
}

/// An error of [`compress`](crate::compress) or [`decompress`](crate::decompress): of the reader,
/// the writer, or the codec.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// The reader failed.
    Read(io::Error),
    /// The writer failed.
    Write(io::Error),
    /// The codec failed: invalid bytes or an unsupported request.
    Codec(CodecError),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Read(error) => write!(f, "reading failed: {error}"),
            StreamError::Write(error) => write!(f, "writing failed: {error}"),
            StreamError::Codec(error) => error.fmt(f),
        }
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for StreamError {}

impl From<CodecError> for StreamError {
    fn from(error: CodecError) -> StreamError {
        StreamError::Codec(error)
    }
}
