//! Packages for Millstream: files of named entries, with an index that is read at once.
//!
//! A package holds named entries. Its index is read when it is opened, and each 64 KiB of names on
//! first use: a lookup is a search in memory, and a range of an entry one request to the engine.
//!
//! ```
//! use millstream::{QueueOptions, Storage, StorageOptions};
//! use millstream_pak::{Item, PackOptions, Package, write_file};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("game.mpak");
//! // Once, when the game is built. `walk` lists the files below a folder.
//! let items = vec![
//!     Item::from_bytes("textures/wall", vec![1; 100_000]),
//!     Item::from_bytes("sounds/door", vec![2; 5_000]),
//! ];
//! let report = write_file(items, &PackOptions::default(), &path)?;
//! assert_eq!(report.entries, 2);
//!
//! // Whenever it starts.
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let package = Package::open(&storage, &path)?;
//! let sound = queue.submit(package.read("sounds/door")?)?.wait()?;
//! assert_eq!(&sound[..], [2; 5_000]);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | write a package | [`walk`], [`Item`], [`PackOptions`], [`write_file`] |
//! | encode on several machines | [`PackPlan`], [`encode_task`] |
//! | describe or convert what goes in | [`Describe`], [`Cook`], [`metadata`] |
//! | read one | [`Package`]; many entries at once with [`Package::enqueue_all`] or [`visit()`] |
//! | read a zip, pk3, PACK or PCK as it is | `Archive` (feature `archives`) |
//! | overlay several | [`Mounts`] |
//! | update one | [`diff`], [`write_patch_file`] |
//! | check one | [`verify`], [`SecretKey`], [`PublicKey`] |
//!
//! `docs/FORMAT.md` specifies the format.

#[cfg(feature = "archives")]
mod archive;
pub mod cook;
pub mod describe;
pub mod error;
pub mod format;
pub mod limits;
mod memory;
pub mod metadata;
mod mounts;
pub mod names;
mod reader;
mod sign;
mod writer;

#[cfg(feature = "archives")]
pub use archive::{Archive, ArchiveEntry, is_archive};
pub use cook::{Cook, CookError, Cooked, CookedEntry, Inputs};
pub use describe::{Describe, Head};
pub use error::{Error, ErrorKind, Result};
pub use metadata::Metadata;
pub use mounts::Mounts;
pub use reader::batch::{Batch, BatchOptions, Loaded, Piece};
pub use reader::check::{Verification, verify};
pub use reader::tables::is_package;
pub use reader::visit::visit;
pub use reader::{EntryInfo, Package, PackageOptions, Storing};
pub use sign::{PublicKey, SecretKey};
pub use writer::parallel::in_parallel;
pub use writer::patch::{Change, Difference, diff, write_patch, write_patch_file};
pub use writer::{
    Coding, Exclude, Item, Links, PackOptions, PackPlan, PackReport, Target, ToldUncooked,
    WalkOptions, Walked, encode_task, walk, walk_with, write, write_file, write_synced,
};

#[cfg(test)]
millstream_testing::watch!();
