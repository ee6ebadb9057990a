//! A wgpu device, and the submissions to its queue.
//!
//! Only wgpu submits to its queue, under its own lock. So the copies of requests are recorded into
//! a wgpu encoder, and a second, empty submission signals the point that is reached when they have
//! run: a signal covers everything that was submitted to the queue before. A submission of another
//! thread in between may carry the signal instead, which is equivalent.
//!
//! A second queue of the device, which wgpu does not know, fills buffers without wgpu.
#![expect(
    unsafe_code,
    reason = "lends handles of wgpu to the library, and makes buffers"
)]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ash::{ext, vk};
use millstream::{Error, ErrorKind, Storage};
use millstream_vulkan::{
    AdoptedDevice, AdoptedImage, AdoptedQueue, Gpu, GpuBuffer, GpuFeatures, GpuImage, GpuOptions,
    GpuReport, GpuStats, ImageRegion, ImageState, QueueAccess,
};

use wgpu::hal::api::Vulkan;

use crate::destination::{BufferDestination, Destination, TextureDestination};

/// A wgpu device on Vulkan, whose buffers and textures requests land in. Workers decode; the device
/// copies.
pub struct WgpuDevice {
    // Dropped first: it waits for its work on the device.
    gpu: Gpu,
    textures: Mutex<Vec<Weak<TextureDestination>>>,
    adapter: wgpu::Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// The family of wgpu's queue, and that of the second queue if it differs.
    families: (u32, Option<u32>),
}

fn invalid(cause: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, cause)
}

fn no_vulkan() -> Error {
    Error::new(ErrorKind::Limit, "wgpu does not run on Vulkan here")
}

impl WgpuDevice {
    /// Lets requests land in buffers and textures of a device.
    ///
    /// # Errors
    /// `Limit`: wgpu does not run on Vulkan, its instance or the device lacks Vulkan 1.2, or the
    /// device lacks timeline semaphores; driver errors.
    ///
    /// # Safety
    /// The three belong together, and the device is not destroyed ([`wgpu::Device::destroy`]) while
    /// this or a destination of it lives.
    pub unsafe fn adopt(
        adapter: &wgpu::Adapter,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
    ) -> Result<WgpuDevice, Error> {
        // SAFETY: as the caller promises.
        unsafe { WgpuDevice::adopt_with(adapter, device, queue, None) }
    }

    /// As [`WgpuDevice::adopt`], with a second queue of the device that fills buffers without
    /// [`WgpuDevice::submit`]. The application has added it to wgpu's queues by wgpu-hal's
    /// `open_with_callback`. It fills buffers that wgpu made only if it is of wgpu's family.
    ///
    /// # Errors
    /// As of [`WgpuDevice::adopt`]; `Limit` also if the second queue does not copy, and
    /// `InvalidArgument` if its access is [`QueueAccess::Recorded`].
    ///
    /// # Safety
    /// As of [`WgpuDevice::adopt`]; other code submits to the second queue only as its
    /// [`QueueAccess`] permits, and wgpu does not know it. The second queue does not wait for
    /// wgpu's: work of that queue on a buffer has completed before a request fills the buffer.
    pub unsafe fn adopt_with(
        adapter: &wgpu::Adapter,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        second: Option<AdoptedQueue>,
    ) -> Result<WgpuDevice, Error> {
        // SAFETY: the handles are used while `device` is kept, and not destroyed.
        let (gpu, families) = unsafe {
            let hal = device.as_hal::<Vulkan>().ok_or_else(no_vulkan)?;
            let family = hal.queue_family_index();
            let other = second.as_ref().map(|second| second.family);
            let families = (family, other.filter(|other| *other != family));
            let instance = hal.shared_instance();
            if instance.instance_api_version() < vk::API_VERSION_1_2 {
                let cause = "wgpu's instance lacks Vulkan 1.2";
                return Err(Error::new(ErrorKind::Limit, cause));
            }
            let mut features = GpuFeatures::default();
            let extensions = hal.enabled_device_extensions();
            features.external_memory_host = extensions.contains(&ext::external_memory_host::NAME);
            let compute = AdoptedQueue {
                queue: hal.raw_queue(),
                family,
                access: QueueAccess::Recorded,
            };
            let adopted = AdoptedDevice {
                entry: instance.entry().clone(),
                instance: instance.raw_instance().clone(),
                physical: hal.raw_physical_device(),
                // wgpu enables timeline semaphores wherever a device has them.
                device: hal.raw_device().clone(),
                features,
                compute,
                transfer: second,
                keep: Some(Arc::new(device.clone())),
            };
            (Gpu::adopt(adopted, &GpuOptions::default())?, families)
        };
        Ok(WgpuDevice {
            gpu,
            textures: Mutex::default(),
            adapter: adapter.clone(),
            device: device.clone(),
            queue: queue.clone(),
            families,
        })
    }

