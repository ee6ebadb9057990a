//! KTX2 (Khronos Texture Container, version 2.0), its header through the `ktx2` crate.
//!
//! Two-dimensional images in formats that graphics cards sample as they are; plain, zstd or zlib.
//! Basis Universal needs a transcoder and is refused with that reason.

use ktx2::{Format as KtxFormat, SupercompressionScheme};
use millstream_codec::{CodecId, decode_block};

use super::kept::with_kept;
use super::{Format, Layout, levels};

pub(super) const MAGIC: [u8; 12] = *b"\xabKTX 20\xbb\r\n\x1a\n";

fn reader(stored: &[u8]) -> Result<ktx2::Reader<&[u8]>, &'static str> {
    ktx2::Reader::new(stored).map_err(|_| "the KTX2's header or level index is damaged")
}

/// The format, and whether it is sRGB-encoded.
fn format(format: KtxFormat) -> Option<(Format, bool)> {
    match format {
        KtxFormat::BC1_RGB_UNORM_BLOCK => Some((Format::Bc1, false)),
        KtxFormat::BC1_RGB_SRGB_BLOCK => Some((Format::Bc1, true)),
        format => Format::of_vulkan(format.value()),
    }
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let header = reader(stored)?.header();
    if header.supercompression_scheme == Some(SupercompressionScheme::BasisLZ)
        || header.format.is_none()
    {
        return Err("the KTX2 is Basis Universal, which is not supported");
    }
    let known = header.format.and_then(format);
    let (format, srgb) = known.ok_or("the KTX2's pixel format is not supported")?;
    if header.pixel_depth > 1 || header.layer_count > 1 || header.face_count != 1 {
        return Err("the KTX2 is not a single two-dimensional image");
    }
    // A height of 0 is an image of one dimension; a level count of 0 asks the loader for mips.
    let height = header.pixel_height.max(1);
    let layout = Layout::new(
        format,
        header.pixel_width,
        height,
        header.level_count.max(1),
    );
    let layout = layout.ok_or("the KTX2's size or number of levels is invalid")?;
    Ok(layout.with_srgb(srgb))
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let reader = reader(stored)?;
    let stored_levels: Vec<ktx2::Level<'_>> = reader.levels().collect();
    let find = |level: u32| {
        let level = stored_levels.get(level as usize);
        level
            .map(|level| level.data)
            .ok_or("the KTX2 has fewer levels than its header declares")
    };
    let codec = match reader.header().supercompression_scheme {
        None => {
            return levels::fill(layout, raw, |level, out| levels::copy(find(level)?, out));
        }
        Some(SupercompressionScheme::Zstandard) => CodecId::ZSTD,
        Some(SupercompressionScheme::ZLIB) => CodecId::ZLIB,
        Some(_) => return Err("the KTX2's supercompression is unknown"),
    };
    with_kept(|scratch, _| {
        levels::fill(layout, raw, |level, out| {
            match decode_block(codec, scratch, find(level)?, out) {
                Ok(written) if written == out.len() => Ok(()),
                _ => Err("a level of the KTX2 is damaged"),
            }
        })
    })
}
