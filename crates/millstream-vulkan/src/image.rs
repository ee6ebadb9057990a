//! Device images as destinations.
#![expect(unsafe_code, reason = "records copies")]

use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::batch::barriers_of;
use crate::buffer::read_back;
use crate::error::invalid;
use crate::lane::{Shared, device_sink};
use crate::memory::DeviceImage;
use crate::regions::{AdoptedImage, ImageRegion, ImageState, ImageTarget};
use crate::target::{ImagePlace, Target};

/// The description of an image for [`Gpu::image`](crate::Gpu::image).
#[derive(Clone, Copy)]
pub struct ImageOptions {
    /// Its format: one plane of color.
    pub format: vk::Format,
    /// Its size. More than one slice makes it three-dimensional.
    pub extent: vk::Extent3D,
    /// Mip levels, the largest first.
    pub mip_levels: u32,
    /// Array layers.
    pub layers: u32,
    /// How the application uses it: sampled, storage, color or input attachment. Usages for copies
    /// to and from it are added.
    pub usage: vk::ImageUsageFlags,
    /// The layout that a request leaves it in: one that the usage allows.
    pub layout: vk::ImageLayout,
}

/// Levels and layers of an image on the device, to be passed to
/// [`Read::into_device`](millstream::Read::into_device). A request must provide all of their bytes.
/// They land in a buffer of the device's memory, and one copy fills the image once all are there.
/// Only one request at a time may land in it: of two, one or both fail. A request that fails leaves
/// the image as it is; the buffer is freed when the next one has landed, or with the image.
pub struct GpuImage {
    shared: Arc<Shared>,
    target: Arc<Target>,
}

impl GpuImage {
    fn new(shared: &Arc<Shared>, image: ImageTarget, made: Option<DeviceImage>) -> Arc<GpuImage> {
        Arc::new(GpuImage {
            shared: Arc::clone(shared),
            target: Arc::new(Target::Image(ImagePlace::new(image, made))),
        })
    }

    pub(crate) fn adopt(shared: &Arc<Shared>, about: AdoptedImage) -> Result<Arc<GpuImage>, Error> {
        Ok(GpuImage::new(shared, ImageTarget::new(about, None)?, None))
    }

    pub(crate) fn create(
        shared: &Arc<Shared>,
        options: &ImageOptions,
        placed: Option<Vec<(u64, ImageRegion)>>,
    ) -> Result<Arc<GpuImage>, Error> {
        let levels = whole(options);
        let levels = levels.ok_or_else(|| invalid("an image has more mip levels than sizes"))?;
        let (starts, regions): (Option<Vec<u64>>, Vec<ImageRegion>) = match placed {
            None => (None, levels.clone()),
            Some(placed) => {
                let (starts, regions) = placed.into_iter().unzip();
                (Some(starts), regions)
            }
        };
        let about = AdoptedImage {
            image: vk::Image::null(),
            format: options.format,
            regions,
            before: ImageState::UNDEFINED,
            handover: ImageState {
                layout: options.layout,
                family: None,
            },
        };
        // Invalid arguments are found before the device is called.
        let mut target = ImageTarget::new(about, starts.as_deref())?;
        let block = (target.block.width, target.block.height);
        let is_inside = |region: &ImageRegion| {
            let level = levels.get(region.mip_level as usize);
            level.is_some_and(|it| region.is_inside(it.extent, it.layers.end, block))
        };
        if !target.about.regions.iter().all(is_inside) {
            return Err(invalid(
                "a region is not inside of the image, or cuts a texel block",
            ));
        }
        let copies = vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::TRANSFER_SRC;
        let usage = options.usage | copies;
        if !allows(usage, options.layout) {
            return Err(invalid(
                "an image of another usage than to be copied, sampled, stored or drawn to, or of \
                 one that does not allow its layout",
            ));
        }
        let info = description(options, usage, &shared.context.families);
        shared.context.allows_image(&info)?;
        let made = DeviceImage::new(&shared.context, &info)?;
        target.about.image = made.image;
        Ok(GpuImage::new(shared, target, Some(made)))
    }

    pub(crate) fn place(&self) -> &ImagePlace {
        match &*self.target {
            Target::Image(place) => place,
            _ => unreachable!("made of an image"),
        }
    }

    /// Returns the image. One that the library made is destroyed with its last `GpuImage`, once no
    /// request to it is in flight.
    #[must_use]
    pub fn vk_image(&self) -> vk::Image {
        self.place().image.about.image
    }

