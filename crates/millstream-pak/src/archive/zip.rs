//! Zip files: the end of the directory, with zip64, its entries, and the local header of an entry.
//!
//! Offsets count from the start of the zip, in front of which there may be a program. The directory
//! lies directly in front of its end record, which tells where it is. Of names without the mark of
//! UTF-8, those that are UTF-8 nevertheless are taken as such, and all others as CP437.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use super::directory::{Directory, check_bytes, u16_at, u32_at, u64_at};
use super::table::{Builder, LOCAL_BYTES, Record, flag};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::reader::open_file::OpenFile;

pub(super) const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
pub(super) const END_MAGIC: &[u8] = b"PK\x05\x06";
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
const END64_MAGIC: &[u8] = b"PK\x06\x06";
const LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";

/// Bytes of an entry of the directory without name, extra fields and comment.
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;

/// Fields of 32 bits with this value have their true one in the records of zip64.
const FULL: u64 = u32::MAX as u64;

/// General purpose flags.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;

/// Extra fields.
const ZIP64: u16 = 1;
const UNICODE_PATH: u16 = 0x7075;

/// The upper half of CP437.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔\
                     ╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// What the end record says of the directory.
struct End {
    /// Where the record begins: the directory ends there.
    at: u64,
    count: u64,
    /// `count` has 64 bits; otherwise its upper ones are missing.
    is_zip64: bool,
    bytes: u64,
    /// Where the directory begins, without what is in front of the zip.
    offset: u64,
}

/// Reads the directory; returns where it begins, which is the end of the entries. `tail`: the last
/// bytes of the file, and where they begin.
pub(super) fn read(file: &OpenFile, tail: (&[u8], u64), builder: &mut Builder) -> Result<u64> {
    let end = find_end(tail)?;
    check_bytes(end.bytes)?;
    let wrong = |cause: &str| corrupt(cause).at(end.at);
    let start = end.at.checked_sub(end.bytes);
    let start =
        start.ok_or_else(|| wrong("the directory is longer than what is in front of it"))?;
    let ahead = start.checked_sub(end.offset);
    let ahead = ahead.ok_or_else(|| wrong("the directory begins past its own end"))?;
    let mut directory = Directory::new(file, start, end.at);
    let mut count = 0u64;
    while directory.at() < end.at {
        let at = directory.at();
        add(&mut directory, ahead, builder).map_err(|error| error.at(at))?;
        count += 1;
    }
    let counted = if end.is_zip64 { count } else { count & 0xffff };
    if counted != end.count {
        let cause = format!(
            "the directory has {count} entries, not {} as its end says",
            end.count
        );
        return Err(corrupt(cause).at(end.at));
    }
    Ok(start)
}

/// Finds the end record: the last one whose comment ends with the file.
fn find_end((tail, tail_at): (&[u8], u64)) -> Result<End> {
    let is_end = |&at: &usize| {
        tail[at..].starts_with(END_MAGIC)
            && at + END_BYTES + usize::from(u16_at(tail, at + 20)) == tail.len()
    };
    let places = 0..(tail.len() + 1).saturating_sub(END_BYTES);
    let Some(at) = places.rev().find(is_end) else {
        let cause = match tail_at == 0 && !tail.starts_with(b"PK") {
            true => "the file is no archive: neither zip, PACK nor PCK",
            false => "the file is no archive, or its end is missing: a zip's directory is there",
        };
        return Err(Error::new(ErrorKind::NotAPackage, cause));
    };
    let record = &tail[at..];
    let end = End {
        at: tail_at + at as u64,
        count: u64::from(u16_at(record, 10)),
        is_zip64: false,
        bytes: u64::from(u32_at(record, 12)),
        offset: u64::from(u32_at(record, 16)),
    };
    let disks = [u16_at(record, 4), u16_at(record, 6)];
    let is_given = |disk: &u16| ![0, u16::MAX].contains(disk);
    if disks.iter().any(is_given) || u16_at(record, 8) != u16_at(record, 10) {
        let cause = "the zip is split over several files";
        return Err(Error::new(ErrorKind::Unsupported, cause).at(end.at));
    }
    let locator = at.checked_sub(LOCATOR_BYTES);
    let locator = locator.filter(|&at| tail[at..].starts_with(LOCATOR_MAGIC));
    let is_full = end.bytes == FULL || end.offset == FULL;
    match locator {
        Some(locator) => find_end64((tail, tail_at), locator, &end),
        None if is_full => Err(corrupt("the end record of zip64 is missing").at(end.at)),
        None => Ok(end),
    }
}

