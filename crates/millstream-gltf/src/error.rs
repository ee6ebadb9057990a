//! The error type of this crate: a place in the JSON, the file, and the likely cause.
//!
//! ```
//! use millstream_gltf::{Error, ErrorKind};
//! let error = Error::new(ErrorKind::Invalid, "accessors[3].bufferView", "there is no view 9");
//! assert_eq!(error.to_string(), "accessors[3].bufferView: there is no view 9");
//! ```

use std::fmt;
use std::sync::Arc;

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Invalid JSON or GLB: nothing of the scene can be loaded.
    Malformed,
    /// Something in the JSON contradicts the specification or itself.
    Invalid,
    /// Valid, but not supported: Draco and meshopt compression, Basis Universal, glTF 1, required
    /// extensions that are unknown.
    Unsupported,
    /// A URI that leaves the scene's folder or names a host.
    Refused,
    /// A limit of [`limits`](crate::limits) or of the application is exceeded.
    Limit,
    /// No such file or entry.
    Missing,
    /// Reading failed.
    Read,
    /// An image could not be decoded.
    Image,
    /// Canceled by the application.
    Canceled,
}

#[derive(Clone)]
struct Context {
    kind: ErrorKind,
    place: String,
    cause: String,
    file: Option<String>,
    source: Option<millstream::Error>,
}

/// An error about a scene. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Context>);

impl Error {
    /// Creates an error at a place in the JSON (`accessors[3].count`; empty for the whole).
    pub fn new(kind: ErrorKind, place: impl Into<String>, cause: impl Into<String>) -> Error {
        Error(Arc::new(Context {
            kind,
            place: place.into(),
            cause: cause.into(),
            file: None,
            source: None,
        }))
    }

    /// Wraps the error of a request for what `place` names, in the file `file`.
    pub(crate) fn of_request(place: &str, file: &str, error: &millstream::Error) -> Error {
        let kind = match error.kind() {
            millstream::ErrorKind::NotFound => ErrorKind::Missing,
            millstream::ErrorKind::Canceled => ErrorKind::Canceled,
            millstream::ErrorKind::Application => ErrorKind::Image,
            _ => ErrorKind::Read,
        };
        let cause = match kind {
            ErrorKind::Image => error.cause().to_owned(),
            _ => error.to_string(),
        };
        let mut made = Error::new(kind, place, cause).in_file(file);
        Arc::make_mut(&mut made.0).source = Some(error.clone());
        made
    }

    /// Returns the error with the name of the file that it concerns.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Error {
        Arc::make_mut(&mut self.0).file = Some(file.to_owned());
        self
    }

    /// Returns the error with another place.
    pub(crate) fn at(mut self, place: String) -> Error {
        Arc::make_mut(&mut self.0).place = place;
        self
    }

    /// Returns the error with its place inside `outer`.
    pub(crate) fn within(mut self, outer: impl fmt::Display) -> Error {
        let place = &mut Arc::make_mut(&mut self.0).place;
        let dot = if place.is_empty() { "" } else { "." };
        *place = format!("{outer}{dot}{place}");
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The place in the JSON, as `accessors[3].count`; empty for the whole.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// The file, as named in the scene or by the caller, if the error concerns one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// What is wrong, and why, if known.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The engine's error, with path, offset and length, if a request failed.
    #[must_use]
    pub fn request_error(&self) -> Option<&millstream::Error> {
        self.0.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.place.is_empty() {
            write!(f, "{}: ", self.0.place)?;
        }
        if let Some(file) = &self.0.file {
            write!(f, "{}: ", file.escape_debug())?;
        }
        f.write_str(&self.0.cause)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}, \"{self}\")", self.0.kind)
    }
}

/// Without a source: the message has that of the lower layer.
impl std::error::Error for Error {}

pub(crate) fn invalid(place: impl Into<String>, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, place, cause)
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
