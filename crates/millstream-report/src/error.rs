//! Errors of this crate: what is wrong with an input.

use std::fmt;

/// Why no page can be made from an input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// Offset in the input in bytes, if the error has one place.
    pub offset: Option<u64>,
    /// What is wrong and, if known, why.
    pub cause: String,
}

impl Error {
    pub(crate) fn new(cause: impl Into<String>) -> Error {
        Error {
            offset: None,
            cause: cause.into(),
        }
    }

    /// Creates an error of the JSON parser in `text`, whose line and column become an offset;
    /// `what` says what the text is not.
    pub(crate) fn json(text: &[u8], what: &str, error: &serde_json::Error) -> Error {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let before = lines.take(error.line().saturating_sub(1));
        let line: usize = before.map(<[u8]>::len).sum();
        let offset = (line + error.column().saturating_sub(1)).min(text.len());
        let mut words = error.to_string();
        if let Some(at) = words.rfind(" at line ") {
            words.truncate(at);
        }
        let cause = match error.is_eof() {
            true => format!("{what}: the text is cut off ({words})"),
            false => format!("{what}: {words}"),
        };
        Error {
            offset: Some(offset as u64),
            cause,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "at offset {offset}: {}", self.cause),
            None => f.write_str(&self.cause),
        }
    }
}

impl std::error::Error for Error {}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
