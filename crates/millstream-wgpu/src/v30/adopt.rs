//! Adopts the application's buffers, whose handles wgpu 30 lends.
#![expect(unsafe_code, reason = "lends handles of wgpu")]

use std::ops::Range;
use std::sync::Arc;

use millstream::Error;
use millstream_vulkan::GpuBuffer;

use super::destination::{BufferDestination, Destination};
use super::device::{Vulkan, WgpuDevice, invalid, no_vulkan};
use super::wgpu;

impl WgpuDevice {
    /// Returns a range of a buffer as a destination.
    ///
    /// # Errors
    /// `InvalidArgument`: the range is empty or not inside the buffer, or the buffer lacks the
    /// usage `COPY_DST`; `Limit`: it is not a Vulkan buffer.
    ///
    /// # Safety
    /// The buffer belongs to the device. No command that wgpu runs uses the range while a request
    /// to it is in flight, and the buffer is not destroyed then. wgpu has recorded the range as
    /// initialized, because it was written to, or cleared by `CommandEncoder::clear_buffer`, in a
    /// submission; else wgpu clears it on its first use, after bytes have landed. With a second
    /// queue ([`WgpuDevice::adopt_with`]) that submission has completed before a request begins.
    pub unsafe fn adopt_buffer(
        &self,
        buffer: &wgpu::Buffer,
        range: Range<u64>,
    ) -> Result<Arc<BufferDestination>, Error> {
        if !buffer.usage().contains(wgpu::BufferUsages::COPY_DST) {
            return Err(invalid("a buffer without the usage COPY_DST"));
        }
        if range.start >= range.end || range.end > buffer.size() {
            return Err(invalid("a range that is empty or not inside of its buffer"));
        }
        // SAFETY: the handle is not destroyed here.
        let handle = unsafe {
            let hal = buffer.as_hal::<Vulkan>().ok_or_else(no_vulkan)?;
            hal.raw_handle()
        };
        let place = (handle, range.start, range.end - range.start);
        // wgpu's buffers are exclusive: a second queue of another family does not write to them.
        let owner = self.families.1.map(|_| self.families.0);
        // SAFETY: the destination keeps the buffer; the rest the caller promises.
        let sink = unsafe { self.gpu.adopt_buffer(place, owner) };
        Ok(Destination::new(sink, buffer.clone(), GpuBuffer::is_lost))
    }
}