/// Finds the end record of zip64: where its locator says, or directly in front of that.
fn find_end64((tail, tail_at): (&[u8], u64), locator: usize, end: &End) -> Result<End> {
    let named = u64_at(tail, locator + 8).checked_sub(tail_at);
    let named = named.and_then(|at| usize::try_from(at).ok());
    let before = locator.checked_sub(END64_BYTES);
    let is_there = |&at: &usize| {
        at.checked_add(END64_BYTES)
            .is_some_and(|end| end <= locator)
            && tail[at..].starts_with(END64_MAGIC)
    };
    let Some(at) = [named, before].into_iter().flatten().find(is_there) else {
        let cause = "the end record of zip64 is not where its locator says";
        return Err(corrupt(cause).at(tail_at + locator as u64));
    };
    let record = &tail[at..];
    let found = End {
        at: tail_at + at as u64,
        count: u64_at(record, 32),
        is_zip64: true,
        bytes: u64_at(record, 40),
        offset: u64_at(record, 48),
    };
    // Where the short record has a value of its own, both must agree.
    let short = [
        (end.count, 0xffff, found.count),
        (end.bytes, FULL, found.bytes),
        (end.offset, FULL, found.offset),
    ];
    if short
        .iter()
        .any(|(short, full, long)| short != full && short != long)
    {
        return Err(corrupt("the end record of zip64 contradicts the other").at(found.at));
    }
    Ok(found)
}

/// Adds the next entry of the directory; `ahead` bytes are in front of the zip.
fn add(directory: &mut Directory<'_>, ahead: u64, builder: &mut Builder) -> Result<()> {
    let fixed: [u8; ENTRY_BYTES] = directory.array()?;
    if !fixed.starts_with(ENTRY_MAGIC) {
        return Err(corrupt(
            "no entry begins here, where the directory should have one",
        ));
    }
    let [name_len, extra_len, comment_len] = [28, 30, 32].map(|at| usize::from(u16_at(&fixed, at)));
    let rest = directory.take(name_len + extra_len + comment_len)?;
    let (raw_name, rest) = rest.split_at(name_len);
    let extra = &rest[..extra_len];
    let flags = u16_at(&fixed, 8);
    let name = decode_name(raw_name, flags & UTF8 != 0);
    let named = |error: Error| error.entry(&name);
    let name = match field_of(extra, UNICODE_PATH) {
        Some(field) if is_name_of(field, raw_name) => Cow::Borrowed(&field[5..]),
        _ => Cow::Borrowed(&name[..]),
    };
    let [stored, raw, offset] = sizes(&fixed, extra).map_err(named)?;
    let at = offset.checked_add(ahead);
    let mut record = Record::stored(at.unwrap_or(u64::MAX), stored);
    (record.raw, record.crc) = (raw, u32_at(&fixed, 16));
    record.method = u16_at(&fixed, 10);
    record.local_name_len = name_len as u16;
    record.local_name_hash = xxh3_64(raw_name) as u32;
    record.flags = flag::HEADER;
    if flags & ENCRYPTED != 0 {
        record.flags |= flag::ENCRYPTED;
    }
    // The file's mode, if the zip was made on Unix or macOS.
    if [3, 19].contains(&fixed[5]) {
        let mode = u32_at(&fixed, 38) >> 16;
        if mode & 0o170_000 == 0o120_000 {
            record.flags |= flag::LINK;
        }
        if mode & 0o100 != 0 {
            record.flags |= flag::EXECUTABLE;
        }
    }
    builder.add(record, &name)
}

