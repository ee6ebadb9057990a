//! Writes archives of other programs, sound ones and ones with any fault.

#![allow(dead_code, reason = "each test program uses a part of it")]

use millstream_codec::{CodecId, Scratch, block_level_range, encode_block};

/// Compression methods.
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATE: u16 = 8;
pub(crate) const ZSTD: u16 = 93;

/// An entry of a zip; what is not given is as it should be.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) raw: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// Checksum and sizes are behind the stored bytes.
    pub(crate) descriptor: bool,
    /// Sizes and offset have 64 bits.
    pub(crate) zip64: bool,
    /// Further extra fields, of the local header and of the directory.
    pub(crate) local_extra: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// The Unix mode, if it was made on Unix.
    pub(crate) mode: Option<u16>,
    /// The name in the local header, if that is another.
    pub(crate) local_name: Option<Vec<u8>>,
}

pub(crate) fn entry(name: impl Into<Vec<u8>>, raw: impl Into<Vec<u8>>, method: u16) -> Entry {
    Entry {
        name: name.into(),
        raw: raw.into(),
        method,
        flags: 0,
        descriptor: false,
        zip64: false,
        local_extra: Vec::new(),
        extra: Vec::new(),
        comment: Vec::new(),
        mode: None,
        local_name: None,
    }
}

/// How a zip is written around its entries.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// A program in front, which offsets do not count.
    pub(crate) ahead: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// The end record has 64 bits.
    pub(crate) zip64: bool,
}

/// A zip, and where its parts are.
pub(crate) struct Zip {
    pub(crate) bytes: Vec<u8>,
    /// Offsets of local headers, of entries of the directory, and of the end record.
    pub(crate) locals: Vec<usize>,
    pub(crate) entries: Vec<usize>,
    pub(crate) end: usize,
}

fn encoded(method: u16, raw: &[u8]) -> Vec<u8> {
    let codec = match method {
        DEFLATE => CodecId::DEFLATE,
        ZSTD => CodecId::ZSTD,
        _ => return raw.to_vec(),
    };
    let (mut out, mut scratch) = (Vec::new(), Scratch::default());
    encode_block(codec, 1, &mut scratch, raw, &mut out).expect("encoded");
    out
}

/// Whether this build encodes zstd.
pub(crate) fn has_zstd() -> bool {
    !block_level_range(CodecId::ZSTD).is_empty()
}

fn le16(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u16).to_le_bytes());
}

fn le32(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u32).to_le_bytes());
}

fn le64(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u64).to_le_bytes());
}

/// An extra field of zip64 with these values.
fn field64(values: &[usize]) -> Vec<u8> {
    let mut field = vec![1, 0];
    le16(&mut field, values.len() * 8);
    values.iter().for_each(|value| le64(&mut field, *value));
    field
}

const FULL: usize = 0xffff_ffff;

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// Writes a zip.
pub(crate) fn zip(entries: &[Entry], around: &Around) -> Zip {
    let mut bytes = around.ahead.clone();
    let (mut locals, mut directory, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let stored = encoded(entry.method, &entry.raw);
        let (crc, raw) = (crc32(&entry.raw) as usize, entry.raw.len());
        let flags = usize::from(entry.flags) | if entry.descriptor { 8 } else { 0 };
        let offset = bytes.len() - around.ahead.len();
        locals.push(bytes.len());
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        let mut extra = match entry.zip64 {
            true if entry.descriptor => field64(&[0, 0]),
            true => field64(&[raw, stored.len()]),
            false => Vec::new(),
        };
        extra.extend_from_slice(&entry.local_extra);
        bytes.extend_from_slice(b"PK\x03\x04");
        [45, flags, entry.method.into(), 0, 0]
            .into_iter()
            .for_each(|value| le16(&mut bytes, value));
        match (entry.descriptor, entry.zip64) {
            (true, _) => [0; 3].into_iter().for_each(|value| le32(&mut bytes, value)),
            (false, true) => [crc, FULL, FULL]
                .into_iter()
                .for_each(|value| le32(&mut bytes, value)),
            _ => [crc, stored.len(), raw]
                .into_iter()
                .for_each(|value| le32(&mut bytes, value)),
        };
        [name.len(), extra.len()]
            .into_iter()
            .for_each(|value| le16(&mut bytes, value));
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&extra);
        bytes.extend_from_slice(&stored);
        if entry.descriptor {
            bytes.extend_from_slice(b"PK\x07\x08");
            le32(&mut bytes, crc);
            for size in [stored.len(), raw] {
                if entry.zip64 {
                    le64(&mut bytes, size)
                } else {
                    le32(&mut bytes, size)
                }
            }
        }
        places.push(directory.len());
        directory.extend_from_slice(b"PK\x01\x02");
        let made_by = if entry.mode.is_some() { 0x032d } else { 45 };
        let numbers = [made_by, 45, flags, entry.method.into(), 0, 0];
        numbers
            .into_iter()
            .for_each(|value| le16(&mut directory, value));
        let mut extra = if entry.zip64 {
            field64(&[raw, stored.len(), offset])
        } else {
            Vec::new()
        };
        extra.extend_from_slice(&entry.extra);
        let sizes = if entry.zip64 {
            [FULL, FULL]
        } else {
            [stored.len(), raw]
        };
        le32(&mut directory, crc);
        sizes
            .into_iter()
            .for_each(|value| le32(&mut directory, value));
        let lens = [entry.name.len(), extra.len(), entry.comment.len(), 0, 0];
        lens.into_iter()
            .for_each(|value| le16(&mut directory, value));
        le32(&mut directory, usize::from(entry.mode.unwrap_or(0)) << 16);
        le32(&mut directory, if entry.zip64 { FULL } else { offset });
        directory.extend_from_slice(&entry.name);
        directory.extend_from_slice(&extra);
        directory.extend_from_slice(&entry.comment);
    }
    let start = bytes.len();
    bytes.extend_from_slice(&directory);
    let offset = start - around.ahead.len();
    if around.zip64 {
        let at = bytes.len() - around.ahead.len();
        bytes.extend_from_slice(b"PK\x06\x06");
        le64(&mut bytes, 44);
        [45, 45, 0, 0, 0, 0]
            .into_iter()
            .for_each(|value| le16(&mut bytes, value));
        [entries.len(), entries.len(), directory.len(), offset]
            .into_iter()
            .for_each(|it| le64(&mut bytes, it));
        bytes.extend_from_slice(b"PK\x06\x07");
        le32(&mut bytes, 0);
        le64(&mut bytes, at);
        le32(&mut bytes, 1);
    }
    let end = bytes.len();
    bytes.extend_from_slice(b"PK\x05\x06");
    let count = if around.zip64 { 0xffff } else { entries.len() };
    [0, 0, count, count]
        .into_iter()
        .for_each(|value| le16(&mut bytes, value));
    let full = |value| if around.zip64 { FULL } else { value };
    [full(directory.len()), full(offset)]
        .into_iter()
        .for_each(|value| le32(&mut bytes, value));
    le16(&mut bytes, around.comment.len());
    bytes.extend_from_slice(&around.comment);
    Zip {
        bytes,
        locals,
        entries: places.iter().map(|at| start + at).collect(),
        end,
    }
}

