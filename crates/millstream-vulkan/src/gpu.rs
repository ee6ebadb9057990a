//! [`Gpu`], the handle of a device.
#![expect(
    unsafe_code,
    reason = "declares what an application promises of its handles"
)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::JoinHandle;

use ash::{Instance, vk};
use millstream::{Error, Fence, Storage};

use crate::buffer::GpuBuffer;
use crate::check::refusal;
use crate::context::Context;
use crate::create::{AdoptedDevice, GpuWanted};
use crate::decoder::{Decoder, Shader};
use crate::error::invalid;
use crate::image::{GpuImage, ImageOptions};
use crate::import::Imported;
use crate::lane::Shared;
use crate::memory::DeviceBuffer;
use crate::points::Points;
use crate::queue::GpuPoint;
use crate::record::Recorded;
use crate::regions::{AdoptedImage, ImageRegion};
use crate::target::Target;
use crate::threads::start;

/// Options of a device; see [how options are set](millstream#options).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GpuOptions {
    /// Index of the device that [`Gpu::create`] opens, in Vulkan's order; `None` (the default): the
    /// first discrete one, else integrated, else virtual, else any.
    pub device: Option<usize>,
    /// Whether [`Gpu::create`] enables the validation layer, if the system has it. Off by default.
    pub validation: bool,
    /// Whether the device decodes what it can. On by default; if off, workers decode everything.
    pub decode: bool,
    /// Queue families, in addition to those of the library's own queues, that use the buffers and
    /// images which the library makes, including those of scenes: these are shared concurrently,
    /// and need no transfer of ownership. Empty by default: only the library's own queues then use
    /// them.
    pub families: Vec<u32>,
}

impl Default for GpuOptions {
    fn default() -> GpuOptions {
        GpuOptions {
            device: None,
            validation: false,
            decode: true,
            families: Vec::new(),
        }
    }
}

/// What decodes GDeflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// Workers, before the bytes go to the device.
    Cpu,
    /// The device, with only workgroup memory and barriers, whatever the size of its subgroups.
    Workgroup,
    /// The device, with operations of subgroups of 32.
    Subgroup,
}

/// The result of [`Gpu::report`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GpuReport {
    /// The device's name.
    pub device: String,
    /// What decodes.
    pub tier: Tier,
    /// Why this tier was chosen.
    pub reason: String,
}

/// Counts since the device was created or adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GpuStats {
    /// Batches that were filled for submission.
    pub batches: u64,
    /// Bytes that the processor wrote for the device: stored tiles and raw bytes.
    pub uploaded_bytes: u64,
    /// Such bytes that the device read from staging itself, see [`Gpu::import_staging`].
    pub imported_bytes: u64,
    /// Tiles that the device was given to decode.
    pub tiles: u64,
    /// Tiles of these that it rejected.
    pub refused: u64,
    /// Rejected tiles that the processor found valid, except those beyond the shader's limits.
    /// After three the device decodes no more.
    pub disagreed: u64,
    /// Errors and warnings of the validation layer.
    pub validation_messages: u64,
}

/// A device that requests land on. Dropping it waits for all parts that it was given; requests
/// with parts still to come end with `Closed`. If it is dropped on one of its own threads, by a
/// completion, it does not wait.
pub struct Gpu {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    points: OnceLock<Points>,
    tier: Tier,
    reason: String,
}

impl Gpu {
    /// Opens a device, for tools and tests; an application that has one uses [`Gpu::adopt`].
    /// Takes up to a second: drivers compile the shader, which then decodes known tiles.
    ///
    /// # Errors
    /// `NotFound`: no Vulkan, or no such device; `Limit`: it lacks a requirement; driver errors.
    pub fn create(options: GpuOptions) -> Result<Gpu, Error> {
        Gpu::new(
            Context::create(options.device, options.validation)?,
            &options,
        )
    }

