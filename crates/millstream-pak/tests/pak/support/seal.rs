//! Makes the hashes of a changed package right again: page hashes, their digests, the root, and the
//! header's copy. What a reader then refuses it refuses for the field itself.

use millstream_pak::format::{Header, section_flag};
use zerocopy::{FromBytes, IntoBytes};

const PAGE_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 4096;

/// Seals a package of at least two headers; shorter ones stay as they are.
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(last) = bytes
        .len()
        .checked_sub(HEADER_BYTES)
        .filter(|&last| last >= HEADER_BYTES)
    else {
        return;
    };
    let Ok(mut header) = Header::read_from_bytes(&bytes[..HEADER_BYTES]) else {
        return;
    };
    let count = (header.section_count.get() as usize).min(header.sections.len());
    for record in &mut header.sections[..count] {
        if record.flags.get() & section_flag::UNHASHED != 0 {
            continue;
        }
        let start = record.offset.get() as usize;
        let end = start.checked_add(record.bytes.get() as usize);
        let Some(section) = end.and_then(|end| bytes.get(start..end)) else {
            continue;
        };
        let pages = section.chunks(PAGE_BYTES);
        let hashes: Vec<u8> = pages
            .flat_map(|page| *blake3::hash(page).as_bytes())
            .collect();
        let at = record.hashes_offset.get() as usize;
        // Not over the header, nor over its copy.
        let end = at.checked_add(hashes.len());
        let Some(end) = end.filter(|&end| at >= HEADER_BYTES && end <= last) else {
            continue;
        };
        bytes[at..end].copy_from_slice(&hashes);
        record.hashes_digest = *blake3::hash(&hashes).as_bytes();
    }
    header.root = header.digest();
    bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    bytes[last..].copy_from_slice(header.as_bytes());
}
