//! Cold sections whose pages are compressed, each alone: a reader that needs one name decodes one
//! page.
//!
//! Names, sorted, shrink to a tenth, and their pages decode at 2 GB/s, as fast as a page that was
//! not packed is hashed: so a first touch is no slower, and there is less to read. Content hashes
//! do not shrink and stay as they are.

use millstream::CodecId;
use millstream_codec::Scratch;

use crate::limits::{PAGE_BYTES, SECTION_PACKED_BYTES_MIN, SECTION_RATIO_MAX};

/// The level: names shrink by a sixth more than at the default, at 110 MB/s.
const LEVEL: i32 = 9;

/// A section as it is stored.
pub(super) struct PackedSection {
    pub(super) stored: Vec<u8>,
    hashes: Vec<u8>,
    lens: Vec<u8>,
}

impl PackedSection {
    /// The pages of a section, packed; `None` if that saves less than an eighth, or more than
    /// readers take, or cannot be done in this build.
    pub(super) fn of(raw: &[u8]) -> Option<PackedSection> {
        if raw.len() < SECTION_PACKED_BYTES_MIN
            || millstream_codec::block_level_range(CodecId::ZSTD).is_empty()
        {
            return None;
        }
        let mut packed = PackedSection {
            stored: Vec::new(),
            hashes: Vec::new(),
            lens: Vec::new(),
        };
        let mut scratch = Scratch::default();
        for page in raw.chunks(PAGE_BYTES) {
            let start = packed.stored.len();
            let out = &mut packed.stored;
            let encoded =
                millstream_codec::encode_block(CodecId::ZSTD, LEVEL, &mut scratch, page, out);
            if encoded.is_err() || out.len() - start >= page.len() {
                out.truncate(start);
                out.extend_from_slice(page);
            }
            let page = &packed.stored[start..];
            let len = page.len() as u32;
            packed.lens.extend_from_slice(&len.to_le_bytes());
            packed
                .hashes
                .extend_from_slice(blake3::hash(page).as_bytes());
        }
        let stored_bytes = packed.stored.len();
        let shrinks = stored_bytes + packed.lens.len() <= raw.len() - raw.len() / 8;
        let fits = raw.len() as u64 / SECTION_RATIO_MAX <= stored_bytes as u64;
        (shrinks && fits).then_some(packed)
    }

    /// What stands for the page hashes: hashes, then lengths.
    pub(super) fn hashes(&self) -> Vec<u8> {
        [&self.hashes[..], &self.lens].concat()
    }
}
