//! Buffers and images with their own memory.
#![expect(unsafe_code, reason = "creates and destroys objects of Vulkan")]

use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::context::Context;
use crate::error::vulkan;

/// A buffer, its memory, and the address at which that is mapped, if it is.
pub(crate) struct DeviceBuffer {
    context: Arc<Context>,
    pub(crate) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut u8,
    len: usize,
}

// SAFETY: the mapping is used through `&mut self` alone, and Vulkan's objects by any thread.
unsafe impl Send for DeviceBuffer {}
// SAFETY: as above.
unsafe impl Sync for DeviceBuffer {}

impl DeviceBuffer {
    /// Makes a buffer in device memory.
    pub(crate) fn local(
        context: &Arc<Context>,
        len: usize,
        usage: vk::BufferUsageFlags,
    ) -> Result<DeviceBuffer, Error> {
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        DeviceBuffer::new(context, len, usage, local)
    }

    /// Makes a buffer in mapped memory that the processor writes and reads.
    pub(crate) fn mapped(
        context: &Arc<Context>,
        len: usize,
        usage: vk::BufferUsageFlags,
    ) -> Result<DeviceBuffer, Error> {
        let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let mut made = DeviceBuffer::new(context, len, usage, host)?;
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: the memory is visible to the host, and not mapped yet.
        let mapped = unsafe {
            context
                .device
                .map_memory(made.memory, 0, vk::WHOLE_SIZE, flags)
        };
        made.mapped = mapped.map_err(|error| vulkan("vkMapMemory", error))?.cast();
        // All bytes that the processor may read are initialized.
        made.bytes().fill(0);
        Ok(made)
    }

    fn new(
        context: &Arc<Context>,
        len: usize,
        usage: vk::BufferUsageFlags,
        properties: vk::MemoryPropertyFlags,
    ) -> Result<DeviceBuffer, Error> {
        let device = &context.device;
        let info = sharing(vk::BufferCreateInfo::default(), &context.families)
            .size(len.max(4) as u64)
            .usage(usage);
        // SAFETY: a valid description.
        let buffer = unsafe { device.create_buffer(&info, None) };
        let buffer = buffer.map_err(|error| vulkan("vkCreateBuffer", error))?;
        let mut made = DeviceBuffer {
            context: Arc::clone(context),
            buffer,
            memory: vk::DeviceMemory::null(),
            mapped: std::ptr::null_mut(),
            len,
        };
        // SAFETY: the buffer was created above.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer) };
        made.memory = allocate(context, needs, properties)?;
        // SAFETY: memory of a type that the buffer allows, as large as it needs.
        let bound = unsafe { device.bind_buffer_memory(buffer, made.memory, 0) };
        bound.map_err(|error| vulkan("vkBindBufferMemory", error))?;
        Ok(made)
    }

    /// Returns the buffer and its memory, which the caller must destroy.
    pub(crate) fn into_raw(mut self) -> (vk::Buffer, vk::DeviceMemory) {
        use std::mem::take;
        (take(&mut self.buffer), take(&mut self.memory))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of mapped memory; an empty slice for other memory.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.mapped.is_null() {
            return &mut [];
        }
        // SAFETY: mapped for as long as it lives, at least `len` bytes; the device uses it only
        // while a batch is submitted, in which nothing calls this (see `batch`).
        unsafe { std::slice::from_raw_parts_mut(self.mapped, self.len) }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let device = &self.context.device;
        // SAFETY: nothing that was submitted uses it any more: batches wait, and a `GpuBuffer` is
        // kept by what is in flight. Null handles are ignored; freeing unmaps.
        unsafe {
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}

/// Sets the sharing mode of a buffer that queues of all these families use.
pub(crate) fn sharing<'a>(
    info: vk::BufferCreateInfo<'a>,
    families: &'a [u32],
) -> vk::BufferCreateInfo<'a> {
    match families {
        [_] => info,
        several => info
            .sharing_mode(vk::SharingMode::CONCURRENT)
            .queue_family_indices(several),
    }
}

/// An image and its memory.
pub(crate) struct DeviceImage {
    context: Arc<Context>,
    pub(crate) image: vk::Image,
    memory: vk::DeviceMemory,
}

impl DeviceImage {
    pub(crate) fn new(
        context: &Arc<Context>,
        info: &vk::ImageCreateInfo<'_>,
    ) -> Result<DeviceImage, Error> {
        let device = &context.device;
        // SAFETY: the caller's description; what was made is destroyed with `made`.
        let image = unsafe { device.create_image(info, None) };
        let mut made = DeviceImage {
            context: Arc::clone(context),
            image: image.map_err(|error| vulkan("vkCreateImage", error))?,
            memory: vk::DeviceMemory::null(),
        };
        // SAFETY: the image was created above.
        let needs = unsafe { device.get_image_memory_requirements(made.image) };
        made.memory = allocate(context, needs, vk::MemoryPropertyFlags::DEVICE_LOCAL)?;
        // SAFETY: memory of a type that the image allows, as large as it needs.
        let bound = unsafe { device.bind_image_memory(made.image, made.memory, 0) };
        bound.map_err(|error| vulkan("vkBindImageMemory", error))?;
        Ok(made)
    }
}

impl Drop for DeviceImage {
    fn drop(&mut self) {
        let device = &self.context.device;
        // SAFETY: as of a buffer.
        unsafe {
            device.destroy_image(self.image, None);
            device.free_memory(self.memory, None);
        }
    }
}

/// Allocates memory for a buffer or an image.
fn allocate(
    context: &Context,
    needs: vk::MemoryRequirements,
    properties: vk::MemoryPropertyFlags,
) -> Result<vk::DeviceMemory, Error> {
    let kind = context.memory_type_for(&needs, properties)?;
    let info = vk::MemoryAllocateInfo::default()
        .allocation_size(needs.size)
        .memory_type_index(kind);
    // SAFETY: the type is one of the device's.
    let memory = unsafe { context.device.allocate_memory(&info, None) };
    memory.map_err(|error| vulkan("vkAllocateMemory", error))
}
