//! Every field of a package, as the records of the format have them.

use std::mem::offset_of;

use millstream_pak::format::{
    BlockRecord, EntryRecord, Header, MetadataPlace, SectionRecord, SignatureRecord, section,
};
use zerocopy::FromBytes as _;

/// Records of one table that are looked at, from its front and from its end; of sections all.
const RECORDS: usize = 4;

const PAGE_BYTES: usize = 64 << 10;

/// A field of a record: name, place, length.
type Place = (&'static str, usize, usize);

/// The fields of a record, in order. None is left out: they are the whole record.
macro_rules! fields_of {
    ($record:ident: $($field:ident)*) => {{
        fn bytes<F>(_: fn(&$record) -> &F) -> usize {
            size_of::<F>()
        }
        let fields: Vec<Place> = vec![$((
            concat!(stringify!($record), ".", stringify!($field)),
            offset_of!($record, $field),
            bytes(|record| &record.$field),
        )),*];
        let end = fields.iter().fold(0, |end, (name, at, bytes)| {
            assert_eq!(end, *at, "a field before {name} is missing");
            end + bytes
        });
        assert_eq!(end, size_of::<$record>());
        fields
    }};
}

/// A field of a package.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// Number of its record in its table.
    nth: usize,
    /// First byte of its table.
    table: usize,
    /// The same field of another record of the table.
    sibling: Option<usize>,
}

impl Field {
    /// What to put there instead: nothing, one, the most, one more and one less, what the record
    /// beside it has, and what refers to the field itself.
    pub(crate) fn values(&self, package: &[u8]) -> Vec<Vec<u8>> {
        let is = &package[self.at..self.at + self.bytes];
        let sibling = self.sibling.map(|at| package[at..at + self.bytes].to_vec());
        let mut values = vec![vec![0; self.bytes], vec![0xff; self.bytes]];
        values.extend(sibling);
        if self.bytes <= 8 {
            let mut number = [0; 8];
            number[..self.bytes].copy_from_slice(is);
            let number = u64::from_le_bytes(number);
            let (at, len) = (self.at as u64, package.len() as u64);
            let others = [
                1,
                number.wrapping_add(1),
                number.wrapping_sub(1),
                1 << (self.bytes * 8 - 1),
                self.nth as u64,
                at,
                at - self.table as u64,
                len,
            ];
            values.extend(others.map(|other| other.to_le_bytes()[..self.bytes].to_vec()));
        } else {
            for at in [0, self.bytes - 1] {
                let mut value = is.to_vec();
                value[at] ^= 1;
                values.push(value);
            }
        }
        values.sort();
        values.dedup();
        values.retain(|value| value != is);
        values
    }
}

/// The fields of the records of a table.
fn table(fields: &mut Vec<Field>, record: &[Place], start: usize, count: usize) {
    let bytes = record.last().map_or(0, |(_, at, bytes)| at + bytes);
    let all = bytes == size_of::<SectionRecord>();
    let looked_at = |nth: &usize| all || *nth < RECORDS || *nth + RECORDS >= count;
    for nth in (0..count).filter(looked_at) {
        let other = [nth.checked_sub(1), (count > 1).then_some(1)];
        let other = other.into_iter().flatten().next();
        fields.extend(record.iter().map(|&(name, at, field_bytes)| Field {
            name,
            at: start + nth * bytes + at,
            bytes: field_bytes,
            nth,
            table: start,
            sibling: other.map(|other| start + other * bytes + at),
        }));
    }
}

/// Items, each a length and so many bytes, of which the first eight count as a field.
fn items(fields: &mut Vec<Field>, start: usize, bytes: &[u8]) {
    let (mut at, mut nth) = (0, 0);
    while let Some(len) = bytes.get(at..at + 2) {
        let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
        if len == 0 {
            at = (at + 1).next_multiple_of(PAGE_BYTES);
            continue;
        }
        for (name, at, bytes) in [("item.length", at, 2), ("item.bytes", at + 2, len.min(8))] {
            fields.push(Field {
                name,
                at: start + at,
                bytes,
                nth,
                table: start,
                sibling: (nth > 0).then_some(start),
            });
        }
        at += 2 + len;
        nth += 1;
    }
}

/// All fields of a package that is sound, but for hashes, which are made right again.
pub(crate) fn all(package: &[u8]) -> Vec<Field> {
    let header = Header::read_from_bytes(&package[..4096]).expect("a header");
    let mut of_header = fields_of!(Header: magic major minor header_bytes required optional
        file_bytes hash_seed entry_count block_count alignment section_count hot_bytes data_offset
        data_bytes base_root content_version target_bytes_per_second target_cores reserved sections
        reserved_tail root);
    of_header.retain(|(name, ..)| !["Header.sections", "Header.root"].contains(name));
    let of_section = fields_of!(SectionRecord: kind flags offset bytes hashes_offset
        hashes_digest reserved);
    let of_entry = fields_of!(EntryRecord: hash raw_bytes first_block name_offset offset_in_block
        block_shift flags reserved);
    let of_block = fields_of!(BlockRecord: offset stored_bytes raw_bytes checksum codec flags
        reserved tile_bytes);
    let of_metadata = fields_of!(MetadataPlace: entry offset);
    let of_signature = fields_of!(SignatureRecord: public_key signature);

    let mut fields = Vec::new();
    let count = header.section_count.get() as usize;
    let sections = offset_of!(Header, sections);
    fields.extend(of_header.iter().map(|&(name, at, bytes)| Field {
        name,
        at,
        bytes,
        nth: 0,
        table: 0,
        sibling: None,
    }));
    // One that is not used among them.
    table(&mut fields, &of_section, sections, count + 1);
    for record in &header.sections[..count] {
        let start = record.offset.get() as usize;
        let bytes = record.bytes.get() as usize;
        let layout: &[Place] = match record.kind.get() {
            section::BUCKETS => &[("bucket", 0, 4)],
            section::ENTRIES => &of_entry,
            section::BLOCKS => &of_block,
            section::METADATA_INDEX => &of_metadata,
            section::CONTENTS => &[("content", 0, 32)],
            section::SIGNATURE => &of_signature,
            _ => {
                items(&mut fields, start, &package[start..start + bytes]);
                continue;
            }
        };
        let size = layout.last().map_or(0, |(_, at, bytes)| at + bytes);
        table(&mut fields, layout, start, bytes / size);
    }
    fields
}
