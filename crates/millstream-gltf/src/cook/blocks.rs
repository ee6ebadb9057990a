//! Pixels to blocks, through the crate `block_compression`.

use block_compression::encode::compress_rgba8;
use block_compression::{BC7Settings, CompressionVariant};

use crate::image::Format;

/// Encodes a level into `out`, which has exactly its bytes.
pub(super) fn encode(format: Format, pixels: &[u8], (width, height): (u32, u32), out: &mut [u8]) {
    let variant = match format {
        Format::Bc1 => CompressionVariant::BC1,
        Format::Bc3 => CompressionVariant::BC3,
        // A game has thousands of textures: slower settings are for its release, not for its day.
        Format::Bc7 => CompressionVariant::BC7(BC7Settings::alpha_very_fast()),
        _ => {
            out.copy_from_slice(pixels);
            return;
        }
    };
    let (wide, high) = (width.next_multiple_of(4), height.next_multiple_of(4));
    if (wide, high) == (width, height) {
        compress_rgba8(variant, pixels, out, width, height, width * 4);
        return;
    }
    // Blocks at the edges are filled with the last pixels, so that no foreign colour bleeds in.
    let mut padded = Vec::with_capacity(wide as usize * high as usize * 4);
    for y in 0..high {
        let start = y.min(height - 1) as usize * width as usize * 4;
        let row = &pixels[start..start + width as usize * 4];
        padded.extend_from_slice(row);
        for _ in width..wide {
            padded.extend_from_slice(&row[row.len() - 4..]);
        }
    }
    compress_rgba8(variant, &padded, out, wide, high, wide * 4);
}
