//! Requests for ranges of entries: which blocks are read, and whether they are decoded.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use zerocopy::IntoBytes as _;

use millstream::{BlockSource, BlockTable, CodecId, Decode, Read};
use millstream_io::fs::file::{self, read_exact_at};

use super::tables::Tables;
use super::{Package, Storing};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::format::{BlockRecord, EntryRecord, block_flag, entry_flag, feature};
use crate::limits::{
    BLOCK_SHIFT_MAX, BLOCK_SHIFT_MIN, HEADER_BYTES, SHARED_BLOCK_BYTES, STORED_ALIGNMENT,
    STORED_EXTRA_MAX,
};
use crate::memory;

/// The blocks that hold a range.
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Raw bytes of the blocks before the range.
    pub(crate) skip: u64,
    pub(crate) entry: EntryRecord,
}

/// Finds the blocks of a range of an entry, and checks the entry's own fields.
pub(crate) fn span(tables: &Tables, index: u32, offset: u64, len: u64) -> Result<Span> {
    let entry = tables.entry(index)?;
    let raw_bytes = entry.raw_bytes.get();
    let wrong = |cause| Err(tables.entries.wrong(index as usize * 32, cause));
    if entry.flags & !entry_flag::KNOWN != 0 || entry.reserved.get() != 0 {
        return wrong("an entry has flags that are not known");
    }
    if entry.is(entry_flag::GONE) {
        let cause = "the patch says that the entry is gone";
        return Err(Error::new(ErrorKind::NotFound, cause));
    }
    if offset.checked_add(len).is_none_or(|end| end > raw_bytes) {
        let cause = format!("the range {offset} + {len} reaches past its {raw_bytes} bytes");
        return Err(Error::new(ErrorKind::PastEnd, cause));
    }
    let shared = entry.is(entry_flag::SHARED);
    if shared && raw_bytes == 0 || (!shared && entry.offset_in_block.get() != 0) {
        return wrong("an entry's place in a block does not fit its flags");
    }
    let shift = entry.block_shift;
    if !(BLOCK_SHIFT_MIN..=BLOCK_SHIFT_MAX).contains(&shift) {
        return wrong("an entry has an impossible block size");
    }
    let (first, count) = (entry.first_block.get(), entry.block_count());
    let end = u64::from(first).checked_add(count);
    if end.is_none_or(|end| end > tables.header.block_count.get()) {
        return wrong("an entry has blocks beyond the table");
    }
    if shared {
        let skip = u64::from(entry.offset_in_block.get());
        let held = u64::from(tables.block(first)?.raw_bytes.get());
        if skip.checked_add(raw_bytes).is_none_or(|end| end > held) {
            return wrong("an entry reaches past its shared block");
        }
        if held > SHARED_BLOCK_BYTES as u64 && held != raw_bytes {
            return wrong("a shared block is too long");
        }
        return Ok(Span {
            first,
            count: u32::from(len > 0),
            skip: skip + offset,
            entry,
        });
    }
    let (from, to) = match len {
        0 => (0, 0),
        _ => (offset >> shift, ((offset + len - 1) >> shift) + 1),
    };
    Ok(Span {
        first: first + from as u32,
        count: (to - from) as u32,
        skip: offset - (from << shift),
        entry,
    })
}

/// Returns an error about the record of a block.
pub(super) fn wrong_block(tables: &Tables, index: u32, cause: &str) -> Error {
    let error = tables.blocks.wrong(index as usize * 32, cause);
    error.block(u64::from(index))
}

