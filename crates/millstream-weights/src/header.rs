//! Headers: what the parsers of both formats return.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::metadata::Metadata;
use crate::tensor::Tensor;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// safetensors.
    Safetensors,
    /// GGUF.
    Gguf,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
        })
    }
}

/// The header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The format.
    pub format: Format,
    /// The metadata; in safetensors files, all values are strings.
    pub metadata: Metadata,
    /// Where the bytes of tensors begin in the file.
    pub data_offset: u64,
    /// The tensors, in the order of their bytes.
    pub tensors: Vec<Tensor>,
    /// Which part of a model a GGUF file is, if the model was split.
    pub split: Option<Split>,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// The header.
    Complete(Header),
    /// The header is longer than the bytes given: it has at least so many, which the file has, too.
    NeedsBytes(u64),
}

/// Which part of a split GGUF model a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Split {
    /// The number of the file, from 0 on.
    pub index: usize,
    /// The number of files.
    pub count: usize,
    /// The number of tensors of all files, if it is declared.
    pub tensors: Option<u64>,
}

impl Split {
    /// Returns the path of another file of the model, by its number; `path` is that of this file.
    /// `None` if the name of this one does not end with its number, as in `-00001-of-00003.gguf`.
    #[must_use]
    pub fn path_of(&self, path: &Path, index: usize) -> Option<PathBuf> {
        let ending = |index: usize| format!("-{:05}-of-{:05}.gguf", index + 1, self.count);
        let name = path.file_name()?.to_str()?;
        let model = name.strip_suffix(&ending(self.index))?;
        Some(path.with_file_name(format!("{model}{}", ending(index))))
    }
}
