//! Device images as destinations: the regions that the bytes of a request belong to.
//!
//! The bytes are those of the regions, one after the other, each packed as
//! `vkCmdCopyBufferToImage` expects. Parts of a request begin and end anywhere, so they land in a
//! buffer; once all have, one copy fills the regions, between the transitions of their layers.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream::Error;

use crate::error::invalid;
use crate::format::TexelBlock;

/// The layout of an image, and the queue family that owns it.
#[derive(Clone, Copy, PartialEq, Eq)]
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
#[derive(Clone, PartialEq, Eq)]
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
#[derive(Clone)]
pub struct AdoptedImage {
    /// The image, made with `TRANSFER_DST`.
    pub image: vk::Image,
    /// Its format: one plane of color.
    pub format: vk::Format,
    /// The destinations of a request's bytes, in this order.
    pub regions: Vec<ImageRegion>,
    /// The state of the regions' levels and layers when a request writes them, once all of its
    /// bytes are on the device. [`ImageState::UNDEFINED`] discards their content. If another family
    /// owns them, it has released them to the one that loads, from this layout to
    /// `TRANSFER_DST_OPTIMAL`. A request that fails leaves them as they are.
    pub before: ImageState,
    /// Their state once the request has completed.
    pub handover: ImageState,
}

/// A change of layout and owner of the layers of one level.
pub(crate) type Transition = vk::ImageMemoryBarrier<'static>;

/// An image as a destination, and the progress of its requests.
pub(crate) struct ImageTarget {
    pub(crate) about: AdoptedImage,
    pub(crate) block: TexelBlock,
    /// The copy of each region; its `buffer_offset` is an offset in a request's bytes.
    pub(crate) copies: Vec<vk::BufferImageCopy>,
    len: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether a request has landed.
    landed: bool,
    /// The request whose bytes land, or did last.
    request: u64,
    /// Number of expected parts that have not ended.
    parts: usize,
    /// Number of calls that read it back.
    readers: usize,
    /// Bytes that parts of the request brought, counted twice if brought twice.
    brought: u64,
}

