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
    /// Whether the item's next request, for `len` bytes, lands on the device.
    pub(super) fn lands_on_device(&self, index: usize, len: u64) -> bool {
        let item = &self.items[index];
        let is_ready =
            matches!(item.content, Content::OnDevice(_)) || item.is_geometry() && len > 0;
        is_ready && self.loader.options.device.is_some()
    }

    /// Adds a request that delivers `len` bytes, charged already, to memory of the device.
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
    pub(super) fn pixels_landed(&mut self, index: usize, mut buffer: Buffer) -> Result<()> {
        let item = &self.items[index];
        let bad = |cause| item.bad_image(cause);
        let layout = Layout::parse(&buffer).map_err(bad)?;
        if let Some(extra) = buffer.len().checked_sub(layout.bytes()) {
            let start = buffer.as_ptr().addr() - buffer.base().addr();
            buffer.set_view(start, layout.bytes());
            if item.content == Content::Pixels {
                // Decoders other than PNG's had memory of their own, which is free again, and left
                // the space after the image untouched. As much as PNG's work space stays charged.
                let (width, height) = layout.size(layout.first_level());
                let kept = layout.bytes() + extra.min(png::work_bytes(width, height));
                self.budget.keep(&item.charged, kept as u64);
            }
        }
        if layout.bytes() > buffer.len() {
            return Err(bad(TRUNCATED));
        }
        if self.loader.options.device.is_none() {
            let image = Image::new(buffer).map_err(bad)?;
            self.image_landed(index, image);
            return Ok(());
        }
        // Charged already: the image takes on the device what it takes in memory, which is freed
        // soon.
        self.items[index].content = Content::OnDevice(layout);
        let len = layout.bytes() as u64;
        self.add_device_request(index, Read::buffer(Arc::new(buffer)), len)
    }

    /// Handles bytes of an item that have landed on the device.
    pub(super) fn landed_on_device(&mut self, index: usize, memory: DeviceMemory) {
        let item = &self.items[index];
        match item.content {
            Content::OnDevice(layout) => {
                self.image_landed(index, Image::on_device(layout, memory));
            }
            _ => {
                let bytes = Bytes::Device(memory, item.stored_bytes);
                self.buffer_landed(index, bytes);
            }
        }
    }
}
