//! DDS (Microsoft's "DDS_HEADER" and "DDS_HEADER_DXT10"): a header of 128 or 148 bytes, then levels
//! from the largest to the smallest without gaps.
//!
//! Two-dimensional images in block-compressed formats or 32-bit RGBA and BGRA.

use super::{Format, Layout, levels, vulkan};

const HEADER_BYTES: usize = 128;
const HEADER_DX10_BYTES: usize = 148;

/// `DDPF_ALPHAPIXELS`, `DDPF_FOURCC`, `DDPF_RGB`.
const PIXELS_ALPHA: u32 = 1;
const PIXELS_FOURCC: u32 = 4;
const PIXELS_RGB: u32 = 0x40;
/// `DDSCAPS2_CUBEMAP`, `DDSCAPS2_VOLUME`.
const CAPS2_NOT_PLAIN: u32 = 0x20_0200;
/// `DDS_RESOURCE_MISC_TEXTURECUBE`.
const MISC_CUBE: u32 = 4;
/// `D3D10_RESOURCE_DIMENSION_TEXTURE2D`.
const DIMENSION_2D: u32 = 3;

const NOT_SUPPORTED: &str = "the DDS's pixel format is not supported";

/// The layout of a file, and how its pixels are converted.
struct Found {
    layout: Layout,
    /// Where levels begin.
    start: usize,
    /// Blue comes first.
    swapped: bool,
    /// The fourth byte is not alpha.
    opaque: bool,
}

fn word(stored: &[u8], at: usize) -> Result<u32, &'static str> {
    let bytes = stored.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
    bytes
        .map(|bytes| u32::from_le_bytes(*bytes))
        .ok_or("the DDS is truncated in its header")
}

fn parse(stored: &[u8]) -> Result<Found, &'static str> {
    if word(stored, 4)? != 124 || word(stored, 76)? != 32 {
        return Err("the DDS's header is damaged");
    }
    if word(stored, 112)? & CAPS2_NOT_PLAIN != 0 {
        return Err("the DDS is not a single two-dimensional image");
    }
    let (flags, fourcc) = (word(stored, 80)?, word(stored, 84)?.to_le_bytes());
    let mut found = (Format::Rgba8, false, false, false);
    let mut start = HEADER_BYTES;
    if flags & PIXELS_FOURCC != 0 && fourcc == *b"DX10" {
        found = extended(stored)?;
        start = HEADER_DX10_BYTES;
    } else if flags & PIXELS_FOURCC != 0 {
        let texels = vulkan::of_fourcc(fourcc);
        let format = texels.and_then(|it| Format::of_vulkan(it.vulkan));
        found.0 = format.ok_or(NOT_SUPPORTED)?.0;
    } else {
        let masks = [word(stored, 92)?, word(stored, 96)?, word(stored, 100)?];
        let swapped = match masks {
            [0xff, 0xff00, 0x00ff_0000] => false,
            [0x00ff_0000, 0xff00, 0xff] => true,
            _ => return Err(NOT_SUPPORTED),
        };
        if flags & PIXELS_RGB == 0 || word(stored, 88)? != 32 {
            return Err(NOT_SUPPORTED);
        }
        let opaque = flags & PIXELS_ALPHA == 0;
        found = (Format::Rgba8, true, swapped, opaque);
    }
    let (format, srgb, swapped, opaque) = found;
    let (height, width) = (word(stored, 12)?, word(stored, 16)?);
    let count = word(stored, 28)?.max(1);
    let layout = Layout::new(format, width, height, count);
    let layout = layout.ok_or("the DDS's size or number of levels is invalid")?;
    let found = Found {
        layout: layout.with_srgb(srgb),
        start,
        swapped,
        opaque,
    };
    let needed: usize = (0..count).map(|level| found.level_bytes(level)).sum();
    if stored.len() < start || stored.len() - start < needed {
        return Err("the DDS is truncated: its levels need more bytes");
    }
    Ok(found)
}

/// The header of Direct3D 10: a number of DXGI's formats.
fn extended(stored: &[u8]) -> Result<(Format, bool, bool, bool), &'static str> {
    let plain = word(stored, 132)? == DIMENSION_2D
        && word(stored, 136)? & MISC_CUBE == 0
        && word(stored, 140)? == 1;
    if !plain {
        return Err("the DDS is not a single two-dimensional image");
    }
    let texels = vulkan::of_dxgi(word(stored, 128)?).ok_or(NOT_SUPPORTED)?;
    // Of blue-first formats, the number of the one that is decoded to.
    let (number, swapped) = match texels.vulkan {
        44 => (37, true),
        50 => (43, true),
        number => (number, false),
    };
    let (format, srgb) = Format::of_vulkan(number).ok_or(NOT_SUPPORTED)?;
    Ok((format, srgb, swapped, false))
}

impl Found {
    fn level_bytes(&self, level: u32) -> usize {
        let (width, height) = self.layout.size(level);
        self.layout.format().level_bytes(width, height)
    }
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    parse(stored).map(|found| found.layout)
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let found = parse(stored)?;
    levels::fill(layout, raw, |level, out| {
        let before: usize = (0..level).map(|level| found.level_bytes(level)).sum();
        let stored = stored.get(found.start + before..);
        levels::copy(stored.ok_or("the DDS is truncated")?, out)?;
        if found.swapped {
            out.chunks_exact_mut(4).for_each(|pixel| pixel.swap(0, 2));
        }
        if found.opaque {
            out.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 0xff);
        }
        Ok(())
    })
}