    /// Returns what a device should be created with to be of most use here: queue families,
    /// extensions and features, in addition to the feature `timelineSemaphore`.
    ///
    /// # Errors
    /// `Limit`: the physical device lacks a requirement.
    ///
    /// # Safety
    /// The physical device is one of the instance's.
    pub unsafe fn wanted(
        instance: &Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<GpuWanted, Error> {
        GpuWanted::of(instance, physical)
    }

    /// Uses a device of the application. It needs Vulkan 1.2, the feature `timelineSemaphore`,
    /// and a queue that computes and copies; [`Gpu::wanted`] returns what else is of use. With
    /// [`QueueAccess::Recorded`](crate::QueueAccess::Recorded) workers decode, because the shaders
    /// cannot be tested.
    ///
    /// # Errors
    /// `Limit`: the device or a family of its queues lacks a requirement; `InvalidArgument`: a
    /// feature is declared as enabled that the device lacks; driver errors.
    ///
    /// # Safety
    /// The handles belong together, and live until [`AdoptedDevice::keep`] is dropped. Without it
    /// they outlive the `Gpu`, every [`GpuBuffer`] and [`GpuImage`] of it, and the storages whose
    /// requests land there, as a worker may hold a destination for a moment after its request has
    /// completed; and no thread of the `Gpu` drops it. The features were enabled. Other code
    /// submits to the queues only as their [`QueueAccess`](crate::QueueAccess) permits; the same
    /// queue is given twice only if it is locked.
    /// After a request has failed with `DeviceLost` the device is idle before it is destroyed.
    pub unsafe fn adopt(adopted: AdoptedDevice, options: &GpuOptions) -> Result<Gpu, Error> {
        Gpu::new(Context::adopt(adopted)?, options)
    }

    fn new(mut context: Context, options: &GpuOptions) -> Result<Gpu, Error> {
        context.share(&options.families)?;
        let context = Arc::new(context);
        let chosen = match options.decode {
            true if context.compute.is_recorded() => Chosen::none("the application submits"),
            true => Chosen::of(&context)?,
            false => Chosen::none("decoding on the device is off"),
        };
        let (shared, threads) = start(context, chosen.decoder)?;
        Ok(Gpu {
            shared,
            threads,
            points: OnceLock::new(),
            tier: chosen.tier,
            reason: chosen.reason,
        })
    }

    /// Lets the device read the staging of a storage itself, so that the processor does not have to
    /// copy the bytes. Pins that memory. Without this call, or if it fails, bytes are copied once.
    /// The memory stays mapped as long as the `Gpu` lives.
    ///
    /// # Errors
    /// `Limit`: `VK_EXT_external_memory_host` was not enabled, or the device cannot import staging,
    /// for example because of its alignment; driver errors.
    pub fn import_staging(&self, storage: &Storage) -> Result<(), Error> {
        let staging = storage.staging();
        let mut imports = self
            .shared
            .imports
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !imports.iter().any(|it| Arc::ptr_eq(&it.region, &staging)) {
            imports.push(Imported::new(&self.shared.context, staging)?);
        }
        Ok(())
    }

    /// Records the waiting batches for a queue that only the application submits to. Call it once
    /// per frame, on any thread. Returns `None` if nothing waits, or while an earlier recording is
    /// not settled, see [`Recorded`]. At most 3 batches are recorded at once; the next ones wait
    /// until those have run.
    ///
    /// # Safety
    /// The commands are being recorded, outside of a render pass, for a queue of the adopted
    /// family. They are submitted at most once, in the order in which they were recorded, and
    /// before [`Recorded::submitted`] is called; never once the [`Recorded`] was dropped without
    /// that call. That submission signals the point, or a later one to the queue.
    pub unsafe fn record(&self, commands: vk::CommandBuffer) -> Option<Recorded<'_>> {
        self.shared.compute.recorder.as_ref()?.record(commands)
    }

    /// Returns a fence that reaches 1 once the device has reached a point. With it,
    /// `read.write_after(&fence, 1)` reads at once, and writes when the device no longer uses the
    /// destination. Never reached if the `Gpu` is dropped first; at once if the device is lost.
    ///
    /// # Errors
    /// `OutOfMemory`, only from the first call, which starts a thread.
    ///
    /// # Safety
    /// The semaphore is a timeline of the device, and lives until this `Gpu` was dropped, or has
    /// signaled the fence, which nothing else signals.
    pub unsafe fn fence(&self, point: GpuPoint) -> Result<Fence, Error> {
        Ok(self.points()?.fence(point))
    }

