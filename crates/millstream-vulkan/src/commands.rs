//! Command buffers and timeline semaphores.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::context::Context;
use crate::error::vulkan;
use crate::queue::{GpuPoint, Queue};

/// A timeline semaphore whose initial value is 0.
pub(crate) struct Timeline {
    context: Arc<Context>,
    pub(crate) semaphore: vk::Semaphore,
}

impl Timeline {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Timeline, Error> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: a valid description.
        let semaphore = unsafe { context.device.create_semaphore(&info, None) };
        Ok(Timeline {
            context: Arc::clone(context),
            semaphore: semaphore.map_err(|error| vulkan("vkCreateSemaphore", error))?,
        })
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        if self.context.is_lost() {
            // What the application submitted may still signal it.
            std::mem::forget(Arc::clone(&self.context));
            return;
        }
        // SAFETY: created here; whoever submits or waits with it keeps it.
        unsafe { self.context.device.destroy_semaphore(self.semaphore, None) };
    }
}

/// A command buffer with its own pool, and a timeline that reports when it has run.
pub(crate) struct Commands {
    context: Arc<Context>,
    queue: Arc<Queue>,
    pool: vk::CommandPool,
    buffer: vk::CommandBuffer,
    timeline: Timeline,
    submitted: u64,
}

impl Commands {
    pub(crate) fn new(context: &Arc<Context>, queue: &Arc<Queue>) -> Result<Commands, Error> {
        let device = &context.device;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(queue.family);
        let mut made = Commands {
            context: Arc::clone(context),
            queue: Arc::clone(queue),
            pool: vk::CommandPool::null(),
            buffer: vk::CommandBuffer::null(),
            timeline: Timeline::new(context)?,
            submitted: 0,
        };
        // SAFETY: valid descriptions; what was made is destroyed with `made`, also on an error.
        unsafe {
            let pool = device.create_command_pool(&info, None);
            made.pool = pool.map_err(|error| vulkan("vkCreateCommandPool", error))?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(made.pool)
                .command_buffer_count(1);
            let buffers = device.allocate_command_buffers(&info);
            made.buffer = buffers.map_err(|error| vulkan("vkAllocateCommandBuffers", error))?[0];
        }
        Ok(made)
    }

    /// Records and submits commands. Earlier submissions must have run.
    pub(crate) fn submit(
        &mut self,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), Error> {
        let device = &self.context.device;
        let flags = vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
        let begin = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the pool's only buffer is not in use: its user waits before it calls again.
        let recorded = unsafe {
            let flags = vk::CommandPoolResetFlags::empty();
            let begun = device
                .reset_command_pool(self.pool, flags)
                .and_then(|()| device.begin_command_buffer(self.buffer, &begin));
            begun.and_then(|()| {
                record(device, self.buffer);
                device.end_command_buffer(self.buffer)
            })
        };
        recorded.map_err(|error| self.context.failed("recording commands", error))?;
        let done = GpuPoint {
            semaphore: self.timeline.semaphore,
            value: self.submitted + 1,
        };
        let submitted = self.queue.submit(device, self.buffer, done);
        submitted.map_err(|error| self.context.failed("vkQueueSubmit", error))?;
        self.submitted = done.value;
        Ok(())
    }

    /// Returns the point that is reached once the last submission has run.
    pub(crate) fn done(&self) -> GpuPoint {
        GpuPoint {
            semaphore: self.timeline.semaphore,
            value: self.submitted,
        }
    }

    /// Waits until the last submission has run.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.context.wait(self.done())
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: created here, and not in use any more; null handles are ignored.
        unsafe { self.context.device.destroy_command_pool(self.pool, None) };
    }
}
