//! What the library makes for queues of several families.
#![expect(unsafe_code, reason = "replaces functions of Vulkan")]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use ash::vk;
use millstream::ErrorKind;
use millstream_vulkan::{Gpu, GpuOptions};

use crate::application::{Application, FAMILIES};
use crate::recorded::IMAGE;
use crate::rig::alone;

/// How many families share what was made last; 0: it belongs to one.
static SHARED_BY: AtomicU32 = AtomicU32::new(0);
/// Vulkan's functions.
static BUFFERS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static IMAGES: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// A function that makes something, and what replaces it.
macro_rules! listens {
    ($name:ident, $real:ident, $info:ty, $made:ty) => {
        unsafe extern "system" fn $name(
            device: vk::Device,
            info: *const $info,
            allocator: *const c_void,
            made: *mut $made,
        ) -> vk::Result {
            type Real = unsafe extern "system" fn(
                vk::Device,
                *const $info,
                *const c_void,
                *mut $made,
            ) -> vk::Result;
            // SAFETY: called as the function that was replaced, whose signature this is.
            unsafe {
                let families = match (*info).sharing_mode {
                    vk::SharingMode::CONCURRENT => (*info).queue_family_index_count,
                    _ => 0,
                };
                SHARED_BY.store(families, Ordering::Relaxed);
                let real = $real.load(Ordering::Relaxed);
                std::mem::transmute::<*mut c_void, Real>(real)(device, info, allocator, made)
            }
        }
    };
}

listens!(makes_buffer, BUFFERS, vk::BufferCreateInfo<'_>, vk::Buffer);
listens!(makes_image, IMAGES, vk::ImageCreateInfo<'_>, vk::Image);

/// The device, whose functions that make something are heard.
fn listening(application: &Application) -> ash::Device {
    let handle = application.device.handle();
    let load = |name: &CStr| {
        // SAFETY: asks for a function of the device.
        let real = unsafe {
            let instance = &application.instance;
            instance.get_device_proc_addr(handle, name.as_ptr())
        };
        let real = real.map_or(std::ptr::null_mut(), |real| real as *mut c_void);
        let (kept, replaced_by) = match name {
            name if name == c"vkCreateBuffer" => (&BUFFERS, makes_buffer as *const c_void),
            name if name == c"vkCreateImage" => (&IMAGES, makes_image as *const c_void),
            _ => return real.cast_const(),
        };
        kept.store(real, Ordering::Relaxed);
        replaced_by
    };
    // SAFETY: the device's own functions, and two of the same signatures.
    unsafe { ash::Device::load_with(load, handle) }
}

/// The families of queues that a device seems to have: two that compute.
unsafe extern "system" fn two_that_compute(
    _: vk::PhysicalDevice,
    count: *mut u32,
    families: *mut vk::QueueFamilyProperties,
) {
    let family = vk::QueueFamilyProperties {
        queue_flags: vk::QueueFlags::COMPUTE,
        queue_count: 1,
        ..Default::default()
    };
    // SAFETY: as `vkGetPhysicalDeviceQueueFamilyProperties` is called: null, or with room for two.
    unsafe {
        if !families.is_null() {
            std::slice::from_raw_parts_mut(families, 2).fill(family);
        }
        *count = 2;
    }
}

#[test]
fn what_is_made_is_shared_by_the_families_that_use_it() {
    let _alone = alone();
    // Without the layer, which knows of one family.
    let Some(application) = Application::new(false) else {
        return;
    };
    let adopt = |families: Vec<u32>| {
        let mut options = GpuOptions::default();
        (options.families, options.decode) = (families, false);
        let mut adopted = application.plain();
        adopted.device = listening(&application);
        // SAFETY: the function is as Vulkan's; the handles belong together, and are never
        // destroyed.
        unsafe {
            adopted.instance = application.with(FAMILIES, two_that_compute as *const c_void);
            Gpu::adopt(adopted, &options)
        }
    };
    for (families, shared_by) in [(vec![], 0), (vec![0], 0), (vec![1, 0, 1], 2)] {
        let gpu = adopt(families).expect("adopted");
        SHARED_BY.store(99, Ordering::Relaxed);
        let image = gpu.image(&IMAGE).expect("an image");
        assert_eq!(SHARED_BY.swap(99, Ordering::Relaxed), shared_by);
        let buffer = gpu.buffer(9, vk::BufferUsageFlags::VERTEX_BUFFER);
        assert_eq!(SHARED_BY.load(Ordering::Relaxed), shared_by);
        drop((image, buffer.expect("a buffer"), gpu));
    }
    let error = adopt(vec![2]).map(drop).expect_err("no such family");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
