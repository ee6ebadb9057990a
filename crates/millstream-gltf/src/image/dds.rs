//! DDS (Microsoft's "DDS_HEADER" and "DDS_HEADER_DXT10"): a header of 128 or 148 bytes, then levels
//! from the largest to the smallest without gaps.
//!
//! [`Header`] reads any DDS file, for describers too; decoded are two-dimensional images in
//! block-compressed formats or 32-bit RGBA and BGRA.

use super::{Format, Layout, levels};

/// `DDPF_ALPHAPIXELS`, `DDPF_FOURCC`, `DDPF_RGB`.
const PIXELS_ALPHA: u32 = 1;
const PIXELS_FOURCC: u32 = 4;
const PIXELS_RGB: u32 = 0x40;
/// `DDSCAPS2_CUBEMAP`, `DDSCAPS2_VOLUME`.
const CAPS2_CUBEMAP: u32 = 0x200;
const CAPS2_VOLUME: u32 = 0x20_0000;
/// `DDS_RESOURCE_MISC_TEXTURECUBE`.
const MISC_CUBE: u32 = 4;
/// `D3D10_RESOURCE_DIMENSION_TEXTURE3D`.
const DIMENSION_3D: u32 = 4;

const HEADER_BYTES: usize = 128;
const HEADER_DX10_BYTES: usize = 148;

/// How pixels are stored.
#[derive(Clone, Copy)]
pub(crate) struct Pixels {
    pub(crate) format: Format,
    pub(crate) srgb: bool,
    /// Blue comes first.
    pub(crate) swapped: bool,
    /// The fourth byte is not alpha.
    pub(crate) opaque: bool,
}

/// What the header of a file says. Sides may be 0, and levels more than a file can have.
pub(crate) struct Header {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    /// Layers of an array times faces of a cube.
    pub(crate) layers: u32,
    levels: u32,
    /// `None`: a format that is not decoded.
    pub(crate) pixels: Option<Pixels>,
    /// Whether the format is given by masks of bits.
    masked: bool,
    /// Where the levels begin.
    start: usize,
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
            pixels: None,
            masked: format_flags & PIXELS_FOURCC == 0,
            start: HEADER_BYTES,
        };
        let mut volume = caps2 & CAPS2_VOLUME != 0;
        if caps2 & CAPS2_CUBEMAP != 0 {
            header.layers = (caps2 >> 10 & 0x3f).count_ones().max(1);
        }
        if header.masked {
            header.pixels = masked(stored)?;
        } else if fourcc == *b"DX10" {
            let faces = if field(136)? & MISC_CUBE != 0 { 6 } else { 1 };
            let layers = field(140)?.max(1).checked_mul(faces);
            header.layers = layers.ok_or("the DDS has too many layers")?;
            volume |= field(132)? == DIMENSION_3D;
            header.pixels = of_dxgi(field(128)?);
            header.start = HEADER_DX10_BYTES;
        } else {
            header.pixels = of_fourcc(fourcc);
        }
        if volume {
            header.depth = field(24)?.max(1);
        }
        Ok(header)
    }

    pub(crate) fn layout(&self) -> Result<Layout, &'static str> {
        if self.depth > 1 || self.layers > 1 {
            return Err("the DDS is not a single two-dimensional image");
        }
        self.layer_layout()
    }

    /// The layout of each layer of a file, of which each has its levels.
    pub(crate) fn layer_layout(&self) -> Result<Layout, &'static str> {
        let pixels = self
            .pixels
            .ok_or("the DDS's pixel format is not supported")?;
        let layout = Layout::new(pixels.format, self.width, self.height, self.levels);
        let layout = layout.ok_or("the DDS's size or number of levels is invalid")?;
        Ok(layout.with_srgb(pixels.srgb || self.masked))
    }

    /// Where a level begins in the file; of the count of levels, where the file ends.
    pub(crate) fn level_start(&self, layout: &Layout, level: u32) -> usize {
        let larger = (0..level).map(|level| layout.level_bytes(level));
        self.start + larger.sum::<usize>()
    }
}

/// The format that the bit masks of the header describe.
fn masked(stored: &[u8]) -> Result<Option<Pixels>, &'static str> {
    let field = |at| word(stored, at);
    let (flags, bits) = (field(80)?, field(88)?);
    let alpha = match flags & PIXELS_ALPHA {
        0 => 0,
        _ => field(104)?,
    };
    let swapped = match [field(92)?, field(96)?, field(100)?] {
        [0xff, 0xff00, 0xff_0000] => false,
        [0xff_0000, 0xff00, 0xff] => true,
        _ => return Ok(None),
    };
    let known = bits == 32 && flags & PIXELS_RGB != 0 && [0, 0xff00_0000].contains(&alpha);
    Ok(known.then_some(Pixels {
        format: Format::Rgba8,
        srgb: false,
        swapped,
        opaque: alpha == 0,
    }))
}

/// The format of a number of `DXGI_FORMAT`.
fn of_dxgi(number: u32) -> Option<Pixels> {
    // Of blue-first formats, the number of the one that is decoded to.
    let (number, swapped) = match number {
        87 => (28, true),
        91 => (29, true),
        number => (number, false),
    };
    let (format, srgb) = Format::of_dxgi(number)?;
    Some(Pixels {
        format,
        srgb,
        swapped,
        opaque: false,
    })
}

/// The format that a FourCC names.
fn of_fourcc(fourcc: [u8; 4]) -> Option<Pixels> {
    let format = match &fourcc {
        b"DXT1" => Format::Bc1,
        b"DXT2" | b"DXT3" => Format::Bc2,
        b"DXT4" | b"DXT5" => Format::Bc3,
        b"ATI1" | b"BC4U" => Format::Bc4,
        b"ATI2" | b"BC5U" => Format::Bc5,
        _ => return None,
    };
    Some(Pixels {
        format,
        srgb: false,
        swapped: false,
        opaque: false,
    })
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let header = Header::read(stored)?;
    let layout = header.layout()?;
    if stored.len() < header.level_start(&layout, layout.levels()) {
        return Err("the DDS is truncated: its levels need more bytes");
    }
    Ok(layout)
}

pub(super) fn decode(stored: &[u8], layout: &Layout, raw: &mut [u8]) -> Result<(), &'static str> {
    let header = Header::read(stored)?;
    levels::fill(layout, raw, |level, out| {
        let stored = stored.get(header.level_start(layout, level)..);
        levels::copy(stored.ok_or("the DDS is truncated")?, out)?;
        if header.pixels.is_some_and(|pixels| pixels.swapped) {
            out.chunks_exact_mut(4).for_each(|pixel| pixel.swap(0, 2));
        }
        if header.pixels.is_some_and(|pixels| pixels.opaque) {
            out.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 0xff);
        }
        Ok(())
    })
}