impl ImageTarget {
    /// Makes a destination whose regions' bytes begin at `starts`, or else follow one another.
    pub(crate) fn new(about: AdoptedImage, starts: Option<&[u64]>) -> Result<ImageTarget, Error> {
        let block = TexelBlock::of(about.format)
            .ok_or_else(|| invalid("images of this format are not loaded"))?;
        let (mut len, mut copies) = (0_u64, Vec::with_capacity(about.regions.len()));
        for (index, region) in about.regions.iter().enumerate() {
            let begin = starts.map_or(len, |starts| starts[index]);
            if begin < len || !begin.is_multiple_of(block.bytes) {
                return Err(invalid(
                    "bytes of a region overlap, or begin within a texel block",
                ));
            }
            copies.push(copy_of(region, begin));
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
            copies,
            len,
            state: Mutex::default(),
        })
    }

    /// Returns the number of bytes up to the end of the last region.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the transitions to record before its copies.
    pub(crate) fn begin(&self, family: u32) -> Vec<Transition> {
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
            (state.request, state.brought) = (request, 0);
        }
        match bytes {
            Some(bytes) => state.brought += bytes.end - bytes.start,
            None if state.brought >= self.len => {}
            None => return Err(another()),
        }
        state.parts += 1;
        Ok(())
    }

    /// Reports that a part announced by [`ImageTarget::expect`] has ended; `landed`: it was the
    /// last one of a request that has landed.
    pub(crate) fn part_ended(&self, landed: bool) {
        let mut state = self.state();
        state.parts -= 1;
        state.landed |= landed;
    }

    /// Returns the state in which the requests so far leave its levels and layers.
    pub(crate) fn left_in(&self) -> ImageState {
        let landed = self.state().landed;
        match landed {
            true => self.about.handover,
            false => self.about.before,
        }
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

    /// Returns the transitions to record after its copies.
    pub(crate) fn end(&self, family: u32) -> Vec<Transition> {
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

fn another() -> Error {
    invalid("another request writes to the image: one at a time can")
}

/// Whether the transitions of two regions are the same or have nothing in common.
fn same_or_apart(a: &ImageRegion, b: &ImageRegion) -> bool {
    let apart = a.layers.end <= b.layers.start || b.layers.end <= a.layers.start;
    a.mip_level != b.mip_level || a.layers == b.layers || apart
}

/// Returns the bytes of a region; `None` on overflow, or if its range of layers is reversed.
fn region_len(region: &ImageRegion, block: TexelBlock) -> Option<u64> {
    let extent = region.extent;
    let layers = region.layers.end.checked_sub(region.layers.start)?;
    let slices = u64::from(layers).checked_mul(u64::from(extent.depth))?;
    u64::from(extent.width.div_ceil(block.width))
        .checked_mul(u64::from(extent.height.div_ceil(block.height)))?
        .checked_mul(slices)?
        .checked_mul(block.bytes)
}

/// Returns the copy of a region whose bytes begin at `at`, rows and slices without gaps.
fn copy_of(region: &ImageRegion, at: u64) -> vk::BufferImageCopy {
    vk::BufferImageCopy {
        buffer_offset: at,
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: region.mip_level,
            base_array_layer: region.layers.start,
            layer_count: region.layers.end.saturating_sub(region.layers.start),
        },
        image_offset: region.offset,
        image_extent: region.extent,
        ..vk::BufferImageCopy::default()
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
        let copies = placed.copies.iter();
        let found: Vec<_> = copies
            .map(|copy| (copy.buffer_offset, copy.image_extent.width))
            .collect();
        assert_eq!(found, [(64, 2), (128, 4)]);
        for wrong in [[64, 76], [66, 128], [128, 64], [0, u64::MAX - 3]] {
            assert!(
                ImageTarget::new(about.clone(), Some(&wrong)).is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_request_completes_only_if_all_bytes_are_its_own() {
        let target = target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]);
        let target = target.expect("a region");
        let takes = |request, bytes| {
            let taken = target.expect(request, bytes).is_ok();
            if taken {
                target.part_ended(false);
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
        target.part_ended(false);
        assert!(completes(3) && brings(4, 0..64) && completes(4));
    }

    #[test]
    fn an_image_is_read_back_only_between_requests() {
        let target = target(vk::Format::R8_UNORM, vec![region(0, 0..1, (8, 8, 1))]);
        let target = target.expect("a region");
        let expect = |request, range| target.expect(request, range).map_err(|error| error.kind());
        assert!(!target.begin_reading());
        expect(1, Some(0..64)).expect("it is free");
        target.part_ended(false);
        expect(1, None).expect("all has come");
        assert!(!target.begin_reading(), "its copy is on its way");
        target.part_ended(true);
        assert_eq!(target.left_in(), ImageState::SAMPLED);
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
    fn regions_take_the_bytes_of_their_blocks_in_all_layers_and_slices() {
        for (format, extent, layers, len) in [
            (vk::Format::R8_UNORM, (13, 7, 1), 0..1, 13 * 7),
            (vk::Format::R8G8B8_UNORM, (5, 3, 4), 0..1, 5 * 3 * 4 * 3),
            (
                vk::Format::BC7_UNORM_BLOCK,
                (16, 62, 1),
                1..4,
                4 * 16 * 3 * 16,
            ),
            (
                vk::Format::ASTC_5X4_UNORM_BLOCK,
                (6, 4, 1),
                0..2,
                2 * 2 * 16,
            ),
        ] {
            let made = target(format, vec![region(0, layers.clone(), extent)]);
            let made = made.expect("a region");
            assert_eq!(made.len(), len, "format {}", format.as_raw());
            assert_eq!(
                made.copies[0].image_subresource.layer_count,
                layers.end - layers.start
            );
        }
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
            assert!(released.old_layout == acquired.old_layout);
            assert!(released.new_layout == acquired.new_layout);
            let range = |barrier: &Transition| {
                let range = barrier.subresource_range;
                (
                    range.base_mip_level,
                    range.base_array_layer,
                    range.layer_count,
                )
            };
            assert_eq!(range(released), range(acquired));
            assert!(released.dst_access_mask == vk::AccessFlags::empty());
            assert!(acquired.dst_access_mask == vk::AccessFlags::SHADER_READ);
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
            families(&target.begin(2)[0])
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
