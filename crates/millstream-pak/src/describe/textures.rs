//! DDS and KTX2: format, size, and where each mip lies.

use super::{Describe, Head, le32, le64};
use crate::limits::MIP_LEVELS_MAX;
use crate::metadata::{Container, Image, Kind, Metadata, Mip};

/// How texels of a format are stored: in blocks of `side` × `side` texels, `bytes` each.
#[derive(Clone, Copy)]
struct Layout {
    vk_format: u32,
    side: u32,
    bytes: u32,
    channels: u8,
    bits: u8,
}

const fn blocks(vk_format: u32, bytes: u32, channels: u8) -> Layout {
    Layout {
        vk_format,
        side: 4,
        bytes,
        channels,
        bits: 0,
    }
}

const fn texels(vk_format: u32, bytes: u32, channels: u8, bits: u8) -> Layout {
    Layout {
        vk_format,
        side: 1,
        bytes,
        channels,
        bits,
    }
}

/// Bytes of the header before the level index of a KTX2 file.
const KTX2_HEADER_BYTES: usize = 80;

/// Bytes of an item of that index.
const KTX2_LEVEL_BYTES: usize = 24;

/// Describes DDS files (Microsoft's programming guide for DDS; `DXGI_FORMAT`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Dds;

impl Describe for Dds {
    fn head_bytes(&self, _: &[u8]) -> usize {
        148
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(b"DDS ") || le32(bytes, 4)? != 124 {
            return None;
        }
        let field = |at| le32(bytes, at);
        let (height, width) = (field(12)?, field(16)?);
        let volume = field(112)? & 0x20_0000 != 0;
        let depth = if volume { field(24)?.max(1) } else { 1 };
        let mips = field(28)?.clamp(1, MIP_LEVELS_MAX as u32);
        let extended = field(80)? & 4 != 0 && bytes.get(84..88)? == b"DX10";
        let faces = if field(112)? & 0x200 != 0 {
            (field(112)? >> 10 & 0x3f).count_ones()
        } else {
            1
        };
        let (layout, layers, data) = if extended {
            let cube = if field(136)? & 4 != 0 { 6 } else { 1 };
            (
                dxgi(field(128)?),
                field(140)?.max(1).checked_mul(cube)?,
                148,
            )
        } else {
            (legacy(bytes), faces.max(1), 128)
        };
        if width == 0 || height == 0 || layers > u32::from(u16::MAX) {
            return None;
        }
        let mut record = Metadata::new(Kind::IMAGE);
        record.image = Some(Image {
            width,
            height,
            depth,
            layers,
            format: layout.map_or(0, |layout| layout.vk_format),
            channels: layout.map_or(0, |layout| layout.channels),
            bits: layout.map_or(0, |layout| layout.bits),
            container: Container::DDS,
            maxval: 0,
        });
        if let Some(layout) = layout {
            let shape = (width, height, depth);
            // Mips that the file is too short for are no mips.
            if let Some(found) = dds_mips(layout, shape, layers, mips, data, head.raw_bytes) {
                record.mips = found;
            }
        }
        Some(record)
    }
}

/// Layer by layer, and in each its levels, the largest first.
fn dds_mips(
    layout: Layout,
    (width, height, depth): (u32, u32, u32),
    layers: u32,
    levels: u32,
    data: u64,
    end: u64,
) -> Option<Vec<Mip>> {
    let mut at = data;
    let mut mips = Vec::new();
    // As many as a record has room for.
    if u64::from(layers) * u64::from(levels) > 1024 {
        return None;
    }
    for layer in 0..layers {
        for level in 0..levels {
            let side = |full: u32| full.checked_shr(level).unwrap_or(0).max(1);
            let across = side(width).div_ceil(layout.side);
            let down = u64::from(side(height).div_ceil(layout.side));
            let row_bytes = across.checked_mul(layout.bytes)?;
            let slice = u64::from(row_bytes).checked_mul(down)?;
            let bytes = slice.checked_mul(u64::from(side(depth)))?;
            if at.checked_add(bytes)? > end {
                return None;
            }
            mips.push(Mip {
                level: level as u16,
                layer: layer as u16,
                row_bytes,
                offset: at,
                bytes,
            });
            at += bytes;
        }
    }
    Some(mips)
}

