//! The error type of the benchmark.

use std::fmt::{self, Display};
use std::path::Path;

/// A failure as a sentence with its cause. A benchmark has no caller that would branch on the kind
/// of a failure, so there are no kinds.
#[derive(Debug)]
pub(crate) struct Error(String);

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Error {
        Error(what.into())
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// The type does not implement `std::error::Error`, so that `?` can convert any error into it.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::new(error.to_string())
    }
}

pub(crate) trait Context<T> {
    fn what(self, call: &str) -> Result<T>;
    fn on(self, call: &str, path: &Path) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn what(self, call: &str) -> Result<T> {
        self.map_err(|error| Error::new(format!("{call}: {error}")))
    }

    fn on(self, call: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::new(format!("{call} {}: {error}", path.display())))
    }
}

/// Returns an error with `otherwise` unless `right` holds.
pub(crate) fn ensure(right: bool, otherwise: &str) -> Result<()> {
    if right {
        return Ok(());
    }
    Err(Error::new(otherwise))
}