/// Returns stored bytes, raw bytes and offset; those that do not fit are in the field of zip64.
fn sizes(fixed: &[u8], extra: &[u8]) -> Result<[u64; 3]> {
    let [raw, stored, offset] = [24, 20, 42].map(|at| u32_at(fixed, at));
    let mut field = field_of(extra, ZIP64).unwrap_or_default();
    let mut long = |short: u32| match short {
        u32::MAX => {
            let (value, rest) = field.split_first_chunk().ok_or_else(|| {
                corrupt("the entry's field of zip64 is missing, or too short for its sizes")
            })?;
            field = rest;
            Ok::<_, Error>(u64::from_le_bytes(*value))
        }
        short => Ok(u64::from(short)),
    };
    // This is their order in the field.
    let (raw, stored, offset) = (long(raw)?, long(stored)?, long(offset)?);
    Ok([stored, raw, offset])
}

/// Returns the extra field of a number. Whatever follows a field that is cut is ignored.
fn field_of(mut extra: &[u8], number: u16) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let (head, rest) = extra.split_at(4);
        let (field, rest) = rest.split_at_checked(usize::from(u16_at(head, 2)))?;
        if u16_at(head, 0) == number {
            return Some(field);
        }
        extra = rest;
    }
    None
}

/// Whether an extra field has the UTF-8 form of this name, and not of one that it had before.
fn is_name_of(field: &[u8], raw_name: &[u8]) -> bool {
    field.len() > 5 && field[0] == 1 && u32_at(field, 1) == zlib_rs::crc32::crc32(0, raw_name)
}

/// Returns a name as UTF-8, unless it is marked as that and is not.
pub(super) fn decode_name(name: &[u8], is_utf8: bool) -> Cow<'_, [u8]> {
    if is_utf8 || std::str::from_utf8(name).is_ok() {
        return Cow::Borrowed(name);
    }
    let upper: Vec<char> = CP437.chars().collect();
    let decoded = name.iter().map(|&byte| match byte {
        0..128 => char::from(byte),
        _ => upper[usize::from(byte) - 128],
    });
    Cow::Owned(decoded.collect::<String>().into_bytes())
}

/// Checks the fixed fields of an entry's local header, 30 bytes; returns the bytes of the whole
/// header.
pub(super) fn check_local(
    record: &Record,
    header: &[u8],
) -> std::result::Result<usize, &'static str> {
    if !header.starts_with(LOCAL_MAGIC) {
        return Err("no local header is where the directory says");
    }
    let flags = u16_at(header, 6);
    if (flags & ENCRYPTED != 0) != record.is(flag::ENCRYPTED) {
        return Err("the local header contradicts the directory: encryption");
    }
    if u16_at(header, 8) != record.method {
        return Err("the local header contradicts the directory: compression method");
    }
    if u16_at(header, 26) != record.local_name_len {
        return Err("the local header contradicts the directory: name");
    }
    // With a descriptor, checksum and sizes may be missing here.
    let has_descriptor = flags & DESCRIPTOR != 0;
    let is_same = |at: usize, wanted: u64| match u32_at(header, at) {
        0 if has_descriptor => true,
        u32::MAX if at != 14 => true,
        found => u64::from(found) == wanted,
    };
    if !is_same(14, record.crc.into()) {
        return Err("the local header contradicts the directory: checksum");
    }
    if !is_same(18, record.stored) || !is_same(22, record.raw) {
        return Err("the local header contradicts the directory: size");
    }
    let extra = u32::from(u16_at(header, 28));
    if extra > record.slack {
        return Err("the local header reaches into the next entry or the directory");
    }
    Ok(record.least_header() as usize + extra as usize)
}

/// Checks the name in a local header.
pub(super) fn check_local_name(
    record: &Record,
    header: &[u8],
) -> std::result::Result<(), &'static str> {
    let name = &header[LOCAL_BYTES..record.least_header() as usize];
    match xxh3_64(name) as u32 == record.local_name_hash {
        true => Ok(()),
        false => Err("the local header contradicts the directory: name"),
    }
}
