//! Device images as destinations: which texels the bytes of a request belong to.
//!
//! The bytes are those of the regions, one after the other, each packed as
//! `vkCmdCopyBufferToImage` expects: rows of texel blocks, slices, layers. Parts of a request
//! begin and end anywhere, also within a row or a texel block. So a run of whole blocks becomes up
//! to three copies per slice (the rest of a row, whole rows, the start of a row), and a block whose
//! bytes arrive in several parts waits until it is complete.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream::Error;

use crate::error::invalid;
use crate::format::{TEXEL_BYTES_MAX, TexelBlock};

/// The layout of an image, and the queue family that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageState {
    /// The layout.
    pub layout: vk::ImageLayout,
    /// The family that owns an exclusive image. `None`: it is the family that loads, or the image
    /// is shared concurrently.
    pub family: Option<u32>,
}

impl ImageState {
    /// No content and no owner: the initial state of an image.
    pub const UNDEFINED: ImageState = ImageState {
        layout: vk::ImageLayout::UNDEFINED,
        family: None,
    };

    /// Ready to be sampled by queues of the family that loads.
    pub const SAMPLED: ImageState = ImageState {
        layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
        family: None,
    };
}

/// Part of an image: some texels of some layers of a mip level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRegion {
    /// The mip level.
    pub mip_level: u32,
    /// The array layers, whose bytes follow one another.
    pub layers: Range<u32>,
    /// The first texel; a multiple of the format's texel block.
    pub offset: vk::Offset3D,
    /// The size in texels; a multiple of the format's texel block, or up to the edge of the level.
    pub extent: vk::Extent3D,
}

impl ImageRegion {
    /// Whether it lies inside a mip level of this size with this many layers, and consists of whole
    /// texel blocks of this width and height. Blocks at the edges may reach past the level.
    #[must_use]
    pub fn is_inside(&self, level: vk::Extent3D, layers: u32, block: (u32, u32)) -> bool {
        let fits = |begin: i32, len: u32, side: u32, block: u32| {
            let Ok(begin) = u32::try_from(begin) else {
                return false;
            };
            let end = begin.checked_add(len).filter(|end| *end <= side);
            let whole = end.is_some_and(|end| end == side || end.is_multiple_of(block));
            whole && begin.is_multiple_of(block)
        };
        let (offset, extent) = (self.offset, self.extent);
        self.layers.end <= layers
            && fits(offset.x, extent.width, level.width, block.0)
            && fits(offset.y, extent.height, level.height, block.1)
            && fits(offset.z, extent.depth, level.depth, 1)
    }
}

/// An image of the application, as a destination.
#[derive(Debug, Clone)]
pub struct AdoptedImage {
    /// The image, made with `TRANSFER_DST`.
    pub image: vk::Image,
    /// Its format: one plane of color.
    pub format: vk::Format,
    /// The destinations of a request's bytes, in this order.
    pub regions: Vec<ImageRegion>,
    /// The state of the regions' levels and layers when a request begins to write.
    /// [`ImageState::UNDEFINED`] discards their content. If another family owns them, it has
    /// released them to the one that loads, from this layout to `TRANSFER_DST_OPTIMAL`. After a
    /// request has failed, [`GpuImage::state`](crate::GpuImage::state) returns their state, and the
    /// next request goes on from there.
    pub before: ImageState,
    /// Their state once the request has completed.
    pub handover: ImageState,
}

/// A copy of texels. Its `buffer_offset` is an offset in the destination's bytes.
pub(crate) type TexelCopy = vk::BufferImageCopy;

/// A change of layout and owner of the layers of one level.
pub(crate) type Transition = vk::ImageMemoryBarrier<'static>;

/// An image as a destination, and the progress of its requests.
pub(crate) struct ImageTarget {
    pub(crate) about: AdoptedImage,
    pub(crate) block: TexelBlock,
    /// The offset of each region's first byte.
    starts: Vec<u64>,
    len: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether it is in the layout `TRANSFER_DST_OPTIMAL`.
    begun: bool,
    /// Whether the last transition decided was the hand-over.
    landed: bool,
    /// The request that writes to it, or did last.
    request: u64,
    /// Number of expected parts that have not ended.
    parts: usize,
    /// Number of calls that read it back.
    readers: usize,
    /// Byte ranges that parts of the request cover, joined: first byte and end.
    brought: BTreeMap<u64, u64>,
    straddling: HashMap<u64, Straddling>,
}

