//! Packages for Millstream: one file, one table, no dependent reads.
pub mod cook;
pub mod describe;
pub mod error;
pub mod format;
pub mod limits;
pub mod metadata;
mod mounts;
pub mod names;
mod reader;
mod sign;
mod writer;

pub use cook::{Cook, CookError, Cooked, CookedEntry, Inputs};
pub use describe::{Describe, Head};
pub use error::{Error, ErrorKind, Result};
pub use metadata::Metadata;
pub use mounts::Mounts;
pub use reader::batch::{Batch, BatchOptions, Loaded, Piece};
pub use reader::check::{Verification, verify};
pub use reader::content::ContentCheck;
pub use reader::dictionaries::DictionaryUse;
pub use reader::tables::is_package;
pub use reader::visit::visit;
pub use reader::{EntryInfo, Package, PackageOptions, Storing};
pub use sign::{PublicKey, SecretKey};
pub use writer::patch::{Change, Difference, diff, write_patch, write_patch_file};
pub use writer::{
    Coding, Dictionaries, Item, Links, PackOptions, PackPlan, PackReport, Target, encode_task,
    walk, walk_with, write, write_file, write_synced,
};
