//! KTX2 (Khronos Texture Container, version 2.0), its header through the `ktx2` crate.
//!
//! Two-dimensional images in formats that graphics cards sample as they are; plain, zstd or zlib.
//! Basis Universal needs a transcoder and is refused with that reason.

use ktx2::{Format as KtxFormat, SupercompressionScheme};
use millstream_codec::{CodecId, Scratch, decode_block};

use super::codec::with_kept;
use super::{Format, Layout, levels};

pub(super) const MAGIC: [u8; 12] = *b"\xabKTX 20\xbb\r\n\x1a\n";

fn reader(stored: &[u8]) -> Result<ktx2::Reader<&[u8]>, &'static str> {
    ktx2::Reader::new(stored).map_err(|_| "the KTX2's header or level index is damaged")
}

/// The format, and whether it is sRGB-encoded.
fn format(format: KtxFormat) -> Option<(Format, bool)> {
    Some(match format {
        KtxFormat::R8G8B8A8_UNORM => (Format::Rgba8, false),
        KtxFormat::R8G8B8A8_SRGB => (Format::Rgba8, true),
        KtxFormat::BC1_RGB_UNORM_BLOCK | KtxFormat::BC1_RGBA_UNORM_BLOCK => (Format::Bc1, false),
        KtxFormat::BC1_RGB_SRGB_BLOCK | KtxFormat::BC1_RGBA_SRGB_BLOCK => (Format::Bc1, true),
        KtxFormat::BC2_UNORM_BLOCK => (Format::Bc2, false),
        KtxFormat::BC2_SRGB_BLOCK => (Format::Bc2, true),
        KtxFormat::BC3_UNORM_BLOCK => (Format::Bc3, false),
        KtxFormat::BC3_SRGB_BLOCK => (Format::Bc3, true),
        KtxFormat::BC4_UNORM_BLOCK => (Format::Bc4, false),
        KtxFormat::BC5_UNORM_BLOCK => (Format::Bc5, false),
        KtxFormat::BC6H_UFLOAT_BLOCK => (Format::Bc6h, false),
        KtxFormat::BC7_UNORM_BLOCK => (Format::Bc7, false),
        KtxFormat::BC7_SRGB_BLOCK => (Format::Bc7, true),
        _ => return None,
    })
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let header = reader(stored)?.header();
    if header.supercompression_scheme == Some(SupercompressionScheme::BasisLZ)
        || header.format.is_none()
    {
        return Err("the KTX2 is Basis Universal, which is not decoded");
    }
    let known = header.format.and_then(format);
    let (format, srgb) = known.ok_or("the KTX2's format is not loaded")?;
    if header.pixel_depth > 1 || header.layer_count > 1 || header.face_count != 1 {
        return Err("the KTX2 is no plain two-dimensional image");
    }
    // A height of 0 is an image of one dimension; a level count of 0 asks the loader for mips.
    let height = header.pixel_height.max(1);
    let layout = Layout::new(
        format,
        header.pixel_width,
        height,
        header.level_count.max(1),
    );
    let layout = layout.ok_or("the KTX2's sides or levels make no sense")?;
    Ok(layout.with_srgb(srgb))
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let reader = reader(stored)?;
    let stored_levels: Vec<ktx2::Level<'_>> = reader.levels().collect();
    let find = |level: u32| {
        let level = stored_levels.get(level as usize);
        level
            .map(|level| level.data)
            .ok_or("the KTX2 has fewer levels than it says")
    };
    let codec = match reader.header().supercompression_scheme {
        None => return levels::place(layout, raw, find),
        Some(SupercompressionScheme::Zstandard) => CodecId::ZSTD,
        Some(SupercompressionScheme::ZLIB) => CodecId::ZLIB,
        Some(_) => return Err("the KTX2's supercompression is unknown"),
    };
    with_kept(|scratch, _| unpack(codec, scratch, layout, raw, find))
}

/// Decompresses each level to its place.
fn unpack<'a>(
    codec: CodecId,
    scratch: &mut Scratch,
    layout: &Layout,
    raw: &mut [u8],
    find: impl Fn(u32) -> Result<&'a [u8], &'static str>,
) -> Result<(), &'static str> {
    let mut end = super::HEADER_BYTES;
    for level in (0..layout.levels()).rev() {
        let range = layout.level(level).expect("all levels are present");
        raw[end..range.start].fill(0);
        end = range.end;
        let len = range.len();
        match decode_block(codec, scratch, find(level)?, &mut raw[range]) {
            Ok(written) if written == len => {}
            _ => return Err("a level of the KTX2 is damaged"),
        }
    }
    Ok(())
}
