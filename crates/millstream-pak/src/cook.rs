//! Cooks: inputs converted while a package is made.
//!
//! What a program ships is seldom what artists save: textures become blocks that a GPU samples,
//! scenes become tables. A [`Cook`] takes an input file and returns the entries that replace it.
//! Crates that know a kind of file implement it, as they do [`Describe`](crate::Describe).

use std::fmt;

use crate::metadata::Metadata;

/// The result of cooking one input.
#[derive(Debug, Clone, Default)]
pub struct Cooked {
    /// The entries that replace the input; if there are none, the input is dropped.
    pub entries: Vec<CookedEntry>,
    /// Names of other inputs that these entries contain, and that get no entries of their own. A
    /// cook that wants such an input converts it nevertheless.
    pub consumed: Vec<Vec<u8>>,
    /// Inputs of a kind that it converts, but left as they are: the name of each, and why.
    pub uncooked: Vec<(Vec<u8>, String)>,
}

/// An entry made by a cook.
#[derive(Debug, Clone)]
pub struct CookedEntry {
    /// Its name in the package.
    pub name: Vec<u8>,
    /// Its raw bytes.
    pub raw: Vec<u8>,
    /// Its metadata; `None` to have it described as any other entry.
    pub metadata: Option<Metadata>,
}

/// Why an input could not be cooked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookError {
    /// Offset in the input of the byte that is wrong, if it is one byte.
    pub offset: Option<u64>,
    /// What is wrong.
    pub cause: String,
}

impl CookError {
    /// Creates an error without an offset.
    #[must_use]
    pub fn new(cause: impl Into<String>) -> CookError {
        CookError {
            offset: None,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for CookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for CookError {}

/// The other inputs of the package, for cooks that need them.
pub trait Inputs {
    /// Returns all raw bytes of an input.
    ///
    /// # Errors
    /// There is no input of that name, it cannot be read, or it has more than 256 MiB.
    fn read(&self, name: &[u8]) -> Result<Vec<u8>, CookError>;
}

/// Converts one kind of input. The packer calls it for one input after the other; other callers may
/// use several threads. The same inputs must give the same entries, since packing is reproducible.
pub trait Cook: Send + Sync {
    /// Returns whether this cook converts the input, by its name alone: nothing is read yet.
    fn wants(&self, name: &[u8]) -> bool;

    /// Converts an input. The whole input and the whole result are held in memory.
    ///
    /// # Errors
    /// The input is broken, or names other inputs that are missing. No package is made then.
    fn cook(&self, name: &[u8], raw: &[u8], others: &dyn Inputs) -> Result<Cooked, CookError>;
}