/// Returns a block's record, checked by itself.
pub(crate) fn block(tables: &Tables, index: u32) -> Result<BlockRecord> {
    let block = tables.block(index)?;
    let header = &tables.header;
    let (stored, raw) = (block.stored_bytes.get(), block.raw_bytes.get());
    let tile = block.tile_bytes.get();
    let is_gdeflate = block.codec == CodecId::GDEFLATE.0;
    let start = block.offset.get();
    let end = start.checked_add(u64::from(stored));
    let data = header.data_offset.get();
    let data_end = data + header.data_bytes.get();
    let is_inside = start >= data && end.is_some_and(|end| end <= data_end);
    let cause = if block.flags & !block_flag::KNOWN != 0 || block.reserved.get() != 0 {
        "a block has flags that are not known"
    } else if raw == 0 || raw > 1 << BLOCK_SHIFT_MAX {
        "a block has an impossible raw length"
    } else if stored == 0 || stored > raw + STORED_EXTRA_MAX {
        "a block has an impossible stored length"
    } else if block.codec == CodecId::STORED.0 && stored != raw {
        "a stored block has another length than its raw bytes"
    } else if tile != if is_gdeflate { 65_536 } else { 0 } {
        "a block has an impossible tile size"
    } else if block.in_base() && header.required.get() & feature::PATCH == 0 {
        "a block lies in a base, and the package is no patch"
    } else if end.is_none() || (!block.in_base() && !is_inside) {
        "a block lies outside of the data"
    } else {
        return Ok(block);
    };
    Err(wrong_block(tables, index, cause))
}

/// Returns the raw bytes that the `nth` block of an entry must have.
pub(crate) fn expected_raw(entry: &EntryRecord, nth: u32) -> u64 {
    let size = 1u64 << entry.block_shift;
    (entry.raw_bytes.get() - u64::from(nth) * size).min(size)
}

/// Returns the blocks of a span, checked by themselves and against each other.
pub(crate) fn blocks_of(tables: &Tables, span: &Span) -> Result<Vec<BlockRecord>> {
    let mut blocks = memory::room(span.count as usize)?;
    let mut end: Option<u64> = None;
    for index in span.first..span.first + span.count {
        let found = block(tables, index)?;
        let wrong = |cause| Err(wrong_block(tables, index, cause));
        if !span.entry.is(entry_flag::SHARED) {
            let nth = index - span.entry.first_block.get();
            if u64::from(found.raw_bytes.get()) != expected_raw(&span.entry, nth) {
                return wrong("a block has another raw length than its place in the entry");
            }
        }
        if !found.in_base() {
            let start = found.offset.get();
            // Only padding lies between blocks, so the request reads little that it does not need.
            if end.is_some_and(|end| start < end || start - end >= STORED_ALIGNMENT) {
                return wrong("a block does not follow the one before it");
            }
            end = Some(found.end());
        }
        blocks.push(found);
    }
    Ok(blocks)
}

/// Returns the request for a range, see [`Package::range`].
pub(super) fn request(package: &Package, index: u32, offset: u64, len: u64) -> Result<Read> {
    let tables = package.tables();
    let span = span(tables, index, offset, len)?;
    let blocks = blocks_of(tables, &span)?;
    let request = request_of(package, &blocks, span.skip, len)?;
    if !package.0.options.name_requests {
        return Ok(request);
    }
    let name = String::from_utf8_lossy(package.name(index)?);
    Ok(request.name(&*name))
}

/// Returns a request for `len` raw bytes, after `skip`, of blocks in the order of the file.
pub(crate) fn request_of(
    package: &Package,
    blocks: &[BlockRecord],
    skip: u64,
    len: u64,
) -> Result<Read> {
    let tables = package.tables();
    let file = tables.file.id;
    if blocks.is_empty() || len == 0 {
        return Ok(Read::range(file, 0, 0));
    }
    let own = || blocks.iter().filter(|block| !block.in_base());
    // A request must read bytes of its own file: if all blocks lie in the base, it reads 16 of the
    // header, which no block refers to.
    let start = own().next().map_or(0, |block| block.offset.get());
    let end = own().next_back().map_or(16, BlockRecord::end);
    let stored = blocks
        .iter()
        .all(|block| !block.in_base() && block.codec == CodecId::STORED.0);
    let whole = stored && end - start == blocks.iter().map(|b| u64::from(b.raw_bytes.get())).sum();
    let verify = package.0.options.verify;
    if whole && !verify {
        return Ok(Read::range(file, start + skip, len));
    }
    let mut table = BlockTable::new();
    table.reserve(blocks.len())?;
    for block in blocks {
        push(&mut table, block, start);
        if verify {
            table.checksum(block.checksum.get());
        }
    }
    if skip != 0 || len != table.raw_len() {
        table = table.trim(skip, len);
    }
    if blocks.iter().any(BlockRecord::in_base) {
        let base = package.0.base.clone().ok_or_else(|| {
            let cause = "parts of the entry are in the base of this patch, which was not named";
            Error::new(ErrorKind::Base, cause)
        })?;
        table = table.external(base);
    }
    Ok(Read::range(file, start, end - start).decode(Decode::table(table)))
}

