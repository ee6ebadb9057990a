//! The Vulkan device: created for tools, or adopted from an application.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ash::{Entry, Instance, vk};
use millstream::{Error, ErrorKind};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Who submits to the queue.
#[derive(Default)]
#[non_exhaustive]
pub enum QueueAccess {
    /// This library alone.
    #[default]
    Own,
    /// The application, too, under a lock of its own.
    Locked(QueueLock),
}

/// Calls a function while it holds the lock of a queue.
pub type QueueLock = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// A device of the application's.
pub struct AdoptedDevice {
    /// The loader.
    pub entry: Entry,
    /// Of Vulkan 1.2 or later.
    pub instance: Instance,
    /// Where `device` comes from.
    pub physical: vk::PhysicalDevice,
    /// With the feature `timelineSemaphore`.
    pub device: ash::Device,
    /// A queue that computes and copies.
    pub queue: vk::Queue,
    /// Its family.
    pub family: u32,
    /// Who submits to it.
    pub access: QueueAccess,
}

/// See the header.
pub(crate) struct Context {
    pub(crate) device: ash::Device,
    pub(crate) family: u32,
    pub(crate) name: String,
    queue: vk::Queue,
    access: QueueAccess,
    lock: Mutex<()>,
    lost: AtomicBool,
    memory: vk::PhysicalDeviceMemoryProperties,
    instance: Instance,
    physical: vk::PhysicalDevice,
    /// What was created here, to be destroyed: in this order.
    owned: Option<(Box<Messenger>, Instance)>,
    /// Keeps the loader's library.
    _entry: Entry,
}

/// What the validation layer said.
#[derive(Default)]
struct Messenger {
    made: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// Counted by the callback.
    messages: Box<AtomicU64>,
}

