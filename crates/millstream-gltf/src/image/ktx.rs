//! KTX2 (Khronos Texture Container, version 2.0). The `ktx2` crate parses the header and level
//! index; its `Reader` is not used, because it panics on some data format descriptors.
//!
//! Two-dimensional images in formats that GPUs sample as they are; plain, zstd or zlib. Basis
//! Universal needs a transcoder and is refused.

use ktx2::{LevelIndex, SupercompressionScheme};
use millstream_codec::{CodecId, Scratch, decode_block};

use super::Layout;
use super::vulkan::Texels;

pub(crate) use ktx2::Header;

pub(super) const MAGIC: [u8; 12] = *b"\xabKTX 20\xbb\r\n\x1a\n";

const DAMAGED: &str = "the KTX2's header or level index is damaged";

pub(crate) fn header(stored: &[u8]) -> Result<Header, &'static str> {
    let head = stored.first_chunk();
    let header = head.and_then(|head| Header::from_bytes(head).ok());
    header.ok_or(DAMAGED)
}

/// Returns offset and length of a level in a file that begins with `head`.
pub(crate) fn place(head: &[u8], level: u32) -> Option<(u64, u64)> {
    let at = Header::LENGTH + level as usize * LevelIndex::LENGTH;
    let place = LevelIndex::from_bytes(head.get(at..)?.first_chunk()?);
    Some((place.byte_offset, place.byte_length))
}

/// Returns the stored bytes of a level.
fn stored_level(stored: &[u8], level: u32) -> Result<&[u8], &'static str> {
    let range = place(stored, level).and_then(|(offset, bytes)| {
        let start = usize::try_from(offset).ok()?;
        stored.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
    });
    range.ok_or(DAMAGED)
}

/// Returns the format of the texels, if it is known.
pub(crate) fn texels(header: &Header) -> Option<&'static Texels> {
    Texels::of_vulkan(header.format?.value())
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let header = header(stored)?;
    if header.supercompression_scheme == Some(SupercompressionScheme::BasisLZ)
        || header.format.is_none()
    {
        return Err("the KTX2 is Basis Universal, which is not supported");
    }
    let decoded = texels(&header).and_then(|texels| texels.decoded);
    let (format, srgb) = decoded.ok_or("the KTX2's pixel format is not supported")?;
    if header.pixel_depth > 1 || header.layer_count > 1 || header.face_count != 1 {
        return Err("the KTX2 is not a single two-dimensional image");
    }
    // A height of 0 is an image of one dimension; a level count of 0 asks the loader for mips.
    let (width, height) = (header.pixel_width, header.pixel_height.max(1));
    let layout = Layout::new(format, width, height, header.level_count.max(1));
    let layout = layout.ok_or("the KTX2's size or number of levels is invalid")?;
    for level in 0..layout.levels() {
        stored_level(stored, level)?;
    }
    Ok(layout.with_srgb(srgb))
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let codec = match header(stored)?.supercompression_scheme {
        None => CodecId::STORED,
        Some(SupercompressionScheme::Zstandard) => CodecId::ZSTD,
        Some(SupercompressionScheme::ZLIB) => CodecId::ZLIB,
        Some(_) => return Err("the KTX2's supercompression is unknown"),
    };
    let mut scratch = Scratch::default();
    layout.fill_levels(raw, |level, out| {
        match decode_block(codec, &mut scratch, stored_level(stored, level)?, out) {
            Ok(written) if written == out.len() => Ok(()),
            _ => Err("a level of the KTX2 is damaged"),
        }
    })
}
