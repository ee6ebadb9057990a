//! The errors of packages, which name file, entry, block, offset and likely cause where known.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of an error; the numbers are stable and meant for a C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call or the engine failed; the message says how.
    Io = 1,
    /// The file is not a package.
    NotAPackage = 2,
    /// The package is of another format version, needs an unknown feature or codec, or lacks the
    /// hashes to compare it by.
    Unsupported = 3,
    /// The file ends too early.
    Truncated = 4,
    /// A field, a hash or a checksum is wrong.
    Corrupt = 5,
    /// A name that no package may have, or that this system does not take.
    BadName = 6,
    /// Two inputs have the same name, or one's name is a folder of the other's.
    Duplicate = 7,
    /// There is no such entry.
    NotFound = 8,
    /// The range reaches past the end of the entry.
    PastEnd = 9,
    /// The signature is missing, of another key, or wrong.
    Signature = 10,
    /// An input changed while it was packed, or a package's file was replaced while open.
    Changed = 11,
    /// An input is not a regular file.
    NotAFile = 12,
    /// A limit of the format or of this library is exceeded.
    Limit = 13,
    /// An argument is invalid.
    InvalidArgument = 14,
    /// A cook refused its input.
    Cook = 15,
    /// A patch is used without its base, or with another one.
    Base = 16,
    /// The caller asked to stop, or supplied too few encoded blocks.
    Stopped = 17,
    /// The package's content version is below the least that the caller accepts.
    Outdated = 18,
    /// There is no memory for the package's tables, or for the bytes to load.
    OutOfMemory = 19,
}

/// An error: its kind and cause, and the file, entry, block and offset where known.
#[derive(Debug, Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Debug, Clone)]
struct Circumstances {
    kind: ErrorKind,
    path: Option<PathBuf>,
    entry: Option<String>,
    block: Option<u64>,
    offset: Option<u64>,
    cause: String,
    source: Option<Source>,
}

#[derive(Debug, Clone)]
enum Source {
    Engine(millstream::Error),
    System(Arc<std::io::Error>),
}

/// The result of this crate's fallible calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of a kind, with the likely cause in words.
    #[must_use]
    pub fn new(kind: ErrorKind, cause: impl Into<String>) -> Error {
        Error(Box::new(Circumstances {
            kind,
            path: None,
            entry: None,
            block: None,
            offset: None,
            cause: cause.into(),
            source: None,
        }))
    }

    /// Creates the error of a system call that failed.
    pub(crate) fn io(path: &Path, doing: &str, error: std::io::Error) -> Error {
        let mut made = Error::new(ErrorKind::Io, format!("cannot {doing}")).of(path);
        made.0.source = Some(Source::System(Arc::new(error)));
        made
    }

    /// Adds the file, unless the error has one. An empty path leaves it to the caller.
    pub(crate) fn of(mut self, path: &Path) -> Error {
        if !path.as_os_str().is_empty() {
            self.0.path.get_or_insert_with(|| path.to_path_buf());
        }
        self
    }

    /// Adds the entry's name, unless the error has one.
    pub(crate) fn entry(mut self, name: &[u8]) -> Error {
        self.0
            .entry
            .get_or_insert_with(|| crate::names::escape::escape(name));
        self
    }

    /// Adds the block's number, unless the error has one.
    pub(crate) fn block(mut self, block: u64) -> Error {
        self.0.block.get_or_insert(block);
        self
    }

    /// Adds the offset in the file, unless the error has one.
    pub(crate) fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path of the file, if known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        let engine = self.engine().and_then(millstream::Error::path);
        engine.or(self.0.path.as_deref())
    }

    /// Returns the entry's name in printable form, if known.
    #[must_use]
    pub fn entry_name(&self) -> Option<&str> {
        self.0.entry.as_deref()
    }

    /// Returns the offset in the file, in bytes, if known.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        let engine = self
            .engine()
            .filter(|error| !matches!(error.len(), 0 | u64::MAX));
        self.0.offset.or(engine.map(millstream::Error::offset))
    }

    /// Returns the likely cause in words; empty if the engine's error has it.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// Returns the system's error, if a system call failed.
    #[must_use]
    pub fn system(&self) -> Option<&std::io::Error> {
        match &self.0.source {
            Some(Source::System(error)) => Some(error),
            _ => None,
        }
    }

    /// Converts to the engine's error, for [`millstream_source::Source`].
    #[must_use]
    pub fn into_engine(self) -> millstream::Error {
        use millstream::ErrorKind as Kind;
        if let Some(Source::Engine(error)) = self.0.source {
            return error;
        }
        let (kind, cause) = match self.0.kind {
            ErrorKind::Io => (Kind::Io, "the package cannot be read"),
            ErrorKind::BadName => (Kind::InvalidArgument, "no package may have this name"),
            ErrorKind::PastEnd => (Kind::PastEnd, "the range reaches past the end of the entry"),
            ErrorKind::NotFound => (Kind::NotFound, "the package has no such entry"),
            ErrorKind::InvalidArgument => (
                Kind::InvalidArgument,
                "an argument is invalid, or the entry is of another package",
            ),
            ErrorKind::Unsupported => (
                Kind::WrongFormat,
                "the package needs another version of this library",
            ),
            ErrorKind::Changed => (Kind::Io, "the package was replaced while it was open"),
            ErrorKind::Stopped => (Kind::Canceled, "the caller stopped"),
            ErrorKind::Base => (Kind::NotFound, "the patch's base is not mounted"),
            ErrorKind::Limit => (Kind::Limit, "a bound of the package format"),
            ErrorKind::OutOfMemory => (Kind::OutOfMemory, "no memory for the package's tables"),
            ErrorKind::Outdated => (
                Kind::InvalidArgument,
                "the package is older than the least version accepted",
            ),
            _ => (
                Kind::Corrupt,
                "the package's tables are damaged: `millstream verify` says where",
            ),
        };
        let path = self.0.path.map(Arc::from);
        let made = millstream::Error::new(kind, cause);
        let made = made.at(path, self.0.offset.unwrap_or(0), 0);
        made.named(self.0.entry.map(Arc::from))
    }
}

