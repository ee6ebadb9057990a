//! Describers: metadata made from the first bytes of an entry.
//!
//! The packer shows the first bytes of every entry to its describers, in order; the first that
//! knows the kind of file returns the record. A describer reads header fields only: it does not
//! decode. Crates that know a kind of file implement [`Describe`] (behind a feature of theirs), and
//! the application passes them to the packer.
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

/// The first bytes of an entry, as a describer gets them.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The entry's name in the package.
    pub name: &'a [u8],
    /// Its first bytes: as many as the describer asked for, or all, if it has fewer.
    pub bytes: &'a [u8],
    /// Size of the whole entry in bytes.
    pub raw_bytes: u64,
}

/// Makes metadata for one kind of entry. Called from several threads at once. The same head must
/// give the same record, since packing is reproducible.
pub trait Describe: Send + Sync {
    /// Returns how many of an entry's first bytes `describe` needs, by the entry's name alone. At
    /// most [`limits::DESCRIBE_HEAD_BYTES_MAX`](crate::limits::DESCRIBE_HEAD_BYTES_MAX) are given.
    fn head_bytes(&self, name: &[u8]) -> usize {
        let _ = name;
        4096
    }

    /// Returns the record of an entry; `None` if it is not of this kind, or broken. The bytes may
    /// be hostile.
    fn describe(&self, head: &Head<'_>) -> Option<Metadata>;
}
