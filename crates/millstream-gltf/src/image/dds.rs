//! DDS (Microsoft's "DDS_HEADER" and "DDS_HEADER_DXT10"): a header of 128 or 148 bytes, then levels
//! from the largest to the smallest without gaps.
//!
//! [`Header`] reads any DDS file, for describers too; decoded are two-dimensional images in
//! block-compressed formats or 32-bit RGBA and BGRA.

use super::vulkan::{self, Texels, texels};
use super::{Format, Layout, levels};

/// `DDPF_ALPHAPIXELS`, `DDPF_ALPHA`, `DDPF_FOURCC`, `DDPF_RGB`.
const PIXELS_ALPHA: u32 = 1;
const PIXELS_ONLY_ALPHA: u32 = 2;
const PIXELS_FOURCC: u32 = 4;
const PIXELS_RGB: u32 = 0x40;
/// `DDSCAPS2_CUBEMAP`, `DDSCAPS2_VOLUME`.
const CAPS2_CUBEMAP: u32 = 0x200;
const CAPS2_VOLUME: u32 = 0x20_0000;
/// `DDS_RESOURCE_MISC_TEXTURECUBE`.
const MISC_CUBE: u32 = 4;
/// `D3D10_RESOURCE_DIMENSION_TEXTURE3D`.
const DIMENSION_3D: u32 = 4;

const NOT_SUPPORTED: &str = "the DDS's pixel format is not supported";

const HEADER_BYTES: usize = 128;
const HEADER_DX10_BYTES: usize = 148;

/// What the header of a file says. Sides may be 0, and levels more than a file can have.
pub(crate) struct Header {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    /// Layers of an array times faces of a cube.
    pub(crate) layers: u32,
    pub(crate) levels: u32,
    /// `None`: an unknown format.
    pub(crate) texels: Option<Texels>,
    /// Whether the format is given by masks of bits.
    masked: bool,
    /// Where the levels begin.
    pub(crate) start: usize,
}

fn word(stored: &[u8], at: usize) -> Result<u32, &'static str> {
    let bytes = stored.get(at..).and_then(<[u8]>::first_chunk);
    bytes
        .map(|bytes| u32::from_le_bytes(*bytes))
        .ok_or("the DDS is truncated in its header")
}

impl Header {
    pub(crate) fn read(stored: &[u8]) -> Result<Header, &'static str> {
        let field = |at| word(stored, at);
        if field(4)? != 124 || field(76)? != 32 {
            return Err("the DDS's header is damaged");
        }
        let (format_flags, fourcc, caps2) = (field(80)?, field(84)?.to_le_bytes(), field(112)?);
        let mut header = Header {
            width: field(16)?,
            height: field(12)?,
            depth: 1,
            layers: 1,
            levels: field(28)?.max(1),
            texels: None,
            masked: format_flags & PIXELS_FOURCC == 0,
            start: HEADER_BYTES,
        };
        let mut volume = caps2 & CAPS2_VOLUME != 0;
        if caps2 & CAPS2_CUBEMAP != 0 {
            header.layers = (caps2 >> 10 & 0x3f).count_ones().max(1);
        }
        if header.masked {
            header.texels = masked(stored)?;
        } else if fourcc == *b"DX10" {
            let faces = if field(136)? & MISC_CUBE != 0 { 6 } else { 1 };
            let layers = field(140)?.max(1).checked_mul(faces);
            header.layers = layers.ok_or("the DDS has too many layers")?;
            volume |= field(132)? == DIMENSION_3D;
            header.texels = vulkan::of_dxgi(field(128)?);
            header.start = HEADER_DX10_BYTES;
        } else {
            header.texels = vulkan::of_fourcc(fourcc);
        }
        if volume {
            header.depth = field(24)?.max(1);
        }
        Ok(header)
    }
}

/// The format that the bit masks of the header describe.
fn masked(stored: &[u8]) -> Result<Option<Texels>, &'static str> {
    let field = |at| word(stored, at);
    let (flags, bits) = (field(80)?, field(88)?);
    let (red, green, blue) = (field(92)?, field(96)?, field(100)?);
    let has_alpha = flags & (PIXELS_ALPHA | PIXELS_ONLY_ALPHA) != 0;
    let alpha = if has_alpha { field(104)? } else { 0 };
    let rgb = flags & PIXELS_RGB != 0 && green == 0xff00;
    Ok(match (bits, red, blue, alpha) {
        (32, 0xff, 0xff_0000, 0xff00_0000) if rgb => Some(texels(37, 4, 4, 8)),
        (32, 0xff, 0xff_0000, 0) if rgb => Some(texels(37, 4, 3, 8)),
        (32, 0xff_0000, 0xff, 0xff00_0000) if rgb => Some(texels(44, 4, 4, 8)),
        (32, 0xff_0000, 0xff, 0) if rgb => Some(texels(44, 4, 3, 8)),
        (24, 0xff_0000, 0xff, 0) if rgb => Some(texels(30, 3, 3, 8)),
        (24, 0xff, 0xff_0000, 0) if rgb => Some(texels(23, 3, 3, 8)),
        (16, 0xff, _, 0xff00) => Some(texels(16, 2, 2, 8)),
        (8, 0xff, _, 0) => Some(texels(9, 1, 1, 8)),
        _ => None,
    })
}

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

fn parse(stored: &[u8]) -> Result<Found, &'static str> {
    let header = Header::read(stored)?;
    if header.depth > 1 || header.layers > 1 {
        return Err("the DDS is not a single two-dimensional image");
    }
    let texels = header.texels.ok_or(NOT_SUPPORTED)?;
    // Of blue-first formats, the number of the one that is decoded to.
    let (number, swapped) = match texels.vulkan {
        44 => (37, true),
        50 => (43, true),
        number => (number, false),
    };
    let (format, srgb) = Format::of_vulkan(number).ok_or(NOT_SUPPORTED)?;
    let layout = Layout::new(format, header.width, header.height, header.levels);
    let layout = layout.ok_or("the DDS's size or number of levels is invalid")?;
    let found = Found {
        layout: layout.with_srgb(srgb || header.masked),
        start: header.start,
        swapped,
        opaque: format == Format::Rgba8 && texels.channels == 3,
    };
    if stored.len().saturating_sub(found.start) < found.bytes_before(header.levels) {
        return Err("the DDS is truncated: its levels need more bytes");
    }
    Ok(found)
}

impl Found {
    /// Bytes of the levels larger than `level`.
    fn bytes_before(&self, level: u32) -> usize {
        let bytes = |level| {
            let (width, height) = self.layout.size(level);
            self.layout.format().level_bytes(width, height)
        };
        (0..level).map(bytes).sum()
    }
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    parse(stored).map(|found| found.layout)
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let found = parse(stored)?;
    levels::fill(layout, raw, |level, out| {
        let stored = stored.get(found.start + found.bytes_before(level)..);
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