    /// Makes a buffer in the device's memory, and returns all of it as a destination. Each is a
    /// separate Vulkan allocation, so it should not be small.
    ///
    /// # Errors
    /// `InvalidArgument`: no bytes, more than the device's limit `max_buffer_size`, a buffer mapped
    /// at creation, or usages other than vertices, indices, uniforms, storage and copies;
    /// `OutOfMemory`.
    ///
    /// # Safety
    /// No command that wgpu runs uses the buffer before a request has filled it, or while a request
    /// to it is in flight, and it is not destroyed then.
    pub unsafe fn buffer(
        &self,
        about: &wgpu::BufferDescriptor<'_>,
    ) -> Result<Arc<BufferDestination>, Error> {
        let sizes = 1..=self.device.limits().max_buffer_size;
        let size = about.size.checked_next_multiple_of(4);
        let (size, usage) = size
            .and_then(|size| usize::try_from(size).ok())
            .zip(buffer_usage(about.usage))
            .filter(|_| sizes.contains(&about.size) && !about.mapped_at_creation)
            .ok_or_else(|| invalid("a buffer of no or too many bytes, or of a usage not loaded"))?;
        // SAFETY: the usage is one of wgpu's, which destroys both before its device.
        let (handle, memory) = unsafe { self.gpu.raw_buffer(size, usage)? };
        // SAFETY: the device is wgpu's, which destroys what it is given with the buffer.
        let buffer = unsafe {
            use wgpu::hal::vulkan::Buffer;
            let made = Buffer::from_raw_managed(handle, memory, 0, size as u64);
            self.device.create_buffer_from_hal::<Vulkan>(made, about)
        };
        // SAFETY: the destination keeps the buffer; the rest the caller promises.
        let sink = unsafe { self.gpu.adopt_buffer((handle, 0, about.size), None) };
        Ok(Destination::new(sink, buffer, GpuBuffer::is_lost))
    }

    /// Returns a range of a buffer as a destination.
    ///
    /// # Errors
    /// `InvalidArgument`: the range is empty or not inside the buffer, or the buffer lacks the
    /// usage `COPY_DST`; `Limit`: it is not a Vulkan buffer.
    ///
    /// # Safety
    /// The buffer belongs to the device. No command that wgpu runs uses the range while a request
    /// to it is in flight, and the buffer is not destroyed then. wgpu has recorded the range as
    /// initialized, because it was written to, or cleared by `CommandEncoder::clear_buffer`, in a
    /// submission; else wgpu clears it on its first use, after bytes have landed. With a second
    /// queue ([`WgpuDevice::adopt_with`]) that submission has completed before a request begins.
    pub unsafe fn adopt_buffer(
        &self,
        buffer: &wgpu::Buffer,
        range: Range<u64>,
    ) -> Result<Arc<BufferDestination>, Error> {
        if !buffer.usage().contains(wgpu::BufferUsages::COPY_DST) {
            return Err(invalid("a buffer without the usage COPY_DST"));
        }
        if range.start >= range.end || range.end > buffer.size() {
            return Err(invalid("a range that is empty or not inside of its buffer"));
        }
        // SAFETY: the handle is not destroyed here.
        let handle = unsafe {
            let hal = buffer.as_hal::<Vulkan>().ok_or_else(no_vulkan)?;
            hal.raw_handle()
        };
        let place = (handle, range.start, range.end - range.start);
        // wgpu's buffers are exclusive: a second queue of another family does not write to them.
        let owner = self.families.1.map(|_| self.families.0);
        // SAFETY: the destination keeps the buffer; the rest the caller promises.
        let sink = unsafe { self.gpu.adopt_buffer(place, owner) };
        Ok(Destination::new(sink, buffer.clone(), GpuBuffer::is_lost))
    }

