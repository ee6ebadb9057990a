//! Filling the levels of an image from containers that store them in another order.

use super::{HEADER_BYTES, Layout};

/// Calls `fill` for each level with its bytes in `raw`, the whole image with its header. The bytes
/// between levels, which are hashed and stored in packages, are set to zero.
pub(super) fn fill(
    layout: &Layout,
    raw: &mut [u8],
    mut fill: impl FnMut(u32, &mut [u8]) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut end = HEADER_BYTES;
    for level in (0..layout.levels()).rev() {
        let range = layout.level(level).expect("all levels are present");
        raw[end..range.start].fill(0);
        end = range.end;
        fill(level, &mut raw[range])?;
    }
    Ok(())
}

/// Copies a level from the beginning of `stored`.
pub(super) fn copy(stored: &[u8], level: &mut [u8]) -> Result<(), &'static str> {
    let stored = stored.get(..level.len());
    level.copy_from_slice(stored.ok_or("a level of the image is truncated")?);
    Ok(())
}
