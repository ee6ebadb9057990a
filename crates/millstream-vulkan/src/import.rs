//! Staging that the device reads itself, through `VK_EXT_external_memory_host`.
//!
//! The memory of a storage's arena is imported once, in pieces of a size that drivers accept, and
//! stays mapped until they are freed. Alignment is checked here, because some drivers accept a
//! wrong one. The device only reads imported memory, so other use of the arena does not matter.
#![expect(unsafe_code, reason = "imports memory of a storage")]

use std::sync::Arc;

use ash::vk;
use millstream::{Error, ErrorKind, Region};

use crate::context::Context;
use crate::error::vulkan;
use crate::limits;
use crate::memory::sharing;

/// The staging of a storage, imported into the device.
pub(crate) struct Imported {
    context: Arc<Context>,
    pub(crate) region: Arc<Region>,
    pieces: Vec<Piece>,
}

/// A buffer over [`limits::IMPORT_BYTES`] of the region; the last one may be shorter.
struct Piece {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
}

impl Imported {
    pub(crate) fn new(context: &Arc<Context>, region: Arc<Region>) -> Result<Imported, Error> {
        let limit = |cause: String| Err(Error::new(ErrorKind::Limit, cause));
        if context.host.is_none() {
            return limit("the device has VK_EXT_external_memory_host not enabled".into());
        }
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
        let (instance, physical) = (&context.instance, context.physical);
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let about = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(vk::BufferUsageFlags::TRANSFER_SRC)
            .handle_type(kind);
        let mut external = vk::ExternalBufferProperties::default();
        // SAFETY: a device of the instance.
        unsafe {
            instance.get_physical_device_properties2(physical, &mut properties);
            instance.get_physical_device_external_buffer_properties(
                physical,
                &about,
                &mut external,
            );
        }
        let can = external.external_memory_properties.external_memory_features;
        if !can.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE) {
            return limit("the device imports no memory of the processor for copies".into());
        }
        let alignment = host.min_imported_host_pointer_alignment.max(1);
        let (pointer, len) = (region.pointer().addr() as u64, region.len() as u64);
        if !pointer.is_multiple_of(alignment) || !len.is_multiple_of(alignment) {
            let cause = format!(
                "staging of {len} bytes at {pointer:#x} is not aligned to {alignment} bytes, as \
                 the device needs it to import it"
            );
            return limit(cause);
        }
        let mut made = Imported {
            context: Arc::clone(context),
            region,
            pieces: Vec::new(),
        };
        for begin in (0..made.region.len()).step_by(limits::IMPORT_BYTES) {
            let len = limits::IMPORT_BYTES.min(made.region.len() - begin);
            made.import(begin, len)?;
        }
        Ok(made)
    }

    fn import(&mut self, begin: usize, len: usize) -> Result<(), Error> {
        let device = &self.context.device;
        let pointer = self.region.pointer().wrapping_add(begin).cast();
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(kind);
        let info = sharing(vk::BufferCreateInfo::default(), &self.context.families)
            .size(len as u64)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC)
            .push_next(&mut external);
        // SAFETY: a valid description.
        let buffer = unsafe { device.create_buffer(&info, None) };
        // The buffer is destroyed with `self`, also on an error.
        self.pieces.push(Piece {
            buffer: buffer.map_err(|error| vulkan("vkCreateBuffer", error))?,
            memory: vk::DeviceMemory::null(),
        });
        let piece = self.pieces.last_mut().expect("pushed above");
        let mut allowed = vk::MemoryHostPointerPropertiesEXT::default();
        let functions = self.context.host.as_ref().expect("checked by the caller");
        // SAFETY: memory of the region, which lives; the buffer was created above.
        let (asked, needs) = unsafe {
            let ask = functions.fp().get_memory_host_pointer_properties_ext;
            let asked = ask(device.handle(), kind, pointer, &mut allowed).result();
            (asked, device.get_buffer_memory_requirements(piece.buffer))
        };
        asked.map_err(|error| vulkan("vkGetMemoryHostPointerPropertiesEXT", error))?;
        if needs.size > len as u64 {
            let cause = "the device needs more memory than it is to import";
            return Err(Error::new(ErrorKind::Limit, cause));
        }
        let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let types = needs.memory_type_bits & allowed.memory_type_bits;
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(kind)
            .host_pointer(pointer);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(len as u64)
            .memory_type_index(self.context.memory_type(types, host)?)
            .push_next(&mut import);
        // SAFETY: aligned memory that stays mapped until the import is freed, see `Drop`.
        unsafe {
            let memory = device.allocate_memory(&info, None);
            piece.memory = memory.map_err(|error| vulkan("vkAllocateMemory", error))?;
            let bound = device.bind_buffer_memory(piece.buffer, piece.memory, 0);
            bound.map_err(|error| vulkan("vkBindBufferMemory", error))
        }
    }

    /// Returns the buffer and offset of these bytes, if they are all in one piece.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(vk::Buffer, u64)> {
        let at = bytes
            .as_ptr()
            .addr()
            .checked_sub(self.region.pointer().addr())?;
        let (index, begin) = (at / limits::IMPORT_BYTES, at % limits::IMPORT_BYTES);
        let left = self.region.len().checked_sub(at)?;
        let fits = bytes.len() <= left.min(limits::IMPORT_BYTES - begin);
        let piece = self.pieces.get(index).filter(|_| fits)?;
        Some((piece.buffer, begin as u64))
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        if self.context.is_lost() {
            // The device may still read it.
            self.region.leak();
            std::mem::forget(Arc::clone(&self.context));
            return;
        }
        let device = &self.context.device;
        for piece in &self.pieces {
            // SAFETY: created here, and no batch is in flight any more; null handles are ignored.
            unsafe {
                device.destroy_buffer(piece.buffer, None);
                device.free_memory(piece.memory, None);
            }
        }
    }
}