    /// Returns regions of a texture as a destination. The bytes are those of the regions, one after
    /// the other, without padding between rows.
    ///
    /// # Errors
    /// `InvalidArgument`: the texture lacks the usage `COPY_DST` or `TEXTURE_BINDING`, has more
    /// than one sample, or not a color format; there are no regions; a region is empty, not inside
    /// the texture, or its layers overlap another's in part; `Limit`: it is not a Vulkan texture.
    ///
    /// # Safety
    /// The texture belongs to the device, and the regions do not overlap. No command that wgpu runs
    /// uses their levels and layers while a request to them is in flight, and no other destination
    /// of these levels and layers is loaded meanwhile. The texture is not destroyed
    /// ([`wgpu::Texture::destroy`]) while the destination lives. wgpu has recorded each level and
    /// layer as initialized, because it was written to, or cleared; else wgpu clears it on its
    /// first use, after bytes have landed.
    pub unsafe fn adopt_texture(
        &self,
        texture: &wgpu::Texture,
        regions: Vec<ImageRegion>,
    ) -> Result<Arc<TextureDestination>, Error> {
        let needed = wgpu::TextureUsages::COPY_DST | wgpu::TextureUsages::TEXTURE_BINDING;
        if !texture.usage().contains(needed) || texture.sample_count() != 1 {
            return Err(invalid(
                "a texture without the usages COPY_DST and TEXTURE_BINDING, or of several samples",
            ));
        }
        if !regions.iter().all(|region| is_inside(region, texture)) {
            return Err(invalid(
                "a region that is not inside of the texture, or cuts a texel block",
            ));
        }
        // SAFETY: the handle is not destroyed here.
        let (image, format) = unsafe {
            let hal = texture.as_hal::<Vulkan>().ok_or_else(no_vulkan)?;
            let adapter = self.adapter.as_hal::<Vulkan>().ok_or_else(no_vulkan)?;
            let format = adapter.texture_format_as_raw(texture.format());
            (hal.raw_handle(), format)
        };
        let about = AdoptedImage {
            image,
            format,
            regions,
            // The state that `submit` has wgpu bring it to.
            before: ImageState::SAMPLED,
            handover: ImageState::SAMPLED,
        };
        // SAFETY: the destination keeps the texture; the rest the caller promises.
        let sink = unsafe { self.gpu.adopt_image(about)? };
        let destination = Destination::new(sink, texture.clone(), GpuImage::is_lost);
        let mut textures = self.textures();
        textures.retain(|one| one.strong_count() > 0);
        textures.push(Arc::downgrade(&destination));
        Ok(destination)
    }

