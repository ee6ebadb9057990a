//! The device's handle.
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
use crate::target::Target;
use crate::texels::{AdoptedImage, ImageRegion};
use crate::threads::start;

/// How to use a device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GpuOptions {
    /// Which device [`Gpu::create`] takes, in the order that Vulkan lists them; `None` (the
    /// default): the first discrete one, else integrated, else any.
    pub device: Option<usize>,
    /// With the validation layer, if the system has it: [`Gpu::create`] alone. Off by default.
    pub validation: bool,
    /// Whether the device decodes what it can. On by default; off, workers decode everything.
    pub decode: bool,
    /// Families of queues, beside those of the device's queues here, that use the buffers and
    /// images which the library makes, also those of scenes: they are shared concurrently, and
    /// need no transfer of ownership. Empty by default: a buffer or image then belongs to the
    /// family that computes.
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

/// Who decodes GDeflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// Workers, before the bytes go to the device.
    Cpu,
    /// The device, with workgroup memory and barriers alone, whatever the size of its subgroups.
    Workgroup,
    /// The device, with operations of subgroups of 32.
    Subgroup,
}

/// What [`Gpu::report`] tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GpuReport {
    /// The device's name.
    pub device: String,
    /// Who decodes.
    pub tier: Tier,
    /// Why.
    pub reason: String,
}

/// Counts since the device was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GpuStats {
    /// Submissions.
    pub batches: u64,
    /// Bytes that the processor wrote for the device: stored tiles and raw bytes.
    pub uploaded_bytes: u64,
    /// Such bytes that the device read from staging itself, see [`Gpu::import_staging`].
    pub imported_bytes: u64,
    /// Tiles that the device was given to decode.
    pub tiles: u64,
    /// Tiles of these that it refused.
    pub refused: u64,
    /// Tiles of these in which the processor found nothing wrong. After three the device decodes
    /// no more.
    pub disagreed: u64,
    /// Errors and warnings of the validation layer.
    pub validation_messages: u64,
}

/// A device that requests land on. Dropping it waits for all parts that it was given, and requests
/// that still have parts to come end with `Closed`. Where a completion drops it, on a thread of its
/// own, it does not wait.
pub struct Gpu {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    points: OnceLock<Points>,
    tier: Tier,
    reason: String,
}

impl Gpu {
    /// Opens a device, for tools and tests: an application has one already, see [`Gpu::adopt`].
    /// Takes up to a second: drivers compile the shader, which then decodes known tiles.
    ///
    /// # Errors
    /// `NotFound`: no Vulkan, or no such device; `Limit`: it lacks something; what its driver says.
    pub fn create(options: GpuOptions) -> Result<Gpu, Error> {
        Gpu::new(
            Context::create(options.device, options.validation)?,
            &options,
        )
    }

    /// What to make a device with, so that it is of most use here: families of queues, extensions
    /// and features, beside the feature `timelineSemaphore`.
    ///
    /// # Errors
    /// `Limit`: it lacks what is needed.
    ///
    /// # Safety
    /// The physical device is one of the instance's.
    pub unsafe fn wanted(
        instance: &Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<GpuWanted, Error> {
        GpuWanted::of(instance, physical)
    }

    /// Uses a device of the application's. It needs Vulkan 1.2, the feature `timelineSemaphore`,
    /// and a queue that computes and copies; what else is of use [`Gpu::wanted`] says. Where the
    /// application submits to that queue ([`QueueAccess::Recorded`](crate::QueueAccess::Recorded)),
    /// workers decode: the device cannot be tested.
    ///
    /// # Errors
    /// `Limit`: the device or a family of its queues lacks what is needed; `InvalidArgument`: a
    /// feature is said to be enabled that it has not; what the driver says.
    ///
    /// # Safety
    /// The handles belong together, and live until [`AdoptedDevice::keep`] is dropped. Without it
    /// they outlive the `Gpu`, every [`GpuBuffer`] and [`GpuImage`] of it, and the storages whose
    /// requests land there, as a worker may hold a destination for a moment after its request has
    /// completed; and no thread of the `Gpu` drops it. The features were enabled. Other code
    /// submits to the queues only as their [`QueueAccess`](crate::QueueAccess) says; one queue is
    /// given twice only if it is locked.
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

    /// Lets the device read the staging of a storage itself, so that bytes need no copy by the
    /// processor on their way. Pins that memory. Without this call, and where it fails, they are
    /// copied once. The memory stays mapped as long as the `Gpu` lives.
    ///
    /// # Errors
    /// `Limit`: `VK_EXT_external_memory_host` was not enabled, or staging is not aligned as the
    /// device needs it; what the driver says.
    pub fn import_staging(&self, storage: &Storage) -> Result<(), Error> {
        let staging = storage.staging();
        let mut imports = self
            .shared
            .imports
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !imports.iter().any(|import| import.is_of(&staging)) {
            imports.push(Imported::new(&self.shared.context, staging)?);
        }
        Ok(())
    }

    /// Records what waits for a queue that the application alone submits to: to be called once a
    /// frame, on any thread. `None`: nothing does. At most 3 batches are recorded at once, and the
    /// next ones wait until those have run. `None` also while an earlier recording is not settled,
    /// see [`Recorded`].
    ///
    /// # Safety
    /// The commands are being recorded, outside of a render pass, for a queue of the adopted
    /// family. They are submitted at most once, in the order in which they were recorded, and
    /// before [`Recorded::submitted`] is called; never once the [`Recorded`] was dropped without
    /// that call. That submission signals the point, or a later one to the queue.
    pub unsafe fn record(&self, commands: vk::CommandBuffer) -> Option<Recorded<'_>> {
        self.shared.compute.recorder.as_ref()?.record(commands)
    }

