//! The queues of a device, and who submits to them.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use ash::vk;

/// Who submits to a queue.
#[derive(Default)]
#[non_exhaustive]
pub enum QueueAccess {
    /// This library alone.
    #[default]
    Own,
    /// The application, too, under a lock of its own.
    Locked(QueueLock),
    /// The application alone: it has commands recorded by [`Gpu::record`](crate::Gpu::record), and
    /// submits them with its own. Of the queue that computes alone.
    Recorded,
}

/// Calls a function while it holds the lock of a queue.
pub type QueueLock = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// A queue of the application's.
pub struct AdoptedQueue {
    /// The queue.
    pub queue: vk::Queue,
    /// Its family.
    pub family: u32,
    /// Who submits to it.
    pub access: QueueAccess,
}

/// A value of a timeline semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPoint {
    /// The semaphore, of type `TIMELINE`.
    pub semaphore: vk::Semaphore,
    /// The value.
    pub value: u64,
}

/// See the header.
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

    /// Whether the application submits.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.access, QueueAccess::Recorded)
    }

    /// Submits commands, whose completion reaches `done`.
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
            // Once: the commands are for one submission.
            // SAFETY: commands that were recorded to their end; whoever else submits to the queue
            // is locked out, see `QueueAccess`.
            result
                .get_or_insert_with(|| unsafe { device.queue_submit(self.queue, &submits, none) });
        };
        match &self.access {
            // A panic of the application's changes nothing of what the device has by then.
            QueueAccess::Locked(locked) => {
                let _ = catch_unwind(AssertUnwindSafe(|| locked(&mut call)));
            }
            QueueAccess::Own | QueueAccess::Recorded => {
                let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                call();
            }
        }
        // A lock that did not call has submitted nothing.
        result.unwrap_or(Err(vk::Result::ERROR_UNKNOWN))
    }
}
