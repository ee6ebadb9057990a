//! Opening: one read brings the header and the hot sections (two, if the tables are large), and the
//! header's own fields are checked. Nothing is done per entry.

use std::path::Path;
use std::sync::Arc;

use millstream::{Read, Storage};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::open_file::OpenFile;
use super::section::Section;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::format::{
    BlockRecord, EntryRecord, Header, MAGIC, SectionRecord, VERSION_MAJOR, feature, section,
    section_flag,
};
use crate::limits::{
    BLOCKS_MAX, BUCKET_BITS_MAX, ENTRIES_MAX, HEADER_BYTES, OFFSETS_MAX, OPEN_BYTES, PAGE_BYTES,
    SECTIONS_MAX, STORED_ALIGNMENT,
};

/// Bytes of the header and of padding that `hot_bytes` may contain, generously.
const HOT_SLACK_BYTES: u64 = 64 << 10;

/// The file, header and sections of an open package.
pub(crate) struct Tables {
    pub(crate) path: Arc<Path>,
    pub(crate) file: OpenFile,
    pub(crate) header: Box<Header>,
    pub(crate) buckets: Section,
    pub(crate) bucket_bits: u32,
    pub(crate) entries: Section,
    pub(crate) blocks: Section,
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
        let found = Sections::new(&header)?;
        let path: Arc<Path> = Arc::from(path);
        let take = |kind| found.take(&path, &header, kind);
        let missing = |kind| found.fault(kind, format!("section {kind} is missing"));
        let need = |kind| take(kind)?.ok_or_else(|| missing(kind));
        let signature = found.record(section::SIGNATURE).copied();
        Ok(Tables {
            buckets: need(section::BUCKETS)?,
            bucket_bits,
            entries: need(section::ENTRIES)?,
            blocks: need(section::BLOCKS)?,
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
        if u64::from(index) >= self.entry_count() {
            let cause = "the package has not so many entries";
            return Err(Error::new(ErrorKind::NotFound, cause).of(&self.path));
        }
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

    /// Returns the entries of the bucket of a hash: first, and one past the last.
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
    let head = file.queue.submit(Read::at_most(file.id, 0, OPEN_BYTES))?;
    let len = storage.opened(file.id)?.await?.len;
    file.hot = head.await?;
    if len < 2 * HEADER_BYTES as u64 || file.hot.len() < HEADER_BYTES {
        return Err(match is_package(&file.hot) {
            true => Error::new(ErrorKind::Truncated, "the file ends inside its header").at(len),
            false => Error::new(ErrorKind::NotAPackage, "the file is not a package"),
        });
    }
    let header = Header::read_from_bytes(&file.hot[..HEADER_BYTES]).expect("so many were read");
    let header = Box::new(header);
    check_header(&header, len).map_err(|error| error.of(path))?;
    // Checked before anything is read whose size the header states.
    let bucket_bits = check_hot_sizes(&header, &Sections::new(&header)?)?;
    let hot_bytes = header.hot_bytes.get();
    if hot_bytes > file.hot.len() as u64 {
        file.hot = file.request(0, hot_bytes)?.await?;
        if file.hot[..HEADER_BYTES] != header.as_bytes()[..] {
            return Err(corrupt("the file was changed while it was opened"));
        }
    }
    Ok((header, bucket_bits))
}

/// Returns whether a file that begins with these bytes, at least 8, is a package.
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
            "the package has format version {}, and this library reads version {VERSION_MAJOR}: \
             pack it again, or use the release that wrote it",
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
    let body = HEADER_BYTES as u64..=file_bytes.saturating_sub(HEADER_BYTES as u64);
    let (hot, data) = (header.hot_bytes.get(), header.data_offset.get());
    let data_end = data.checked_add(header.data_bytes.get());
    let data_inside = body.contains(&data) && data_end.is_some_and(|end| body.contains(&end));
    let (rate, cores) = (
        header.target_bytes_per_second.get(),
        header.target_cores.get(),
    );
    let mut zeros = header.reserved.iter().chain(&header.reserved_tail);
    let (at, cause) = if header.entry_count.get() > ENTRIES_MAX {
        (48, "more entries than a package can have")
    } else if header.block_count.get() > BLOCKS_MAX {
        (56, "more blocks than a package can have")
    } else if u64::from(header.alignment.get()) != STORED_ALIGNMENT {
        (64, "the alignment is not 4096")
    } else if header.section_count.get() as usize > SECTIONS_MAX {
        (68, "more sections than the header has room for")
    } else if !body.contains(&hot) {
        (72, "the hot sections end outside of the file")
    } else if !data_inside {
        (80, "the data lie outside of the file")
    } else if hot > data {
        (72, "the hot sections overlap the data")
    } else if (rate == 0) != (cores == 0) {
        (136, "half a target: a rate or cores alone")
    } else if zeros.any(|&byte| byte != 0) {
        (148, "reserved bytes of the header are not zero")
    } else {
        return Ok(());
    };
    Err(corrupt(cause).at(at))
}

/// The section table, checked.
struct Sections<'a>(&'a [SectionRecord]);

