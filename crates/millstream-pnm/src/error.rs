//! Errors: what is wrong with an image, and where.

use std::fmt;
use std::io;

/// The kind of an [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes do not begin with a magic number of this family.
    NotPnm,
    /// A header violates the format, for the given cause.
    Header(&'static str),
    /// A byte that is not allowed at its position.
    UnexpectedByte(u8),
    /// A sample is larger than the image's maximal value.
    SampleTooLarge,
    /// The bytes end before the image does.
    Truncated,
    /// Bytes after the image are neither separators nor another image.
    TrailingBytes,
    /// The image exceeds the limit of the options, 64 GiB, or the address space.
    TooLarge,
    /// Memory for the image could not be allocated.
    OutOfMemory,
    /// The file cannot be read.
    Io(io::Error),
}

/// An error and its position.
#[derive(Debug)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Offset of the error from the start of the file.
    pub offset: u64,
    /// The line, from 1 on (lines end with a line feed), if the error is in text.
    pub line: Option<u64>,
    /// The byte in the line, from 1 on.
    pub column: Option<u64>,
}

impl ErrorKind {
    /// Returns a description of the likely cause: a sentence fragment without a full stop.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            ErrorKind::NotPnm => "no PNM image: it begins with none of P1 to P7 and white space",
            ErrorKind::Header(cause) => cause,
            ErrorKind::UnexpectedByte(b'-' | b'+') => "a sign, where samples have none",
            ErrorKind::UnexpectedByte(b'P') => {
                "another image begins before the samples are all there"
            }
            // Only in P1: elsewhere every digit is part of a sample.
            ErrorKind::UnexpectedByte(b'0'..=b'9') => "a digit that is neither 0 nor 1",
            ErrorKind::UnexpectedByte(_) => "a byte that is no digit, white space or comment",
            ErrorKind::SampleTooLarge => "a sample is larger than the maximal value",
            ErrorKind::Truncated => "the bytes end before the image does",
            ErrorKind::TrailingBytes => "what follows the image is no image",
            ErrorKind::TooLarge => {
                "the image needs more memory than allowed (64 GiB by default) or addressable"
            }
            ErrorKind::OutOfMemory => "there is not enough memory for the image",
            ErrorKind::Io(_) => "the file cannot be read",
        }
    }
}

impl Error {
    /// Returns the cause with the byte or the system's message, if any.
    fn whole_cause(&self) -> String {
        let cause = self.kind.cause();
        match &self.kind {
            ErrorKind::UnexpectedByte(byte) => format!("{cause}: '{}'", byte.escape_ascii()),
            ErrorKind::Io(error) => format!("{cause}: {error}"),
            _ => cause.to_owned(),
        }
    }

    /// Returns the error message without the offset.
    #[must_use]
    pub fn place_and_cause(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                format!("line {line}, column {column}: {}", self.whole_cause())
            }
            _ => self.whole_cause(),
        }
    }

    /// Creates an error without line and column.
    pub(crate) fn at(kind: ErrorKind, offset: u64) -> Error {
        Error {
            kind,
            offset,
            line: None,
            column: None,
        }
    }

    /// Creates the error of a failed read.
    pub(crate) fn io(error: io::Error, offset: u64) -> Error {
        Error::at(ErrorKind::Io(error), offset)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "line {line}, column {column} ")?;
        }
        write!(f, "(offset {}): {}", self.offset, self.whole_cause())
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for Error {}

/// Errors are equal if kind and position are; failed reads are compared by the OS error code.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        let kinds = match (&self.kind, &other.kind) {
            (ErrorKind::Header(ours), ErrorKind::Header(theirs)) => ours == theirs,
            (ErrorKind::UnexpectedByte(ours), ErrorKind::UnexpectedByte(theirs)) => ours == theirs,
            (ErrorKind::Io(ours), ErrorKind::Io(theirs)) => {
                ours.raw_os_error() == theirs.raw_os_error()
            }
            (ours, theirs) => std::mem::discriminant(ours) == std::mem::discriminant(theirs),
        };
        let place = |error: &Error| (error.offset, error.line, error.column);
        kinds && place(self) == place(other)
    }
}

/// An error at an offset in the current piece of input. A negative offset is in an earlier piece:
/// a number is located by its first digit.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) at: i64,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, at: usize) -> Fault {
        Fault {
            kind,
            at: at as i64,
        }
    }

    /// Moves the fault's offset forward by `bytes`.
    pub(crate) fn after(self, bytes: usize) -> Fault {
        Fault {
            at: self.at + bytes as i64,
            ..self
        }
    }
}

/// The position of the parser.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    /// Line feeds before the offset.
    lines: u64,
    /// Offset of the current line's first byte.
    line_offset: u64,
}

impl Place {
    /// Returns the line and column, from 1 on.
    pub(crate) fn line_and_column(&self) -> (u64, u64) {
        (
            self.lines + 1,
            self.offset.saturating_sub(self.line_offset) + 1,
        )
    }

    /// Advances over `bytes`, counting their lines if `counts_lines`.
    pub(crate) fn advance(&mut self, bytes: &[u8], counts_lines: bool) {
        if counts_lines && let Some(last) = memchr::memrchr(b'\n', bytes) {
            self.lines += memchr::memchr_iter(b'\n', &bytes[..=last]).count() as u64;
            self.line_offset = self.offset + last as u64 + 1;
        }
        self.offset += bytes.len() as u64;
    }
}