/// The format of a DDS file without the extended header: by its four letters or its masks.
fn legacy(bytes: &[u8]) -> Option<Layout> {
    let flags = le32(bytes, 80)?;
    if flags & 4 != 0 {
        return match bytes.get(84..88)? {
            b"DXT1" => Some(blocks(133, 8, 4)),
            b"DXT2" | b"DXT3" => Some(blocks(135, 16, 4)),
            b"DXT4" | b"DXT5" => Some(blocks(137, 16, 4)),
            b"ATI1" | b"BC4U" => Some(blocks(139, 8, 1)),
            b"BC4S" => Some(blocks(140, 8, 1)),
            b"ATI2" | b"BC5U" => Some(blocks(141, 16, 2)),
            b"BC5S" => Some(blocks(142, 16, 2)),
            // D3DFMT_A16B16G16R16F and D3DFMT_A32B32G32R32F.
            [113, 0, 0, 0] => Some(texels(97, 8, 4, 16)),
            [116, 0, 0, 0] => Some(texels(109, 16, 4, 32)),
            _ => None,
        };
    }
    let (bits, red, blue) = (le32(bytes, 88)?, le32(bytes, 92)?, le32(bytes, 100)?);
    let alpha = if flags & 3 != 0 { le32(bytes, 104)? } else { 0 };
    match (bits, red, blue, alpha) {
        (32, 0xff, 0xff_0000, 0xff00_0000) => Some(texels(37, 4, 4, 8)),
        (32, 0xff_0000, 0xff, 0xff00_0000) => Some(texels(44, 4, 4, 8)),
        (32, 0xff_0000, 0xff, 0) => Some(texels(44, 4, 3, 8)),
        (24, 0xff_0000, 0xff, 0) => Some(texels(30, 3, 3, 8)),
        (24, 0xff, 0xff_0000, 0) => Some(texels(23, 3, 3, 8)),
        (16, 0xff, _, 0xff00) => Some(texels(16, 2, 2, 8)),
        (8, 0xff, _, 0) => Some(texels(9, 1, 1, 8)),
        _ => None,
    }
}

/// A number of `DXGI_FORMAT` as one of `VkFormat`.
fn dxgi(format: u32) -> Option<Layout> {
    Some(match format {
        2 => texels(109, 16, 4, 32),
        10 => texels(97, 8, 4, 16),
        11 => texels(91, 8, 4, 16),
        16 => texels(103, 8, 2, 32),
        24 => texels(64, 4, 4, 10),
        26 => texels(122, 4, 3, 0),
        28 => texels(37, 4, 4, 8),
        29 => texels(43, 4, 4, 8),
        34 => texels(83, 4, 2, 16),
        35 => texels(77, 4, 2, 16),
        41 => texels(100, 4, 1, 32),
        49 => texels(16, 2, 2, 8),
        54 => texels(76, 2, 1, 16),
        56 => texels(70, 2, 1, 16),
        61 => texels(9, 1, 1, 8),
        71 => blocks(133, 8, 4),
        72 => blocks(134, 8, 4),
        74 => blocks(135, 16, 4),
        75 => blocks(136, 16, 4),
        77 => blocks(137, 16, 4),
        78 => blocks(138, 16, 4),
        80 => blocks(139, 8, 1),
        81 => blocks(140, 8, 1),
        83 => blocks(141, 16, 2),
        84 => blocks(142, 16, 2),
        87 => texels(44, 4, 4, 8),
        91 => texels(50, 4, 4, 8),
        95 => blocks(143, 16, 3),
        96 => blocks(144, 16, 3),
        98 => blocks(145, 16, 4),
        99 => blocks(146, 16, 4),
        _ => return None,
    })
}

/// Describes KTX2 files (Khronos Texture File Format 2.0, section 3): the level index says where
/// each level lies, all its layers and faces together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ktx2;

impl Describe for Ktx2 {
    fn head_bytes(&self, _: &[u8]) -> usize {
        KTX2_HEADER_BYTES + MIP_LEVELS_MAX * KTX2_LEVEL_BYTES
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(b"\xabKTX 20\xbb\r\n\x1a\n") {
            return None;
        }
        let field = |at| le32(bytes, at);
        let (vk_format, faces) = (field(12)?, field(36)?);
        let levels = field(40)?.max(1);
        let layers = field(32)?.max(1).checked_mul(faces.max(1))?;
        if levels as usize > MIP_LEVELS_MAX || field(20)? == 0 {
            return None;
        }
        let supercompressed = field(44)? != 0;
        let mut record = Metadata::new(Kind::IMAGE);
        record.image = Some(Image {
            width: field(20)?,
            height: field(24)?.max(1),
            depth: field(28)?.max(1),
            layers,
            format: vk_format,
            channels: 0,
            bits: 0,
            container: Container::KTX2,
            maxval: 0,
        });
        for level in 0..levels {
            let at = KTX2_HEADER_BYTES + level as usize * KTX2_LEVEL_BYTES;
            let (offset, len) = (le64(bytes, at)?, le64(bytes, at + 8)?);
            if offset.checked_add(len)? > head.raw_bytes {
                return None;
            }
            record.mips.push(Mip {
                level: level as u16,
                layer: 0,
                row_bytes: 0,
                offset,
                bytes: len,
            });
        }
        // Rows can be told apart where there is one image in a level, as it is.
        let layout = (0..=99)
            .filter_map(dxgi)
            .find(|layout| layout.vk_format == vk_format);
        if let (Some(layout), false, 1) = (layout, supercompressed, layers) {
            let image = record.image.as_mut().expect("made above");
            (image.channels, image.bits) = (layout.channels, layout.bits);
            for mip in &mut record.mips {
                let side = |full: u32| full.checked_shr(u32::from(mip.level)).unwrap_or(0).max(1);
                let row =
                    u64::from(side(image.width).div_ceil(layout.side)) * u64::from(layout.bytes);
                let down = u64::from(side(image.height).div_ceil(layout.side));
                if row * down == mip.bytes {
                    mip.row_bytes = u32::try_from(row).unwrap_or(0);
                }
            }
        }
        Some(record)
    }
}
