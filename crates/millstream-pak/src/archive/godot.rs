//! Godot's PCK: versions 1 (Godot 3), 2 (Godot 4) and 3 (from 4.5 on), as a file of its own or at
//! the end of a program. The MD5 of an entry is not compared.

use super::directory::{Directory, check_bytes, u64_at};
use super::table::{Builder, Record};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::limits::NAME_BYTES_MAX;
use crate::reader::open_file::OpenFile;

pub(super) const MAGIC: &[u8] = b"GDPC";

/// Flags of an archive.
const DIRECTORY_ENCRYPTED: u32 = 1;
const RELATIVE: u32 = 2;
const SPARSE: u32 = 4;

/// Flags of an entry.
const ENCRYPTED: u32 = 1;
const REMOVED: u32 = 2;

/// Bytes of an entry without its name: the length of that, offset, size and MD5.
const ENTRY_BYTES: u64 = 36;

/// Returns where an archive begins that is the end of a program, whose last bytes are `tail`.
pub(super) fn embedded(tail: &[u8], file_bytes: u64) -> Option<u64> {
    let (rest, magic) = tail.split_at_checked(tail.len().checked_sub(4)?)?;
    let bytes = u64_at(rest, rest.len().checked_sub(8).filter(|_| magic == MAGIC)?);
    (file_bytes - 12).checked_sub(bytes)
}

/// Reads the directory of the archive that begins at `start`.
pub(super) fn read(file: &OpenFile, start: u64, builder: &mut Builder) -> Result<u64> {
    let mut header = Directory::new(file, start, builder.file_bytes);
    header.take(MAGIC.len())?;
    let unsupported = |cause: String| Error::new(ErrorKind::Unsupported, cause).at(start);
    let version = header.u32()?;
    if !(1..=3).contains(&version) {
        return Err(unsupported(format!(
            "version {version} of PCK is not known"
        )));
    }
    // The engine's own version.
    header.take(12)?;
    let (mut flags, mut base, mut place) = (0, 0, None);
    if version > 1 {
        flags = header.u32()?;
        base = header.u64()?;
    }
    if version == 3 || flags & RELATIVE != 0 {
        base = base.saturating_add(start);
    }
    if flags & DIRECTORY_ENCRYPTED != 0 {
        return Err(unsupported(String::from(
            "the PCK's directory is encrypted",
        )));
    }
    if flags & SPARSE != 0 {
        let cause = "the PCK is sparse: its entries are files beside it, which are not read";
        return Err(unsupported(String::from(cause)));
    }
    if version == 3 {
        place = Some(header.u64()?.saturating_add(start));
    }
    // Reserved.
    header.take(64)?;
    let mut directory = match place {
        Some(place) if place > builder.file_bytes => {
            let cause = "the directory begins past the end of the archive";
            return Err(Error::new(ErrorKind::Truncated, cause).at(start));
        }
        Some(place) => Directory::new(file, place, builder.file_bytes),
        None => header,
    };
    let begin = directory.at();
    let count = directory.u32()?;
    check_bytes(u64::from(count) * ENTRY_BYTES)?;
    for _ in 0..count {
        let at = directory.at();
        check_bytes(at - begin)?;
        add(&mut directory, (version, base), builder).map_err(|error| error.at(at))?;
    }
    Ok(builder.file_bytes)
}

/// Adds the next entry.
fn add(
    directory: &mut Directory<'_>,
    (version, base): (u32, u64),
    all: &mut Builder,
) -> Result<()> {
    let len = directory.u32()? as usize;
    if len > NAME_BYTES_MAX + 16 {
        return Err(corrupt(format!("an entry has a name of {len} bytes")));
    }
    let padded = directory.take(len)?.to_vec();
    let name = padded.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = name.strip_prefix(b"res://").unwrap_or(name);
    let offset = base.checked_add(directory.u64()?);
    let bytes = directory.u64()?;
    directory.take(16)?;
    let flags = if version > 1 { directory.u32()? } else { 0 };
    if flags & REMOVED != 0 {
        return Ok(());
    }
    let offset = offset.ok_or_else(|| corrupt("an entry's offset exceeds 2^64").entry(name))?;
    let mut record = Record::stored(offset, bytes);
    if flags & ENCRYPTED != 0 {
        record.flags |= super::table::flag::ENCRYPTED;
    }
    all.add(record, name)
}
