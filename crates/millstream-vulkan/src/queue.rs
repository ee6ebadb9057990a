//! The queues of a device, and access to them.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use ash::vk;

/// Who submits to a queue.
#[derive(Default)]
#[non_exhaustive]
pub enum QueueAccess {
    /// Only this library.
    #[default]
    Own,
    /// The library and the application, both under the application's lock.
    Locked(QueueLock),
    /// Only the application: [`Gpu::record`](crate::Gpu::record) records commands, which it submits
    /// with its own. For the compute queue only.
    Recorded,
}

/// A function that calls the one it is given while it holds the lock of a queue.
pub type QueueLock = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// A queue of the application.
pub struct AdoptedQueue {
    /// The queue.
    pub queue: vk::Queue,
    /// Its family.
    pub family: u32,
    /// Who submits to it.
    pub access: QueueAccess,
}

/// A timeline semaphore and a value for it to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPoint {
    /// The semaphore, of type `TIMELINE`.
    pub semaphore: vk::Semaphore,
    /// The value.
    pub value: u64,
}

/// A queue that batches are submitted to.
pub(crate) struct Queue {
    queue: vk::Queue,
    pub(crate) family: u32,
    access: QueueAccess,
    lock: Mutex<()>,
}

impl Queue {
    pub(crate) fn new(adopted: AdoptedQueue) -> Queue {
        Queue {
            queue: adopted.queue,
            family: adopted.family,
            access: adopted.access,
            lock: Mutex::new(()),
        }
    }

    /// Whether only the application submits.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.access, QueueAccess::Recorded)
    }

    /// Submits commands, which signal `done` when they complete.
    pub(crate) fn submit(
        &self,
        device: &ash::Device,
        commands: vk::CommandBuffer,
        done: GpuPoint,
    ) -> Result<(), vk::Result> {
        assert!(!self.is_recorded(), "the application submits");
        let (commands, semaphores, values) = ([commands], [done.semaphore], [done.value]);
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline);
        let submits = [submit];
        let mut result = None;
        let mut call = || {
            let none = vk::Fence::null();
            // Only the first call submits: the commands are for one submission.
            // SAFETY: commands that were recorded to their end; whoever else submits to the queue
            // is locked out, see `QueueAccess`.
            result
                .get_or_insert_with(|| unsafe { device.queue_submit(self.queue, &submits, none) });
        };
        match &self.access {
            // After a panic of the application, `result` still says whether it was submitted.
            QueueAccess::Locked(locked) => {
                let _ = catch_unwind(AssertUnwindSafe(|| locked(&mut call)));
            }
            QueueAccess::Own | QueueAccess::Recorded => {
                let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                call();
            }
        }
        // If the lock did not call, nothing was submitted.
        result.unwrap_or(Err(vk::Result::ERROR_UNKNOWN))
    }
}