/// A texel block of which some bytes have arrived.
#[derive(Default)]
struct Straddling {
    bytes: [u8; TEXEL_BYTES_MAX],
    /// A bit for each byte that has arrived.
    known: u32,
}

impl ImageTarget {
    /// Makes a destination whose regions' bytes begin at `starts`, or else follow one another.
    pub(crate) fn new(about: AdoptedImage, starts: Option<&[u64]>) -> Result<ImageTarget, Error> {
        let block = TexelBlock::of(about.format)
            .ok_or_else(|| invalid("images of this format are not loaded"))?;
        let (mut len, mut begins) = (0_u64, Vec::with_capacity(about.regions.len()));
        for (index, region) in about.regions.iter().enumerate() {
            let begin = starts.map_or(len, |starts| starts[index]);
            if begin < len || !begin.is_multiple_of(block.bytes) {
                return Err(invalid(
                    "bytes of a region overlap, or begin within a texel block",
                ));
            }
            begins.push(begin);
            let bytes = region_len(region, block).filter(|bytes| *bytes > 0);
            len = bytes
                .and_then(|bytes| begin.checked_add(bytes))
                .ok_or_else(|| invalid("a region of no or too many texels"))?;
            let others = &about.regions[..index];
            if !others.iter().all(|other| same_or_apart(region, other)) {
                // Each level and layer has one transition.
                return Err(invalid("layers of regions of one level overlap in part"));
            }
        }
        let none = [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED];
        if none.contains(&about.handover.layout) || len == 0 {
            return Err(invalid(
                "an image without regions or a layout to leave it in",
            ));
        }
        Ok(ImageTarget {
            about,
            block,
            starts: begins,
            len,
            state: Mutex::default(),
        })
    }

    /// Returns the number of bytes up to the end of the last region.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether a range consists of whole texel blocks.
    pub(crate) fn is_whole(&self, range: &Range<u64>) -> bool {
        range.start.is_multiple_of(self.block.bytes) && range.end.is_multiple_of(self.block.bytes)
    }

    /// Returns the copies of a range of whole texel blocks.
    pub(crate) fn copies(&self, range: Range<u64>) -> Vec<TexelCopy> {
        debug_assert!(self.is_whole(&range), "{range:?}");
        let mut copies = Vec::new();
        for (region, &begin) in self.about.regions.iter().zip(&self.starts) {
            let Some(len) = region_len(region, self.block) else {
                break;
            };
            let wanted = range.start.max(begin)..range.end.min(begin + len);
            if !wanted.is_empty() {
                let inside = wanted.start - begin..wanted.end - begin;
                slices(region, self.block, inside, |mut copy| {
                    copy.buffer_offset += begin;
                    copies.push(copy);
                });
            }
        }
        copies
    }

