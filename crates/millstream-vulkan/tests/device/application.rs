//! A device as an application has it, under the validation layer if it is asked for and there.
#![expect(unsafe_code, reason = "makes a Vulkan device")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::{ext, vk};
use millstream_vulkan::{
    AdoptedDevice, AdoptedQueue, Gpu, GpuFeatures, GpuWanted, QueueAccess, QueueLock,
};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// What the validation layer said, of all devices.
static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// Of [`Application::with`]: which families of queues a device has.
pub(crate) const FAMILIES: &CStr = c"vkGetPhysicalDeviceQueueFamilyProperties";

/// Its handles are leaked.
pub(crate) struct Application {
    pub(crate) entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) queue: vk::Queue,
    pub(crate) wanted: GpuWanted,
    /// Of the queue.
    pub(crate) lock: Arc<Mutex<()>>,
}

impl Application {
    /// `None`, and a line that says so: there is no Vulkan loader, or no driver.
    pub(crate) fn new(validation: bool) -> Option<Application> {
        // SAFETY: the system's loader.
        let entry = match unsafe { ash::Entry::load() } {
            Ok(entry) => entry,
            Err(error) => return skip(&error),
        };
        let instance = match instance(&entry, validation) {
            Ok(instance) => instance,
            Err(error @ vk::Result::ERROR_INCOMPATIBLE_DRIVER) => return skip(&error),
            Err(error) => panic!("an instance: {error}"),
        };
        // SAFETY: valid descriptions.
        unsafe {
            let all = instance.enumerate_physical_devices().expect("devices");
            let Some(&physical) = all.first() else {
                return skip(&"no device");
            };
            let wanted = Gpu::wanted(&instance, physical).expect("a device that does");
            let priorities = [1.0];
            let queues = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(wanted.compute)
                .queue_priorities(&priorities)];
            let extensions = wanted.features.extensions();
            let extensions: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
            let mut timeline =
                vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
            let mut control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
                .subgroup_size_control(wanted.features.subgroups_of_32)
                .compute_full_subgroups(wanted.features.subgroups_of_32);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .push_next(&mut timeline)
                .push_next(&mut control);
            let device = instance
                .create_device(physical, &info, None)
                .expect("a device");
            Some(Application {
                queue: device.get_device_queue(wanted.compute, 0),
                entry,
                instance,
                physical,
                device,
                wanted,
                lock: Arc::default(),
            })
        }
    }

    /// What a `Gpu` adopts. `is_twice`: the queue serves as one that only copies, too.
    pub(crate) fn adopted(&self, access: QueueAccess, is_twice: bool) -> AdoptedDevice {
        let queue = |access| AdoptedQueue {
            queue: self.queue,
            family: self.wanted.compute,
            access,
        };
        AdoptedDevice {
            entry: self.entry.clone(),
            instance: self.instance.clone(),
            physical: self.physical,
            device: self.device.clone(),
            features: self.wanted.features,
            compute: queue(access),
            transfer: is_twice.then(|| queue(self.locked())),
            keep: None,
        }
    }

    /// Whether the device has an extension.
    pub(crate) fn offers(&self, extension: &CStr) -> bool {
        let same = |one: &vk::ExtensionProperties| one.extension_name_as_c_str() == Ok(extension);
        // SAFETY: a device of the instance.
        let offered = unsafe {
            let instance = &self.instance;
            instance.enumerate_device_extension_properties(self.physical)
        };
        offered.is_ok_and(|offered| offered.iter().any(same))
    }

    /// The instance, one function of which is replaced.
    ///
    /// # Safety
    /// What replaces it has the same signature.
    pub(crate) unsafe fn with(&self, function: &CStr, replaced_by: *const c_void) -> ash::Instance {
        let handle = self.instance.handle();
        let load = |name: &CStr| match name == function {
            true => replaced_by,
            // SAFETY: asks for a function of the instance.
            false => unsafe { self.entry.get_instance_proc_addr(handle, name.as_ptr()) }
                .map_or(std::ptr::null(), |real| real as *const c_void),
        };
        // SAFETY: the instance's own functions, and one of the same signature.
        unsafe { ash::Instance::load_with(load, handle) }
    }

    /// A timeline semaphore at 0.
    pub(crate) fn timeline(&self) -> vk::Semaphore {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: a valid description.
        unsafe { self.device.create_semaphore(&info, None) }.expect("a semaphore")
    }

    /// Waits for a value of it, a second at most.
    pub(crate) fn wait(&self, semaphore: vk::Semaphore, value: u64) -> bool {
        let (semaphores, values) = ([semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&values);
        // SAFETY: a semaphore of the device.
        unsafe { self.device.wait_semaphores(&info, 1_000_000_000) }.is_ok()
    }

    /// Reaches a value of it, as the end of a submission would.
    pub(crate) fn reach(&self, semaphore: vk::Semaphore, value: u64) {
        let info = vk::SemaphoreSignalInfo::default()
            .semaphore(semaphore)
            .value(value);
        // SAFETY: as above.
        unsafe { self.device.signal_semaphore(&info) }.expect("signaled");
    }

    /// Without what the device may have.
    pub(crate) fn plain(&self) -> AdoptedDevice {
        AdoptedDevice {
            features: GpuFeatures::default(),
            ..self.adopted(QueueAccess::Own, false)
        }
    }

    pub(crate) fn locked(&self) -> QueueAccess {
        let lock = Arc::clone(&self.lock);
        let locked: QueueLock = Box::new(move |call| {
            let _held = lock.lock().expect("no panic");
            call();
        });
        QueueAccess::Locked(locked)
    }

    /// The validation layer has nothing to say.
    pub(crate) fn end(self) {
        assert_eq!(MESSAGES.load(Ordering::Relaxed), 0);
    }
}

fn skip(why: &dyn std::fmt::Display) -> Option<Application> {
    eprintln!("SKIP: no Vulkan device: {why}");
    None
}

fn instance(entry: &ash::Entry, validation: bool) -> Result<ash::Instance, vk::Result> {
    let about = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    let severe = vk::DebugUtilsMessageSeverityFlagsEXT::ERROR
        | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING;
    let messenger = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(severe)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(message));
    let (layers, extensions) = ([VALIDATION.as_ptr()], [ext::debug_utils::NAME.as_ptr()]);
    // SAFETY: valid descriptions; the layer was asked for.
    unsafe {
        let known = entry.enumerate_instance_layer_properties()?;
        let has_layer = known
            .iter()
            .any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION));
        let info = vk::InstanceCreateInfo::default().application_info(&about);
        if !(validation && has_layer) {
            return entry.create_instance(&info, None);
        }
        let info = info
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
        let instance = entry.create_instance(&info, None)?;
        let functions = ext::debug_utils::Instance::new(entry, &instance);
        functions.create_debug_utils_messenger(&messenger, None)?;
        Ok(instance)
    }
}

/// Counts and prints what the validation layer says.
unsafe extern "system" fn message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid message.
    let text = unsafe { (*data).message_as_c_str() };
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    eprintln!("Vulkan: {}", text.unwrap_or(c"?").to_string_lossy());
    vk::FALSE
}
