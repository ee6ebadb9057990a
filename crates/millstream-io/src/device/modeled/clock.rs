//! The time of one modeled disk, shared by the lanes that use it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::DiskModel;
use crate::device::{Descriptor, Operation};

/// Where the present time comes from: [`Instant::now`], or a test's own clock.
pub type TimeSource = Arc<dyn Fn() -> Instant + Send + Sync>;

/// One modeled disk: what it is doing and until when. Clones are the same disk.
#[derive(Clone)]
pub struct ModelClock {
    shared: Arc<Shared>,
}

struct Shared {
    model: DiskModel,
    time: TimeSource,
    /// All times below count nanoseconds from here.
    epoch: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Transfers occupy the disk one after the other, until then.
    busy_until_ns: u64,
    /// Where the last transfer ended.
    head: Option<(Descriptor, u64)>,
    /// When the operations still accepted end, at most `depth`, in that order (transfers never
    /// overtake): one beyond the depth is accepted when the first of them has ended.
    accepted: VecDeque<u64>,
}

impl ModelClock {
    /// A disk that is idle.
    #[must_use]
    pub fn new(model: DiskModel) -> ModelClock {
        ModelClock::with_time(model, Arc::new(Instant::now))
    }

    /// A disk whose time is another than the system's, for tests without waiting.
    #[must_use]
    pub fn with_time(model: DiskModel, time: TimeSource) -> ModelClock {
        let shared = Shared {
            epoch: time(),
            model,
            time,
            state: Mutex::default(),
        };
        ModelClock {
            shared: Arc::new(shared),
        }
    }

    /// The disk that is modeled.
    #[must_use]
    pub fn model(&self) -> &DiskModel {
        &self.shared.model
    }

    /// The present time.
    pub(super) fn now(&self) -> Instant {
        (self.shared.time)()
    }

    #[cfg(test)]
    pub(super) fn accepted_count(&self) -> usize {
        self.shared.state.lock().unwrap().accepted.len()
    }

    /// Hands operations to the disk now; when it has finished each.
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

impl State {
    /// When an operation that arrives now ends.
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
        // The latency of one operation passes while others are transferred; a seek does not.
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
