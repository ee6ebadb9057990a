//! Verification: compares everything that a package's tables say with its bytes.
//!
//! Opening and reading check what they touch. This checks everything: the header's copy, every page
//! of every section, the order of the tables, every name, every block's checksum, every entry's
//! content hash, and that padding is zero.

use std::ops::ControlFlow;
use std::sync::Arc;

use millstream::{QueueOptions, Read, Storage};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::batch::BatchOptions;
use super::section::{PageView, Section};
use super::tables::Tables;
use super::visit::visit;
use super::{Package, plan};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::format::{EntryRecord, MetadataPlace, SectionRecord, entry_flag};
use crate::limits::{HEADER_BYTES, METADATA_BYTES_MAX, TABLE_QUEUE_CAPACITY, VERIFY_ERRORS};
use crate::memory;
use crate::metadata::Metadata;
use crate::names;
use crate::sign::PublicKey;

/// The result of a verification.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Entries that were verified, including those that are gone or damaged.
    pub entries: u64,
    /// Entries of a patch that were skipped, since they have blocks in a base that is not given.
    pub skipped: u64,
    /// Raw bytes that were loaded and found right.
    pub raw_bytes: u64,
    /// Blocks that lie in the package itself.
    pub blocks: u64,
    /// Whether the package has a signature.
    pub signed: bool,
    /// Whether a key was given and the signature is valid for it.
    pub signature_verified: bool,
    /// The package's [`content_version`](Package::content_version).
    pub content_version: u64,
    /// Number of errors.
    pub failures: u64,
    /// The first ten errors.
    pub errors: Vec<Error>,
}

impl Verification {
    fn note(&mut self, error: Error) {
        self.failures += 1;
        if self.errors.len() < VERIFY_ERRORS {
            self.errors.push(error);
        }
    }

    /// As [`Verification::take`], for an entry. Names are read only for the errors that are kept.
    fn take_of<T>(&mut self, package: &Package, index: u32, result: Result<T>) -> Option<T> {
        let is_kept = self.errors.len() < VERIFY_ERRORS;
        self.take(result.map_err(|error| match is_kept {
            true => package.blame(index, error),
            false => error,
        }))
    }

    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.note(error)).ok()
    }
}