/// Writes a PACK file of Quake.
pub(crate) fn quake(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\0\0\0\0\0".to_vec();
    let mut directory = Vec::new();
    for (name, raw) in entries {
        directory.extend_from_slice(name.as_bytes());
        directory.resize(directory.len().next_multiple_of(64) - 8, 0);
        [bytes.len(), raw.len()]
            .into_iter()
            .for_each(|value| le32(&mut directory, value));
        bytes.extend_from_slice(raw);
    }
    let place = [bytes.len() as u32, directory.len() as u32]
        .map(u32::to_le_bytes)
        .concat();
    bytes[4..12].copy_from_slice(&place);
    bytes.extend_from_slice(&directory);
    bytes
}

/// How a PCK file is written.
#[derive(Clone, Copy)]
pub(crate) struct Pck {
    pub(crate) version: u32,
    /// Flags of the archive, and of each of its entries.
    pub(crate) flags: u32,
    pub(crate) entry_flags: u32,
}

/// Writes a PCK file of Godot, as the export of Godot 3, 4.0 and 4.5 does.
pub(crate) fn godot(entries: &[(&str, Vec<u8>)], pck: Pck) -> Vec<u8> {
    let mut bytes = b"GDPC".to_vec();
    [pck.version as usize, 4, 5, 0]
        .into_iter()
        .for_each(|value| le32(&mut bytes, value));
    let padded = |name: &str| name.len().next_multiple_of(4);
    let of_entry = if pck.version > 1 { 40 } else { 36 };
    let names = entries
        .iter()
        .map(|(name, _)| of_entry + padded(name))
        .sum::<usize>();
    let head = [0, 84, 96, 104][pck.version as usize];
    let base = (head + 4 + names).next_multiple_of(32);
    // Version 3 has its directory at the end.
    let total: usize = entries.iter().map(|(_, raw)| raw.len()).sum();
    if pck.version > 1 {
        le32(&mut bytes, pck.flags as usize);
        le64(&mut bytes, base);
    }
    if pck.version == 3 {
        le64(&mut bytes, base + total);
    }
    bytes.resize(head, 0);
    let mut directory = Vec::new();
    le32(&mut directory, entries.len());
    let mut offset = if pck.version > 1 { 0 } else { base };
    for (name, raw) in entries {
        le32(&mut directory, padded(name));
        directory.extend_from_slice(name.as_bytes());
        directory.resize(directory.len() + padded(name) - name.len(), 0);
        [offset, raw.len()]
            .into_iter()
            .for_each(|value| le64(&mut directory, value));
        directory.extend_from_slice(&[0; 16]);
        if pck.version > 1 {
            le32(&mut directory, pck.entry_flags as usize);
        }
        offset += raw.len();
    }
    if pck.version < 3 {
        bytes.extend_from_slice(&directory);
    }
    bytes.resize(base, 0);
    entries
        .iter()
        .for_each(|(_, raw)| bytes.extend_from_slice(raw));
    if pck.version == 3 {
        bytes.extend_from_slice(&directory);
    }
    bytes
}
