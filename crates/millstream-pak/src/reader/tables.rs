//! Opening: one read brings the header and the hot sections (two, if the table is large), and the
//! header's own fields are checked. Nothing is done per entry.

use std::path::Path;
use std::sync::Arc;

use millstream::Storage;
use zerocopy::FromBytes;

use super::open_file::OpenFile;
use super::section::Section;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::format::{
    BlockRecord, EntryRecord, Header, MAGIC, SectionRecord, VERSION_MAJOR, feature, section,
    section_flag,
};
use crate::limits::{
    BLOCKS_MAX, BUCKET_BITS_MAX, DICTIONARIES_MAX, ENTRIES_MAX, HEADER_BYTES, OFFSETS_MAX,
    OPEN_BYTES, PAGE_BYTES, SECTION_RATIO_MAX, SECTIONS_MAX, STORED_ALIGNMENT,
};

/// Header and padding of the hot part, generously.
const HOT_SLACK_BYTES: u64 = 64 << 10;

/// What is known of an open package.
pub(crate) struct Tables {
    pub(crate) path: Arc<Path>,
    pub(crate) file: OpenFile,
    pub(crate) header: Box<Header>,
    pub(crate) buckets: Section,
    pub(crate) bucket_bits: u32,
    pub(crate) entries: Section,
    pub(crate) blocks: Section,
    pub(crate) dictionaries: Option<Section>,
    pub(crate) names: Section,
    pub(crate) metadata_index: Option<Section>,
    pub(crate) metadata: Option<Section>,
    pub(crate) contents: Option<Section>,
    pub(crate) signature: Option<SectionRecord>,
    pub(crate) fold_case: bool,
}

impl Tables {
    pub(crate) async fn open(storage: &Storage, path: &Path) -> Result<Tables> {
        let mut file = OpenFile::open(storage, path)?;
        let (header, bucket_bits) = open_tables(storage, path, &mut file).await?;
        Tables::new(path, file, header, bucket_bits)
    }

    fn new(path: &Path, file: OpenFile, header: Box<Header>, bucket_bits: u32) -> Result<Tables> {
        let found = Sections::new(&header)?;
        let path: Arc<Path> = Arc::from(path);
        let take = |kind| found.take(&path, &header, kind);
        let need =
            |kind| take(kind)?.ok_or_else(|| corrupt(format!("section {kind} is missing")).at(256));
        let signature = found.record(section::SIGNATURE).copied();
        Ok(Tables {
            buckets: need(section::BUCKETS)?,
            bucket_bits,
            entries: need(section::ENTRIES)?,
            blocks: need(section::BLOCKS)?,
            dictionaries: take(section::DICTIONARIES)?,
            names: need(section::NAMES)?,
            metadata_index: take(section::METADATA_INDEX)?,
            metadata: take(section::METADATA)?,
            contents: take(section::CONTENTS)?,
            signature,
            fold_case: header.required.get() & feature::FOLD_CASE != 0,
            path,
            file,
            header,
        })
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.header.entry_count.get()
    }

    #[inline]
    pub(crate) fn entry(&self, index: u32) -> Result<EntryRecord> {
        let size = size_of::<EntryRecord>();
        let bytes = self.entries.get(&self.file, index as usize * size, size)?;
        Ok(EntryRecord::read_from_bytes(bytes).expect("so many were asked for"))
    }

    #[inline]
    pub(crate) fn block(&self, index: u32) -> Result<BlockRecord> {
        let size = size_of::<BlockRecord>();
        let bytes = self.blocks.get(&self.file, index as usize * size, size)?;
        Ok(BlockRecord::read_from_bytes(bytes).expect("so many were asked for"))
    }

    /// The entries of the bucket of a hash: first, and one past the last.
    #[inline]
    pub(crate) fn bucket(&self, hash: u64) -> Result<(u32, u32)> {
        let bucket = (hash >> (64 - self.bucket_bits)) as usize;
        let pair = self.buckets.get(&self.file, bucket * 4, 8)?;
        let pair = pair.try_into().expect("eight of them");
        let pair = u64::from_le_bytes(pair);
        let (start, end) = (pair as u32, (pair >> 32) as u32);
        if start > end || u64::from(end) > self.entry_count() {
            return Err(self
                .buckets
                .wrong(bucket * 4, "a bucket ends before it begins"));
        }
        Ok((start, end))
    }
}

