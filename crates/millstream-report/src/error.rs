//! What can be wrong with an input.

use std::fmt;

/// Why an input gives no page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// Where in the input, in bytes, if one place is to blame.
    pub offset: Option<u64>,
    /// What is wrong and, as far as it can be told, why.
    pub cause: String,
}

impl Error {
    pub(crate) fn new(cause: impl Into<String>) -> Error {
        Error {
            offset: None,
            cause: cause.into(),
        }
    }

    /// An error of the JSON reader, whose places are lines and columns, as an offset in `text`.
    pub(crate) fn json(text: &[u8], what: &str, error: &serde_json::Error) -> Error {
        let before = error.line().saturating_sub(1);
        let line: usize = match before {
            0 => 0,
            _ => text
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'\n')
                .nth(before - 1)
                .map_or(text.len(), |(at, _)| at + 1),
        };
        let offset = (line + error.column().saturating_sub(1)).min(text.len());
        let mut words = error.to_string();
        if let Some(at) = words.rfind(" at line ") {
            words.truncate(at);
        }
        let cause = if error.is_eof() {
            format!("{what}: the text is cut off ({words})")
        } else {
            format!("{what}: {words}")
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

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
