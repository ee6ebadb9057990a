//! Pixel formats by their numbers in Vulkan's `VkFormat`, which metadata records use, and in
//! `DXGI_FORMAT` and the FourCC of DDS files.

use super::Format;

/// How texels are stored: in blocks of `side` × `side` texels, `bytes` each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Texels {
    /// A number of `VkFormat`.
    pub(crate) vulkan: u32,
    pub(crate) side: u32,
    pub(crate) bytes: u32,
    pub(crate) channels: u8,
    /// Bits of a channel; 0 for block formats.
    pub(crate) bits: u8,
}

pub(crate) const fn blocks(vulkan: u32, bytes: u32, channels: u8) -> Texels {
    Texels {
        vulkan,
        side: 4,
        bytes,
        channels,
        bits: 0,
    }
}

pub(crate) const fn texels(vulkan: u32, bytes: u32, channels: u8, bits: u8) -> Texels {
    Texels {
        vulkan,
        side: 1,
        bytes,
        channels,
        bits,
    }
}

/// Formats, each with its number in `DXGI_FORMAT`.
const FORMATS: [(u32, Texels); 31] = [
    (2, texels(109, 16, 4, 32)),
    (10, texels(97, 8, 4, 16)),
    (11, texels(91, 8, 4, 16)),
    (16, texels(103, 8, 2, 32)),
    (24, texels(64, 4, 4, 10)),
    (26, texels(122, 4, 3, 0)),
    (28, texels(37, 4, 4, 8)),
    (29, texels(43, 4, 4, 8)),
    (34, texels(83, 4, 2, 16)),
    (35, texels(77, 4, 2, 16)),
    (41, texels(100, 4, 1, 32)),
    (49, texels(16, 2, 2, 8)),
    (54, texels(76, 2, 1, 16)),
    (56, texels(70, 2, 1, 16)),
    (61, texels(9, 1, 1, 8)),
    (71, blocks(133, 8, 4)),
    (72, blocks(134, 8, 4)),
    (74, blocks(135, 16, 4)),
    (75, blocks(136, 16, 4)),
    (77, blocks(137, 16, 4)),
    (78, blocks(138, 16, 4)),
    (80, blocks(139, 8, 1)),
    (81, blocks(140, 8, 1)),
    (83, blocks(141, 16, 2)),
    (84, blocks(142, 16, 2)),
    (87, texels(44, 4, 4, 8)),
    (91, texels(50, 4, 4, 8)),
    (95, blocks(143, 16, 3)),
    (96, blocks(144, 16, 3)),
    (98, blocks(145, 16, 4)),
    (99, blocks(146, 16, 4)),
];

/// The format of a number of `DXGI_FORMAT`.
pub(crate) fn of_dxgi(number: u32) -> Option<Texels> {
    let found = FORMATS.iter().find(|(dxgi, _)| *dxgi == number);
    found.map(|(_, texels)| *texels)
}

/// The format of a number of `VkFormat`.
#[cfg(feature = "pak")]
pub(crate) fn of_vulkan(number: u32) -> Option<Texels> {
    let found = FORMATS.iter().find(|(_, it)| it.vulkan == number);
    found.map(|(_, texels)| *texels)
}

/// The format that the FourCC of a DDS file names.
pub(crate) fn of_fourcc(fourcc: [u8; 4]) -> Option<Texels> {
    Some(match &fourcc {
        b"DXT1" => blocks(133, 8, 4),
        b"DXT2" | b"DXT3" => blocks(135, 16, 4),
        b"DXT4" | b"DXT5" => blocks(137, 16, 4),
        b"ATI1" | b"BC4U" => blocks(139, 8, 1),
        b"BC4S" => blocks(140, 8, 1),
        b"ATI2" | b"BC5U" => blocks(141, 16, 2),
        b"BC5S" => blocks(142, 16, 2),
        // D3DFMT_A16B16G16R16F and D3DFMT_A32B32G32R32F.
        [113, 0, 0, 0] => texels(97, 8, 4, 16),
        [116, 0, 0, 0] => texels(109, 16, 4, 32),
        _ => return None,
    })
}

/// What this crate decodes to, each with its number in `VkFormat` and whether it is sRGB-encoded.
const DECODED: [(u32, Format, bool); 13] = [
    (37, Format::Rgba8, false),
    (43, Format::Rgba8, true),
    (133, Format::Bc1, false),
    (134, Format::Bc1, true),
    (135, Format::Bc2, false),
    (136, Format::Bc2, true),
    (137, Format::Bc3, false),
    (138, Format::Bc3, true),
    (139, Format::Bc4, false),
    (141, Format::Bc5, false),
    (143, Format::Bc6h, false),
    (145, Format::Bc7, false),
    (146, Format::Bc7, true),
];

impl Format {
    /// The format of a number of `VkFormat`, and whether it is sRGB-encoded.
    pub(crate) fn of_vulkan(number: u32) -> Option<(Format, bool)> {
        let found = DECODED.iter().find(|(vulkan, ..)| *vulkan == number);
        found.map(|(_, format, srgb)| (*format, *srgb))
    }

    /// Its number in `VkFormat`; that of the other encoding where it has only one.
    #[cfg(any(feature = "pak", feature = "vulkan"))]
    pub(crate) fn vulkan(self, srgb: bool) -> u32 {
        let of_format = || DECODED.iter().filter(|(_, format, _)| *format == self);
        let found = of_format().find(|(.., encoded)| *encoded == srgb);
        let found = found.or_else(|| of_format().next());
        found.map_or(0, |(vulkan, ..)| *vulkan)
    }
}
