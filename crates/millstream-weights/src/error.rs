//! Errors of this crate: kind, cause, offset and length, and a file that is added later.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use millstream::{Error, ErrorKind};

/// Longest part of a name that a message shows, in characters.
const SHOWN_CHARS_MAX: usize = 100;

/// Creates an error about `len` bytes at `offset`; the caller adds the file.
pub(crate) fn failed(
    kind: ErrorKind,
    cause: impl Into<Cow<'static, str>>,
    offset: u64,
    len: u64,
) -> Error {
    Error::new(kind, cause).at(None, offset, len)
}

/// Longest message of a parser that shows text of its input, in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// Shortens a message that may contain text of any length from a file.
pub(crate) fn shortened(mut cause: String) -> String {
    if let Some((end, _)) = cause.char_indices().nth(CAUSE_CHARS_MAX) {
        cause.truncate(end);
        cause.push_str("...");
    }
    cause
}

/// Creates an error about damaged bytes, as [`failed`].
pub(crate) fn corrupt(cause: impl Into<Cow<'static, str>>, offset: u64, len: u64) -> Error {
    failed(ErrorKind::Corrupt, cause, offset, len)
}

/// Adds the file to an error that has none.
pub(crate) fn in_file(error: Error, path: &Path) -> Error {
    let (offset, len) = (error.offset(), error.len());
    match error.path() {
        Some(_) => error,
        None => error.at(Some(Arc::from(path)), offset, len),
    }
}

/// Formats a name from a file for a message: quoted, escaped and not too long.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}...", &name[..end]),
        None => format!("{name:?}"),
    }
}
