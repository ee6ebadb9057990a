//! The writer: makes a package of inputs, in these stages:
//!
//! ```text
//! inputs → cook → plan (order, duplicates, blocks) → encode on all cores → build (the file)
//! item     cook   plan                               encode, choose        build
//! ```
//!
//! The numbers of entries and blocks are known before the first block is encoded, so room for the
//! hot sections is left at the front of the file, and data are written once, in order. Threads take
//! blocks to encode from one channel, and may run only so far ahead of the writing: memory is
//! bounded whatever the input. The same inputs (names, bytes, executable bits) and options give the
//! same bytes on any machine and number of threads: nothing depends on time or on the order of
//! threads. Blocks can be encoded on other machines ([`PackPlan`]).

pub(crate) mod build;
mod choose;
pub(crate) mod cook;
mod encode;
mod encoder;
mod exclude;
pub(crate) mod item;
mod output;
pub(crate) mod parallel;
pub(crate) mod patch;
mod plan;
mod same;
mod task;
mod tree;
mod walk;

use std::fs::File;
use std::path::Path;

use millstream::CodecId;

use crate::cook::Cook;
use crate::describe::Describe;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{BLOCK_SHIFT_MAX, BLOCK_SHIFT_MIN, SHARED_BYTES_MAX};
use crate::sign::SecretKey;
pub use choose::Target;
pub use exclude::Exclude;
pub use item::Item;
pub use task::{PackPlan, encode_task};
pub use walk::{Links, WalkOptions, Walked, walk, walk_with};

/// How blocks are encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Coding {
    /// For each block, the codec with which it loads fastest on the target.
    Auto(Target),
    /// One codec for all blocks; those that it does not shrink are stored.
    Fixed(CodecId),
}

/// A callback that gets the name of an input that was not cooked, and the reason.
pub type ToldUncooked<'a> = &'a (dyn Fn(&[u8], &str) + Sync);

/// Options of making a package.
pub struct PackOptions<'a> {
    /// How blocks are encoded.
    pub coding: Coding,
    /// Compression level of the codec, or of zstd with [`Coding::Auto`]; `None` for the codec's
    /// default, and for level 9 with `Auto`.
    pub level: Option<i32>,
    /// Raw bytes of a block, a power of two from 4 KiB to 1 MiB. `None`: 64 KiB for entries that
    /// are read in ranges; for others 256 KiB, or 1 MiB if the coding is `Fixed(CodecId::STORED)`.
    pub block_bytes: Option<u32>,
    /// Entries of fewer bytes share blocks, which are read and decoded whole: at most 32 KiB, the
    /// default. 0 suits entries that are read one at a time, at random.
    pub share_below: Option<u32>,
    /// Rate at which the target's GPU decodes GDeflate, in units of 10^6 raw bytes a second.
    /// Entries that are loaded into its memory as they are (images with levels ready for upload,
    /// and the buffers that the metadata of a scene name) then share no blocks, and have GDeflate
    /// blocks if those load faster, else stored ones. `None`: the GPU decodes nothing.
    pub gpu_megabytes_per_second: Option<f64>,
    /// Number of threads that encode; 0 for one per core.
    pub threads: usize,
    /// Whether names are compared without regard to ASCII case.
    pub fold_case: bool,
    /// Make metadata; the first that returns a record for an entry is used.
    pub describers: Vec<&'a dyn Describe>,
    /// Convert inputs; the first that wants an input converts it.
    pub cooks: Vec<&'a dyn Cook>,
    /// Names in the order in which they are loaded: their entries come first, in this order.
    pub order: Vec<Vec<u8>>,
    /// The key that signs the package.
    pub sign: Option<&'a SecretKey>,
    /// A number to raise with each release, so that a reader that requires a
    /// [`min_version`](crate::PackageOptions::min_version) refuses earlier releases.
    pub content_version: u64,
    /// Called with the raw bytes written so far; returns whether to go on.
    pub progress: Option<&'a (dyn Fn(u64) -> bool + Sync)>,
    /// Called with the name of each input that a cook left as it is, and the reason.
    pub uncooked: Option<ToldUncooked<'a>>,
}

