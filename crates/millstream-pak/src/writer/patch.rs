//! Differences of two packages, and the patch that turns one into the other.
//!
//! A patch is a package to be mounted over its base. It has an entry for each name whose content or
//! executable bit is new or changed, and one marked as gone for each name that is removed. It holds
//! the blocks of its entries that the base does not have; the others are references into the base's
//! file. Blocks are compared by their stored bytes, so both packages should be made with the same
//! options.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use millstream_io::fs::file::{self, read_exact_at};
use zerocopy::little_endian::U64;

use super::build::{Builder, Entry, Features};
use super::item::replace;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::format::{BlockRecord, entry_flag};
use crate::reader::plan;
use crate::sign::SecretKey;
use crate::{PackReport, Package};

/// How a name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only the second package has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, with another content or another executable bit.
    Changed,
}

/// A name that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How it differs.
    pub change: Change,
    /// The name.
    pub name: Vec<u8>,
}

/// Returns the names that differ between two packages, in their byte order. Contents are compared
/// by their hashes: no data are read.
///
/// # Errors
/// A package's tables are damaged, or it has no content hashes.
pub fn diff(a: &Package, b: &Package) -> Result<Vec<Difference>> {
    let differing = differing(a, b)?.into_iter();
    let difference = |(name, entries): Differing<'_>| Difference {
        change: match entries {
            [Some(_), None] => Change::Removed,
            [None, _] => Change::Added,
            [Some(_), Some(_)] => Change::Changed,
        },
        name: name.to_vec(),
    };
    Ok(differing.map(difference).collect())
}

/// A name that differs, with its entries in both packages.
type Differing<'a> = (&'a [u8], [Option<u32>; 2]);

fn differing<'a>(a: &'a Package, b: &'a Package) -> Result<Vec<Differing<'a>>> {
    let mut names: BTreeMap<&[u8], [Option<u32>; 2]> = BTreeMap::new();
    for (side, package) in [a, b].into_iter().enumerate() {
        for index in package.matching(b"**")? {
            let entries = names.entry(package.name(index)?).or_default();
            if entries[side].replace(index).is_some() {
                return Err(package.blame(index, corrupt("another entry has the same name")));
            }
        }
    }
    let mut found = Vec::new();
    for (name, entries) in names {
        match entries {
            [Some(l), Some(r)] if same(a, l, b, r)? => {}
            _ => found.push((name, entries)),
        }
    }
    Ok(found)
}

/// Returns whether two entries have the same content and executable bit.
fn same(a: &Package, l: u32, b: &Package, r: u32) -> Result<bool> {
    let executable = a.info(l)?.executable == b.info(r)?.executable;
    Ok(content(a, l)? == content(b, r)? && executable)
}

fn content(package: &Package, index: u32) -> Result<[u8; 32]> {
    let cause = "the package has no content hashes to compare";
    let missing = || Error::new(ErrorKind::Unsupported, cause).of(package.path());
    package.content_hash(index)?.ok_or_else(missing)
}