/// Reads and checks the header, and reads the hot sections; returns the header, and the bits of the
/// bucket index.
async fn open_tables(
    storage: &Storage,
    path: &Path,
    file: &mut OpenFile,
) -> Result<(Box<Header>, u32)> {
    let len = storage.opened(file.id)?.await?.len;
    if len < 2 * HEADER_BYTES as u64 {
        let head = file.request(0, len.min(8))?.await?;
        let cut = head.starts_with(&MAGIC);
        return Err(match cut {
            true => Error::new(ErrorKind::Truncated, "the file ends inside its header").at(len),
            false => Error::new(ErrorKind::NotAPackage, "the file is not a package"),
        });
    }
    file.hot = file.request(0, len.min(OPEN_BYTES))?.await?;
    let header = Header::read_from_bytes(&file.hot[..HEADER_BYTES]).expect("so many were read");
    let header = Box::new(header);
    check_header(&header, len).map_err(|error| error.of(path))?;
    // Before anything of the size that the header says is read.
    let bucket_bits = check_hot_sizes(&header, &Sections::new(&header)?)?;
    let hot_bytes = header.hot_bytes.get();
    if hot_bytes > file.hot.len() as u64 {
        file.hot = file.request(0, hot_bytes)?.await?;
        if file.hot[..HEADER_BYTES] != zerocopy::IntoBytes::as_bytes(&*header)[..] {
            return Err(corrupt("the file was changed while it was opened"));
        }
    }
    Ok((header, bucket_bits))
}

/// Whether a file begins as packages do.
#[must_use]
pub fn is_package(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

fn check_header(header: &Header, len: u64) -> Result<()> {
    if header.magic != MAGIC {
        return Err(Error::new(ErrorKind::NotAPackage, "the file is not a package").at(0));
    }
    if header.major.get() != VERSION_MAJOR {
        let cause = format!(
            "the package has version {}, this reader 1",
            header.major.get()
        );
        return Err(Error::new(ErrorKind::Unsupported, cause).at(8));
    }
    if header.header_bytes.get() as usize != HEADER_BYTES {
        return Err(corrupt("the header's length is wrong").at(12));
    }
    let file_bytes = header.file_bytes.get();
    if header.digest() != header.root {
        return Err(corrupt("the root hash does not match: the header is damaged").at(4064));
    }
    if len < file_bytes {
        let cause = format!("the file has {len} of {file_bytes} bytes: it was cut");
        return Err(Error::new(ErrorKind::Truncated, cause).at(len));
    }
    if len > file_bytes {
        return Err(corrupt("bytes follow the end of the package").at(file_bytes));
    }
    let unknown = header.required.get() & !feature::KNOWN;
    if unknown != 0 {
        let cause = format!("the package needs features {unknown:#x} that this reader lacks");
        return Err(Error::new(ErrorKind::Unsupported, cause).at(16));
    }
    if header.entry_count.get() > ENTRIES_MAX {
        return Err(corrupt("more entries than a package can have").at(48));
    }
    if header.block_count.get() > BLOCKS_MAX {
        return Err(corrupt("more blocks than a package can have").at(56));
    }
    if u64::from(header.alignment.get()) != STORED_ALIGNMENT {
        return Err(corrupt("the alignment is not 4096").at(64));
    }
    if header.section_count.get() as usize > SECTIONS_MAX {
        return Err(corrupt("more sections than the header has room for").at(68));
    }
    let body = HEADER_BYTES as u64..=file_bytes.saturating_sub(HEADER_BYTES as u64);
    if !body.contains(&header.hot_bytes.get()) {
        return Err(corrupt("the hot sections end outside of the file").at(72));
    }
    let data = header.data_offset.get();
    let data_end = data.checked_add(header.data_bytes.get());
    if !body.contains(&data) || data_end.is_none_or(|end| !body.contains(&end)) {
        return Err(corrupt("the data lie outside of the file").at(80));
    }
    if header.hot_bytes.get() > data {
        return Err(corrupt("the hot sections overlap the data").at(72));
    }
    if (header.target_bytes_per_second.get() == 0) != (header.target_cores.get() == 0) {
        return Err(corrupt("half a target: a rate or cores alone").at(136));
    }
    let zeros = header.reserved.iter().chain(&header.reserved_tail);
    if zeros.into_iter().any(|&byte| byte != 0) {
        return Err(corrupt("reserved bytes of the header are not zero").at(148));
    }
    Ok(())
}

/// The section table, checked.
struct Sections<'a>(Vec<(usize, &'a SectionRecord)>);

