//! The Vulkan devices of a machine, for tools that show what it offers.
#![expect(unsafe_code, reason = "asks the loader and its devices")]

use std::ffi::CStr;

use ash::{Instance, vk};
use millstream::Error;

use crate::create::{create_instance, loader, offers};
use crate::error::vulkan;
use crate::gpu::{Gpu, GpuOptions, GpuReport};

/// A Vulkan device, as [`devices`] found it.
#[derive(Debug)]
#[non_exhaustive]
pub struct GpuDevice {
    /// Its name.
    pub name: String,
    /// Its kind: `discrete GPU`, `integrated GPU`, `virtual GPU`, `processor` or `other`.
    pub kind: &'static str,
    /// The version of Vulkan that it supports: major, minor, patch.
    pub version: (u32, u32, u32),
    /// Those of its extensions that affect how bytes reach it.
    pub extensions: Vec<&'static str>,
    /// Which tier decodes on it, and why; or why requests cannot land on it.
    pub report: Result<GpuReport, Error>,
}

/// The extensions that [`GpuDevice::extensions`] names.
const EXTENSIONS: [&CStr; 5] = [
    c"VK_EXT_external_memory_host",
    c"VK_EXT_memory_budget",
    c"VK_EXT_memory_decompression",
    c"VK_NV_memory_decompression",
    c"VK_EXT_subgroup_size_control",
];

/// Lists the Vulkan devices, in the order of [`GpuOptions::device`]. Opens each of them, as
/// [`Gpu::create`] does, to see which tier decodes there, and closes it.
///
/// # Errors
/// `NotFound`: no Vulkan loader, or no driver; errors of the driver.
pub fn devices() -> Result<Vec<GpuDevice>, Error> {
    let entry = loader()?;
    let (instance, created) = create_instance(&entry, false)?;
    // SAFETY: the instance was just made.
    let listed = unsafe { instance.enumerate_physical_devices() };
    let describe = |(index, one): (usize, &vk::PhysicalDevice)| describe(&instance, *one, index);
    let devices = listed.map(|all| all.iter().enumerate().map(describe).collect());
    created.destroy(&instance);
    devices.map_err(|error| vulkan("vkEnumeratePhysicalDevices", error))
}

/// Describes the device at `index` of the list.
fn describe(instance: &Instance, physical: vk::PhysicalDevice, index: usize) -> GpuDevice {
    // SAFETY: a device of the instance.
    let (properties, offered) = unsafe {
        let offered = instance.enumerate_device_extension_properties(physical);
        let properties = instance.get_physical_device_properties(physical);
        (properties, offered.unwrap_or_default())
    };
    let extensions = EXTENSIONS.into_iter().filter(|name| offers(&offered, name));
    let version = properties.api_version;
    let options = GpuOptions {
        device: Some(index),
        ..GpuOptions::default()
    };
    GpuDevice {
        name: properties
            .device_name_as_c_str()
            .unwrap_or(c"?")
            .to_string_lossy()
            .into_owned(),
        kind: match properties.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => "discrete GPU",
            vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated GPU",
            vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual GPU",
            vk::PhysicalDeviceType::CPU => "processor",
            _ => "other",
        },
        version: (
            vk::api_version_major(version),
            vk::api_version_minor(version),
            vk::api_version_patch(version),
        ),
        extensions: extensions.filter_map(|name| name.to_str().ok()).collect(),
        report: Gpu::create(options).map(|gpu| gpu.report()),
    }
}
