//! Buffers of the device as destinations.
#![expect(
    unsafe_code,
    reason = "records copies, and takes handles of the application"
)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk;
use millstream::{CodecId, DevicePart, DeviceSink, Error, ErrorKind};

use crate::batch::barrier;
use crate::context::Commands;
use crate::memory::{DeviceBuffer, Target};
use crate::threads::Shared;

/// A range of a buffer on the device, to be passed to
/// [`Read::into_device`](millstream::Read::into_device). Several requests may use one at once; of
/// two that write the same bytes either may be last.
pub struct GpuBuffer {
    shared: Arc<Shared>,
    target: Arc<Target>,
}

impl GpuBuffer {
    pub(crate) fn new(shared: &Arc<Shared>, target: Target) -> Arc<GpuBuffer> {
        Arc::new(GpuBuffer {
            shared: Arc::clone(shared),
            target: Arc::new(target),
        })
    }

    /// The buffer. One that the library made is destroyed with its last `GpuBuffer`, once no
    /// request is on its way to it.
    #[must_use]
    pub fn vk_buffer(&self) -> vk::Buffer {
        self.target.buffer()
    }

    /// Copies bytes of a buffer that the library made back. Blocks until the device has done so;
    /// for tools and tests.
    ///
    /// # Errors
    /// `InvalidArgument`: the bytes are not inside of the buffer, or it is the application's, which
    /// promised neither that it can be read nor that it is still there; `DeviceLost`,
    /// `OutOfMemory`.
    pub fn read_back(&self, bytes: Range<u64>) -> Result<Vec<u8>, Error> {
        if matches!(*self.target, Target::Adopted { .. }) {
            let cause = "a buffer of the application's is not read back";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        if bytes.start > bytes.end || bytes.end > self.target.len() {
            let cause = "the bytes to read back are not inside of the buffer";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let context = &self.shared.context;
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let size = bytes.end - bytes.start;
        let len = usize::try_from(size).expect("inside of a buffer");
        let usage = vk::BufferUsageFlags::TRANSFER_DST;
        let mut back = DeviceBuffer::mapped(context, len, usage)?;
        let mut commands = Commands::new(context)?;
        commands.submit(|device, commands| {
            let region = vk::BufferCopy {
                src_offset: self.target.offset() + bytes.start,
                dst_offset: 0,
                size,
            };
            let (from, to) = (self.target.buffer(), back.buffer);
            // SAFETY: inside of both buffers, see above.
            unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
            barrier(
                device,
                commands,
                (
                    vk::PipelineStageFlags::TRANSFER,
                    vk::AccessFlags::TRANSFER_WRITE,
                ),
                (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ),
            );
        })?;
        if let Err(error) = commands.wait() {
            // The device may still use them.
            std::mem::forget((back, commands, Arc::clone(&self.target)));
            return Err(error);
        }
        Ok(back.bytes().to_vec())
    }
}

impl DeviceSink for GpuBuffer {
    fn room(&self) -> u64 {
        self.target.len()
    }

    fn decodes(&self, codec: CodecId) -> bool {
        codec == CodecId::GDEFLATE && self.shared.decodes.load(Ordering::Relaxed)
    }

    fn take(&self, part: DevicePart) {
        self.shared.take(part, Arc::clone(&self.target));
    }
}

impl std::fmt::Debug for GpuBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuBuffer")
            .field("buffer", &self.target.buffer())
            .field("offset", &self.target.offset())
            .field("len", &self.target.len())
            .finish_non_exhaustive()
    }
}