    /// Splits bytes that belong at `at` into runs of whole blocks, each with its offset, including
    /// blocks that these bytes complete.
    pub(crate) fn split<'a>(&self, at: u64, bytes: &'a [u8]) -> Vec<(u64, Cow<'a, [u8]>)> {
        let (size, end) = (self.block.bytes, at + bytes.len() as u64);
        let first = at.next_multiple_of(size).min(end);
        let last = (end - end % size).max(first);
        let (head, rest) = bytes.split_at((first - at) as usize);
        let (whole, tail) = rest.split_at((last - first) as usize);
        let ends = [(at, head), (last, tail)].into_iter();
        let mut runs: Vec<_> = ends
            .filter_map(|(at, bytes)| self.straddle(at, bytes))
            .map(|(at, block)| (at, Cow::Owned(block)))
            .collect();
        if !whole.is_empty() {
            runs.push((first, Cow::Borrowed(whole)));
        }
        runs
    }

    /// Adds bytes of one block. Returns the block and its offset if it is complete now.
    fn straddle(&self, at: u64, bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
        if bytes.is_empty() {
            return None;
        }
        let size = self.block.bytes as usize;
        let (block, begin) = (at - at % self.block.bytes, (at % self.block.bytes) as usize);
        let mut state = self.state();
        let straddling = state.straddling.entry(block).or_default();
        straddling.bytes[begin..begin + bytes.len()].copy_from_slice(bytes);
        straddling.known |= (u32::MAX >> (32 - bytes.len())) << begin;
        if straddling.known.count_ones() as usize != size {
            return None;
        }
        let whole = state.straddling.remove(&block);
        whole.map(|whole| (block, whole.bytes[..size].to_vec()))
    }

    /// Returns the transitions to record before its first copy.
    pub(crate) fn begin(&self, family: u32) -> Vec<Transition> {
        let mut state = self.state();
        if state.begun {
            return Vec::new();
        }
        (state.begun, state.landed) = (true, false);
        drop(state);
        let before = self.about.before;
        let is_kept = before.layout != vk::ImageLayout::UNDEFINED;
        let from = before.family.filter(|_| is_kept).unwrap_or(family);
        let layouts = (before.layout, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        // Copies of an earlier request may have been the last to write.
        let writes = vk::AccessFlags::TRANSFER_WRITE;
        self.transitions(layouts, (from, family), (writes, writes))
    }

    /// Announces a part of a request: its bytes, or `None` for the last part. If the parts of
    /// another request have ended, this one takes the image over, because the other may have failed
    /// or been canceled; if the other continues instead, its last part is refused as incomplete.
    pub(crate) fn expect(&self, request: u64, bytes: Option<Range<u64>>) -> Result<(), Error> {
        let mut state = self.state();
        if state.readers > 0 {
            return Err(invalid("the image is being read back"));
        }
        if state.request != request {
            if state.parts > 0 {
                return Err(another());
            }
            state.request = request;
            state.straddling.clear();
            state.brought.clear();
        }
        match bytes {
            Some(bytes) => state.bring(bytes),
            None if state.brought.first_key_value() == Some((&0, &self.len)) => {}
            None => return Err(another()),
        }
        state.parts += 1;
        Ok(())
    }

    /// Reports that a part announced by [`ImageTarget::expect`] has ended.
    pub(crate) fn part_ended(&self) {
        self.state().parts -= 1;
    }

    /// Returns the state in which the requests so far leave its levels and layers.
    pub(crate) fn left_in(&self) -> ImageState {
        let state = self.state();
        match (state.begun, state.landed) {
            (true, _) => ImageState {
                layout: vk::ImageLayout::TRANSFER_DST_OPTIMAL,
                family: None,
            },
            (false, true) => self.about.handover,
            (false, false) => self.about.before,
        }
    }

    /// Takes back [`ImageTarget::begin`], whose transitions will not run.
    pub(crate) fn forget_begin(&self) {
        self.state().begun = false;
    }

    /// Takes back [`ImageTarget::end`], whose transitions will not run.
    pub(crate) fn forget_end(&self) {
        let mut state = self.state();
        (state.begun, state.landed) = (true, false);
    }

    /// Refuses requests during a read-back. False if none has landed, or one is in flight.
    pub(crate) fn begin_reading(&self) -> bool {
        let mut state = self.state();
        let is_left = state.landed && state.parts == 0;
        state.readers += usize::from(is_left);
        is_left
    }

    pub(crate) fn end_reading(&self) {
        self.state().readers -= 1;
    }

    /// Returns the transitions to record after its last copy.
    pub(crate) fn end(&self, family: u32) -> Vec<Transition> {
        let mut state = self.state();
        assert!(state.begun, "transitions begin before they end");
        (state.begun, state.landed) = (false, true);
        drop(state);
        let to = self.about.handover.family.unwrap_or(family);
        let uses = match to == family {
            true => vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
            // The other family acquires it with its own accesses.
            false => vk::AccessFlags::empty(),
        };
        let accesses = (vk::AccessFlags::TRANSFER_WRITE, uses);
        self.transitions(self.handed_over(), (family, to), accesses)
    }

    /// Returns the transitions by which another family acquires it; empty if there is no other.
    pub(crate) fn acquire(&self, family: u32, uses: vk::AccessFlags) -> Vec<Transition> {
        match self.about.handover.family {
            Some(to) if to != family => {
                let accesses = (vk::AccessFlags::empty(), uses);
                self.transitions(self.handed_over(), (family, to), accesses)
            }
            _ => Vec::new(),
        }
    }

    fn handed_over(&self) -> (vk::ImageLayout, vk::ImageLayout) {
        (
            vk::ImageLayout::TRANSFER_DST_OPTIMAL,
            self.about.handover.layout,
        )
    }

    /// Returns one transition for each distinct level and range of layers.
    pub(crate) fn transitions(
        &self,
        layouts: (vk::ImageLayout, vk::ImageLayout),
        families: (u32, u32),
        accesses: (vk::AccessFlags, vk::AccessFlags),
    ) -> Vec<Transition> {
        let regions = &self.about.regions;
        let is_first = |(index, region): &(usize, &ImageRegion)| {
            let same = |other: &ImageRegion| {
                other.mip_level == region.mip_level && other.layers == region.layers
            };
            !regions[..*index].iter().any(same)
        };
        let (from, to) = match families {
            (from, to) if from == to => (vk::QUEUE_FAMILY_IGNORED, vk::QUEUE_FAMILY_IGNORED),
            families => families,
        };
        let transition = |(_, region): (usize, &ImageRegion)| {
            let range = vk::ImageSubresourceRange {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                base_mip_level: region.mip_level,
                level_count: 1,
                base_array_layer: region.layers.start,
                layer_count: region.layers.end - region.layers.start,
            };
            Transition::default()
                .image(self.about.image)
                .old_layout(layouts.0)
                .new_layout(layouts.1)
                .src_queue_family_index(from)
                .dst_queue_family_index(to)
                .src_access_mask(accesses.0)
                .dst_access_mask(accesses.1)
                .subresource_range(range)
        };
        let firsts = regions.iter().enumerate().filter(is_first);
        firsts.map(transition).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Joins a range with those that it touches.
    fn bring(&mut self, range: Range<u64>) {
        let (mut begin, mut end) = (range.start, range.end);
        while let Some((&first, &last)) = self.brought.range(..=end).next_back()
            && last >= begin
        {
            self.brought.remove(&first);
            (begin, end) = (begin.min(first), end.max(last));
        }
        self.brought.insert(begin, end);
    }
}

fn another() -> Error {
    invalid("another request writes to the image: one at a time can")
}

/// Whether the transitions of two regions are the same or have nothing in common.
fn same_or_apart(a: &ImageRegion, b: &ImageRegion) -> bool {
    let apart = a.layers.end <= b.layers.start || b.layers.end <= a.layers.start;
    a.mip_level != b.mip_level || a.layers == b.layers || apart
}

/// Returns the number of texel blocks of a row, and of rows of a slice.
fn blocks(region: &ImageRegion, block: TexelBlock) -> (u64, u64) {
    let (width, height) = (region.extent.width, region.extent.height);
    (
        u64::from(width.div_ceil(block.width)),
        u64::from(height.div_ceil(block.height)),
    )
}

/// Returns the bytes of a region; `None` on overflow, or if its range of layers is reversed.
fn region_len(region: &ImageRegion, block: TexelBlock) -> Option<u64> {
    let (columns, rows) = blocks(region, block);
    let layers = region.layers.end.checked_sub(region.layers.start)?;
    let slices = u64::from(layers).checked_mul(u64::from(region.extent.depth))?;
    columns
        .checked_mul(rows)?
        .checked_mul(slices)?
        .checked_mul(block.bytes)
}

/// Calls `add` with the copies of a range of a region's bytes.
fn slices(
    region: &ImageRegion,
    block: TexelBlock,
    range: Range<u64>,
    mut add: impl FnMut(TexelCopy),
) {
    let (columns, rows) = blocks(region, block);
    let slice_len = columns * rows * block.bytes;
    for slice in range.start / slice_len..range.end.div_ceil(slice_len) {
        let begin = slice * slice_len;
        let wanted = range.start.max(begin)..range.end.min(begin + slice_len);
        let (mut at, end) = (
            (wanted.start - begin) / block.bytes,
            (wanted.end - begin) / block.bytes,
        );
        while at < end {
            let (row, column) = (at / columns, at % columns);
            // All remaining whole rows at once, or part of one row.
            let (width, height) = match column {
                0 if end - at >= columns => (columns, (end - at) / columns),
                _ => ((end - at).min(columns - column), 1),
            };
            let first = begin + at * block.bytes;
            add(copy_of(
                region,
                block,
                slice,
                (column, row, width, height),
                first,
            ));
            at += width * height;
        }
    }
}

/// Returns the copy of a rectangle of texel blocks of a slice.
fn copy_of(
    region: &ImageRegion,
    block: TexelBlock,
    slice: u64,
    (column, row, width, height): (u64, u64, u64, u64),
    at: u64,
) -> TexelCopy {
    let depth = u64::from(region.extent.depth);
    // Blocks at the edge may reach past it.
    let texels = |first: u64, count: u64, size: u32, extent: u32| {
        let begin = first as u32 * size;
        (begin, (count as u32 * size).min(extent - begin))
    };
    let (x, width) = texels(column, width, block.width, region.extent.width);
    let (y, height) = texels(row, height, block.height, region.extent.height);
    TexelCopy {
        buffer_offset: at,
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: region.mip_level,
            base_array_layer: region.layers.start + (slice / depth) as u32,
            layer_count: 1,
        },
        image_offset: vk::Offset3D {
            x: region.offset.x + x as i32,
            y: region.offset.y + y as i32,
            z: region.offset.z + (slice % depth) as i32,
        },
        image_extent: vk::Extent3D {
            width,
            height,
            depth: 1,
        },
        ..TexelCopy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::ErrorKind;

    fn region(mip_level: u32, layers: Range<u32>, extent: (u32, u32, u32)) -> ImageRegion {
        ImageRegion {
            mip_level,
            layers,
            offset: vk::Offset3D { x: 12, y: 24, z: 1 },
            extent: vk::Extent3D {
                width: extent.0,
                height: extent.1,
                depth: extent.2,
            },
        }
    }

    fn target(format: vk::Format, regions: Vec<ImageRegion>) -> Result<ImageTarget, Error> {
        let about = AdoptedImage {
            image: vk::Image::null(),
            format,
            regions,
            before: ImageState::UNDEFINED,
            handover: ImageState::SAMPLED,
        };
        ImageTarget::new(about, None)
    }

    #[test]
    fn regions_may_have_gaps_between_their_bytes() {
        let rgba = vk::Format::R8G8B8A8_UNORM;
        let regions = vec![region(1, 0..1, (2, 2, 1)), region(0, 0..1, (4, 4, 1))];
        let about = target(rgba, regions).expect("an image").about;
        let placed = ImageTarget::new(about.clone(), Some(&[64, 128])).expect("an image");
        assert_eq!(placed.len(), 128 + 64);
        let copies = placed.copies(0..192);
        let found: Vec<_> = copies
            .iter()
            .map(|copy| (copy.buffer_offset, copy.image_extent.width))
            .collect();
        assert_eq!(found, [(64, 2), (128, 4)]);
        assert!(placed.copies(0..64).is_empty() && placed.copies(80..128).is_empty());
        for wrong in [[64, 76], [66, 128], [128, 64], [0, u64::MAX - 3]] {
            assert!(
                ImageTarget::new(about.clone(), Some(&wrong)).is_err(),
                "{wrong:?}"
            );
        }
    }

    /// A texel block: mip level, layer, and coordinates.
    type Place = (u32, u32, i32, i32, i32);

    /// Returns the blocks of all regions, in the order of their bytes.
    fn places(target: &ImageTarget) -> Vec<Place> {
        let mut places = Vec::new();
        let block = target.block;
        for region in &target.about.regions {
            let (offset, extent) = (region.offset, region.extent);
            for layer in region.layers.clone() {
                for z in 0..extent.depth as i32 {
                    for y in (0..extent.height as i32).step_by(block.height as usize) {
                        for x in (0..extent.width as i32).step_by(block.width as usize) {
                            let at = (offset.x + x, offset.y + y, offset.z + z);
                            places.push((region.mip_level, layer, at.0, at.1, at.2));
                        }
                    }
                }
            }
        }
        places
    }

    /// Returns the blocks that a copy writes, in the order of its bytes.
    fn written(copy: &TexelCopy, block: TexelBlock) -> Vec<Place> {
        let (at, extent) = (copy.image_offset, copy.image_extent);
        assert_eq!((copy.image_subresource.layer_count, extent.depth), (1, 1));
        let (level, layer) = (
            copy.image_subresource.mip_level,
            copy.image_subresource.base_array_layer,
        );
        let mut places = Vec::new();
        for y in (0..extent.height as i32).step_by(block.height as usize) {
            for x in (0..extent.width as i32).step_by(block.width as usize) {
                places.push((level, layer, at.x + x, at.y + y, at.z));
            }
        }
        places
    }

    #[test]
    fn copies_of_any_cut_write_each_block_once_with_its_bytes() {
        let formats = [
            vk::Format::R8_UNORM,
            vk::Format::R8G8B8_UNORM,
            vk::Format::R16G16B16A16_SFLOAT,
            vk::Format::BC1_RGB_UNORM_BLOCK,
            vk::Format::BC7_UNORM_BLOCK,
            vk::Format::ASTC_5X4_UNORM_BLOCK,
        ];
        for (seed, format) in (0..).zip(formats.iter().cycle().take(60)) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut sides = fastrand::Rng::with_seed(!seed);
            let mut side = |most: u32| sides.u32(1..most);
            let regions = vec![
                region(0, 2..4, (side(40), side(40), side(4))),
                region(1, 0..1, (side(40), side(9), 1)),
                region(2, 0..3, (1, 1, 1)),
            ];
            let target = target(*format, regions).expect("regions");
            let (expected, block) = (places(&target), target.block);
            assert_eq!(target.len(), expected.len() as u64 * block.bytes);
            let bytes: Vec<u8> = (0..target.len()).map(|_| random.u8(..)).collect();

            let mut cuts: Vec<usize> = (0..9).map(|_| random.usize(0..=bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut parts: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
            random.shuffle(&mut parts);
            let mut got = HashMap::new();
            let mut land = |at: u64, bytes: &[u8]| {
                for copy in target.copies(at..at + bytes.len() as u64) {
                    let mut from = (copy.buffer_offset - at) as usize;
                    for place in written(&copy, block) {
                        let to = from + block.bytes as usize;
                        assert!(got.insert(place, bytes[from..to].to_vec()).is_none());
                        from = to;
                    }
                }
            };
            for part in parts {
                for (at, run) in target.split(part.start as u64, &bytes[part]) {
                    land(at, &run);
                }
            }
            assert_eq!(got.len(), expected.len(), "seed {seed}");
            for (place, bytes) in expected.iter().zip(bytes.chunks(block.bytes as usize)) {
                assert!(got[place] == bytes, "seed {seed}: {place:?}");
            }
        }
    }

    #[test]
    fn halves_of_blocks_that_a_failed_request_left_do_not_count() {
        let target = target(vk::Format::R32_UINT, vec![region(0, 0..1, (2, 1, 1))]);
        let target = target.expect("a region");
        let expect = |request, range| target.expect(request, Some(range)).expect("it is free");
        expect(1, 2..4);
        assert!(target.split(2, &[9, 9]).is_empty());
        target.part_ended();
        expect(2, 0..2);
        assert!(target.split(0, &[1, 2]).is_empty());
        expect(2, 2..8);
        let runs = target.split(2, &[3, 4, 5, 6, 7, 8]);
        let runs: Vec<_> = runs.iter().map(|(at, run)| (*at, &run[..])).collect();
        assert_eq!(runs, [(0, &[1, 2, 3, 4][..]), (4, &[5, 6, 7, 8])]);
    }

    #[test]
    fn a_request_completes_only_if_all_bytes_are_its_own() {
        let target = target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]);
        let target = target.expect("a region");
        let takes = |request, bytes| {
            let taken = target.expect(request, bytes).is_ok();
            if taken {
                target.part_ended();
            }
            taken
        };
        let brings = |request, range| takes(request, Some(range));
        let completes = |request| takes(request, None);
        // In any order, and some bytes twice.
        for range in [40..64, 8..16, 0..8, 12..40] {
            assert!(!completes(1) && brings(1, range));
        }
        assert!(completes(1));
        // Another request takes over between parts, but not while some are in flight.
        assert!(brings(2, 0..32) && brings(1, 32..64) && brings(2, 32..64));
        assert!(!completes(1) && !completes(2));
        target.expect(3, Some(0..64)).expect("it is free");
        assert!(!brings(4, 0..64));
        target.part_ended();
        assert!(completes(3) && brings(4, 0..64) && completes(4));
    }

    #[test]
    fn an_end_that_does_not_run_leaves_it_begun() {
        let target = target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]);
        let target = target.expect("a region");
        assert!(!target.begin(0).is_empty() && !target.state().landed);
        assert!(!target.end(0).is_empty() && target.state().landed);
        assert_eq!(target.left_in(), ImageState::SAMPLED);
        target.forget_end();
        assert!(target.begin(0).is_empty() && !target.state().landed);
        let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
        assert_eq!(target.left_in().layout, layout);
        target.forget_begin();
        assert_eq!(target.left_in(), ImageState::UNDEFINED);
    }

    #[test]
    fn an_image_is_read_back_only_between_requests() {
        let target = target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]);
        let target = target.expect("a region");
        let expect = |request, range| target.expect(request, range).map_err(|error| error.kind());
        assert!(!target.begin_reading());
        expect(1, Some(0..64)).expect("it is free");
        target.begin(0);
        target.part_ended();
        expect(1, None).expect("all has come");
        target.end(0);
        assert!(!target.begin_reading(), "its end is on its way");
        target.part_ended();
        assert!(target.begin_reading() && target.begin_reading());
        for left in [1, 0] {
            assert_eq!(expect(2, Some(0..64)), Err(ErrorKind::InvalidArgument));
            target.end_reading();
            assert_eq!(target.state().readers, left);
        }
        expect(2, Some(0..64)).expect("it is free");
        assert!(!target.begin_reading(), "it is about to be written to");
    }

    #[test]
    fn whole_rows_are_one_copy() {
        let target = target(
            vk::Format::BC7_UNORM_BLOCK,
            vec![region(0, 0..1, (16, 64, 1))],
        );
        let target = target.expect("regions");
        assert_eq!(target.len(), 4 * 16 * 16);
        assert_eq!(target.copies(0..1024).len(), 1);
        let cut = target.copies(16..1008);
        let extents: Vec<_> = cut
            .iter()
            .map(|copy| (copy.image_extent.width, copy.image_extent.height))
            .collect();
        assert_eq!(extents, [(12, 4), (16, 56), (12, 4)]);
    }

    fn families(transition: &Transition) -> (u32, u32) {
        let to = transition.dst_queue_family_index;
        (transition.src_queue_family_index, to)
    }

    #[test]
    fn another_family_acquires_what_was_released() {
        let regions = vec![region(0, 0..2, (8, 8, 1)), region(1, 0..2, (4, 4, 1))];
        let mut target = target(vk::Format::R8_UNORM, regions).expect("regions");
        assert!(target.acquire(3, vk::AccessFlags::SHADER_READ).is_empty());
        target.about.handover.family = Some(7);
        assert!(target.acquire(7, vk::AccessFlags::SHADER_READ).is_empty());
        let acquired = target.acquire(3, vk::AccessFlags::SHADER_READ);
        assert_eq!(target.begin(3).len(), 2);
        let released = target.end(3);
        assert_eq!((released.len(), acquired.len()), (2, 2));
        for (released, acquired) in released.iter().zip(&acquired) {
            assert_eq!((families(released), families(acquired)), ((3, 7), (3, 7)));
            assert_eq!(released.old_layout, acquired.old_layout);
            assert_eq!(released.new_layout, acquired.new_layout);
            let range = |barrier: &Transition| {
                let range = barrier.subresource_range;
                (
                    range.base_mip_level,
                    range.base_array_layer,
                    range.layer_count,
                )
            };
            assert_eq!(range(released), range(acquired));
            assert_eq!(released.dst_access_mask, vk::AccessFlags::empty());
            assert_eq!(acquired.dst_access_mask, vk::AccessFlags::SHADER_READ);
        }
    }

    #[test]
    fn an_image_is_acquired_only_if_its_content_is_kept() {
        let mut target =
            target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]).expect("a region");
        let mut families_of = |layout| {
            target.about.before = ImageState {
                layout,
                family: Some(9),
            };
            let begin = target.begin(2);
            assert!(target.begin(2).is_empty(), "once");
            target.forget_begin();
            families(&begin[0])
        };
        let none = (vk::QUEUE_FAMILY_IGNORED, vk::QUEUE_FAMILY_IGNORED);
        assert_eq!(families_of(vk::ImageLayout::UNDEFINED), none);
        assert_eq!(families_of(vk::ImageLayout::GENERAL), (9, 2));
    }

    #[test]
    fn regions_that_make_no_image_are_refused() {
        let fine = || region(0, 0..2, (8, 8, 1));
        let rgba = vk::Format::R8G8B8A8_UNORM;
        assert!(target(rgba, vec![fine(), fine(), region(0, 2..3, (4, 4, 1))]).is_ok());
        let refused = [
            target(vk::Format::D32_SFLOAT, vec![fine()]),
            target(rgba, Vec::new()),
            target(rgba, vec![region(0, 1..1, (8, 8, 1))]),
            target(rgba, vec![region(0, 0..1, (0, 8, 1))]),
            target(rgba, vec![fine(), region(0, 1..3, (4, 4, 1))]),
            target(rgba, vec![region(0, 0..u32::MAX, (u32::MAX, u32::MAX, 1))]),
        ];
        for refused in refused {
            let error = refused.map(drop).expect_err("no image");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
