//! DDS (Microsoft's "DDS_HEADER" and "DDS_HEADER_DXT10"): a header of 128 or 148 bytes, then levels
//! from the largest to the smallest without gaps.
//!
//! [`Header`] reads any DDS file, for metadata records too; only two-dimensional images in
//! block-compressed formats or 32-bit RGBA and BGRA are decoded.

use super::vulkan::Texels;
use super::{Format, Layout};

/// `DDPF_ALPHAPIXELS` or `DDPF_ALPHA`, `DDPF_FOURCC`, `DDPF_RGB`.
const PIXELS_ALPHA: u32 = 1 | 2;
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

/// The fields of a header, not validated: sides may be 0, and levels more than a file can have.
pub(crate) struct Header {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    /// Layers of an array times faces of a cube.
    pub(crate) layers: u32,
    pub(crate) levels: u32,
    /// `None`: an unknown format.
    pub(crate) texels: Option<&'static Texels>,
    /// The fourth byte is not alpha.
    pub(crate) opaque: bool,
    /// Whether bit masks define the format.
    masked: bool,
    /// Offset of the levels in the file.
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
            opaque: false,
            masked: format_flags & PIXELS_FOURCC == 0,
            start: HEADER_BYTES,
        };
        let mut volume = caps2 & CAPS2_VOLUME != 0;
        if caps2 & CAPS2_CUBEMAP != 0 {
            header.layers = (caps2 >> 10 & 0x3f).count_ones().max(1);
        }
        if header.masked {
            (header.texels, header.opaque) = masked(stored)?;
        } else if fourcc == *b"DX10" {
            let faces = if field(136)? & MISC_CUBE != 0 { 6 } else { 1 };
            let layers = field(140)?.max(1).checked_mul(faces);
            header.layers = layers.ok_or("the DDS has too many layers")?;
            volume |= field(132)? == DIMENSION_3D;
            header.texels = Texels::of_dxgi(field(128)?);
            header.start = HEADER_DX10_BYTES;
        } else {
            header.texels = of_fourcc(fourcc);
        }
        if volume {
            header.depth = field(24)?.max(1);
        }
        Ok(header)
    }

    fn layout(&self) -> Result<Layout, &'static str> {
        if self.depth > 1 || self.layers > 1 {
            return Err("the DDS is not a single two-dimensional image");
        }
        let decoded = match self.texels {
            Some(Texels {
                vulkan: B8G8R8A8, ..
            }) => Some((Format::Rgba8, false)),
            Some(Texels {
                vulkan: B8G8R8A8_SRGB,
                ..
            }) => Some((Format::Rgba8, true)),
            texels => texels.and_then(|texels| texels.decoded),
        };
        let (format, srgb) = decoded.ok_or("the DDS's pixel format is not supported")?;
        let layout = Layout::new(format, self.width, self.height, self.levels);
        let layout = layout.ok_or("the DDS's size or number of levels is invalid")?;
        Ok(layout.with_srgb(srgb || self.masked))
    }

    /// Returns the offset of a level; for the number of levels, the end of the last one.
    fn level_start(&self, layout: &Layout, level: u32) -> usize {
        let larger = (0..level).map(|level| layout.level_bytes(level));
        self.start + larger.sum::<usize>()
    }
}

/// Numbers of `VkFormat` in which blue comes first.
const B8G8R8A8: u32 = 44;
const B8G8R8A8_SRGB: u32 = 50;

/// Returns the format that the header's bit masks describe, and whether a fourth byte is not alpha.
fn masked(stored: &[u8]) -> Result<(Option<&'static Texels>, bool), &'static str> {
    let field = |at| word(stored, at);
    let (flags, green) = (field(80)?, field(96)?);
    let alpha = match flags & PIXELS_ALPHA {
        0 => 0,
        _ => field(104)?,
    };
    let rgb = flags & PIXELS_RGB != 0 && green == 0xff00;
    let number = match (field(88)?, field(92)?, field(100)?, alpha) {
        (32, 0xff, 0xff_0000, 0 | 0xff00_0000) if rgb => 37,
        (32, 0xff_0000, 0xff, 0 | 0xff00_0000) if rgb => B8G8R8A8,
        (24, 0xff, 0xff_0000, 0) if rgb => 23,
        (24, 0xff_0000, 0xff, 0) if rgb => 30,
        (16, 0xff, _, 0xff00) => 16,
        (8, 0xff, _, 0) => 9,
        _ => return Ok((None, false)),
    };
    let texels = Texels::of_vulkan(number);
    let has_fourth = texels.is_some_and(|texels| texels.channels == 4);
    Ok((texels, has_fourth && alpha == 0))
}

/// Returns the format that a FourCC names.
fn of_fourcc(fourcc: [u8; 4]) -> Option<&'static Texels> {
    Texels::of_vulkan(match &fourcc {
        b"DXT1" => 133,
        b"DXT2" | b"DXT3" => 135,
        b"DXT4" | b"DXT5" => 137,
        b"ATI1" | b"BC4U" => 139,
        b"BC4S" => 140,
        b"ATI2" | b"BC5U" => 141,
        b"BC5S" => 142,
        // D3DFMT_A16B16G16R16F and D3DFMT_A32B32G32R32F.
        [113, 0, 0, 0] => 97,
        [116, 0, 0, 0] => 109,
        _ => return None,
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
    let is_swapped = |it: &Texels| [B8G8R8A8, B8G8R8A8_SRGB].contains(&it.vulkan);
    layout.fill_levels(raw, |level, out| {
        let start = header.level_start(layout, level);
        let stored = stored.get(start..start + out.len());
        out.copy_from_slice(stored.ok_or("the DDS is truncated")?);
        if header.texels.is_some_and(is_swapped) {
            out.chunks_exact_mut(4).for_each(|pixel| pixel.swap(0, 2));
        }
        if header.opaque {
            out.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 0xff);
        }
        Ok(())
    })
}