    /// Submits the waiting copies, in two wgpu submissions. Call it once per frame, on any thread.
    /// Returns whether there were any. If a callback of the application panics in it, or wgpu has
    /// found the device to be lost, the device counts as lost for all requests.
    ///
    /// Requests complete once the device has made their copies, without polling wgpu. Commands that
    /// are submitted after that see the bytes.
    pub fn submit(&self) -> bool {
        // wgpu does not allow its own and raw commands in one encoder.
        let encoder = || self.device.create_command_encoder(&Default::default());
        let (mut before, mut copies) = (encoder(), encoder());
        // SAFETY: the encoder records outside of a pass, and is submitted once and below; the empty
        // submission behind it signals the point.
        let recorded = unsafe {
            copies.as_hal_mut::<Vulkan, _, _>(|encoder| match encoder {
                Some(encoder) => self.gpu.record(encoder.raw_handle()),
                None => {
                    self.gpu.lost();
                    None
                }
            })
        };
        let Some(recorded) = recorded else {
            return false;
        };
        let textures: Vec<_> = self.textures().iter().filter_map(Weak::upgrade).collect();
        let sampled = textures.iter().map(|destination| wgpu::TextureTransition {
            texture: destination.resource(),
            selector: None,
            state: wgpu::TextureUses::RESOURCE,
        });
        let point = recorded.point();
        let submitting = catch_unwind(AssertUnwindSafe(|| {
            before.transition_resources(std::iter::empty(), sampled);
            self.queue.submit([before.finish(), copies.finish()]);
            // SAFETY: the queue is not destroyed.
            let queue = unsafe { self.queue.as_hal::<Vulkan>() }.expect("it was adopted");
            queue.add_signal_semaphore(point.semaphore, Some(point.value));
            drop(queue);
            self.queue.submit([]);
        }));
        recorded.submitted();
        if let Err(panic) = submitting {
            // wgpu calls functions of the application in between: the device may have the copies.
            self.gpu.lost();
            resume_unwind(panic);
        }
        if !self.takes_commands() {
            // Possibly nothing was submitted, and the point is never signaled.
            self.gpu.lost();
        }
        true
    }

    /// Whether wgpu has not found the device to be lost, which submissions do not report.
    fn takes_commands(&self) -> bool {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        // SAFETY: nothing is recorded.
        unsafe { encoder.as_hal_mut::<Vulkan, _, _>(|encoder| encoder.is_some()) }
    }

    /// Lets the device read the staging of a storage itself, see
    /// [`Gpu::import_staging`](millstream_vulkan::Gpu::import_staging).
    ///
    /// # Errors
    /// As of that; `Limit` where the device was not opened with `VK_EXT_external_memory_host`.
    pub fn import_staging(&self, storage: &Storage) -> Result<(), Error> {
        self.gpu.import_staging(storage)
    }

    /// Reports that the device is lost, for example when
    /// [`wgpu::Device::set_device_lost_callback`] is called: requests end with `DeviceLost`.
    pub fn lost(&self) {
        self.gpu.lost();
    }

    /// Returns which device it is, and what decodes.
    #[must_use]
    pub fn report(&self) -> GpuReport {
        self.gpu.report()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        self.gpu.stats()
    }

    fn textures(&self) -> std::sync::MutexGuard<'_, Vec<Weak<TextureDestination>>> {
        self.textures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WgpuDevice")
            .field("gpu", &self.gpu)
            .field("families", &self.families)
            .finish_non_exhaustive()
    }
}

/// Whether a region lies inside a texture, and consists of whole texel blocks.
fn is_inside(region: &ImageRegion, texture: &wgpu::Texture) -> bool {
    if region.mip_level >= texture.mip_level_count() {
        return false;
    }
    let level = texture
        .size()
        .mip_level_size(region.mip_level, texture.dimension());
    let (layers, depth) = match texture.dimension() {
        wgpu::TextureDimension::D3 => (1, level.depth_or_array_layers),
        _ => (level.depth_or_array_layers, 1),
    };
    let level = vk::Extent3D {
        width: level.width,
        height: level.height,
        depth,
    };
    region.is_inside(level, layers, texture.format().block_dimensions())
}

/// Returns the Vulkan usage of a buffer, with copies to it; `None`: wgpu itself must make it.
fn buffer_usage(usage: wgpu::BufferUsages) -> Option<vk::BufferUsageFlags> {
    use vk::BufferUsageFlags as To;
    use wgpu::BufferUsages as From;
    let known = [
        (From::COPY_SRC, To::TRANSFER_SRC),
        (From::COPY_DST, To::TRANSFER_DST),
        (From::VERTEX, To::VERTEX_BUFFER),
        (From::INDEX, To::INDEX_BUFFER),
        (From::UNIFORM, To::UNIFORM_BUFFER),
        (From::STORAGE, To::STORAGE_BUFFER),
    ];
    let (mut left, mut made) = (usage, To::TRANSFER_DST);
    for (from, to) in known {
        if usage.contains(from) {
            left.remove(from);
            made |= to;
        }
    }
    left.is_empty().then_some(made)
}