    /// Returns the number of bytes that a request must provide: up to the end of the last region.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.target.len()
    }

    /// Returns the state in which the requests so far leave its levels and layers: that of the
    /// hand-over, or the initial state if none has landed. Call it while no request is in flight.
    #[must_use]
    pub fn state(&self) -> ImageState {
        self.place().image.left_in()
    }

    /// Returns the barriers by which the family that the image is handed over to acquires it, for
    /// the accesses `uses`, once its request has completed. Empty if there is no other family.
    #[must_use]
    pub fn acquire(&self, uses: vk::AccessFlags) -> Vec<vk::ImageMemoryBarrier<'static>> {
        let family = self.shared.context.compute.family;
        self.place().image.acquire(family, uses)
    }

    /// Reads all texels of an image that the library made, in the order of a request's bytes; those
    /// of no region are undefined. Blocks until the device has copied them; for tools and tests.
    ///
    /// # Errors
    /// `InvalidArgument`: the image is the application's, no request has landed in it, one is in
    /// flight, or the compute queue is `Recorded`; `DeviceLost`, `OutOfMemory`. A request that
    /// arrives meanwhile fails.
    pub fn read_back(&self) -> Result<Vec<u8>, Error> {
        let image = &self.place().image;
        if self.place().made.is_none() || !image.begin_reading() {
            return Err(invalid(
                "only an image of the library that was loaded, and that no request is on \
                         its way to, is read back",
            ));
        }
        let (from, len) = (image.about.image, image.len());
        let handed_over = image.about.handover.layout;
        let layout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        let family = self.shared.context.compute.family;
        let turn = |layouts, accesses| image.transitions(layouts, (family, family), accesses);
        let back = read_back(
            &self.shared.context,
            &self.target,
            len,
            |device, commands, to| {
                let all = vk::PipelineStageFlags::ALL_COMMANDS;
                let uses = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
                let there = turn((handed_over, layout), (uses, uses));
                barriers_of(device, commands, (all, all), (&[], &there));
                // SAFETY: texels of the image, and bytes of a buffer of its length.
                unsafe {
                    device.cmd_copy_image_to_buffer(commands, from, layout, to, &image.copies);
                };
                let back = turn((layout, handed_over), (uses, uses));
                barriers_of(device, commands, (all, all), (&[], &back));
            },
        );
        image.end_reading();
        back
    }
}

/// Returns the description of an image that queues of all these families use.
fn description<'a>(
    options: &ImageOptions,
    usage: vk::ImageUsageFlags,
    families: &'a [u32],
) -> vk::ImageCreateInfo<'a> {
    let info = vk::ImageCreateInfo::default()
        .image_type(match options.extent.depth {
            1 => vk::ImageType::TYPE_2D,
            _ => vk::ImageType::TYPE_3D,
        })
        .format(options.format)
        .extent(options.extent)
        .mip_levels(options.mip_levels)
        .array_layers(options.layers)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(vk::ImageTiling::OPTIMAL)
        .usage(usage);
    match families {
        [_] => info,
        several => info
            .sharing_mode(vk::SharingMode::CONCURRENT)
            .queue_family_indices(several),
    }
}

/// Whether a color image can be made for `usage`, and left in `layout`.
fn allows(usage: vk::ImageUsageFlags, layout: vk::ImageLayout) -> bool {
    use vk::{ImageLayout as Layout, ImageUsageFlags as Usage};
    let copies = Usage::TRANSFER_DST | Usage::TRANSFER_SRC;
    let reads = Usage::SAMPLED | Usage::INPUT_ATTACHMENT;
    let known = copies | reads | Usage::STORAGE | Usage::COLOR_ATTACHMENT;
    let needed = match layout {
        Layout::GENERAL | Layout::TRANSFER_SRC_OPTIMAL | Layout::TRANSFER_DST_OPTIMAL => copies,
        Layout::SHADER_READ_ONLY_OPTIMAL => reads,
        Layout::COLOR_ATTACHMENT_OPTIMAL => Usage::COLOR_ATTACHMENT,
        _ => return false,
    };
    known.contains(usage) && usage.intersects(needed)
}

/// Returns all levels of an image, the largest first, each with all layers; `None` if it has more
/// mip levels than sizes.
fn whole(options: &ImageOptions) -> Option<Vec<ImageRegion>> {
    let whole = options.extent;
    let largest = whole.width.max(whole.height).max(whole.depth).max(1);
    let halved = |side: u32, level: u32| (side >> level).max(side.min(1));
    let region = |mip_level: u32| ImageRegion {
        mip_level,
        layers: 0..options.layers,
        offset: vk::Offset3D::default(),
        extent: vk::Extent3D {
            width: halved(whole.width, mip_level),
            height: halved(whole.height, mip_level),
            depth: halved(whole.depth, mip_level),
        },
    };
    (options.mip_levels <= largest.ilog2() + 1)
        .then(|| (0..options.mip_levels).map(region).collect())
}

device_sink!(GpuImage);