impl From<millstream::Error> for Error {
    fn from(error: millstream::Error) -> Error {
        use millstream::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Corrupt | Kind::RawSize | Kind::RawSizeUnknown | Kind::WrongFormat => {
                ErrorKind::Corrupt
            }
            Kind::PastEnd => ErrorKind::Truncated,
            Kind::UnknownCodec => ErrorKind::Unsupported,
            Kind::InvalidArgument => ErrorKind::InvalidArgument,
            Kind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        };
        let mut made = Error::new(kind, String::new());
        made.0.source = Some(Source::Engine(error));
        made
    }
}

impl Error {
    /// Returns the engine's error, if the engine failed.
    #[must_use]
    pub fn engine(&self) -> Option<&millstream::Error> {
        match &self.0.source {
            Some(Source::Engine(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the message without file and offset.
    #[must_use]
    pub fn detail(&self) -> String {
        let c = &*self.0;
        let mut parts: Vec<String> = Vec::new();
        if let Some(entry) = &c.entry {
            parts.push(format!("entry '{entry}'"));
        }
        if let Some(block) = c.block {
            parts.push(format!("block {block}"));
        }
        if !c.cause.is_empty() {
            parts.push(c.cause.clone());
        }
        match &c.source {
            Some(Source::Engine(error)) => {
                let system = error.errno().map(std::io::Error::from_raw_os_error);
                parts.extend(system.map(|system| system.to_string()));
                match (error.errno(), error.cause()) {
                    (None, "") => parts.push(error.kind().to_string()),
                    (Some(_), "") => {}
                    (_, cause) => {
                        // What the codec knows beyond the kind.
                        let codec = error.codec().map(|it| (it.cause, it.kind.cause()));
                        let exact = codec.filter(|(own, general)| own != general);
                        parts.push(String::from(exact.map_or(cause, |(own, _)| own)));
                    }
                }
            }
            Some(Source::System(error)) => parts.push(error.to_string()),
            None => {}
        }
        parts.join(": ")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path() {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(offset) = self.offset() {
            write!(f, "at offset {offset}: ")?;
        }
        f.write_str(&self.detail())
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for Error {}

/// Creates an error about damaged bytes.
pub(crate) fn corrupt(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gets_a_kind_for_each_cause() {
        use millstream::ErrorKind as Kind;
        for (kind, wanted) in [
            (ErrorKind::Unsupported, Kind::WrongFormat),
            (ErrorKind::Changed, Kind::Io),
            (ErrorKind::Stopped, Kind::Canceled),
            (ErrorKind::Corrupt, Kind::Corrupt),
        ] {
            assert_eq!(
                Error::new(kind, "").into_engine().kind(),
                wanted,
                "{kind:?}"
            );
        }
    }
}
