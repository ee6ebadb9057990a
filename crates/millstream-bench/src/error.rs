//! What a benchmark can fail with.

use std::fmt::{self, Display};
use std::path::Path;

/// A failure as a sentence with its cause. A benchmark has no caller that would branch on the kind
/// of a failure, so there is none.
#[derive(Debug)]
pub struct Error(String);

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure in words.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Error {
        Error(what.into())
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// So that `?` takes any error, the type itself is none of the standard library's trait.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::new(error.to_string())
    }
}

/// Says what failed.
pub(crate) trait Context<T> {
    /// Names the failed call.
    fn what(self, call: &str) -> Result<T>;
    /// Names the failed call and the file that it was made on.
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

/// An error unless `right`.
pub(crate) fn ensure(right: bool, otherwise: &str) -> Result<()> {
    if right {
        return Ok(());
    }
    Err(Error::new(otherwise))
}
