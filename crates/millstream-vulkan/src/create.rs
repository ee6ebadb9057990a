//! Creates instances and devices, and finds out what an application's device should enable.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::any::Any;
use std::ffi::CStr;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::{Entry, Instance, ext, vk};
use millstream::{Error, ErrorKind};

use crate::error::vulkan;
use crate::queue::{AdoptedQueue, QueueAccess};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A device of the application, for [`Gpu::adopt`](crate::Gpu::adopt).
pub struct AdoptedDevice {
    /// The loader.
    pub entry: Entry,
    /// The instance, of Vulkan 1.2 or later.
    pub instance: Instance,
    /// The physical device of `device`.
    pub physical: vk::PhysicalDevice,
    /// The device, with the feature `timelineSemaphore`.
    pub device: ash::Device,
    /// Which other features that [`Gpu::wanted`](crate::Gpu::wanted) names were enabled.
    pub features: GpuFeatures,
    /// A queue that computes and copies.
    pub compute: AdoptedQueue,
    /// A queue that copies while the other one computes; its access must not be `Recorded`.
    pub transfer: Option<AdoptedQueue>,
    /// A value that is dropped, on any thread, once the library no longer uses the device, for
    /// example to destroy it. After a loss it may be leaked. Without it the application destroys
    /// the device as [`Gpu::adopt`](crate::Gpu::adopt) says.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Optional features of a device, in addition to `timelineSemaphore`, which is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GpuFeatures {
    /// The extension `VK_EXT_external_memory_host`, with which the device can read staging itself.
    pub external_memory_host: bool,
    /// The extension `VK_EXT_subgroup_size_control` with its features `subgroupSizeControl` and
    /// `computeFullSubgroups`, on a device that has subgroups of 32 with ballots and sums.
    pub subgroups_of_32: bool,
}

impl GpuFeatures {
    /// Returns the names of the extensions that these features need.
    #[must_use]
    pub fn extensions(&self) -> Vec<&'static CStr> {
        let all = [
            (self.external_memory_host, ext::external_memory_host::NAME),
            (self.subgroups_of_32, ext::subgroup_size_control::NAME),
        ];
        all.iter()
            .filter_map(|(wanted, name)| wanted.then_some(*name))
            .collect()
    }
}

/// What to create a device with; see [`Gpu::wanted`](crate::Gpu::wanted).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuWanted {
    /// The useful features that the device has.
    pub features: GpuFeatures,
    /// A family whose queues compute and copy.
    pub compute: u32,
    /// Another family, whose queues copy but neither compute nor draw.
    pub transfer: Option<u32>,
}

impl GpuWanted {
    /// Returns the useful features and families of a physical device.
    pub(crate) fn of(
        instance: &Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<GpuWanted, Error> {
        let lacks = |what: &str| {
            let cause = format!("the device lacks {what}");
            Error::new(ErrorKind::Limit, cause)
        };
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut subgroups = vk::PhysicalDeviceSubgroupProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut sizes)
            .push_next(&mut subgroups);
        let mut timeline = vk::PhysicalDeviceVulkan12Features::default();
        let mut control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut timeline)
            .push_next(&mut control);
        // SAFETY: a device of the instance; structures that it does not know it leaves alone.
        let (extensions, families) = unsafe {
            let version = instance
                .get_physical_device_properties(physical)
                .api_version;
            if version < vk::API_VERSION_1_2 {
                return Err(lacks("Vulkan 1.2"));
            }
            instance.get_physical_device_properties2(physical, &mut properties);
            instance.get_physical_device_features2(physical, &mut features);
            let extensions = instance.enumerate_device_extension_properties(physical);
            let families = instance.get_physical_device_queue_family_properties(physical);
            (extensions.unwrap_or_default(), families)
        };
        if timeline.timeline_semaphore == vk::FALSE {
            return Err(lacks("timeline semaphores"));
        }
        let has = |name| offers(&extensions, name);
        let compute = families
            .iter()
            .position(|family| {
                family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0
            })
            .ok_or_else(|| lacks("a queue that computes"))?;
        let transfer = families.iter().position(|family| {
            let others = vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS;
            let copies = family.queue_flags.contains(vk::QueueFlags::TRANSFER);
            copies && !family.queue_flags.intersects(others) && family.queue_count > 0
        });
        let operations = vk::SubgroupFeatureFlags::BALLOT | vk::SubgroupFeatureFlags::ARITHMETIC;
        let compute_stage = vk::ShaderStageFlags::COMPUTE;
        let subgroups_of_32 = has(ext::subgroup_size_control::NAME)
            && control.subgroup_size_control == vk::TRUE
            && control.compute_full_subgroups == vk::TRUE
            && subgroups.supported_operations.contains(operations)
            && subgroups.supported_stages.contains(compute_stage)
            && (sizes.min_subgroup_size..=sizes.max_subgroup_size).contains(&32)
            && sizes.required_subgroup_size_stages.contains(compute_stage);
        Ok(GpuWanted {
            features: GpuFeatures {
                external_memory_host: has(ext::external_memory_host::NAME),
                subgroups_of_32,
            },
            compute: compute as u32,
            transfer: transfer.map(|family| family as u32),
        })
    }
}

/// What was created here and is destroyed after the device: the messenger of the validation layer,
/// then the instance.
#[derive(Default)]
pub(crate) struct Created {
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// Number of errors and warnings, counted by the callback.
    messages: Box<AtomicU64>,
}

