//! The file: blocks in order, then the tables, then the header.
//!
//! The hot sections are first in the file and are written after all else, into the room that is
//! left for them; the header at the front, without which the file is not a package, is the last
//! write. [`Output`] writes the bytes.

use std::fs::File;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::choose::Target;
use super::output::Output;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    BlockRecord, EntryRecord, Header, MAGIC, MetadataPlace, SIGNED_PREFIX, SectionRecord,
    VERSION_MAJOR, VERSION_MINOR, block_flag, feature, section, section_flag,
};
use crate::limits::{
    ALIGNED_BYTES_MIN, BLOCK_ALIGNMENT, BLOCKS_MAX, BUCKET_BITS_MAX, BUCKET_ENTRIES, ENTRIES_MAX,
    HEADER_BYTES, HOT_ALIGNMENT, METADATA_BYTES_MAX, OFFSETS_MAX, PAGE_BYTES, SEEDS_MAX,
    STORED_ALIGNMENT,
};
use crate::names;
use crate::sign::SecretKey;

/// Bytes of the section of the signature: the public key and the signature.
const SIGNATURE_BYTES: u64 = 96;

/// An entry whose blocks are written.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) raw_bytes: u64,
    pub(crate) first_block: u32,
    pub(crate) offset_in_block: u32,
    pub(crate) block_shift: u8,
    pub(crate) flags: u8,
    pub(crate) content: [u8; 32],
    pub(crate) metadata: Option<&'a [u8]>,
}

/// The fields of the header that do not follow from the tables, and the key that signs it.
pub(crate) struct Features<'a> {
    pub(crate) fold_case: bool,
    pub(crate) base_root: Option<[u8; 32]>,
    pub(crate) content_version: u64,
    pub(crate) target: Option<Target>,
    pub(crate) sign: Option<&'a SecretKey>,
}

/// Writes a package; see the [module](self).
pub(crate) struct Builder<'a> {
    output: Output<'a>,
    blocks: Vec<BlockRecord>,
    layout: Hot,
}

/// Where the hot sections are.
struct Hot {
    entry_count: u64,
    block_count: u64,
    bucket_bits: u32,
    /// The first byte of buckets, entries and blocks, each with that of its hashes.
    places: [(u64, u64); 3],
    end: u64,
    data_offset: u64,
}

impl Hot {
    fn new(entry_count: u64, block_count: u64) -> Result<Hot> {
        let limit = |cause| Err(Error::new(ErrorKind::Limit, cause));
        if entry_count > ENTRIES_MAX {
            return limit("more entries than a package can have");
        }
        if block_count > BLOCKS_MAX {
            return limit("more blocks than a package can have");
        }
        let buckets = (entry_count / BUCKET_ENTRIES).max(2).next_power_of_two();
        let bucket_bits = buckets.ilog2().clamp(1, BUCKET_BITS_MAX);
        let buckets_bytes = ((1 << bucket_bits) + 1) * 4;
        let (entries, blocks) = (entry_count * 32, block_count * 32);
        let mut end = HEADER_BYTES as u64;
        let places = [buckets_bytes, entries, blocks].map(|bytes| {
            let hashes = (end + bytes).next_multiple_of(HOT_ALIGNMENT);
            let hashes_bytes = bytes.div_ceil(PAGE_BYTES as u64) * 32;
            let place = (end, hashes);
            end = (hashes + hashes_bytes).next_multiple_of(HOT_ALIGNMENT);
            place
        });
        Ok(Hot {
            entry_count,
            block_count,
            bucket_bits,
            places,
            end,
            data_offset: end.next_multiple_of(STORED_ALIGNMENT),
        })
    }
}

impl<'a> Builder<'a> {
    /// Starts a package of this many entries and blocks. `bytes` is about how many bytes may go
    /// past the page cache.
    pub(crate) fn new(
        (file, bytes): (&'a File, u64),
        entry_count: u64,
        block_count: u64,
    ) -> Result<Builder<'a>> {
        let layout = Hot::new(entry_count, block_count)?;
        let blocks = usize::try_from(block_count).unwrap_or(usize::MAX);
        Ok(Builder {
            output: Output::new(file, layout.data_offset, bytes),
            blocks: Vec::with_capacity(blocks.min(1 << 24)),
            layout,
        })
    }

    /// Appends a block, and sets the offset in its record.
    pub(crate) fn push(&mut self, mut record: BlockRecord, stored: &[u8]) -> Result<()> {
        let align = match record.codec == 0 && record.stored_bytes.get() >= ALIGNED_BYTES_MIN {
            true => STORED_ALIGNMENT,
            false => BLOCK_ALIGNMENT,
        };
        self.output.pad(align)?;
        record.offset = U64::new(self.output.end());
        self.blocks.push(record);
        self.output.append(stored)
    }

    /// Appends the record of a block that lies in the base.
    pub(crate) fn push_base(&mut self, mut record: BlockRecord) {
        record.flags |= block_flag::IN_BASE;
        self.blocks.push(record);
    }

