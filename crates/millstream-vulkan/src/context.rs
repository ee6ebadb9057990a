//! The Vulkan device: created for tools, or adopted from an application.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ash::{Entry, Instance, ext, vk};
use millstream::{Error, ErrorKind};

use crate::create::{AdoptedDevice, Created, GpuFeatures, GpuWanted, offers};
use crate::error::{invalid, is_short, lost, vulkan};
use crate::limits;
use crate::queue::{AdoptedQueue, GpuPoint, Queue, QueueAccess};

/// A device, its queues, and what was enabled on it.
pub(crate) struct Context {
    pub(crate) device: ash::Device,
    pub(crate) name: String,
    pub(crate) features: GpuFeatures,
    /// The compute queue, and the transfer queue if there is one.
    pub(crate) compute: Arc<Queue>,
    pub(crate) transfer: Option<Arc<Queue>>,
    /// Functions of `VK_EXT_external_memory_host`, if it is enabled.
    pub(crate) host: Option<ext::external_memory_host::Device>,
    /// The families of its queues, and those of [`Context::share`], each once.
    pub(crate) families: Vec<u32>,
    lost: AtomicBool,
    memory: vk::PhysicalDeviceMemoryProperties,
    /// Whether it has `VK_EXT_memory_budget`, which need not be enabled.
    tells_budget: bool,
    pub(crate) instance: Instance,
    pub(crate) physical: vk::PhysicalDevice,
    /// The instance and messenger, if they were created here: `drop` then destroys the device too.
    owned: Option<Created>,
    /// Keeps the loader's library.
    _entry: Entry,
    /// [`AdoptedDevice::keep`], dropped last.
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl Context {
    /// Creates a device, with these fields of [`GpuOptions`](crate::GpuOptions).
    pub(crate) fn create(device: Option<usize>, validation: bool) -> Result<Context, Error> {
        let (adopted, created) = Created::new(device, validation)?;
        let mut context = Context::new(adopted);
        context.owned = Some(created);
        Ok(context)
    }

    /// Adopts an application's device, and checks its features and queues.
    pub(crate) fn adopt(adopted: AdoptedDevice) -> Result<Context, Error> {
        let (instance, physical) = (&adopted.instance, adopted.physical);
        let has = GpuWanted::of(instance, physical)?.features;
        let claims = adopted.features;
        if (claims.external_memory_host && !has.external_memory_host)
            || (claims.subgroups_of_32 && !has.subgroups_of_32)
        {
            return Err(invalid(
                "the device lacks a feature that is said to be enabled",
            ));
        }
        // SAFETY: a device of the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let check = |queue: &AdoptedQueue, (flags, what): (vk::QueueFlags, &str)| {
            let family = families.get(queue.family as usize);
            match family.is_some_and(|family| family.queue_flags.intersects(flags)) {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::Limit,
                    format!("queues of family {} cannot {what}", queue.family),
                )),
            }
        };
        let computes = vk::QueueFlags::COMPUTE;
        check(&adopted.compute, (computes, "compute"))?;
        if let Some(transfer) = &adopted.transfer {
            if matches!(transfer.access, QueueAccess::Recorded) {
                return Err(invalid(
                    "only the queue that computes can be one that the application records",
                ));
            }
            // Queues that compute or draw can also copy, and need not set `TRANSFER`.
            let copies = vk::QueueFlags::TRANSFER | vk::QueueFlags::GRAPHICS | computes;
            check(transfer, (copies, "copy"))?;
        }
        Ok(Context::new(adopted))
    }

    fn new(adopted: AdoptedDevice) -> Context {
        let (instance, physical) = (adopted.instance, adopted.physical);
        // SAFETY: the physical device is one of the instance's.
        let (memory, properties, offered) = unsafe {
            let memory = instance.get_physical_device_memory_properties(physical);
            let offered = instance.enumerate_device_extension_properties(physical);
            let properties = instance.get_physical_device_properties(physical);
            (memory, properties, offered.unwrap_or_default())
        };
        let name = properties.device_name_as_c_str().unwrap_or(c"?");
        let host = adopted.features.external_memory_host;
        let host = host.then(|| ext::external_memory_host::Device::new(&instance, &adopted.device));
        let mut families = vec![adopted.compute.family];
        let transfer = adopted.transfer.as_ref().map(|queue| queue.family);
        families.extend(transfer.filter(|family| *family != families[0]));
        Context {
            device: adopted.device,
            name: name.to_string_lossy().into_owned(),
            features: adopted.features,
            compute: Arc::new(Queue::new(adopted.compute)),
            transfer: adopted.transfer.map(|queue| Arc::new(Queue::new(queue))),
            host,
            families,
            lost: AtomicBool::new(false),
            memory,
            tells_budget: offers(&offered, ext::memory_budget::NAME),
            instance,
            physical,
            owned: None,
            _entry: adopted.entry,
            _keep: adopted.keep,
        }
    }

    /// Adds families of the application that use the buffers and images made here.
    pub(crate) fn share(&mut self, families: &[u32]) -> Result<(), Error> {
        // SAFETY: a device of the instance.
        let known = unsafe {
            let instance = &self.instance;
            instance.get_physical_device_queue_family_properties(self.physical)
        };
        for family in families {
            if *family as usize >= known.len() {
                let cause = format!("the device has no queue family {family}");
                return Err(Error::new(ErrorKind::Limit, cause));
            }
            if !self.families.contains(family) {
                self.families.push(*family);
            }
        }
        Ok(())
    }

    /// Returns the number of errors and warnings of the validation layer.
    pub(crate) fn messages(&self) -> u64 {
        self.owned.as_ref().map_or(0, Created::messages)
    }

    /// Whether the device was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Drops what the device was given, or leaks it if the device is lost and may still use it.
    pub(crate) fn keep_if_lost<T>(&self, given: T) {
        if self.is_lost() {
            std::mem::forget(given);
        }
    }

    /// Returns the error of a call that gives nothing to the device if it fails. Only a loss of the
    /// device is recorded.
    pub(crate) fn failed(&self, call: &'static str, result: vk::Result) -> Error {
        match result {
            vk::Result::ERROR_DEVICE_LOST => self.lose(call, result),
            _ => vulkan(call, result),
        }
    }

    /// Marks the device as lost, and returns the error of the call.
    pub(crate) fn lose(&self, call: &'static str, result: vk::Result) -> Error {
        self.set_lost();
        Error::new(ErrorKind::DeviceLost, format!("{call}: {result}"))
    }

    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    pub(crate) fn memory_type(
        &self,
        allowed: u32,
        properties: vk::MemoryPropertyFlags,
    ) -> Result<u32, Error> {
        let first = self.memory_types(allowed, properties).next();
        first.ok_or_else(|| {
            let cause = format!(
                "the device has no memory with the property flags {:#x}",
                properties.as_raw()
            );
            Error::new(ErrorKind::OutOfMemory, cause)
        })
    }

    /// Returns the memory types with these properties, in the driver's order.
    fn memory_types(
        &self,
        allowed: u32,
        properties: vk::MemoryPropertyFlags,
    ) -> impl Iterator<Item = u32> {
        let kinds = (0..).zip(self.memory.memory_types_as_slice());
        kinds.filter_map(move |(index, kind)| {
            let fits = allowed >> index & 1 == 1 && kind.property_flags.contains(properties);
            fits.then_some(index)
        })
    }

    /// Returns the first memory type whose heap has room for this many bytes within its budget.
    /// Beyond the budget drivers move memory to a slower place, or fail. Threads that ask at the
    /// same time may exceed it together.
    pub(crate) fn memory_type_for(
        &self,
        needs: &vk::MemoryRequirements,
        properties: vk::MemoryPropertyFlags,
    ) -> Result<u32, Error> {
        let (allowed, size) = (needs.memory_type_bits, needs.size);
        let first = self.memory_type(allowed, properties)?;
        if !self.tells_budget {
            return Ok(first);
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut asked = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        let (instance, physical) = (&self.instance, self.physical);
        // SAFETY: a device of the instance, which knows the structures.
        unsafe { instance.get_physical_device_memory_properties2(physical, &mut asked) };
        let heap_of = |kind: u32| self.memory.memory_types[kind as usize].heap_index as usize;
        let of_heap = |heap: usize| (budget.heap_budget[heap], budget.heap_usage[heap]);
        let has_room = |kind: &u32| {
            let (all, used) = of_heap(heap_of(*kind));
            size <= all.saturating_sub(used)
        };
        let with_room = self.memory_types(allowed, properties).find(has_room);
        with_room.ok_or_else(|| {
            let heap = heap_of(first);
            let (all, used) = of_heap(heap);
            Error::new(
                ErrorKind::OutOfMemory,
                format!("{size} bytes exceed the budget of heap {heap}: {used} of {all} are used"),
            )
        })
    }

    /// Checks that the device supports such images.
    pub(crate) fn allows_image(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), Error> {
        let (physical, kind, tiling) = (self.physical, info.image_type, info.tiling);
        // SAFETY: asks the device.
        let allowed = unsafe {
            self.instance.get_physical_device_image_format_properties(
                physical,
                info.format,
                kind,
                tiling,
                info.usage,
                info.flags,
            )
        };
        let (most, wanted) = match allowed {
            Ok(most) => (most, info.extent),
            Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED) => {
                let cause = format!(
                    "the device has no such images of format {}",
                    info.format.as_raw()
                );
                return Err(Error::new(ErrorKind::Limit, cause));
            }
            Err(error) => return Err(vulkan("vkGetPhysicalDeviceImageFormatProperties", error)),
        };
        let fits = wanted.width <= most.max_extent.width
            && wanted.height <= most.max_extent.height
            && wanted.depth <= most.max_extent.depth
            && info.mip_levels <= most.max_mip_levels
            && info.array_layers <= most.max_array_layers;
        match fits {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "the device has such images of at most {} x {} x {} texels, {} levels and {} layers",
                    most.max_extent.width,
                    most.max_extent.height,
                    most.max_extent.depth,
                    most.max_mip_levels,
                    most.max_array_layers
                ),
            )),
        }
    }

    /// Waits for a value of a timeline semaphore, as long as the device takes: if it hangs, the
    /// driver or the application reports in finite time that it is lost. A failure for lack of
    /// memory shows nothing about the device, so the call is repeated, for [`limits::WAIT_RETRIES`]
    /// at most. Any other error counts as a loss: the device may still use what it was given.
    pub(crate) fn wait(&self, point: GpuPoint) -> Result<(), Error> {
        let (semaphores, values) = ([point.semaphore], [point.value]);
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&values);
        let slice = limits::WAIT_SLICE.as_nanos() as u64;
        let mut until = None;
        loop {
            // SAFETY: a semaphore of this device.
            let waited = unsafe { self.device.wait_semaphores(&info, slice) };
            match waited {
                Ok(()) => return Ok(()),
                Err(vk::Result::TIMEOUT) if self.is_lost() => return Err(lost()),
                Err(vk::Result::TIMEOUT) => until = None,
                Err(error) if is_short(error) => {
                    let now = Instant::now();
                    if now >= *until.get_or_insert(now + limits::WAIT_RETRIES) {
                        return Err(self.lose("vkWaitSemaphores", error));
                    }
                    std::thread::sleep(limits::WAIT_PAUSE);
                }
                Err(error) => return Err(self.lose("vkWaitSemaphores", error)),
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Some(created) = self.owned.take() else {
            return;
        };
        // SAFETY: created here; everything made of the device holds this context, and is gone.
        unsafe { self.device.destroy_device(None) };
        created.destroy(&self.instance);
    }
}