impl Context {
    /// As [`GpuOptions`](crate::GpuOptions) says.
    pub(crate) fn create(device: Option<usize>, validation: bool) -> Result<Context, Error> {
        // SAFETY: the loader that the system has; it runs code of drivers that it lists.
        let entry = unsafe { Entry::load() }.map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("no Vulkan loader: {error}"))
        })?;
        let (instance, messenger) = create_instance(&entry, validation)?;
        match create_device(&instance, device) {
            Ok((physical, device, family)) => {
                // SAFETY: the family was asked for one queue.
                let queue = unsafe { device.get_device_queue(family, 0) };
                let adopted = AdoptedDevice {
                    entry,
                    instance: instance.clone(),
                    physical,
                    device,
                    queue,
                    family,
                    access: QueueAccess::Own,
                };
                let mut context = Context::adopt(adopted);
                context.owned = Some((messenger, instance));
                Ok(context)
            }
            Err(error) => {
                drop(messenger);
                // SAFETY: nothing was made of it.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }

    pub(crate) fn adopt(adopted: AdoptedDevice) -> Context {
        let (instance, physical) = (&adopted.instance, adopted.physical);
        // SAFETY: the physical device is one of the instance's.
        let (memory, properties) = unsafe {
            let memory = instance.get_physical_device_memory_properties(physical);
            (memory, instance.get_physical_device_properties(physical))
        };
        let name = properties.device_name_as_c_str().unwrap_or(c"?");
        Context {
            device: adopted.device,
            family: adopted.family,
            name: name.to_string_lossy().into_owned(),
            queue: adopted.queue,
            access: adopted.access,
            lock: Mutex::new(()),
            lost: AtomicBool::new(false),
            memory,
            instance: instance.clone(),
            physical,
            owned: None,
            _entry: adopted.entry,
        }
    }

    /// Messages of the validation layer, errors and warnings.
    pub(crate) fn messages(&self) -> u64 {
        let owned = self.owned.as_ref();
        owned.map_or(0, |(messenger, _)| {
            messenger.messages.load(Ordering::Relaxed)
        })
    }

    /// Whether the device was lost: nothing works on it any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The error of a call that gives nothing to the device if it fails. Only a loss is for good.
    pub(crate) fn failed(&self, call: &'static str, result: vk::Result) -> Error {
        match result {
            vk::Result::ERROR_DEVICE_LOST => self.lose(call, result),
            _ => vulkan(call, result),
        }
    }

    /// Counts the device as lost; the error for whoever waits for it.
    fn lose(&self, call: &'static str, result: vk::Result) -> Error {
        self.lost.store(true, Ordering::Release);
        Error::new(ErrorKind::DeviceLost, format!("{call}: {result}"))
    }

    pub(crate) fn memory_type(
        &self,
        allowed: u32,
        properties: vk::MemoryPropertyFlags,
    ) -> Result<u32, Error> {
        let types = self.memory.memory_types_as_slice();
        let fits = |(index, kind): &(usize, &vk::MemoryType)| {
            allowed >> index & 1 == 1 && kind.property_flags.contains(properties)
        };
        match types.iter().enumerate().find(fits) {
            Some((index, _)) => Ok(index as u32),
            None => Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the device has no memory that is {properties:?}"),
            )),
        }
    }

    /// Whether the device makes such images.
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
                let cause = format!("the device has no such images of {:?}", info.format);
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
                format!("the device has images of at most {most:?}"),
            )),
        }
    }

    /// Submits commands, whose completion sets `done` of the timeline `semaphore`.
    pub(crate) fn submit(
        &self,
        commands: vk::CommandBuffer,
        semaphore: vk::Semaphore,
        done: u64,
    ) -> Result<(), Error> {
        let (commands, semaphores, values) = ([commands], [semaphore], [done]);
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline);
        let submits = [submit];
        let mut result = Ok(());
        let mut call = || {
            // SAFETY: commands that were recorded to their end; whoever else submits to the queue
            // is locked out, see `QueueAccess`.
            result = unsafe {
                self.device
                    .queue_submit(self.queue, &submits, vk::Fence::null())
            };
        };
        match &self.access {
            QueueAccess::Own => {
                let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                call();
            }
            QueueAccess::Locked(locked) => locked(&mut call),
        }
        result.map_err(|error| self.failed("vkQueueSubmit", error))
    }

    /// Waits for a value of a timeline semaphore, as long as the device takes: of one that hangs
    /// the driver says in finite time that it is lost. Any error counts as a loss, because the
    /// device may still use what it was given.
    pub(crate) fn wait(&self, semaphore: vk::Semaphore, value: u64) -> Result<(), Error> {
        let (semaphores, values) = ([semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&values);
        // SAFETY: a semaphore of this device.
        let waited = unsafe { self.device.wait_semaphores(&info, u64::MAX) };
        waited.map_err(|error| self.lose("vkWaitSemaphores", error))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Some((messenger, instance)) = self.owned.take() else {
            return;
        };
        // SAFETY: created here; everything made of the device holds this context, and is gone.
        unsafe {
            self.device.destroy_device(None);
            drop(messenger);
            instance.destroy_instance(None);
        }
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.made.take() {
            // SAFETY: created by the same functions, and its instance still is.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
    }
}

/// An error of a call that makes something.
pub(crate) fn vulkan(call: &'static str, result: vk::Result) -> Error {
    let kind = match result {
        vk::Result::ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            ErrorKind::OutOfMemory
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{call}: {result}"))
}

fn create_instance(entry: &Entry, validation: bool) -> Result<(Instance, Box<Messenger>), Error> {
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
    let mut messenger = Box::<Messenger>::default();
    if validated {
        messenger.listen(entry, &instance);
    }
    Ok((instance, messenger))
}

impl Messenger {
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
        self.made = made.ok().map(|made| (functions, made));
    }
}

/// Counts and prints what the validation layer says.
unsafe extern "system" fn message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    counter: *mut std::ffi::c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid message, and the pointer of `Messenger::listen`.
    let (text, counter) = unsafe {
        let text = (*data).message_as_c_str().unwrap_or(c"?");
        (text, &*counter.cast::<AtomicU64>())
    };
    counter.fetch_add(1, Ordering::Relaxed);
    eprintln!("Vulkan: {}", text.to_string_lossy());
    vk::FALSE
}