    /// A fence that reaches 1 once the device has reached a point: `read.write_after(&fence, 1)`
    /// reads at once, and writes when the device no longer uses what is there. Without the `Gpu`
    /// it is never reached; of a device that is lost, at once.
    ///
    /// # Errors
    /// `OutOfMemory`, with the first call alone, which starts a thread.
    ///
    /// # Safety
    /// The semaphore is a timeline of the device, and lives until this `Gpu` was dropped, or has
    /// signaled the fence, which nothing else signals.
    pub unsafe fn fence(&self, point: GpuPoint) -> Result<Fence, Error> {
        Ok(self.points()?.fence(point))
    }

    /// Signals a point once a fence has reached a value, for submissions that wait for it on the
    /// device: `batch.signal(&fence, value)` raises it once all requests before have completed,
    /// well or badly. If the `Gpu` is dropped before, the point is not signaled.
    ///
    /// # Errors
    /// As of [`Gpu::fence`].
    ///
    /// # Safety
    /// The semaphore is a timeline of the device that is below the value until then, and lives
    /// until it is signaled or the `Gpu` dropped. Nothing else signals it between.
    pub unsafe fn signal(&self, fence: &Fence, value: u64, point: GpuPoint) -> Result<(), Error> {
        self.points()?.signal(fence, value, point);
        Ok(())
    }

    /// The thread that waits for points, started when it is needed first.
    fn points(&self) -> Result<&Points, Error> {
        if let Some(points) = self.points.get() {
            return Ok(points);
        }
        let points = Points::new(&self.shared.context)?;
        Ok(self.points.get_or_init(|| points))
    }

    /// The application knows that the device is lost: what is on its way ends with `DeviceLost`,
    /// and so does what comes later. Only needed where the application submits
    /// ([`QueueAccess::Recorded`](crate::QueueAccess::Recorded)); elsewhere the driver says so.
    /// Memory that the device may still use is leaked.
    pub fn lost(&self) {
        self.shared.lose();
    }

    /// Whether the device was lost. A request that was canceled before reports that and not the
    /// loss: free memory of the application's that it was to land in only where this says no, or
    /// once `vkDeviceWaitIdle` has returned.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.context.is_lost()
    }

    /// Makes a buffer in the device's memory. `usage` is what the application does with it; copies
    /// to and from it are added. One allocation of Vulkan's: for buffers of some size.
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

    /// Makes a buffer in memory of its own on the device, both of which the caller destroys: of
    /// this usage alone, shared by all families that load. For who gives buffers to another owner
    /// and then [adopts](Gpu::adopt_buffer) them.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost`.
    ///
    /// # Safety
    /// Both are destroyed before the device. `len` is not 0; the usage is one that the device
    /// allows, of memory allocated without flags.
    pub unsafe fn raw_buffer(
        &self,
        len: usize,
        usage: vk::BufferUsageFlags,
    ) -> Result<(vk::Buffer, vk::DeviceMemory), Error> {
        DeviceBuffer::local(&self.shared.context, len, usage).map(DeviceBuffer::into_raw)
    }

    /// Makes an image in the device's memory, as a destination of all its texels: level by level,
    /// the largest first, each with all layers.
    ///
    /// # Errors
    /// `Limit`: the device has no such images; `InvalidArgument`; `OutOfMemory`.
    pub fn image(&self, options: &ImageOptions) -> Result<Arc<GpuImage>, Error> {
        GpuImage::create(&self.shared, options, None)
    }

    /// As [`Gpu::image`], as a destination of bytes in another order: each region with where its
    /// bytes begin among those of a request, in ascending order, at multiples of a texel block.
    /// Bytes that belong to no region are dropped.
    ///
    /// # Errors
    /// As [`Gpu::image`]; `InvalidArgument` for a region that is not inside of the image.
    pub fn image_at(
        &self,
        options: &ImageOptions,
        regions: Vec<(u64, ImageRegion)>,
    ) -> Result<Arc<GpuImage>, Error> {
        GpuImage::create(&self.shared, options, Some(regions))
    }

    /// A range of a buffer of the application's, which was made with `TRANSFER_DST`. `handover` is
    /// the family that is to own the range of an exclusive buffer, and then has to
    /// [acquire](GpuBuffer::acquire) it; its content before is discarded. Without one the families
    /// of the adopted queues and of those that use the buffer are one, or it is shared
    /// concurrently.
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

    /// Levels and layers of an image of the application's. A request must bring all bytes of its
    /// regions.
    ///
    /// # Errors
    /// `InvalidArgument`: the format is not of color, the regions are none, empty, or of layers
    /// that overlap in part, or there is no layout to hand it over in.
    ///
    /// # Safety
    /// As of [`Gpu::adopt_buffer`]. The format is the image's, the regions are texels of it that
    /// do not overlap, its usage allows the layout of `handover`, and it is in the state `before`
    /// when a request begins to write: if another family owns it, that family has released it.
    pub unsafe fn adopt_image(&self, image: AdoptedImage) -> Result<Arc<GpuImage>, Error> {
        GpuImage::adopt(&self.shared, image)
    }

    /// Which device it is, who decodes, and why.
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

    /// What was done so far.
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
            // An answer of a thread drops the handle. The threads wait for one another, so they end
            // by themselves once it has returned.
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

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// What decodes on a device, and why it is this.
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

    /// The best tier whose shader passes the known-answer test.
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