impl<'a> Sections<'a> {
    fn new(header: &'a Header) -> Result<Sections<'a>> {
        let count = header.section_count.get() as usize;
        let mut known: Vec<(usize, &SectionRecord)> = Vec::new();
        let mut taken: Vec<(u64, u64, usize)> = vec![(
            header.data_offset.get(),
            header.data_offset.get() + header.data_bytes.get(),
            usize::MAX,
        )];
        for (index, record) in header.sections[..count].iter().enumerate() {
            let place = 256 + index as u64 * 96;
            let wrong = |cause: &str| Err(corrupt(format!("section {index}: {cause}")).at(place));
            check_section(header, record).map_err(|cause| corrupt(cause).at(place))?;
            let offset = record.offset.get();
            taken.push((offset, offset + record.stored_bytes.get(), index));
            if record.flags.get() & section_flag::UNHASHED == 0 {
                let hashes = record.hashes_offset.get();
                taken.push((hashes, hashes + record.hashes_bytes(), index));
            }
            if known.iter().any(|(_, other)| other.kind == record.kind) {
                return wrong("another has the same kind");
            }
            let is_known = section::is_known(record.kind.get());
            if !is_known && record.flags.get() & section_flag::REQUIRED != 0 {
                let cause = format!("section kind {} is not known", record.kind.get());
                return Err(Error::new(ErrorKind::Unsupported, cause).at(place));
            }
            known.push((index, record));
        }
        taken.retain(|(start, end, _)| start < end);
        taken.sort_unstable();
        for pair in taken.windows(2) {
            if pair[1].0 < pair[0].1 {
                let index = if pair[1].2 == usize::MAX {
                    pair[0].2
                } else {
                    pair[1].2
                };
                let place = 256 + index as u64 * 96;
                return Err(corrupt(format!("section {index} overlaps another part")).at(place));
            }
        }
        let unused = &header.sections[count..];
        if unused
            .iter()
            .any(|record| zerocopy::IntoBytes::as_bytes(record) != [0; 96])
        {
            return Err(corrupt("unused sections of the header are not zero").at(256));
        }
        Ok(Sections(known))
    }

    fn record(&self, kind: u32) -> Option<&'a SectionRecord> {
        let found = self.0.iter().find(|(_, record)| record.kind.get() == kind);
        found.map(|(_, record)| *record)
    }

    fn take(&self, path: &Arc<Path>, header: &Header, kind: u32) -> Result<Option<Section>> {
        let Some(record) = self.record(kind) else {
            return Ok(None);
        };
        let end = record.offset.get() + record.stored_bytes.get();
        let hashes_end = record.hashes_offset.get() + record.hashes_bytes();
        let hot = end.max(hashes_end) <= header.hot_bytes.get() && !record.is_packed();
        Section::new(path, record, hot).map(Some)
    }
}