impl Created {
    /// Creates an instance and a device; see [`GpuOptions`](crate::GpuOptions).
    pub(crate) fn new(
        device: Option<usize>,
        validation: bool,
    ) -> Result<(AdoptedDevice, Created), Error> {
        let entry = loader()?;
        let (instance, created) = create_instance(&entry, validation)?;
        match create_device(&instance, device) {
            Ok((physical, device, wanted)) => {
                let queue = |family| AdoptedQueue {
                    // SAFETY: each family was asked for one queue.
                    queue: unsafe { device.get_device_queue(family, 0) },
                    family,
                    access: QueueAccess::Own,
                };
                let adopted = AdoptedDevice {
                    entry,
                    instance,
                    physical,
                    compute: queue(wanted.compute),
                    transfer: wanted.transfer.map(queue),
                    features: wanted.features,
                    device,
                    keep: None,
                };
                Ok((adopted, created))
            }
            Err(error) => {
                created.destroy(&instance);
                Err(error)
            }
        }
    }

    /// Returns the number of errors and warnings of the validation layer.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Destroys the instance. Everything that was made from it must be destroyed already.
    pub(crate) fn destroy(self, instance: &Instance) {
        drop(self);
        // SAFETY: created here; the callers hold nothing else of it.
        unsafe { instance.destroy_instance(None) };
    }

    fn listen(&mut self, entry: &Entry, instance: &Instance) {
        let severe = vk::DebugUtilsMessageSeverityFlagsEXT::ERROR
            | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING;
        let counter: *const AtomicU64 = &raw const *self.messages;
        let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(severe)
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(message))
            .user_data(counter.cast_mut().cast());
        let functions = ash::ext::debug_utils::Instance::new(entry, instance);
        // SAFETY: the counter stays where it is until the messenger is destroyed.
        let made = unsafe { functions.create_debug_utils_messenger(&info, None) };
        self.messenger = made.ok().map(|made| (functions, made));
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.messenger.take() {
            // SAFETY: created by the same functions, and its instance still is.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
    }
}

/// Loads the system's Vulkan loader.
pub(crate) fn loader() -> Result<Entry, Error> {
    // SAFETY: it runs code of drivers that the system lists.
    unsafe { Entry::load() }
        .map_err(|error| Error::new(ErrorKind::NotFound, format!("no Vulkan loader: {error}")))
}

/// Whether an extension is among those that a device offers.
pub(crate) fn offers(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    let same = |one: &vk::ExtensionProperties| one.extension_name_as_c_str() == Ok(name);
    extensions.iter().any(same)
}

pub(crate) fn create_instance(
    entry: &Entry,
    validation: bool,
) -> Result<(Instance, Created), Error> {
    // SAFETY: asks the loader.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    let has_layer = layers
        .iter()
        .any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION));
    let validated = validation && has_layer;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    let layers = [VALIDATION.as_ptr()];
    let extensions = [ash::ext::debug_utils::NAME.as_ptr()];
    let mut info = vk::InstanceCreateInfo::default().application_info(&application);
    if validated {
        info = info
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
    }
    // SAFETY: a valid description; layers and extensions were asked for.
    let instance = unsafe { entry.create_instance(&info, None) };
    let instance = instance.map_err(|error| vulkan("vkCreateInstance", error))?;
    let mut created = Created::default();
    if validated {
        created.listen(entry, &instance);
    }
    Ok((instance, created))
}

/// Counts and prints a message of the validation layer.
unsafe extern "system" fn message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    counter: *mut std::ffi::c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid message, and the pointer of `Created::listen`.
    let (text, counter) = unsafe {
        let text = (*data).message_as_c_str().unwrap_or(c"?");
        (text, &*counter.cast::<AtomicU64>())
    };
    counter.fetch_add(1, Ordering::Relaxed);
    // A panic must not reach the layer, which is C.
    let _ = writeln!(std::io::stderr(), "Vulkan: {}", text.to_string_lossy());
    vk::FALSE
}

/// Creates the requested device, or the first of the best kind.
fn create_device(
    instance: &Instance,
    wanted: Option<usize>,
) -> Result<(vk::PhysicalDevice, ash::Device, GpuWanted), Error> {
    // SAFETY: asks the instance.
    let all = unsafe { instance.enumerate_physical_devices() };
    let all = all.map_err(|error| vulkan("vkEnumeratePhysicalDevices", error))?;
    let rank = |physical: &vk::PhysicalDevice| {
        // SAFETY: a device of the instance.
        let properties = unsafe { instance.get_physical_device_properties(*physical) };
        match properties.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => 0,
            vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
            vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
            _ => 3,
        }
    };
    let chosen = match wanted {
        Some(index) => all.get(index).copied(),
        None => all.iter().copied().min_by_key(rank),
    };
    let none = || Error::new(ErrorKind::NotFound, "there is no such Vulkan device");
    let physical = chosen.ok_or_else(none)?;
    let wanted = GpuWanted::of(instance, physical)?;
    let priorities = [1.0];
    let queues: Vec<_> = [Some(wanted.compute), wanted.transfer]
        .into_iter()
        .flatten()
        .map(|family| {
            vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&priorities)
        })
        .collect();
    let extensions = wanted.features.extensions();
    let extensions: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let mut timeline = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let mut control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
        .subgroup_size_control(wanted.features.subgroups_of_32)
        .compute_full_subgroups(wanted.features.subgroups_of_32);
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut timeline);
    if wanted.features.subgroups_of_32 {
        info = info.push_next(&mut control);
    }
    // SAFETY: families, extensions and features that the device has.
    let device = unsafe { instance.create_device(physical, &info, None) };
    let device = device.map_err(|error| vulkan("vkCreateDevice", error))?;
    Ok((physical, device, wanted))
}
