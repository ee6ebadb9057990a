//! What a benchmark can fail with.

use std::fmt;
use std::path::Path;

/// A failure, told as a sentence with its cause. A benchmark has no caller that would branch on the
/// kind of a failure, so there is none.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<std::io::Error>,
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without a system error under it.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Error {
        Error {
            what: what.into(),
            source: None,
        }
    }

    /// A failed system call, `what` says which and on what.
    #[must_use]
    pub fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Error {
        Error {
            what: what.into(),
            source: Some(source.into()),
        }
    }

    /// A failed call on a file.
    #[must_use]
    pub fn file(call: &str, path: &Path, source: impl Into<std::io::Error>) -> Error {
        Error::io(format!("{call} {}", path.display()), source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl From<millstream::Error> for Error {
    fn from(error: millstream::Error) -> Error {
        Error::new(error.to_string())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
