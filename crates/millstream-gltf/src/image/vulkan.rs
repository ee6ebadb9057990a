//! Pixel formats by their numbers in Vulkan's `VkFormat`, which metadata records use, and in
//! `DXGI_FORMAT`.

use super::Format;

/// What this crate decodes to, each with its numbers in `VkFormat` and `DXGI_FORMAT`, and whether
/// it is sRGB-encoded.
const FORMATS: [(u32, u32, Format, bool); 13] = [
    (37, 28, Format::Rgba8, false),
    (43, 29, Format::Rgba8, true),
    (133, 71, Format::Bc1, false),
    (134, 72, Format::Bc1, true),
    (135, 74, Format::Bc2, false),
    (136, 75, Format::Bc2, true),
    (137, 77, Format::Bc3, false),
    (138, 78, Format::Bc3, true),
    (139, 80, Format::Bc4, false),
    (141, 83, Format::Bc5, false),
    (143, 95, Format::Bc6h, false),
    (145, 98, Format::Bc7, false),
    (146, 99, Format::Bc7, true),
];

impl Format {
    /// The format of its own number.
    pub(super) fn of_number(number: u8) -> Option<Format> {
        let mut formats = FORMATS.iter().map(|&(.., format, _)| format);
        formats.find(|&format| format as u8 == number)
    }

    /// The format of a number of `VkFormat`, and whether it is sRGB-encoded.
    pub(crate) fn of_vulkan(number: u32) -> Option<(Format, bool)> {
        let found = FORMATS.iter().find(|(vulkan, ..)| *vulkan == number);
        found.map(|&(.., format, srgb)| (format, srgb))
    }

    /// The format of a number of `DXGI_FORMAT`, and whether it is sRGB-encoded.
    pub(crate) fn of_dxgi(number: u32) -> Option<(Format, bool)> {
        let found = FORMATS.iter().find(|(_, dxgi, ..)| *dxgi == number);
        found.map(|&(.., format, srgb)| (format, srgb))
    }

    /// Its number in `VkFormat`; that of the other encoding where it has only one.
    #[cfg(any(feature = "pak", feature = "vulkan"))]
    pub(crate) fn vulkan(self, srgb: bool) -> u32 {
        let of_format = || FORMATS.iter().filter(|(.., format, _)| *format == self);
        let found = of_format().find(|(.., encoded)| *encoded == srgb);
        let found = found.or_else(|| of_format().next());
        found.map_or(0, |(vulkan, ..)| *vulkan)
    }
}