    /// Signals a point once a fence has reached a value, for submissions that wait for it on the
    /// device: `batch.signal(&fence, value)` raises the fence once all requests before it have
    /// completed or failed. If the `Gpu` is dropped first, the point is not signaled.
    ///
    /// # Errors
    /// As of [`Gpu::fence`].
    ///
    /// # Safety
    /// The semaphore is a timeline of the device that is below the value until then, and lives
    /// until it is signaled or the `Gpu` is dropped. Nothing else signals it in between.
    pub unsafe fn signal(&self, fence: &Fence, value: u64, point: GpuPoint) -> Result<(), Error> {
        self.points()?.signal(fence, value, point);
        Ok(())
    }

    /// Returns the thread that waits for points, which the first call starts.
    fn points(&self) -> Result<&Points, Error> {
        if let Some(points) = self.points.get() {
            return Ok(points);
        }
        let points = Points::new(&self.shared.context)?;
        Ok(self.points.get_or_init(|| points))
    }

    /// Reports that the device is lost: requests in flight end with `DeviceLost`, and so do later
    /// ones. Only needed if the application submits
    /// ([`QueueAccess::Recorded`](crate::QueueAccess::Recorded)); otherwise the driver reports a
    /// loss. Memory that the device may still use is leaked.
    pub fn lost(&self) {
        self.shared.lose();
    }