    /// Appends a cold section with its hashes.
    fn section(&mut self, kind: u32, required: bool, bytes: &[u8]) -> Result<SectionRecord> {
        let hashes = page_hashes(bytes);
        self.output.pad(BLOCK_ALIGNMENT)?;
        let offset = self.output.end();
        self.output.append(bytes)?;
        self.output.pad(BLOCK_ALIGNMENT)?;
        let hashes_offset = self.output.end();
        self.output.append(&hashes)?;
        Ok(record(
            kind,
            required,
            offset,
            bytes,
            hashes_offset,
            &hashes,
        ))
    }

    /// Writes the tables and the header, which completes the package. Returns the root hash and the
    /// file's length.
    pub(crate) fn finish(
        mut self,
        mut entries: Vec<Entry<'_>>,
        features: &Features<'_>,
    ) -> Result<([u8; 32], u64)> {
        assert_eq!(entries.len() as u64, self.layout.entry_count, "as planned");
        let blocks = self.blocks.len() as u64;
        assert_eq!(blocks, self.layout.block_count, "as planned");
        let data_bytes = self.output.end() - self.layout.data_offset;
        let (seed, hashes) = sort_by_hash(&mut entries, features.fold_case)?;
        let (mut sections, names) = self.cold_sections(&entries)?;
        let (hot, hot_sections) = hot_bytes(&self.layout, &entries, &names, &self.blocks, &hashes);
        sections.splice(0..0, hot_sections);
        self.output.pad(BLOCK_ALIGNMENT)?;
        let mut end = self.output.end();
        if features.sign.is_some() {
            let mut place = SectionRecord::new_zeroed();
            place.kind = U32::new(section::SIGNATURE);
            place.flags = U32::new(section_flag::UNHASHED);
            place.offset = U64::new(end);
            place.bytes = U64::new(SIGNATURE_BYTES);
            sections.push(place);
            end += SIGNATURE_BYTES;
        }
        let file_bytes = end.next_multiple_of(STORED_ALIGNMENT) + HEADER_BYTES as u64;
        let header = self.header(&sections, features, seed, (data_bytes, file_bytes));
        if let Some(key) = features.sign {
            self.output
                .append(key.sign(SIGNED_PREFIX, &header.root).as_bytes())?;
        }
        self.output.pad(STORED_ALIGNMENT)?;
        self.output.append(header.as_bytes())?;
        let front = [(&hot[..], HEADER_BYTES as u64), (header.as_bytes(), 0)];
        let written = self.output.finish(&front)?;
        assert_eq!(written, file_bytes, "as the header says");
        Ok((header.root, written))
    }

