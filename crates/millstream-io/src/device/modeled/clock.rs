//! The timeline of one modeled disk, shared by the lanes that use it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::DiskModel;
use crate::device::{Descriptor, Operation};

/// Source of the current time: [`Instant::now`], or a test's own clock.
pub type TimeSource = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The state of one modeled disk. Clones are the same disk.
#[derive(Clone)]
pub struct ModelClock {
    shared: Arc<Timeline>,
}

struct Timeline {
    model: DiskModel,
    time: TimeSource,
    /// All times below count nanoseconds from here.
    epoch: Instant,
    state: Mutex<Traffic>,
}

#[derive(Default)]
struct Traffic {
    /// Transfers occupy the disk one after the other, until this time.
    busy_until_ns: u64,
    /// Where the last transfer ended.
    head: Option<(Descriptor, u64)>,
    /// When the operations that occupy the queue end, at most `depth`, in this order (transfers
    /// never overtake): one beyond the depth is accepted when the first has ended.
    accepted: VecDeque<u64>,
}

impl ModelClock {
    /// Makes an idle disk.
    #[must_use]
    pub fn new(model: DiskModel) -> ModelClock {
        ModelClock::with_time(model, Arc::new(Instant::now))
    }

    /// Makes a disk with its own source of time, for tests that do not wait.
    #[must_use]
    pub fn with_time(model: DiskModel, time: TimeSource) -> ModelClock {
        let shared = Timeline {
            epoch: time(),
            model,
            time,
            state: Mutex::default(),
        };
        ModelClock {
            shared: Arc::new(shared),
        }
    }

    /// Returns the modeled disk.
    #[must_use]
    pub fn model(&self) -> &DiskModel {
        &self.shared.model
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Instant {
        (self.shared.time)()
    }

    #[cfg(test)]
    pub(super) fn accepted_count(&self) -> usize {
        self.shared.state.lock().unwrap().accepted.len()
    }

    /// Starts operations on the disk now; returns when it finishes each.
    pub(super) fn schedule(&self, operations: &[Operation]) -> Vec<Instant> {
        let shared = &self.shared;
        let now = self.now().saturating_duration_since(shared.epoch);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = operations.iter().map(|operation| {
            let end_ns = state.add(&shared.model, now_ns, operation);
            let end = shared.epoch.checked_add(Duration::from_nanos(end_ns));
            end.unwrap_or(shared.epoch)
        });
        ends.collect()
    }
}

impl Traffic {
    /// Returns when an operation that arrives now ends.
    fn add(&mut self, model: &DiskModel, now_ns: u64, operation: &Operation) -> u64 {
        let mut begin_ns = now_ns;
        while self.accepted.front().is_some_and(|&end| end <= now_ns) {
            self.accepted.pop_front();
        }
        if self.accepted.len() >= model.depth.max(1) as usize {
            begin_ns = begin_ns.max(self.accepted.pop_front().unwrap_or(0));
        }
        let bytes = operation.segments.bytes() as u64;
        let contiguous = self.head == Some((operation.file, operation.offset));
        let seek_ns = if contiguous { 0 } else { model.seek_ns };
        // The latency of an operation overlaps with other transfers; a seek does not.
        let end_ns = begin_ns
            .saturating_add(model.latency_ns)
            .max(self.busy_until_ns)
            .saturating_add(seek_ns)
            .saturating_add(model.transfer_ns(bytes));
        self.busy_until_ns = end_ns;
        self.head = Some((operation.file, operation.offset.saturating_add(bytes)));
        self.accepted.push_back(end_ns);
        end_ns
    }
}

impl fmt::Debug for ModelClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelClock")
            .field(&self.shared.model)
            .finish()
    }
}