impl Default for PackOptions<'_> {
    fn default() -> Self {
        PackOptions {
            coding: Coding::Auto(Target::default()),
            level: None,
            block_bytes: None,
            share_below: None,
            gpu_megabytes_per_second: None,
            threads: 0,
            fold_case: false,
            describers: Vec::new(),
            cooks: Vec::new(),
            order: Vec::new(),
            sign: None,
            content_version: 0,
            progress: None,
            uncooked: None,
        }
    }
}

/// Facts about a package that was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// Number of entries.
    pub entries: u64,
    /// Entries that use the blocks of another entry with the same content.
    pub duplicates: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Raw bytes of all entries.
    pub raw_bytes: u64,
    /// Bytes of the package's file.
    pub file_bytes: u64,
    /// Number of blocks by the number of their codec.
    pub blocks_by_codec: [u64; CodecId::ALL.len()],
    /// The root hash.
    pub root: [u8; 32],
}

/// Writes a package of `items` into an empty file, through the page cache. After an error the
/// file's content is undefined. Blocks until it is done. If the file is to be synced,
/// [`write_synced`] is faster.
///
/// # Errors
/// An option or a name is invalid, two inputs have the same name, an input cannot be read or
/// cooked, is not a regular file or changed meanwhile, or the file cannot be written.
pub fn write(items: Vec<Item>, options: &PackOptions<'_>, file: &File) -> Result<PackReport> {
    write_as(items, options, (file, false))
}

/// As [`write()`], and syncs the file. A long package is written past the page cache, and so is not
/// in it afterwards.
///
/// # Errors
/// As [`write()`], or the file cannot be synced.
pub fn write_synced(
    items: Vec<Item>,
    options: &PackOptions<'_>,
    file: &File,
) -> Result<PackReport> {
    let report = write_as(items, options, (file, true))?;
    let synced = file.sync_all();
    synced.map_err(|error| Error::io(Path::new(""), "sync the package", error))?;
    Ok(report)
}

/// Writes a package into a file; past the page cache if the flag is set and the package is long.
fn write_as(
    items: Vec<Item>,
    options: &PackOptions<'_>,
    place: (&File, bool),
) -> Result<PackReport> {
    encode::encode(&planned(items, options)?, options, place)
}

/// Cooks and describes the inputs, finds those with the same content, and plans their blocks.
fn planned(items: Vec<Item>, options: &PackOptions<'_>) -> Result<plan::Plan> {
    check_options(options)?;
    plan::plan(cook::cook(items, options)?, options)
}

/// Writes a package of `items` and replaces `path` with it once it is complete and synced: a reader
/// of `path` sees the old file or the whole new one, also after a crash. Symbolic links are
/// followed. Blocks until it is done.
///
/// # Errors
/// As [`write()`]; nothing is left behind then.
pub fn write_file(
    items: Vec<Item>,
    options: &PackOptions<'_>,
    path: impl AsRef<Path>,
) -> Result<PackReport> {
    item::replace(path.as_ref(), |file| write_as(items, options, (file, true)))
}

fn check_options(options: &PackOptions<'_>) -> Result<()> {
    let wrong = |cause: &str| Err(Error::new(ErrorKind::InvalidArgument, cause));
    if let Some(bytes) = options.block_bytes {
        let range = 1 << BLOCK_SHIFT_MIN..=1 << BLOCK_SHIFT_MAX;
        if !bytes.is_power_of_two() || !range.contains(&bytes) {
            return wrong("blocks have a power of two from 4 KiB to 1 MiB");
        }
    }
    if options
        .share_below
        .is_some_and(|bytes| u64::from(bytes) > SHARED_BYTES_MAX)
    {
        return wrong("entries of more than 32 KiB do not share blocks");
    }
    let gpu = options.gpu_megabytes_per_second;
    if gpu.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return wrong("the rate of the target's GPU must be more than 0");
    }
    match options.coding {
        Coding::Auto(target) => {
            if !target.megabytes_per_second.is_finite() || target.recorded().is_none() {
                return wrong("the target's rate and cores must be more than 0");
            }
        }
        Coding::Fixed(codec) => {
            let levels = millstream_codec::block_level_range(codec);
            if levels.is_empty() {
                return wrong("this codec cannot be encoded, or not in this build");
            }
            if options.level.is_some_and(|level| !levels.contains(&level)) {
                return wrong("the codec has no such level");
            }
        }
    }
    Ok(())
}