/// The device asked for, or the first of the best kind.
fn create_device(
    instance: &Instance,
    wanted: Option<usize>,
) -> Result<(vk::PhysicalDevice, ash::Device, u32), Error> {
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
    let family = suitable(instance, physical)?;
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&priorities)];
    let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .push_next(&mut features);
    // SAFETY: a family and a feature that the device has.
    let device = unsafe { instance.create_device(physical, &info, None) };
    let device = device.map_err(|error| vulkan("vkCreateDevice", error))?;
    Ok((physical, device, family))
}

/// The queue family to use, if the device has what is needed.
fn suitable(instance: &Instance, physical: vk::PhysicalDevice) -> Result<u32, Error> {
    let lacks = |what: &str| {
        Err(Error::new(
            ErrorKind::Limit,
            format!("the device lacks {what}"),
        ))
    };
    // SAFETY: a device of the instance.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    if properties.api_version < vk::API_VERSION_1_2 {
        return lacks("Vulkan 1.2");
    }
    let mut timeline = vk::PhysicalDeviceVulkan12Features::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
    // SAFETY: as above, of Vulkan 1.2.
    unsafe { instance.get_physical_device_features2(physical, &mut features) };
    if timeline.timeline_semaphore == vk::FALSE {
        return lacks("timeline semaphores");
    }
    // SAFETY: as above.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let computes = |family: &vk::QueueFamilyProperties| {
        family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0
    };
    match families.iter().position(computes) {
        Some(family) => Ok(family as u32),
        None => lacks("a queue that computes"),
    }
}

/// A command buffer of its own, and a timeline that says when it has run.
pub(crate) struct Commands {
    context: Arc<Context>,
    pool: vk::CommandPool,
    buffer: vk::CommandBuffer,
    semaphore: vk::Semaphore,
    submitted: u64,
}

impl Commands {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Commands, Error> {
        let device = &context.device;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(context.family);
        let mut made = Commands {
            context: Arc::clone(context),
            pool: vk::CommandPool::null(),
            buffer: vk::CommandBuffer::null(),
            semaphore: vk::Semaphore::null(),
            submitted: 0,
        };
        // SAFETY: valid descriptions; what was made is destroyed with `made`, also on an error.
        unsafe {
            let pool = device.create_command_pool(&info, None);
            made.pool = pool.map_err(|error| vulkan("vkCreateCommandPool", error))?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(made.pool)
                .command_buffer_count(1);
            let buffers = device.allocate_command_buffers(&info);
            made.buffer = buffers.map_err(|error| vulkan("vkAllocateCommandBuffers", error))?[0];
            let mut kind =
                vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            let semaphore = device.create_semaphore(&info, None);
            made.semaphore = semaphore.map_err(|error| vulkan("vkCreateSemaphore", error))?;
        }
        Ok(made)
    }

    /// Records anew, and submits. What was submitted before has run.
    pub(crate) fn submit(
        &mut self,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), Error> {
        let device = &self.context.device;
        let flags = vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
        let begin = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the pool's only buffer is not in use: its user waits before it calls again.
        let recorded = unsafe {
            let flags = vk::CommandPoolResetFlags::empty();
            let begun = device
                .reset_command_pool(self.pool, flags)
                .and_then(|()| device.begin_command_buffer(self.buffer, &begin));
            begun.and_then(|()| {
                record(device, self.buffer);
                device.end_command_buffer(self.buffer)
            })
        };
        recorded.map_err(|error| self.context.failed("recording commands", error))?;
        let next = self.submitted + 1;
        self.context.submit(self.buffer, self.semaphore, next)?;
        self.submitted = next;
        Ok(())
    }

    /// Waits until what was submitted has run.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.context.wait(self.semaphore, self.submitted)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let device = &self.context.device;
        // SAFETY: created here, and not in use any more; null handles are ignored.
        unsafe {
            device.destroy_semaphore(self.semaphore, None);
            device.destroy_command_pool(self.pool, None);
        }
    }
}