    /// Appends the cold sections; returns their records, and the offset of each entry's name.
    fn cold_sections(&mut self, entries: &[Entry<'_>]) -> Result<(Vec<SectionRecord>, Vec<u32>)> {
        let mut by_name: Vec<u32> = (0..entries.len() as u32).collect();
        by_name.sort_unstable_by(|&a, &b| entries[a as usize].name.cmp(entries[b as usize].name));
        let mut items = Items::default();
        let mut names = vec![0; entries.len()];
        for &nth in &by_name {
            names[nth as usize] = items.push(entries[nth as usize].name)?;
        }
        let mut sections = vec![self.section(section::NAMES, true, &items.0)?];
        drop((by_name, items));
        let (mut items, mut places) = (Items::default(), Vec::new());
        for (nth, entry) in entries.iter().enumerate() {
            let Some(metadata) = entry.metadata else {
                continue;
            };
            if metadata.is_empty() || metadata.len() > METADATA_BYTES_MAX {
                let cause = "its metadata is empty, or has more than 48 KiB";
                return Err(Error::new(ErrorKind::Limit, cause).entry(entry.name));
            }
            let place = MetadataPlace {
                entry: U32::new(nth as u32),
                offset: U32::new(items.push(metadata)?),
            };
            places.extend_from_slice(place.as_bytes());
        }
        if !places.is_empty() {
            sections.push(self.section(section::METADATA_INDEX, false, &places)?);
            sections.push(self.section(section::METADATA, false, &items.0)?);
        }
        let contents: Vec<u8> = entries.iter().flat_map(|entry| entry.content).collect();
        sections.push(self.section(section::CONTENTS, false, &contents)?);
        Ok((sections, names))
    }

    fn header(
        &self,
        sections: &[SectionRecord],
        features: &Features<'_>,
        seed: u64,
        (data_bytes, file_bytes): (u64, u64),
    ) -> Header {
        let mut header = Header::new_zeroed();
        header.magic = MAGIC;
        header.major = U16::new(VERSION_MAJOR);
        header.minor = U16::new(VERSION_MINOR);
        header.header_bytes = U32::new(HEADER_BYTES as u32);
        let fold_case = u64::from(features.fold_case) * feature::FOLD_CASE;
        let patch = u64::from(features.base_root.is_some()) * feature::PATCH;
        header.required = U64::new(fold_case | patch);
        header.file_bytes = U64::new(file_bytes);
        header.hash_seed = U64::new(seed);
        header.entry_count = U64::new(self.layout.entry_count);
        header.block_count = U64::new(self.layout.block_count);
        header.alignment = U32::new(STORED_ALIGNMENT as u32);
        header.section_count = U32::new(sections.len() as u32);
        header.hot_bytes = U64::new(self.layout.end);
        header.data_offset = U64::new(self.layout.data_offset);
        header.data_bytes = U64::new(data_bytes);
        header.base_root = features.base_root.unwrap_or_default();
        header.content_version = U64::new(features.content_version);
        if let Some(target) = features.target {
            header.target_bytes_per_second = U64::new(target.bytes_per_second());
            header.target_cores = U32::new(target.cores);
        }
        header.sections[..sections.len()].copy_from_slice(sections);
        header.root = header.digest();
        header
    }
}

/// Items, each preceded by its length, none of which crosses a page.
#[derive(Default)]
struct Items(Vec<u8>);

impl Items {
    fn push(&mut self, item: &[u8]) -> Result<u32> {
        let needed = item.len() + 2;
        let left = PAGE_BYTES - self.0.len() % PAGE_BYTES;
        if needed > left {
            self.0.resize(self.0.len() + left, 0);
        }
        let at = self.0.len();
        if (at + needed) as u64 > OFFSETS_MAX {
            let cause = "the names, or the metadata, take more than 4 GiB";
            return Err(Error::new(ErrorKind::Limit, cause));
        }
        let len = u16::try_from(item.len()).expect("both kinds are shorter than a page");
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(item);
        Ok(at as u32)
    }
}

/// Sorts entries by the hashes of their names, with the first seed without a collision; returns the
/// seed and the hashes.
fn sort_by_hash(entries: &mut [Entry<'_>], fold_case: bool) -> Result<(u64, Vec<u64>)> {
    for seed in 0..SEEDS_MAX {
        entries.sort_by_cached_key(|entry| names::hash(entry.name, seed, fold_case));
        let hash = |entry: &Entry<'_>| names::hash(entry.name, seed, fold_case);
        let hashes: Vec<u64> = entries.iter().map(hash).collect();
        if hashes.windows(2).all(|pair| pair[0] != pair[1]) {
            return Ok((seed, hashes));
        }
    }
    let cause = "some names have one hash whatever the seed: they were made for that";
    Err(Error::new(ErrorKind::Limit, cause))
}

/// Returns the hot sections as they follow the header in the file, and their records.
fn hot_bytes(
    layout: &Hot,
    entries: &[Entry<'_>],
    names: &[u32],
    blocks: &[BlockRecord],
    hashes: &[u64],
) -> (Vec<u8>, Vec<SectionRecord>) {
    let shift = 64 - layout.bucket_bits;
    let mut buckets = Vec::with_capacity(((1 << layout.bucket_bits) + 1) * 4);
    let mut next = 0;
    for bucket in 0..1u64 << layout.bucket_bits {
        while hashes.get(next).is_some_and(|hash| hash >> shift < bucket) {
            next += 1;
        }
        buckets.extend_from_slice(&(next as u32).to_le_bytes());
    }
    buckets.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    let mut table = Vec::with_capacity(entries.len() * 32);
    for ((entry, &hash), &name) in entries.iter().zip(hashes).zip(names) {
        let entry = EntryRecord {
            hash: U64::new(hash),
            raw_bytes: U64::new(entry.raw_bytes),
            first_block: U32::new(entry.first_block),
            name_offset: U32::new(name),
            offset_in_block: U32::new(entry.offset_in_block),
            block_shift: entry.block_shift,
            flags: entry.flags,
            reserved: U16::new(0),
        };
        table.extend_from_slice(entry.as_bytes());
    }
    let mut hot = vec![0; layout.data_offset as usize - HEADER_BYTES];
    let mut sections = Vec::new();
    let parts: [(u32, &[u8]); 3] = [
        (section::BUCKETS, &buckets),
        (section::ENTRIES, &table),
        (section::BLOCKS, blocks.as_bytes()),
    ];
    for ((kind, bytes), (offset, hashes_offset)) in parts.into_iter().zip(layout.places) {
        let hashes = page_hashes(bytes);
        for (at, bytes) in [(offset, bytes), (hashes_offset, &hashes)] {
            hot[at as usize - HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
        }
        sections.push(record(kind, true, offset, bytes, hashes_offset, &hashes));
    }
    (hot, sections)
}

/// Returns the hash of each page.
fn page_hashes(bytes: &[u8]) -> Vec<u8> {
    let pages = bytes.chunks(PAGE_BYTES);
    pages
        .flat_map(|page| *blake3::hash(page).as_bytes())
        .collect()
}

fn record(
    kind: u32,
    required: bool,
    offset: u64,
    bytes: &[u8],
    hashes_offset: u64,
    hashes: &[u8],
) -> SectionRecord {
    SectionRecord {
        kind: U32::new(kind),
        flags: U32::new(if required { section_flag::REQUIRED } else { 0 }),
        offset: U64::new(offset),
        bytes: U64::new(bytes.len() as u64),
        hashes_offset: U64::new(hashes_offset),
        hashes_digest: *blake3::hash(hashes).as_bytes(),
        reserved: [0; 32],
    }
}