/// Writes the patch that, mounted over `a`, has the entries of `b`, into an empty file; see
/// [`write()`](crate::write()). It has the content version of `b`.
///
/// # Errors
/// A package is damaged, has no content hashes, or is a patch itself; only one of them folds the
/// case of names; or the file cannot be written.
pub fn write_patch(
    a: &Package,
    b: &Package,
    sign: Option<&SecretKey>,
    file: &File,
) -> Result<PackReport> {
    if a.base_root().is_some() || b.base_root().is_some() {
        let cause = "a patch is made of two whole packages";
        return Err(Error::new(ErrorKind::InvalidArgument, cause));
    }
    if a.folds_case() != b.folds_case() {
        let cause = "one package folds the case of names, the other does not";
        return Err(Error::new(ErrorKind::InvalidArgument, cause));
    }
    let mut wanted = wanted(a, b)?;
    let base = BaseBlocks::new(a)?;
    let source = open(b)?;
    let blocks = place_blocks(b, &mut wanted)?;
    let block_count = blocks.iter().map(|run| run.len() as u64).sum();
    // The length is not known yet. Most patches are short, so they go through the page cache.
    let place = (file, 0);
    let mut builder = Builder::new(place, wanted.len() as u64, block_count)?;
    let mut report = PackReport {
        entries: wanted.len() as u64,
        blocks: block_count,
        ..PackReport::default()
    };
    for index in blocks.into_iter().flatten() {
        push(b, &source, index, &base, &mut builder, &mut report)?;
    }
    let entries = wanted
        .into_iter()
        .map(|one| entry(b, one, &mut report))
        .collect::<Result<Vec<Entry<'_>>>>()?;
    let features = Features {
        fold_case: b.folds_case(),
        base_root: Some(a.root()),
        content_version: b.content_version(),
        target: b.target(),
        sign,
    };
    (report.root, report.file_bytes) = builder.finish(entries, &features)?;
    Ok(report)
}

/// Returns the entries of the patch in the order of `b`'s data, so that the patch's blocks have the
/// same order.
fn wanted<'a>(a: &'a Package, b: &'a Package) -> Result<Vec<Wanted<'a>>> {
    let mut differing = differing(a, b)?;
    if b.folds_case() {
        // Names that differ only in case are the same name.
        let added = differing.iter().filter(|(_, entries)| entries[0].is_none());
        let added: HashSet<_> = added.map(|(name, _)| name.to_ascii_lowercase()).collect();
        differing.retain(|(name, entries)| {
            entries[1].is_some() || !added.contains(&name.to_ascii_lowercase())
        });
    }
    let mut wanted = Vec::new();
    for (name, [_, index]) in differing {
        let first_block = match index {
            Some(index) => b.tables().entry(index)?.first_block.get(),
            None => u32::MAX,
        };
        wanted.push(Wanted {
            name,
            index,
            first_block,
        });
    }
    wanted.sort_by_key(|one| (one.first_block, one.name));
    Ok(wanted)
}

/// Returns the blocks of the patch, each once however many entries name it, in the order of `b`;
/// and sets the first block of each entry, as a number in the patch.
fn place_blocks(b: &Package, wanted: &mut [Wanted<'_>]) -> Result<Vec<Range<u32>>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    let mut count = 0;
    for one in wanted {
        let Some(index) = one.index else {
            continue;
        };
        let run = run_of(b, index)?;
        one.first_block = 0;
        if run.is_empty() {
            continue;
        }
        let end = match runs.last_mut().filter(|last| run.start <= last.end) {
            Some(last) => {
                count += run.end.saturating_sub(last.end);
                last.end = last.end.max(run.end);
                last.end
            }
            None => {
                count += run.end - run.start;
                runs.push(run.clone());
                run.end
            }
        };
        one.first_block = count - (end - run.start);
    }
    Ok(runs)
}

/// As [`write_patch`], into a file that replaces `path`, as
/// [`write_file`](crate::write_file) does.
///
/// # Errors
/// As [`write_patch`]; nothing is left behind then.
pub fn write_patch_file(
    a: &Package,
    b: &Package,
    sign: Option<&SecretKey>,
    path: impl AsRef<Path>,
) -> Result<PackReport> {
    replace(path.as_ref(), |file| write_patch(a, b, sign, file))
}

/// A planned entry of the patch; without an index, one that is gone.
struct Wanted<'a> {
    name: &'a [u8],
    index: Option<u32>,
    /// Its number in the package, and after [`place_blocks`] in the patch.
    first_block: u32,
}

