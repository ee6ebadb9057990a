//! Cold sections whose pages are compressed, each alone: a reader that needs one name decodes one
//! page.
//!
//! Names, sorted, shrink to a tenth, and their pages decode at 2 GB/s, as fast as an unpacked page
//! is hashed: so a first touch is no slower, and there is less to read. Content hashes do not
//! shrink and stay as they are.

use std::borrow::Cow;

use millstream::CodecId;
use millstream_codec::{Scratch, block_level_range, encode_block};

use crate::limits::{PAGE_BYTES, SECTION_PACKED_BYTES_MIN, SECTION_RATIO_MAX};

/// The level of zstd: names shrink by a sixth more than at the default, at 110 MB/s.
const LEVEL: i32 = 9;

/// Returns the hash of each page.
pub(super) fn page_hashes(bytes: &[u8]) -> Vec<u8> {
    let pages = bytes.chunks(PAGE_BYTES);
    pages
        .flat_map(|page| *blake3::hash(page).as_bytes())
        .collect()
}

/// Returns a cold section as it is stored, and its page hashes, followed by the lengths of packed
/// pages. It is packed unless it is short, that saves less than an eighth, the ratio is more than
/// readers accept, or this build has no zstd encoder.
pub(super) fn store(raw: &[u8]) -> (Cow<'_, [u8]>, Vec<u8>) {
    let is_possible = !block_level_range(CodecId::ZSTD).is_empty();
    if raw.len() >= SECTION_PACKED_BYTES_MIN && is_possible {
        let (mut stored, mut hashes, mut lens) = (Vec::new(), Vec::new(), Vec::new());
        let mut scratch = Scratch::default();
        for page in raw.chunks(PAGE_BYTES) {
            let start = stored.len();
            let encoded = encode_block(CodecId::ZSTD, LEVEL, &mut scratch, page, &mut stored);
            if encoded.is_err() || stored.len() - start >= page.len() {
                stored.truncate(start);
                stored.extend_from_slice(page);
            }
            let page = &stored[start..];
            lens.extend_from_slice(&(page.len() as u32).to_le_bytes());
            hashes.extend_from_slice(blake3::hash(page).as_bytes());
        }
        let shrinks = stored.len() + lens.len() <= raw.len() - raw.len() / 8;
        let fits = raw.len() as u64 / SECTION_RATIO_MAX <= stored.len() as u64;
        if shrinks && fits {
            hashes.extend(lens);
            return (Cow::Owned(stored), hashes);
        }
    }
    (Cow::Borrowed(raw), page_hashes(raw))
}