/// Appends a block to the table of a request that begins at `start`.
fn push(table: &mut BlockTable, block: &BlockRecord, start: u64) {
    let own = !block.in_base();
    let offset = block.offset.get() - if own { start } else { 0 };
    let stored = offset..offset + u64::from(block.stored_bytes.get());
    table.push(CodecId(block.codec), stored, block.raw_bytes.get());
    if !own {
        table.external_block();
    }
}

pub(super) fn storing(package: &Package, index: u32) -> Result<Storing> {
    let tables = package.tables();
    let info = package.info(index)?;
    if info.gone {
        return Ok(Storing::default());
    }
    let raw_bytes = info.raw_bytes;
    let span = span(tables, index, 0, raw_bytes)?;
    let blocks = blocks_of(tables, &span)?;
    let mut storing = Storing::default();
    for block in &blocks {
        let mut bytes = u64::from(block.stored_bytes.get());
        if span.entry.is(entry_flag::SHARED) {
            let held = u64::from(block.raw_bytes.get());
            bytes = (bytes * raw_bytes).div_ceil(held);
        }
        storing.stored_bytes += bytes;
        if block.in_base() {
            storing.base_bytes += bytes;
        }
        // Sorted, and at most 256.
        if let Err(at) = storing.codecs.binary_search(&CodecId(block.codec)) {
            storing.codecs.insert(at, CodecId(block.codec));
        }
    }
    Ok(storing)
}

/// The file of a base, read by threads of the storage for blocking calls.
pub(super) struct BaseFile {
    file: File,
    path: Arc<Path>,
}

impl BaseFile {
    pub(super) fn open(base: &Package) -> Result<BaseFile> {
        let path = base.path();
        let file = file::open(path).map_err(|error| Error::io(path, "open the base", error))?;
        // The path may name another file by now. The header's root covers the tables.
        let header = &base.tables().header;
        let mut found = [0; HEADER_BYTES];
        let read = read_exact_at(&file, &mut found, 0);
        if read.is_err() || found[..] != header.as_bytes()[..] {
            let cause = "the base was replaced after it was opened";
            return Err(Error::new(ErrorKind::Base, cause).of(path));
        }
        Ok(BaseFile {
            file,
            path: Arc::from(path),
        })
    }
}

impl BlockSource for BaseFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::result::Result<(), millstream::Error> {
        read_exact_at(&self.file, into, offset).map_err(|error| {
            let (kind, cause) = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => (
                    millstream::ErrorKind::PastEnd,
                    "the base of the patch is cut",
                ),
                _ => (
                    millstream::ErrorKind::Io,
                    "the base of the patch cannot be read",
                ),
            };
            let made = millstream::Error::new(kind, cause);
            made.at(Some(Arc::clone(&self.path)), offset, into.len() as u64)
        })
    }

    fn path(&self) -> Option<Arc<Path>> {
        Some(Arc::clone(&self.path))
    }
}

/// Checks that a block's codec is one of this format version, or an application's own.
pub(crate) fn check_codec(block: &BlockRecord) -> Result<()> {
    let codec = CodecId(block.codec);
    if usize::from(codec.0) < CodecId::ALL.len() || codec >= CodecId::APPLICATION {
        return Ok(());
    }
    Err(corrupt(format!("codec {} is not known", block.codec)))
}
