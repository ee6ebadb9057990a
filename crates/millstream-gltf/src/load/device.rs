//! Items that land on a device.

use std::sync::Arc;

use millstream::{Buffer, Read};

use super::Load;
use super::item::{Content, Flight, Task};
use crate::device_memory::DeviceMemory;
use crate::error::Result;
use crate::image::{Image, Layout, TRUNCATED, png};
use crate::scene::Bytes;

impl Load {
    /// Whether `len` bytes of an item land on the device by the next request.
    pub(super) fn lands_on_device(&self, index: usize, len: u64) -> bool {
        let item = &self.items[index];
        let is_ready =
            matches!(item.content, Content::OnDevice(_)) || item.is_geometry() && len > 0;
        is_ready && self.loader.options.device.is_some()
    }

    /// Adds a request that brings `len` bytes, which the budget has, to memory of the device.
    pub(super) fn add_device_request(
        &mut self,
        index: usize,
        request: Read,
        len: u64,
    ) -> Result<()> {
        let item = &self.items[index];
        let device = self.loader.options.device.as_ref();
        let device = device.expect("the item lands on it");
        let made = match item.content {
            Content::OnDevice(layout) => device.image(&layout),
            _ => device.buffer(len),
        };
        let memory = DeviceMemory::new(made.map_err(|error| item.error(&error))?);
        let ticket = self.add_to_batch(index, request.into_device(memory.sink()))?;
        self.items[index].task = Task::Running(Flight::Device(ticket, memory));
        Ok(())
    }

    /// Handles a whole image ready for upload that has landed in memory.
    pub(super) fn pixels_landed(&mut self, index: usize, mut buffer: Buffer) {
        self.free_work_space(index, &mut buffer);
        if self.loader.options.device.is_none() {
            return self.image_landed(index, Image::new(buffer));
        }
        match Layout::parse(&buffer) {
            Ok(layout) if layout.bytes() > buffer.len() => self.fail_image(index, TRUNCATED),
            Ok(layout) => {
                if let Err(error) = self.upload(index, buffer, layout) {
                    self.fail_item(index, error);
                }
            }
            Err(cause) => self.fail_image(index, cause),
        }
    }

    /// Returns to the budget what a decoder needed beside the image. (It had memory of its own, and
    /// touched none of the work space; but of PNG, whose work space is some rows.)
    fn free_work_space(&self, index: usize, buffer: &mut Buffer) {
        let Ok(layout) = Layout::parse(buffer) else {
            return;
        };
        let Some(extra) = buffer.len().checked_sub(layout.bytes()) else {
            return;
        };
        let (width, height) = layout.size(layout.first_level());
        let kept = extra.min(png::work_bytes(width, height));
        let start = buffer.as_ptr().addr() - buffer.base().addr();
        buffer.set_view(start, layout.bytes());
        let freed = self.items[index].supplied.take_some((extra - kept) as u64);
        self.budget.give_back(freed);
    }

    /// Requests that an image is brought from memory to the device. The budget has its bytes: what
    /// the image took in memory is what it takes there, and is free soon.
    fn upload(&mut self, index: usize, buffer: Buffer, layout: Layout) -> Result<()> {
        self.items[index].content = Content::OnDevice(layout);
        let len = layout.bytes() as u64;
        self.add_device_request(index, Read::buffer(Arc::new(buffer)), len)
    }

    /// Handles bytes of an item that have landed on the device.
    pub(super) fn landed_on_device(&mut self, index: usize, memory: DeviceMemory) {
        let item = &self.items[index];
        match item.content {
            Content::OnDevice(layout) => {
                self.image_landed(index, Ok(Image::on_device(layout, memory)));
            }
            _ => {
                let bytes = Bytes::Device(memory, item.stored_bytes);
                self.end_item(index);
                self.buffer_landed(index, bytes);
            }
        }
    }
}
