//! Cooks: entries converted while a package is made.
//!
//! What a program ships is seldom what artists save: textures become blocks that a GPU samples,
//! scenes become tables. A [`Cook`] takes an input file and gives the entries that stand in its
//! place. Crates that know a kind of file implement it, as they do
//! [`Describe`](crate::Describe).

use std::fmt;

use crate::metadata::Metadata;

/// What a cook makes of one input.
#[derive(Debug, Clone, Default)]
pub struct Cooked {
    /// The entries that the package gets for it; none drops it.
    pub entries: Vec<CookedEntry>,
    /// Names of other inputs that are inside these entries now and no entries of their own any
    /// more (unless another cook or a rule keeps them).
    pub consumed: Vec<Vec<u8>>,
    /// Names of inputs that it left as they are although it converts such, and why.
    pub uncooked: Vec<(Vec<u8>, String)>,
}

/// An entry made by a cook.
#[derive(Debug, Clone)]
pub struct CookedEntry {
    /// Its name in the package.
    pub name: Vec<u8>,
    /// Its raw bytes.
    pub raw: Vec<u8>,
    /// Its record; `None` to have it described as any other entry.
    pub metadata: Option<Metadata>,
}

/// Why an input could not be cooked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookError {
    /// Byte of the input that is wrong, if one is.
    pub offset: Option<u64>,
    /// What is wrong.
    pub cause: String,
}

impl CookError {
    /// An error without a place.
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
    /// All raw bytes of an input.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be read.
    fn read(&self, name: &[u8]) -> Result<Vec<u8>, CookError>;
}

/// Converts one kind of input. Called from several threads at once. The same inputs must give the
/// same entries: packages are made the same from the same input.
pub trait Cook: Send + Sync {
    /// Whether this cook takes the input; asked by name, before anything is read.
    fn wants(&self, name: &[u8]) -> bool;

    /// Converts an input. It is held in memory as a whole, and so is what is made of it.
    ///
    /// # Errors
    /// The input is broken, or names others that are missing. The package is then not made.
    fn cook(&self, name: &[u8], raw: &[u8], others: &dyn Inputs) -> Result<Cooked, CookError>;
}