    /// Whether the device was lost. A request that was canceled before reports the cancellation and
    /// not the loss: free the application's memory that it was to land in only if this returns
    /// false, or once `vkDeviceWaitIdle` has returned.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.context.is_lost()
    }

    /// Makes a buffer in the device's memory. `usage` is the application's; usages for copies to
    /// and from it are added. Each is a separate Vulkan allocation, so it should not be small.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidArgument` for no bytes, and for a usage that Vulkan 1.0 lacks.
    pub fn buffer(&self, len: u64, usage: vk::BufferUsageFlags) -> Result<Arc<GpuBuffer>, Error> {
        let usage = usage | vk::BufferUsageFlags::TRANSFER_DST | vk::BufferUsageFlags::TRANSFER_SRC;
        if usage.as_raw() >= vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw() << 1 {
            return Err(invalid(
                "buffers of usages of extensions are made by the application, and adopted",
            ));
        }
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len > 0)
            .ok_or_else(|| invalid("a buffer of no or too many bytes"))?;
        let made = DeviceBuffer::local(&self.shared.context, len, usage)?;
        Ok(GpuBuffer::new(&self.shared, Target::Managed(made)))
    }

    /// Makes a buffer with its own device memory, both of which the caller destroys. It has exactly
    /// this usage, and is shared by all families that load. For code that passes buffers to another
    /// owner and then [adopts](Gpu::adopt_buffer) them.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost`.
    ///
    /// # Safety
    /// Both are destroyed before the device. `len` is not 0; the device allows the usage, with
    /// memory that is allocated without flags.
    pub unsafe fn raw_buffer(
        &self,
        len: usize,
        usage: vk::BufferUsageFlags,
    ) -> Result<(vk::Buffer, vk::DeviceMemory), Error> {
        DeviceBuffer::local(&self.shared.context, len, usage).map(DeviceBuffer::into_raw)
    }

    /// Makes an image in the device's memory, as a destination for all its texels: level by level,
    /// the largest first, each with all layers.
    ///
    /// # Errors
    /// `Limit`: the device does not support such images; `InvalidArgument`; `OutOfMemory`.
    pub fn image(&self, options: &ImageOptions) -> Result<Arc<GpuImage>, Error> {
        GpuImage::create(&self.shared, options, None)
    }

    /// As [`Gpu::image`], but for bytes in another order: each region comes with the offset of its
    /// bytes in a request. Offsets ascend, and are multiples of the bytes of a texel block. Bytes
    /// that belong to no region are dropped.
    ///
    /// # Errors
    /// As [`Gpu::image`]; `InvalidArgument` for a region that is not inside the image.
    pub fn image_at(
        &self,
        options: &ImageOptions,
        regions: Vec<(u64, ImageRegion)>,
    ) -> Result<Arc<GpuImage>, Error> {
        GpuImage::create(&self.shared, options, Some(regions))
    }

    /// Returns a range of an application's buffer, made with `TRANSFER_DST`, as a destination.
    /// `handover` is the family that is to own the range of an exclusive buffer after a request,
    /// and must then [acquire](GpuBuffer::acquire) it; the previous content is discarded. Without
    /// it, the adopted queues and those that use the buffer are of one family, or the buffer is
    /// shared concurrently.
    ///
    /// # Safety
    /// The buffer belongs to the device, has the range, and outlives every request into it. Other
    /// code does not use the range from the submission of a request until it has completed. After
    /// a request has failed with `DeviceLost`, or was canceled and [`Gpu::is_lost`], the buffer and
    /// the range are left alone until `vkDeviceWaitIdle` has returned.
    #[must_use]
    pub unsafe fn adopt_buffer(
        &self,
        (buffer, offset, len): (vk::Buffer, u64, u64),
        handover: Option<u32>,
    ) -> Arc<GpuBuffer> {
        let target = Target::Adopted {
            buffer,
            offset,
            len,
            handover,
        };
        GpuBuffer::new(&self.shared, target)
    }

    /// Returns levels and layers of an application's image as a destination. A request must provide
    /// all bytes of its regions.
    ///
    /// # Errors
    /// `InvalidArgument`: the format is not a color format; there are no regions; a region is empty
    /// or its layers overlap another's in part; or the layout of `handover` is not a valid one.
    ///
    /// # Safety
    /// As of [`Gpu::adopt_buffer`]. The format is the image's, the regions are texels of it that
    /// do not overlap, its usage allows the layout of `handover`, and it is in the state `before`
    /// when a request begins to write: if another family owns it, that family has released it.
    pub unsafe fn adopt_image(&self, image: AdoptedImage) -> Result<Arc<GpuImage>, Error> {
        GpuImage::adopt(&self.shared, image)
    }

    /// Returns which device it is, what decodes, and why.
    #[must_use]
    pub fn report(&self) -> GpuReport {
        let decodes = self.shared.decodes.load(Ordering::Relaxed);
        let gave_up = || "the device refused tiles that are good: workers decode".into();
        GpuReport {
            device: self.shared.context.name.clone(),
            tier: match decodes {
                true => self.tier,
                false => Tier::Cpu,
            },
            reason: match self.stats().disagreed < crate::limits::DISAGREEMENTS_MAX {
                true => self.reason.clone(),
                false => gave_up(),
            },
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let counters = &self.shared.counters;
        GpuStats {
            batches: counters.batches.load(Ordering::Relaxed),
            uploaded_bytes: counters.uploaded_bytes.load(Ordering::Relaxed),
            imported_bytes: counters.imported_bytes.load(Ordering::Relaxed),
            tiles: counters.tiles.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            disagreed: counters.disagreed.load(Ordering::Relaxed),
            validation_messages: self.shared.context.messages(),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.shared.close();
        let own = std::thread::current().id();
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == own;
        if self.threads.iter().any(is_own) {
            // A completion on one of the threads drops the handle. The threads wait for one
            // another, so they end by themselves once it has returned.
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Nothing is in flight. Destinations may live on.
        let imports = self.shared.imports.write();
        imports.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The decoder of a device, and why it was chosen.
struct Chosen {
    decoder: Option<Arc<Decoder>>,
    tier: Tier,
    reason: String,
}

impl Chosen {
    fn none(reason: &str) -> Chosen {
        Chosen {
            decoder: None,
            tier: Tier::Cpu,
            reason: reason.into(),
        }
    }

    /// Returns the best tier whose shader passes the known-answer test.
    fn of(context: &Arc<Context>) -> Result<Chosen, Error> {
        let mut refusals = Vec::new();
        let mut tiers = vec![(Tier::Workgroup, Shader::WORKGROUP)];
        match context.features.subgroups_of_32 {
            true => tiers.insert(0, (Tier::Subgroup, Shader::SUBGROUP)),
            false => refusals.push("subgroups of 32 are not enabled".to_string()),
        }
        for (tier, shader) in tiers {
            let refused = match Decoder::new(context, &shader) {
                Ok(decoder) => {
                    let decoder = Arc::new(decoder);
                    match refusal(context, &decoder)? {
                        None => {
                            refusals.push("it passes the known-answer test".into());
                            return Ok(Chosen {
                                decoder: Some(decoder),
                                tier,
                                reason: refusals.join("; "),
                            });
                        }
                        Some(reason) => reason,
                    }
                }
                Err(error) => format!("the shader does not compile: {error}"),
            };
            refusals.push(format!("{tier:?}: {refused}"));
        }
        Ok(Chosen::none(&refusals.join("; ")))
    }
}
