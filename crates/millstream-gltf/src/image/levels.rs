//! Putting levels of other containers, which may lie in any order, where ours has them.

use super::Layout;

/// Copies each level that `find` gives to its place in `raw`, the whole image with its header.
pub(super) fn place<'a>(
    layout: &Layout,
    raw: &mut [u8],
    mut find: impl FnMut(u32) -> Result<&'a [u8], &'static str>,
) -> Result<(), &'static str> {
    let mut end = super::HEADER_BYTES;
    for level in (0..layout.levels()).rev() {
        let range = layout.level(level).expect("all levels are present");
        let bytes = find(level)?;
        let bytes = bytes
            .get(..range.len())
            .ok_or("a level of the image is cut")?;
        // What is between levels goes into hashes and packages.
        raw[end..range.start].fill(0);
        end = range.end;
        raw[range].copy_from_slice(bytes);
    }
    Ok(())
}
