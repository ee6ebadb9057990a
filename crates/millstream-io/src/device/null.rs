//! A device that transfers nothing: operations complete at `submit` or `wait` with all their bytes
//! and touch no memory. It measures the cost of a device's owner alone.

use std::time::{Duration, Instant};

use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation};
use crate::error::{Errno, IoError};

/// A [`Device`] that transfers nothing. See the module.
pub struct NullDevice {
    depth: usize,
    pushed: Vec<Completion>,
    ended: Vec<Completion>,
    bell: Doorbell,
}

impl NullDevice {
    /// Makes a device of this depth (at least 1).
    #[must_use]
    pub fn new(depth: usize) -> NullDevice {
        let depth = depth.max(1);
        NullDevice {
            depth,
            pushed: Vec::with_capacity(depth),
            ended: Vec::with_capacity(depth),
            bell: Doorbell::condvar(),
        }
    }

    fn end(&mut self) {
        self.ended.append(&mut self.pushed);
    }
}

impl Device for NullDevice {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Null
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.ended.len()
    }

    #[expect(
        unsafe_code,
        reason = "the trait's contract; the memory is not touched"
    )]
    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        let count = operations.len().min(self.depth - self.in_flight());
        let whole = |one: &Operation| Completion::new(one.id, Ok(one.segments.bytes()));
        self.pushed.extend(operations[..count].iter().map(whole));
        count
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.end();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let count = self.ended.len();
        completions.append(&mut self.ended);
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.end();
        if !self.ended.is_empty() || timeout == Some(Duration::ZERO) || !self.bell.arm() {
            return Ok(());
        }
        if !awake() {
            self.bell.sleep(timeout);
        }
        self.bell.disarm();
        Ok(())
    }

    fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    fn shutdown(
        mut self: Box<Self>,
        _deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        for completion in &mut self.pushed {
            *completion = Completion::failed(completion.id, Errno::CANCELED);
        }
        self.end();
        self.reap(completions);
        Abandoned::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Descriptor, Segment, fake};

    #[test]
    fn operations_complete_at_submit_with_all_their_bytes() {
        let segment = Segment::new(std::ptr::null_mut(), 5);
        let operation = |id| fake::read(id, Descriptor(0), 0, segment);
        let mut device = NullDevice::new(2);
        let mut completions = Vec::new();
        let all = [operation(1), operation(2), operation(3)];
        #[expect(unsafe_code, reason = "the memory is not touched")]
        let push = |device: &mut NullDevice, operations: &[Operation]| {
            // SAFETY: the device never uses the memory.
            unsafe { device.push(operations) }
        };
        assert_eq!(push(&mut device, &all), 2);
        assert_eq!((device.in_flight(), device.reap(&mut completions)), (2, 0));
        device.submit().unwrap();
        assert_eq!(device.reap(&mut completions), 2);
        assert_eq!(completions[1], Completion { id: 2, result: 5 });
        assert_eq!(push(&mut device, &all[2..]), 1);
        Box::new(device).shutdown(Instant::now(), &mut completions);
        let canceled = Completion::failed(3, Errno::CANCELED);
        assert_eq!(completions[2..], [canceled]);
    }
}
