//! Items that land on a device.

use std::sync::Arc;

use millstream::{Buffer, Read};

use super::Load;
use super::issue::no_room;
use super::item::{Content, Flight, Task};
use crate::device::DeviceMemory;
use crate::error::{Error, Result};
use crate::image::{Image, Layout};
use crate::scene::Bytes;

impl Load {
    /// Memory of the device for `len` bytes of an item; `None`: it lands in memory first.
    pub(super) fn device_memory(&self, index: usize, len: u64) -> Result<Option<DeviceMemory>> {
        let Some(device) = &self.loader.options.device else {
            return Ok(None);
        };
        let item = &self.items[index];
        let made = match item.content {
            Content::OnDevice(layout) => device.image(&layout),
            _ if item.geometry && len > 0 => device.buffer(len),
            _ => return Ok(None),
        };
        let made = made.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        Ok(Some(DeviceMemory::new(made)))
    }

    /// Adds a request that lands on the device, and takes `bytes` more of the budget.
    pub(super) fn add_device_request(
        &mut self,
        index: usize,
        request: Read,
        (memory, bytes): (DeviceMemory, u64),
    ) -> Result<()> {
        let item = &mut self.items[index];
        if !self.budget.take(bytes) {
            return Err(no_room(&item.place, &item.file));
        }
        item.held_bytes += bytes;
        let ticket = self.add_to_batch(index, request.into_device(memory.sink()))?;
        self.items[index].task = Task::Running(Flight::Device(ticket, memory));
        Ok(())
    }

    /// Handles a whole image ready for upload that has landed in memory.
    pub(super) fn pixels_landed(&mut self, index: usize, buffer: Buffer) {
        if self.loader.options.device.is_none() {
            return self.image_landed(index, Image::new(buffer));
        }
        match Layout::parse(&buffer) {
            Ok(layout) if layout.bytes() <= buffer.len() => {
                if let Err(error) = self.upload(index, buffer, layout) {
                    self.fail_item(index, error);
                }
            }
            Ok(_) => self.fail_image(index, "the image's bytes are truncated"),
            Err(cause) => self.fail_image(index, cause),
        }
    }

    /// Requests that an image is brought from memory to the device. The budget has its bytes: what
    /// the image took in memory is what it takes there, and is free soon.
    fn upload(&mut self, index: usize, mut buffer: Buffer, layout: Layout) -> Result<()> {
        self.items[index].content = Content::OnDevice(layout);
        let memory = self.device_memory(index, layout.bytes() as u64)?;
        let memory = memory.expect("there is a device");
        // Without the work space of the decoder, which the device has no room for.
        let start = buffer.as_ptr().addr() - buffer.base().addr();
        buffer.set_view(start, layout.bytes());
        self.add_device_request(index, Read::buffer(Arc::new(buffer)), (memory, 0))
    }

    /// Handles bytes of an item that have landed on the device.
    pub(super) fn landed_on_device(&mut self, index: usize, memory: DeviceMemory) {
        match self.items[index].content {
            Content::OnDevice(layout) => {
                self.image_landed(index, Ok(Image::on_device(layout, memory)));
            }
            _ => {
                self.end_item(index);
                self.buffer_landed(index, Bytes::Device(memory));
            }
        }
    }
}
