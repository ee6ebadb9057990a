//! The texel blocks of formats: how many texels, how many bytes.

use ash::vk;

/// Most bytes of a texel block.
pub(crate) const TEXEL_BYTES_MAX: usize = 32;

/// What a format stores as a unit: a texel, or a compressed block of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TexelBlock {
    pub(crate) bytes: u64,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// The formats of one plane of color, first and last of each group as Vulkan numbers them, with the
/// bytes, width and height of their blocks.
const GROUPS: [(vk::Format, vk::Format, u64, u32, u32); 41] = {
    use vk::Format as F;
    [
        (F::R4G4_UNORM_PACK8, F::R4G4_UNORM_PACK8, 1, 1, 1),
        (F::R4G4B4A4_UNORM_PACK16, F::A1R5G5B5_UNORM_PACK16, 2, 1, 1),
        (F::R8_UNORM, F::R8_SRGB, 1, 1, 1),
        (F::R8G8_UNORM, F::R8G8_SRGB, 2, 1, 1),
        (F::R8G8B8_UNORM, F::B8G8R8_SRGB, 3, 1, 1),
        (F::R8G8B8A8_UNORM, F::A2B10G10R10_SINT_PACK32, 4, 1, 1),
        (F::R16_UNORM, F::R16_SFLOAT, 2, 1, 1),
        (F::R16G16_UNORM, F::R16G16_SFLOAT, 4, 1, 1),
        (F::R16G16B16_UNORM, F::R16G16B16_SFLOAT, 6, 1, 1),
        (F::R16G16B16A16_UNORM, F::R16G16B16A16_SFLOAT, 8, 1, 1),
        (F::R32_UINT, F::R32_SFLOAT, 4, 1, 1),
        (F::R32G32_UINT, F::R32G32_SFLOAT, 8, 1, 1),
        (F::R32G32B32_UINT, F::R32G32B32_SFLOAT, 12, 1, 1),
        (F::R32G32B32A32_UINT, F::R32G32B32A32_SFLOAT, 16, 1, 1),
        (F::R64_UINT, F::R64_SFLOAT, 8, 1, 1),
        (F::R64G64_UINT, F::R64G64_SFLOAT, 16, 1, 1),
        (F::R64G64B64_UINT, F::R64G64B64_SFLOAT, 24, 1, 1),
        (F::R64G64B64A64_UINT, F::R64G64B64A64_SFLOAT, 32, 1, 1),
        (
            F::B10G11R11_UFLOAT_PACK32,
            F::E5B9G9R9_UFLOAT_PACK32,
            4,
            1,
            1,
        ),
        (F::BC1_RGB_UNORM_BLOCK, F::BC1_RGBA_SRGB_BLOCK, 8, 4, 4),
        (F::BC2_UNORM_BLOCK, F::BC3_SRGB_BLOCK, 16, 4, 4),
        (F::BC4_UNORM_BLOCK, F::BC4_SNORM_BLOCK, 8, 4, 4),
        (F::BC5_UNORM_BLOCK, F::BC7_SRGB_BLOCK, 16, 4, 4),
        (
            F::ETC2_R8G8B8_UNORM_BLOCK,
            F::ETC2_R8G8B8A1_SRGB_BLOCK,
            8,
            4,
            4,
        ),
        (
            F::ETC2_R8G8B8A8_UNORM_BLOCK,
            F::ETC2_R8G8B8A8_SRGB_BLOCK,
            16,
            4,
            4,
        ),
        (F::EAC_R11_UNORM_BLOCK, F::EAC_R11_SNORM_BLOCK, 8, 4, 4),
        (
            F::EAC_R11G11_UNORM_BLOCK,
            F::EAC_R11G11_SNORM_BLOCK,
            16,
            4,
            4,
        ),
        (F::ASTC_4X4_UNORM_BLOCK, F::ASTC_4X4_SRGB_BLOCK, 16, 4, 4),
        (F::ASTC_5X4_UNORM_BLOCK, F::ASTC_5X4_SRGB_BLOCK, 16, 5, 4),
        (F::ASTC_5X5_UNORM_BLOCK, F::ASTC_5X5_SRGB_BLOCK, 16, 5, 5),
        (F::ASTC_6X5_UNORM_BLOCK, F::ASTC_6X5_SRGB_BLOCK, 16, 6, 5),
        (F::ASTC_6X6_UNORM_BLOCK, F::ASTC_6X6_SRGB_BLOCK, 16, 6, 6),
        (F::ASTC_8X5_UNORM_BLOCK, F::ASTC_8X5_SRGB_BLOCK, 16, 8, 5),
        (F::ASTC_8X6_UNORM_BLOCK, F::ASTC_8X6_SRGB_BLOCK, 16, 8, 6),
        (F::ASTC_8X8_UNORM_BLOCK, F::ASTC_8X8_SRGB_BLOCK, 16, 8, 8),
        (F::ASTC_10X5_UNORM_BLOCK, F::ASTC_10X5_SRGB_BLOCK, 16, 10, 5),
        (F::ASTC_10X6_UNORM_BLOCK, F::ASTC_10X6_SRGB_BLOCK, 16, 10, 6),
        (F::ASTC_10X8_UNORM_BLOCK, F::ASTC_10X8_SRGB_BLOCK, 16, 10, 8),
        (
            F::ASTC_10X10_UNORM_BLOCK,
            F::ASTC_10X10_SRGB_BLOCK,
            16,
            10,
            10,
        ),
        (
            F::ASTC_12X10_UNORM_BLOCK,
            F::ASTC_12X10_SRGB_BLOCK,
            16,
            12,
            10,
        ),
        (
            F::ASTC_12X12_UNORM_BLOCK,
            F::ASTC_12X12_SRGB_BLOCK,
            16,
            12,
            12,
        ),
    ]
};

impl TexelBlock {
    /// `None`: a format of depth, stencil or several planes, or one unknown here.
    pub(crate) fn of(format: vk::Format) -> Option<TexelBlock> {
        let number = format.as_raw();
        let has = |group: &&(vk::Format, vk::Format, u64, u32, u32)| {
            (group.0.as_raw()..=group.1.as_raw()).contains(&number)
        };
        let (_, _, bytes, width, height) = *GROUPS.iter().find(has)?;
        Some(TexelBlock {
            bytes,
            width,
            height,
        })
    }
}