fn entry<'a>(b: &'a Package, wanted: Wanted<'a>, report: &mut PackReport) -> Result<Entry<'a>> {
    let Some(index) = wanted.index else {
        return Ok(Entry {
            name: wanted.name,
            raw_bytes: 0,
            first_block: 0,
            offset_in_block: 0,
            block_shift: crate::limits::BLOCK_SHIFT_DEFAULT,
            flags: entry_flag::GONE,
            content: [0; 32],
            metadata: None,
        });
    };
    let record = b.tables().entry(index)?;
    report.raw_bytes = report.raw_bytes.saturating_add(record.raw_bytes.get());
    Ok(Entry {
        name: wanted.name,
        raw_bytes: record.raw_bytes.get(),
        first_block: wanted.first_block,
        offset_in_block: record.offset_in_block.get(),
        block_shift: record.block_shift,
        flags: record.flags,
        content: content(b, index)?,
        metadata: b.metadata(index)?,
    })
}

/// Returns an entry's blocks, checked against the table.
fn run_of(b: &Package, index: u32) -> Result<Range<u32>> {
    let raw_bytes = b.info(index)?.raw_bytes;
    let span = plan::span(b.tables(), index, 0, raw_bytes);
    let span = span.map_err(|error| b.blame(index, error))?;
    Ok(span.first..span.first + span.count)
}

fn push(
    b: &Package,
    source: &File,
    index: u32,
    base: &BaseBlocks,
    builder: &mut Builder<'_>,
    report: &mut PackReport,
) -> Result<()> {
    let block = plan::block(b.tables(), index)?;
    let stored = read_block(b, source, &block)?;
    if let Some(offset) = base.find(&block, &stored)? {
        let mut record = block;
        record.offset = U64::new(offset);
        builder.push_base(record);
        return Ok(());
    }
    if let Some(count) = report.blocks_by_codec.get_mut(usize::from(block.codec)) {
        *count += 1;
    }
    builder.push(block, &stored)
}

fn open(package: &Package) -> Result<File> {
    let path = package.path();
    file::open(path).map_err(|error| Error::io(path, "open", error))
}

fn read_block(package: &Package, file: &File, block: &BlockRecord) -> Result<Vec<u8>> {
    let mut stored = vec![0; block.stored_bytes.get() as usize];
    let offset = block.offset.get();
    let read = read_exact_at(file, &mut stored, offset);
    read.map_err(|error| Error::io(package.path(), "read", error).at(offset))?;
    if xxhash_rust::xxh3::xxh3_64(&stored) != block.checksum.get() {
        let cause = "the checksum of a stored block does not match: its bytes are damaged";
        return Err(corrupt(cause).of(package.path()).at(offset));
    }
    Ok(stored)
}

/// The blocks of the base, by their `key`.
struct BaseBlocks<'a> {
    package: &'a Package,
    file: File,
    by_content: HashMap<(u64, u32, u32, u8), BlockRecord>,
}

impl BaseBlocks<'_> {
    fn new(package: &Package) -> Result<BaseBlocks<'_>> {
        let tables = package.tables();
        let mut by_content = HashMap::new();
        for index in 0..tables.header.block_count.get() as u32 {
            let block = plan::block(tables, index)?;
            by_content.insert(key(&block), block);
        }
        Ok(BaseBlocks {
            package,
            file: open(package)?,
            by_content,
        })
    }

    /// Returns the offset in the base of the same stored bytes, if it has them.
    fn find(&self, block: &BlockRecord, stored: &[u8]) -> Result<Option<u64>> {
        let Some(found) = self.by_content.get(&key(block)) else {
            return Ok(None);
        };
        assert!(!found.in_base(), "the base is no patch");
        // Equal checksums can be forged, so the bytes are compared.
        let same = read_block(self.package, &self.file, found)? == stored;
        Ok(same.then(|| found.offset.get()))
    }
}

fn key(block: &BlockRecord) -> (u64, u32, u32, u8) {
    let (stored, raw) = (block.stored_bytes.get(), block.raw_bytes.get());
    (block.checksum.get(), stored, raw, block.codec)
}
