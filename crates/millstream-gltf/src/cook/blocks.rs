//! Encodes pixels to blocks, through the crate `block_compression`.
//!
//! BC7 comes in two qualities. The fast one tries mode 6 alone, which has four channels and one
//! pair of endpoints per block: 8 million pixels per second and core, 37.5 dB on a noisy texture.
//! The fine one tries most modes: 0.4 million (opaque) or 0.25 million, 40.1 dB. Use the fast one
//! for daily builds, the fine one for releases.

use block_compression::encode::compress_rgba8;
use block_compression::{BC7Settings, CompressionVariant};

use crate::image::Format;

/// Words of the encoder's settings (`#[repr(C)]`, as a GPU takes them), and which of them is the
/// number of channels.
const SETTINGS_WORDS: usize = 19;
const CHANNELS_WORD: usize = 18;

/// Returns the settings of the BC7 encoder.
pub(super) fn settings(fine: bool, opaque: bool) -> BC7Settings {
    match (fine, opaque) {
        (true, true) => BC7Settings::opaque_fast(),
        (true, false) => BC7Settings::alpha_fast(),
        (false, _) => {
            // The crate has these settings for opaque images only, in private fields. Its fastest
            // with alpha are 13 times slower.
            let settings = BC7Settings::opaque_ultra_fast();
            let mut words: [u32; SETTINGS_WORDS] = bytemuck::must_cast(settings);
            words[CHANNELS_WORD] = 4;
            bytemuck::must_cast(words)
        }
    }
}

/// Encodes a level into `out`, which has exactly its length. `None` if memory does not suffice.
pub(super) fn encode(
    format: Format,
    bc7: BC7Settings,
    pixels: &[u8],
    (width, height): (u32, u32),
    out: &mut [u8],
) -> Option<()> {
    let variant = match format {
        Format::Bc1 => CompressionVariant::BC1,
        Format::Bc3 => CompressionVariant::BC3,
        Format::Bc7 => CompressionVariant::BC7(bc7),
        _ => {
            out.copy_from_slice(pixels);
            return Some(());
        }
    };
    let wide = width.next_multiple_of(4);
    if (wide, height % 4) == (width, 0) {
        compress_rgba8(variant, pixels, out, width, height, width * 4);
        return Some(());
    }
    // Blocks at the edges are padded with the last pixels, so that no other color bleeds in.
    let mut padded = Vec::new();
    padded.try_reserve_exact(wide as usize * 4 * 4).ok()?;
    let row_bytes = out.len() / height.div_ceil(4) as usize;
    for (first, out) in (0..height).step_by(4).zip(out.chunks_exact_mut(row_bytes)) {
        padded.clear();
        for y in first..first + 4 {
            let start = y.min(height - 1) as usize * width as usize * 4;
            let row = &pixels[start..start + width as usize * 4];
            padded.extend_from_slice(row);
            for _ in width..wide {
                padded.extend_from_slice(&row[row.len() - 4..]);
            }
        }
        compress_rgba8(variant, &padded, out, wide, 4, wide * 4);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_channels_is_where_we_think_it_is() {
        for (settings, channels) in [
            (BC7Settings::opaque_ultra_fast(), 3),
            (BC7Settings::alpha_slow(), 4),
        ] {
            let words: [u32; SETTINGS_WORDS] = bytemuck::must_cast(settings);
            assert_eq!(words[CHANNELS_WORD], channels);
        }
    }
}
