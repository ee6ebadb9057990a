//! Device buffers as destinations.
#![expect(
    unsafe_code,
    reason = "records copies, and takes handles of the application"
)]

use std::ops::Range;
use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::batch::{COPY_WRITES, HOST_READS, barrier, handover_of};
use crate::commands::Commands;
use crate::context::Context;
use crate::error::invalid;
use crate::lane::{Shared, device_sink};
use crate::memory::DeviceBuffer;
use crate::target::Target;

/// A range of a buffer on the device, to be passed to
/// [`Read::into_device`](millstream::Read::into_device). Several requests may use one at once,
/// unless it is handed over to another family. If two write the same bytes, either may be last; if
/// only one of them is copied by the queue `transfer`, these bytes are undefined.
pub struct GpuBuffer {
    shared: Arc<Shared>,
    pub(crate) target: Arc<Target>,
}

impl GpuBuffer {
    pub(crate) fn new(shared: &Arc<Shared>, target: Target) -> Arc<GpuBuffer> {
        Arc::new(GpuBuffer {
            shared: Arc::clone(shared),
            target: Arc::new(target),
        })
    }

    /// Returns the buffer. One that the library made is destroyed with its last `GpuBuffer`, once
    /// no request to it is in flight.
    #[must_use]
    pub fn vk_buffer(&self) -> vk::Buffer {
        self.target.buffer().expect("it is a buffer").0
    }

    /// Returns the barrier by which the family that the range is handed over to acquires it, for
    /// the accesses `uses`, once its request has completed. `None`: it is not handed over.
    #[must_use]
    pub fn acquire(&self, uses: vk::AccessFlags) -> Option<vk::BufferMemoryBarrier<'static>> {
        match *self.target {
            Target::Adopted {
                buffer,
                offset,
                len,
                handover: Some(to),
            } => handover_of(
                (buffer, offset, len),
                (self.shared.context.compute.family, to),
            )
            .map(|barrier| barrier.dst_access_mask(uses)),
            _ => None,
        }
    }

    /// Reads bytes of a buffer that the library made. Blocks until the device has copied them; for
    /// tools and tests.
    ///
    /// # Errors
    /// `InvalidArgument`: the bytes are not inside the buffer, the compute queue is `Recorded`, or
    /// the buffer is the application's, which need neither be readable nor still exist;
    /// `DeviceLost`, `OutOfMemory`.
    pub fn read_back(&self, bytes: Range<u64>) -> Result<Vec<u8>, Error> {
        if matches!(*self.target, Target::Adopted { .. }) {
            return Err(invalid("a buffer of the application's is not read back"));
        }
        if bytes.start > bytes.end || bytes.end > self.target.len() {
            return Err(invalid(
                "the bytes to read back are not inside of the buffer",
            ));
        }
        let size = bytes.end - bytes.start;
        let (from, offset) = self.target.buffer().expect("it is a buffer");
        read_back(
            &self.shared.context,
            &self.target,
            size,
            |device, commands, to| {
                let region = vk::BufferCopy {
                    src_offset: offset + bytes.start,
                    dst_offset: 0,
                    size,
                };
                // SAFETY: inside of both buffers, see above.
                unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
            },
        )
    }
}

/// Runs commands that copy `len` bytes of a destination to a buffer, and returns the bytes.
pub(crate) fn read_back(
    context: &Arc<Context>,
    target: &Arc<Target>,
    len: u64,
    record: impl FnOnce(&ash::Device, vk::CommandBuffer, vk::Buffer),
) -> Result<Vec<u8>, Error> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if context.compute.is_recorded() {
        return Err(invalid(
            "nothing is read back where the application submits",
        ));
    }
    let len = usize::try_from(len).expect("no more than a destination has");
    let mut back = DeviceBuffer::mapped(context, len, vk::BufferUsageFlags::TRANSFER_DST)?;
    let mut commands = Commands::new(context, &context.compute)?;
    let submitted = commands.submit(|device, commands| {
        record(device, commands, back.buffer);
        barrier(device, commands, COPY_WRITES, HOST_READS);
    });
    if let Err(error) = submitted.and_then(|()| commands.wait()) {
        context.keep_if_lost((back, commands, Arc::clone(target)));
        return Err(error);
    }
    Ok(back.bytes().to_vec())
}

device_sink!(GpuBuffer);
