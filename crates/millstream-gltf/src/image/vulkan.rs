//! Pixel formats by their numbers in `VkFormat`, which metadata records use, and in `DXGI_FORMAT`.

use super::Format;

/// A pixel format of a container.
#[cfg_attr(not(feature = "pak"), expect(dead_code, reason = "fields of records"))]
pub(crate) struct Texels {
    /// Its number in `VkFormat`.
    pub(crate) vulkan: u32,
    dxgi: u32,
    /// The side of a block in texels, and its bytes.
    pub(crate) block: (u32, u32),
    pub(crate) channels: u8,
    /// Bits of each color, without alpha; 0 for blocks, and where colors differ.
    pub(crate) bits: u8,
    /// The format that it is decoded to, and whether that is sRGB-encoded; `None`: not decoded.
    pub(crate) decoded: Option<(Format, bool)>,
}

const fn texels(vulkan: u32, dxgi: u32, bytes: u32, channels: u8, bits: u8) -> Texels {
    Texels {
        vulkan,
        dxgi,
        block: (1, bytes),
        channels,
        bits,
        decoded: None,
    }
}

const fn blocks(vulkan: u32, dxgi: u32, bytes: u32, channels: u8) -> Texels {
    Texels {
        block: (4, bytes),
        ..texels(vulkan, dxgi, bytes, channels, 0)
    }
}

impl Texels {
    const fn to(self, format: Format, srgb: bool) -> Texels {
        Texels {
            decoded: Some((format, srgb)),
            ..self
        }
    }

    /// Returns the format of a number of `VkFormat`.
    pub(crate) fn of_vulkan(number: u32) -> Option<&'static Texels> {
        FORMATS.iter().find(|it| it.vulkan == number)
    }

    /// Returns the format of a number of `DXGI_FORMAT`.
    pub(crate) fn of_dxgi(number: u32) -> Option<&'static Texels> {
        let mut formats = FORMATS.iter().filter(|it| it.dxgi != NONE);
        formats.find(|it| it.dxgi == number)
    }
}

impl Format {
    /// Returns the format with this discriminant.
    pub(super) fn of_number(number: u8) -> Option<Format> {
        let mut formats = FORMATS.iter().filter_map(|it| it.decoded);
        let found = formats.find(|(format, _)| *format as u8 == number);
        found.map(|(format, _)| format)
    }

    /// Returns its container format; that of the other color encoding if it has only one.
    #[cfg(any(feature = "pak", feature = "vulkan"))]
    pub(crate) fn texels(self, srgb: bool) -> &'static Texels {
        let find = |srgb| FORMATS.iter().find(|it| it.decoded == Some((self, srgb)));
        find(srgb).or_else(|| find(!srgb)).expect("all have a row")
    }
}

/// Not in `DXGI_FORMAT`.
const NONE: u32 = u32::MAX;

/// The formats that this crate decodes, and those that it only describes.
static FORMATS: [Texels; 35] = [
    texels(9, 61, 1, 1, 8),
    texels(16, 49, 2, 2, 8),
    texels(23, NONE, 3, 3, 8),
    texels(30, NONE, 3, 3, 8),
    texels(37, 28, 4, 4, 8).to(Format::Rgba8, false),
    texels(43, 29, 4, 4, 8).to(Format::Rgba8, true),
    texels(44, 87, 4, 4, 8),
    texels(50, 91, 4, 4, 8),
    texels(64, 24, 4, 4, 10),
    texels(70, 56, 2, 1, 16),
    texels(76, 54, 2, 1, 16),
    texels(77, 35, 4, 2, 16),
    texels(83, 34, 4, 2, 16),
    texels(91, 11, 8, 4, 16),
    texels(97, 10, 8, 4, 16),
    texels(100, 41, 4, 1, 32),
    texels(103, 16, 8, 2, 32),
    texels(109, 2, 16, 4, 32),
    texels(122, 26, 4, 3, 0),
    blocks(133, 71, 8, 4).to(Format::Bc1, false),
    blocks(134, 72, 8, 4).to(Format::Bc1, true),
    // Without alpha.
    blocks(131, NONE, 8, 3).to(Format::Bc1, false),
    blocks(132, NONE, 8, 3).to(Format::Bc1, true),
    blocks(135, 74, 16, 4).to(Format::Bc2, false),
    blocks(136, 75, 16, 4).to(Format::Bc2, true),
    blocks(137, 77, 16, 4).to(Format::Bc3, false),
    blocks(138, 78, 16, 4).to(Format::Bc3, true),
    blocks(139, 80, 8, 1).to(Format::Bc4, false),
    blocks(140, 81, 8, 1),
    blocks(141, 83, 16, 2).to(Format::Bc5, false),
    blocks(142, 84, 16, 2),
    blocks(143, 95, 16, 3).to(Format::Bc6h, false),
    blocks(144, 96, 16, 3),
    blocks(145, 98, 16, 4).to(Format::Bc7, false),
    blocks(146, 99, 16, 4).to(Format::Bc7, true),
];