impl<'a> Sections<'a> {
    fn new(header: &'a Header) -> Result<Sections<'a>> {
        let sections = header.used_sections();
        let data = header.data_offset.get();
        // First byte, one past the last, and the offset in the header that states them.
        let mut taken = vec![(data, data + header.data_bytes.get(), 80)];
        for (index, record) in sections.iter().enumerate() {
            let place = record_place(index);
            check_section(header, record).map_err(|cause| corrupt(cause).at(place))?;
            taken.extend(record.parts().map(|(start, end)| (start, end, place)));
            if sections[..index]
                .iter()
                .any(|other| other.kind == record.kind)
            {
                let cause = format!("section {index}: another has the same kind");
                return Err(corrupt(cause).at(place));
            }
            let is_known = section::is_known(record.kind.get());
            if !is_known && record.flags.get() & section_flag::REQUIRED != 0 {
                let cause = format!("section kind {} is not known", record.kind.get());
                return Err(Error::new(ErrorKind::Unsupported, cause).at(place));
            }
        }
        taken.retain(|(start, end, _)| start < end);
        taken.sort_unstable();
        if let Some(pair) = taken.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            let place = pair[0].2.max(pair[1].2);
            return Err(corrupt("a section overlaps another part").at(place));
        }
        let unused = &header.sections[sections.len()..];
        if unused.as_bytes().iter().any(|&byte| byte != 0) {
            let place = record_place(sections.len());
            return Err(corrupt("unused sections of the header are not zero").at(place));
        }
        Ok(Sections(sections))
    }

    fn record(&self, kind: u32) -> Option<&'a SectionRecord> {
        self.0.iter().find(|record| record.kind.get() == kind)
    }

    /// Returns an error of a section, at its record; of a missing one, where the records begin.
    fn fault(&self, kind: u32, cause: impl Into<String>) -> Error {
        let index = self.0.iter().position(|record| record.kind.get() == kind);
        corrupt(cause).at(record_place(index.unwrap_or(0)))
    }

    fn take(&self, path: &Arc<Path>, header: &Header, kind: u32) -> Result<Option<Section>> {
        let Some(record) = self.record(kind) else {
            return Ok(None);
        };
        let is_hot = record.is_within(header.hot_bytes.get());
        Section::new(path, record, is_hot).map(Some)
    }
}

/// Returns the offset of the record of the section with this index.
fn record_place(index: usize) -> u64 {
    256 + index as u64 * 96
}

fn check_section(header: &Header, record: &SectionRecord) -> std::result::Result<(), String> {
    let kind = record.kind.get();
    let end = header.file_bytes.get() - HEADER_BYTES as u64;
    let is_inside = |offset: u64, len: u64| {
        let last = offset.checked_add(len);
        offset >= HEADER_BYTES as u64 && last.is_some_and(|last| last <= end)
    };
    let hashes = record.hashes_offset.get();
    let cause = if record.flags.get() & !section_flag::KNOWN != 0 {
        "it has flags that are not known"
    } else if record.reserved != [0; 32] {
        "its reserved bytes are not zero"
    } else if !is_inside(record.offset.get(), record.bytes.get()) {
        "it lies outside of the file"
    } else if record.is_hashed() == (kind == section::SIGNATURE) {
        "only the signature has no hashes"
    } else if !record.is_hashed() && (hashes, record.hashes_digest) != (0, [0; 32]) {
        "it says where its hashes are, and has none"
    } else if record.is_hashed() && !is_inside(hashes, record.hashes_bytes()) {
        "its page hashes lie outside of the file"
    } else {
        return Ok(());
    };
    Err(format!("section kind {kind}: {cause}"))
}

/// Checks the lengths that follow from the counts; returns the bits of the bucket index.
fn check_hot_sizes(header: &Header, sections: &Sections<'_>) -> Result<u32> {
    let (entries, blocks) = (header.entry_count.get(), header.block_count.get());
    let hot_bytes = header.hot_bytes.get();
    let check = |kind: u32, is_hot: bool, want: Option<u64>, most: u64| {
        let Some(record) = sections.record(kind) else {
            return Ok(0);
        };
        let bytes = record.bytes.get();
        if want.is_some_and(|want| want != bytes) || bytes > most {
            let cause = format!("section kind {kind} has {bytes} bytes, which do not fit");
            return Err(sections.fault(kind, cause));
        }
        if is_hot && !record.is_within(hot_bytes) {
            let cause = format!("section kind {kind} lies outside of the hot part");
            return Err(sections.fault(kind, cause));
        }
        Ok(bytes)
    };
    let all = u64::MAX;
    check(section::ENTRIES, true, Some(entries * 32), all)?;
    check(section::BLOCKS, true, Some(blocks * 32), all)?;
    check(section::NAMES, false, None, OFFSETS_MAX)?;
    check(section::METADATA, false, None, OFFSETS_MAX)?;
    let places = check(section::METADATA_INDEX, false, None, entries * 8)?;
    if !places.is_multiple_of(8) {
        let cause = "the index of metadata is no whole number of pairs";
        return Err(sections.fault(section::METADATA_INDEX, cause));
    }
    check(section::CONTENTS, false, Some(entries * 32), all)?;
    check(section::SIGNATURE, false, Some(96), all)?;
    let buckets = check(section::BUCKETS, true, None, all)?;
    let parts = [buckets, entries * 32, blocks * 32];
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
        return Err(sections.fault(section::BUCKETS, cause));
    }
    Ok(bits)
}