fn check_section(header: &Header, record: &SectionRecord) -> std::result::Result<(), String> {
    let kind = record.kind.get();
    let wrong = |cause: &str| Err(format!("section kind {kind}: {cause}"));
    let flags = record.flags.get();
    if flags & !section_flag::KNOWN != 0 {
        return wrong("it has flags that are not known");
    }
    if record.reserved != [0; 24] {
        return wrong("its reserved bytes are not zero");
    }
    let (stored, raw) = (record.stored_bytes.get(), record.raw_bytes.get());
    if record.is_packed() && !section::may_be_packed(kind) {
        return wrong("its raw and stored lengths differ");
    }
    if raw < stored || raw / SECTION_RATIO_MAX > stored {
        return wrong("it cannot have so many raw bytes");
    }
    let end = header.file_bytes.get() - HEADER_BYTES as u64;
    let inside = |offset: u64, len: u64| {
        let last = offset.checked_add(len);
        offset >= HEADER_BYTES as u64 && last.is_some_and(|last| last <= end)
    };
    if !inside(record.offset.get(), record.stored_bytes.get()) {
        return wrong("it lies outside of the file");
    }
    let unhashed = flags & section_flag::UNHASHED != 0;
    if unhashed != (kind == section::SIGNATURE) {
        return wrong("only the signature has no hashes");
    }
    if unhashed {
        let rest = (record.hashes_offset.get(), record.hashes_digest);
        if rest != (0, [0; 32]) {
            return wrong("it says where its hashes are, and has none");
        }
    } else if !inside(record.hashes_offset.get(), record.hashes_bytes()) {
        return wrong("its page hashes lie outside of the file");
    }
    Ok(())
}

/// Lengths that follow from the counts; the bits of the bucket index.
fn check_hot_sizes(header: &Header, sections: &Sections<'_>) -> Result<u32> {
    let (entries, blocks) = (header.entry_count.get(), header.block_count.get());
    let hot_bytes = header.hot_bytes.get();
    let check = |kind: u32, is_hot: bool, want: Option<u64>, most: u64| {
        let Some(record) = sections.record(kind) else {
            return Ok(0);
        };
        let bytes = record.raw_bytes.get();
        let place = 256 + (kind as u64 - 1) * 96;
        if want.is_some_and(|want| want != bytes) || bytes > most {
            let cause = format!("section kind {kind} has {bytes} bytes, which do not fit");
            return Err(corrupt(cause).at(place));
        }
        let end = record.offset.get() + bytes;
        let hashes_end = record.hashes_offset.get() + record.hashes_bytes();
        if is_hot && end.max(hashes_end) > hot_bytes {
            let cause = format!("section kind {kind} lies outside of the hot part");
            return Err(corrupt(cause).at(place));
        }
        Ok(bytes)
    };
    let all = u64::MAX;
    check(section::ENTRIES, true, Some(entries * 32), all)?;
    check(section::BLOCKS, true, Some(blocks * 32), all)?;
    let most = (DICTIONARIES_MAX * PAGE_BYTES) as u64;
    let dictionaries = check(section::DICTIONARIES, true, None, most)?;
    check(section::NAMES, false, None, OFFSETS_MAX)?;
    check(section::METADATA, false, None, OFFSETS_MAX)?;
    let places = check(section::METADATA_INDEX, false, None, entries * 8)?;
    if !places.is_multiple_of(8) {
        return Err(corrupt("the index of metadata is no whole number of pairs"));
    }
    check(section::CONTENTS, false, Some(entries * 32), all)?;
    check(section::SIGNATURE, false, Some(96), all)?;
    let buckets = check(section::BUCKETS, true, None, all)?;
    let parts = [buckets, entries * 32, blocks * 32, dictionaries];
    let needed: u64 = parts
        .map(|part| part + part.div_ceil(PAGE_BYTES as u64) * 32)
        .iter()
        .sum();
    if hot_bytes > needed + HOT_SLACK_BYTES {
        return Err(corrupt("the hot part is longer than its sections").at(72));
    }
    let bits = (buckets / 4).saturating_sub(1).max(1).ilog2();
    let right = (1..=BUCKET_BITS_MAX).contains(&bits) && buckets == ((1 << bits) + 1) * 4;
    if !right {
        let cause = "the bucket index has a length that is no power of two and one";
        return Err(corrupt(cause).at(256));
    }
    Ok(bits)
}
