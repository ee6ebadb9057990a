//! Quake's PACK: a header, and a directory of 64 bytes for each entry.

use super::directory::{Directory, check_bytes, field, u32_at};
use super::table::{Builder, Record};
use super::zip::decode_name;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::reader::open_file::OpenFile;

pub(super) const MAGIC: &[u8] = b"PACK";

const ENTRY_BYTES: u64 = 64;
const NAME_BYTES: usize = 56;

/// Reads the directory.
pub(super) fn read(file: &OpenFile, builder: &mut Builder) -> Result<u64> {
    if builder.file_bytes < 12 {
        let cause = "the archive has no whole header";
        return Err(Error::new(ErrorKind::Truncated, cause).at(0));
    }
    let header = file.read(4, 8)?;
    let (start, bytes) = (u64::from(u32_at(&header, 0)), u64::from(u32_at(&header, 4)));
    check_bytes(bytes)?;
    if bytes % ENTRY_BYTES != 0 {
        let cause = format!("the directory has {bytes} bytes, not a multiple of {ENTRY_BYTES}");
        return Err(corrupt(cause).at(8));
    }
    if start + bytes > builder.file_bytes {
        let cause = "the directory reaches past the end of the archive";
        return Err(Error::new(ErrorKind::Truncated, cause).at(4));
    }
    let mut directory = Directory::new(file, start, start + bytes);
    for _ in 0..bytes / ENTRY_BYTES {
        let at = directory.at();
        let entry: [u8; ENTRY_BYTES as usize] = directory.array()?;
        let name: [u8; NAME_BYTES] = field(&entry, 0);
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if name.is_empty() {
            // A slot that is not used.
            continue;
        }
        let len = u64::from(u32_at(&entry, NAME_BYTES + 4));
        let record = Record::stored(u64::from(u32_at(&entry, NAME_BYTES)), len);
        let name = decode_name(name, false);
        builder.add(record, &name).map_err(|error| error.at(at))?;
    }
    Ok(builder.file_bytes)
}
