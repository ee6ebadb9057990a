//! What can be wrong with stored bytes, and with moving them.
//!
//! Inside the crate an error is a [`Fault`]: kind, cause and an offset within the bytes at hand. At
//! the border it becomes a [`CodecError`], which adds the codec and counts from the stream's start.

use std::fmt;
use std::io;

use crate::CodecId;

/// What is wrong with stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// The bytes break the format.
    Corrupt,
    /// The stored bytes end before the stream does.
    Truncated,
    /// Bytes follow the end of the stream.
    TrailingBytes,
    /// The stream holds more raw bytes than declared (a bomb).
    RawTooLong,
    /// The stream holds fewer raw bytes than declared.
    RawTooShort,
    /// A checksum does not match.
    Checksum,
    /// A valid feature that is not supported, or a codec not built in.
    Unsupported,
    /// Memory for tables could not be had.
    OutOfMemory,
}

impl CodecErrorKind {
    /// What the kind means when nothing more exact is known.
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

/// An error with the place in the stored stream, as far as the codec tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecError {
    /// What is wrong.
    pub kind: CodecErrorKind,
    /// Which codec says so.
    pub codec: CodecId,
    /// Stored bytes consumed before it was seen (relative to what the decoder was given, from its
    /// first byte).
    pub offset: u64,
    /// The likely cause, in words: a part of a sentence without a full stop.
    pub cause: &'static str,
}

impl CodecError {
    /// An error whose cause is that of its kind.
    #[must_use]
    pub const fn new(kind: CodecErrorKind, codec: CodecId, offset: u64) -> CodecError {
        CodecError {
            kind,
            codec,
            offset,
            cause: kind.cause(),
        }
    }

    /// The same error with a more exact cause.
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

/// An error before it is known which codec's it is and where its bytes lie in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: CodecErrorKind,
    pub(crate) cause: &'static str,
    /// Bytes of the present input taken before the fault was seen.
    pub(crate) offset: usize,
}

impl Fault {
    /// A fault at the first byte of the input.
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

    /// A fault whose cause is that of its kind.
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

    /// The same fault, `bytes` further on.
    pub(crate) const fn after(self, bytes: usize) -> Fault {
        Fault {
            offset: self.offset.saturating_add(bytes),
            ..self
        }
    }

    /// The public error; the present input began at `base` of the stream.
    pub(crate) fn at(self, codec: CodecId, base: u64) -> CodecError {
        CodecError {
            kind: self.kind,
            codec,
            offset: base.saturating_add(self.offset as u64),
            cause: self.cause,
        }
    }
}

/// What was done with a part of the input.
pub(crate) trait After {
    /// The same, where the part began so many bytes behind the start of the input.
    fn after(self, bytes: usize) -> Self;
}

impl<T> After for Result<T, Fault> {
    fn after(self, bytes: usize) -> Self {
        self.map_err(|fault| fault.after(bytes))
    }
}

/// An error of [`compress`](crate::compress) or [`decompress`](crate::decompress): which side of
/// the codec failed, or the codec.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamError {
    /// The reader failed.
    Read(io::Error),
    /// The writer failed.
    Write(io::Error),
    /// The bytes, or what is asked of the codec, are wrong.
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

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::Read(error) | StreamError::Write(error) => Some(error),
            StreamError::Codec(error) => Some(error),
        }
    }
}

impl From<CodecError> for StreamError {
    fn from(error: CodecError) -> StreamError {
        StreamError::Codec(error)
    }
}
