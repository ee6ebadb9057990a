//! The texel blocks of formats: their size in texels and in bytes.

use ash::vk;

/// What a format stores as a unit: a texel, or a compressed block of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TexelBlock {
    pub(crate) bytes: u64,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

use vk::Format as F;

/// The last format of each group of consecutive formats with the same bytes per texel, in Vulkan's
/// numbering, up to the depth and stencil formats.
const TEXELS: [(F, u64); 19] = [
    (F::R4G4_UNORM_PACK8, 1),
    (F::A1R5G5B5_UNORM_PACK16, 2),
    (F::R8_SRGB, 1),
    (F::R8G8_SRGB, 2),
    (F::B8G8R8_SRGB, 3),
    (F::A2B10G10R10_SINT_PACK32, 4),
    (F::R16_SFLOAT, 2),
    (F::R16G16_SFLOAT, 4),
    (F::R16G16B16_SFLOAT, 6),
    (F::R16G16B16A16_SFLOAT, 8),
    (F::R32_SFLOAT, 4),
    (F::R32G32_SFLOAT, 8),
    (F::R32G32B32_SFLOAT, 12),
    (F::R32G32B32A32_SFLOAT, 16),
    (F::R64_SFLOAT, 8),
    (F::R64G64_SFLOAT, 16),
    (F::R64G64B64_SFLOAT, 24),
    (F::R64G64B64A64_SFLOAT, 32),
    (F::E5B9G9R9_UFLOAT_PACK32, 4),
];

/// The same for compressed formats from `BC1_RGB_UNORM_BLOCK` on, in blocks of 4 x 4 texels.
const BLOCKS: [(F, u64); 8] = [
    (F::BC1_RGBA_SRGB_BLOCK, 8),
    (F::BC3_SRGB_BLOCK, 16),
    (F::BC4_SNORM_BLOCK, 8),
    (F::BC7_SRGB_BLOCK, 16),
    (F::ETC2_R8G8B8A1_SRGB_BLOCK, 8),
    (F::ETC2_R8G8B8A8_SRGB_BLOCK, 16),
    (F::EAC_R11_SNORM_BLOCK, 8),
    (F::EAC_R11G11_SNORM_BLOCK, 16),
];

/// Width and height of ASTC blocks, 16 bytes each, for each pair of formats: linear and sRGB.
const ASTC: [(u32, u32); 14] = [
    (4, 4),
    (5, 4),
    (5, 5),
    (6, 5),
    (6, 6),
    (8, 5),
    (8, 6),
    (8, 8),
    (10, 5),
    (10, 6),
    (10, 8),
    (10, 10),
    (12, 10),
    (12, 12),
];

impl TexelBlock {
    /// Returns the block of a format; `None` for depth, stencil, multi-planar and unknown ones.
    pub(crate) fn of(format: vk::Format) -> Option<TexelBlock> {
        let bytes_of = |groups: &[(F, u64)]| groups.iter().find(|it| format <= it.0).map(|it| it.1);
        let (bytes, (width, height)) = if (F::R4G4_UNORM_PACK8..F::D16_UNORM).contains(&format) {
            (bytes_of(&TEXELS)?, (1, 1))
        } else if (F::BC1_RGB_UNORM_BLOCK..F::ASTC_4X4_UNORM_BLOCK).contains(&format) {
            (bytes_of(&BLOCKS)?, (4, 4))
        } else {
            let nth = format
                .as_raw()
                .checked_sub(F::ASTC_4X4_UNORM_BLOCK.as_raw())?;
            (16, *ASTC.get(usize::try_from(nth).ok()? / 2)?)
        };
        Some(TexelBlock {
            bytes,
            width,
            height,
        })
    }
}