/// Verifies a package, and its signature if a key is given. Blocks of a patch that lie in its base
/// are verified if the base is given. `progress` is called with the raw bytes done so far,
/// including those that failed, and returns whether to go on.
///
/// # Errors
/// The package cannot be opened again or was replaced, or the storage has no queue or memory for
/// it; all other errors are in the report.
pub fn verify(
    storage: &Storage,
    package: &Package,
    key: Option<&PublicKey>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Verification> {
    let mut found = Verification {
        content_version: package.content_version(),
        ..Verification::default()
    };
    // Opened again: what is in memory already says nothing about the file.
    let mut opened = Package::open(storage, package.path())?;
    if opened.root() != package.root() {
        let cause = "the file was replaced after it was opened";
        return Err(Error::new(ErrorKind::Changed, cause).of(package.path()));
    }
    let inner = Arc::get_mut(&mut opened.0).expect("no other handle exists yet");
    inner.base.clone_from(&package.0.base);
    let package = &opened;
    let tables = package.tables();
    check_signature(package, key, &mut found);
    let sections_fine = check_sections(tables, &mut found);
    if sections_fine && found.take(package.check_sharing()).is_some() {
        check_tables(package, &mut found);
        check_blocks_and_gaps(package, &mut found);
        check_contents(storage, package, &mut found, progress)?;
    }
    let errors = std::mem::take(&mut found.errors).into_iter();
    found.errors = errors.map(|error| error.of(package.path())).collect();
    Ok(found)
}

fn check_signature(package: &Package, key: Option<&PublicKey>, found: &mut Verification) {
    let Some(record) = found.take(package.signature()) else {
        return;
    };
    found.signed = record.is_some();
    if let Some(key) = key {
        let missing = || Error::new(ErrorKind::Signature, "the package is not signed");
        let verified = record.ok_or_else(missing);
        let verified = verified.and_then(|record| key.verify(&record, &package.root()));
        found.signature_verified = found.take(verified).is_some();
    }
}

/// Verifies every page of every section, and the header's copy; returns whether all are right.
fn check_sections(tables: &Tables, found: &mut Verification) -> bool {
    let before = found.failures;
    let end = tables.header.file_bytes.get() - HEADER_BYTES as u64;
    if let Some(copy) = found.take(tables.file.read(end, HEADER_BYTES as u64))
        && copy[..] != tables.header.as_bytes()[..]
    {
        found.note(corrupt("the header's copy at the end differs from it").at(end));
    }
    let sections = tables.header.used_sections().iter();
    for record in sections.filter(|record| record.is_hashed()) {
        let section = Section::new(&tables.path, record, false);
        found.take(section.and_then(|section| section.check_pages(&tables.file)));
    }
    found.failures == before
}

/// Checks the order of entries, their buckets and names, and the metadata. Names and metadata are
/// checked in the order in which they lie, so that one page of them is in memory.
fn check_tables(package: &Package, found: &mut Verification) {
    let tables = package.tables();
    for bucket in 0..1 << tables.bucket_bits {
        // Empty ones, too: a lookup of a name that does not exist may use them.
        found.take(tables.bucket(bucket << (64 - tables.bucket_bits)));
    }
    let mut places: Vec<(u32, u32)> = Vec::new();
    let mut before = None;
    for index in 0..package.len() {
        let checked = check_entry(package, index, &mut before);
        if let Some(name_offset) = found.take_of(package, index, checked) {
            let kept = memory::push(&mut places, (name_offset, index));
            found.take_of(package, index, kept);
        }
    }
    places.sort_unstable();
    let mut view = PageView::default();
    for (_, index) in places {
        let checked = check_name(package, index, &mut view);
        found.take_of(package, index, checked);
    }
    let places = check_metadata_index(package, found);
    let mut view = PageView::default();
    for (offset, index) in places {
        let checked = check_metadata(package, offset, &mut view);
        found.take_of(package, index, checked);
    }
}

/// Checks all of an entry but its name, whose offset it returns.
fn check_entry(package: &Package, index: u32, before: &mut Option<u64>) -> Result<u32> {
    let tables = package.tables();
    let entry = tables.entry(index)?;
    let hash = entry.hash.get();
    let wrong = |cause| Err(tables.entries.wrong(index as usize * 32, cause));
    if before.is_some_and(|before| hash <= before) {
        return wrong("the entries are not sorted by their hashes, or two have one hash");
    }
    *before = Some(hash);
    let (start, end) = tables.bucket(hash)?;
    if !(start..end).contains(&index) {
        return wrong("the entry is not in the bucket of its hash");
    }
    if !entry.is(entry_flag::GONE) {
        let span = plan::span(tables, index, 0, entry.raw_bytes.get())?;
        plan::blocks_of(tables, &span)?;
    } else if !is_rightly_gone(package, index, &entry)? {
        return wrong("an entry is gone from a package that is no patch, or has a content");
    }
    Ok(entry.name_offset.get())
}

/// Whether an entry that is gone is in a patch, and has nothing but a name.
fn is_rightly_gone(package: &Package, index: u32, entry: &EntryRecord) -> Result<bool> {
    let bare = EntryRecord {
        hash: entry.hash,
        name_offset: entry.name_offset,
        block_shift: entry.block_shift,
        flags: entry_flag::GONE,
        ..EntryRecord::new_zeroed()
    };
    let content = package.content_hash(index)?.unwrap_or_default();
    Ok(package.base_root().is_some() && *entry == bare && content == [0; 32])
}

/// Checks a name, and that it has the entry's hash. All hashes differ, so all names do.
fn check_name(package: &Package, index: u32, view: &mut PageView) -> Result<()> {
    let tables = package.tables();
    let name = package.name_in(index, Some(view))?;
    names::check(name)?;
    if package.hash_name(name) == tables.entry(index)?.hash.get() {
        return Ok(());
    }
    let cause = "the entry's hash is not that of its name";
    Err(tables.entries.wrong(index as usize * 32, cause))
}

/// Checks the order of the metadata index; returns the offset of each record and its entry, in the
/// order of offsets.
fn check_metadata_index(package: &Package, found: &mut Verification) -> Vec<(u32, u32)> {
    let tables = package.tables();
    let Some(places) = &tables.metadata_index else {
        return Vec::new();
    };
    let (mut records, mut last) = (Vec::new(), None);
    for nth in 0..places.len() / 8 {
        let checked = places.get(&tables.file, nth * 8, 8).and_then(|bytes| {
            let place = MetadataPlace::read_from_bytes(bytes).expect("so many were asked for");
            let index = place.entry.get();
            if last.is_some_and(|last| index <= last) || index >= package.len() {
                return Err(places.wrong(nth * 8, "the index of metadata is out of order"));
            }
            last = Some(index);
            memory::push(&mut records, (place.offset.get(), index))
        });
        found.take(checked);
    }
    records.sort_unstable();
    records
}

fn check_metadata(package: &Package, offset: u32, view: &mut PageView) -> Result<()> {
    let tables = package.tables();
    // Without a section of records, the reader ignores the index.
    let Some(records) = &tables.metadata else {
        return Ok(());
    };
    let bounds = (METADATA_BYTES_MAX, "a metadata record");
    let record = records.item(&tables.file, Some(view), offset as usize, bounds)?;
    Metadata::decode(record).map(|_| ())
}

/// Checks that blocks follow one another, and that nothing but zeros is between the file's parts.
fn check_blocks_and_gaps(package: &Package, found: &mut Verification) {
    let tables = package.tables();
    let header = &tables.header;
    let (file_bytes, header_bytes) = (header.file_bytes.get(), HEADER_BYTES as u64);
    let mut parts = vec![(0, header_bytes), (file_bytes - header_bytes, file_bytes)];
    let sections = header.used_sections();
    parts.extend(sections.iter().flat_map(SectionRecord::parts));
    let mut end = header.data_offset.get();
    for index in 0..header.block_count.get() as u32 {
        let Some(block) = found.take(plan::block(tables, index)) else {
            continue;
        };
        if block.in_base() {
            continue;
        }
        found.blocks += 1;
        let start = block.offset.get();
        if let Err(error) = plan::check_codec(&block) {
            found.note(error.block(u64::from(index)).at(start));
        }
        if start < end {
            let cause = "a block overlaps the one before it";
            found.note(plan::wrong_block(tables, index, cause));
            continue;
        }
        end = block.end();
        found.take(memory::push(&mut parts, (start, end)));
    }
    parts.sort_unstable();
    let (mut at, mut gaps) = (0, Vec::new());
    for (start, end) in parts {
        while at < start {
            let len = (start - at).min(GAP_READ_BYTES);
            found.take(memory::push(&mut gaps, (at, len)));
            at += len;
        }
        at = at.max(end);
    }
    let mut groups = gaps.chunks(TABLE_QUEUE_CAPACITY as usize / 2);
    let checked = groups.try_for_each(|some| check_zeros(tables, some, found));
    found.take(checked);
}

/// Bytes of one read of padding.
const GAP_READ_BYTES: u64 = 256 << 10;

fn check_zeros(tables: &Tables, gaps: &[(u64, u64)], found: &mut Verification) -> Result<()> {
    let mut batch = tables.file.queue.batch();
    let mut tickets = Vec::with_capacity(gaps.len());
    for &(at, len) in gaps {
        tickets.push((at, batch.add(Read::range(tables.file.id, at, len))?));
    }
    batch.submit();
    for (at, mut ticket) in tickets {
        let bytes = ticket.wait()?;
        if let Some(nth) = bytes.iter().position(|&byte| byte != 0) {
            found.note(corrupt("padding is not zero").at(at + nth as u64));
        }
    }
    Ok(())
}

fn check_contents(
    storage: &Storage,
    package: &Package,
    found: &mut Verification,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let queue = storage.queue(QueueOptions::default())?;
    let mut entries = Vec::new();
    for index in 0..package.len() {
        // An entry without readable blocks was noted when the tables were checked.
        let storing = package.storing(index).ok();
        let in_base = storing.as_ref().is_some_and(|it| it.base_bytes > 0);
        if in_base && package.0.base.is_none() {
            found.skipped += 1;
            continue;
        }
        found.entries += 1;
        let is_there = package.info(index).is_ok_and(|info| !info.gone);
        if storing.is_some() && is_there {
            memory::push(&mut entries, index)?;
        }
    }
    // Pieces that fail count as done, too.
    let (mut failed, mut done) = (None, 0_u64);
    visit(
        package,
        &queue,
        &entries,
        &BatchOptions::default(),
        &mut |piece, loaded| {
            done = done.saturating_add(piece.len);
            match loaded {
                Ok(bytes) => found.raw_bytes += bytes.len() as u64,
                // An entry of several pieces that fail is one error.
                Err(error) if failed != Some(piece.index) => {
                    failed = Some(piece.index);
                    found.note(error);
                }
                Err(_) => {}
            }
            match progress(done) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        },
    );
    Ok(())
}
