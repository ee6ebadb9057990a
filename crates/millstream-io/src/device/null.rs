//! A device that does nothing: every operation ends at `submit`, with all its bytes "moved" and no
//! memory touched. For measuring what the owner of a device costs by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation};
use crate::error::{Errno, IoError};
use crate::memory::Region;

/// The device. See the module.
pub struct NullDevice {
    depth: usize,
    pushed: Vec<Completion>,
    ended: Vec<Completion>,
    completed_count: u64,
    bell: Doorbell,
}

impl NullDevice {
    /// A device of this depth (at least 1).
    #[must_use]
    pub fn new(depth: usize) -> NullDevice {
        let depth = depth.max(1);
        NullDevice {
            depth,
            pushed: Vec::with_capacity(depth),
            ended: Vec::with_capacity(depth),
            completed_count: 0,
            bell: Doorbell::condvar(),
        }
    }

    /// Operations reaped so far.
    #[must_use]
    pub fn completed_count(&self) -> u64 {
        self.completed_count
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
    unsafe fn push(&mut self, operation: Operation) -> Result<(), Operation> {
        if self.in_flight() == self.depth {
            return Err(operation);
        }
        self.pushed.push(Completion {
            id: operation.id,
            result: Ok(operation.segments.bytes()),
            segments: operation.segments,
        });
        Ok(())
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.end();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let count = self.ended.len();
        self.completed_count += count as u64;
        completions.append(&mut self.ended);
        count
    }

    fn wait(&mut self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool) {
        self.end();
        if !self.ended.is_empty() || timeout == Some(Duration::ZERO) || !self.bell.arm() {
            return;
        }
        if !awake() {
            self.bell.sleep(timeout);
        }
        self.bell.disarm();
    }

    fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    fn register(&mut self, _region: &Arc<Region>) -> usize {
        0
    }

    fn shutdown(
        mut self: Box<Self>,
        _deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        for completion in &mut self.pushed {
            completion.result = Err(Errno(libc::ECANCELED));
        }
        self.end();
        self.reap(completions);
        Abandoned::default()
    }
}
