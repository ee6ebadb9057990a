//! Describers: what an entry's head says becomes its metadata.
//!
//! The packer shows every entry's front to its describers, in order; the first that knows the kind
//! gives the record. A describer reads header fields only: it does not decode. Crates that know a
//! kind of file implement [`Describe`] (behind a feature of theirs), and the program hands them to
//! the packer.
//!
//! ```
//! use millstream_pak::{Describe, Head};
//! use millstream_pak::metadata::{Kind, Metadata};
//!
//! struct Script;
//!
//! impl Describe for Script {
//!     fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
//!         head.bytes.starts_with(b"#!").then(|| Metadata::new(Kind(Kind::APPLICATION.0 + 1)))
//!     }
//! }
//!
//! let head = Head { name: b"run.sh", bytes: b"#!/bin/sh", raw_bytes: 9 };
//! assert!(Script.describe(&head).is_some());
//! ```

use crate::metadata::Metadata;

mod sounds;

pub use sounds::{Ogg, Wav};

/// An entry as describers see it.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its name in the package.
    pub name: &'a [u8],
    /// Its front: as many bytes as the describer asked for, or all, if it has fewer.
    pub bytes: &'a [u8],
    /// All its bytes.
    pub raw_bytes: u64,
}

impl Head<'_> {
    /// Whether the name ends in `.extension`, in any case.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        let dot = self.name.iter().rposition(|&byte| byte == b'.');
        dot.is_some_and(|dot| self.name[dot + 1..].eq_ignore_ascii_case(extension.as_bytes()))
    }
}

/// Makes metadata of one kind of entry. Called from several threads at once. The same head must
/// give the same record: packages are made the same from the same input.
pub trait Describe: Send + Sync {
    /// Bytes of an entry's front that `describe` needs; asked by name, before anything is read. At
    /// most [`limits::DESCRIBE_HEAD_BYTES_MAX`](crate::limits::DESCRIBE_HEAD_BYTES_MAX) are given.
    fn head_bytes(&self, name: &[u8]) -> usize {
        let _ = name;
        4096
    }

    /// The record of an entry; `None` if it is not of this kind, or broken. The bytes may be
    /// hostile.
    fn describe(&self, head: &Head<'_>) -> Option<Metadata>;
}
