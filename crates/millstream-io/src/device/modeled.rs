//! A device that is as slow as a modeled disk: real transfers, delayed completions.
//!
//! [`Modeled`] wraps a device. Operations go to it unchanged, and a completion is returned once the
//! real one has arrived and the modeled disk would have finished as well. Several lanes of one
//! engine share a [`ModelClock`]: they are one disk. Times are computed when an operation is
//! submitted, from its requested length, so a late or failed real completion delays no other.
//!
//! Invariant: every operation that the owner has not reaped is in `pushed`, `due` or `held`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{
    Abandoned, Completion, Descriptor, Device, DeviceKind, Doorbell, Operation, OperationId,
};
use crate::error::IoError;
use crate::memory::Region;

mod model;

pub use model::{DiskModel, DiskModelError};

/// A device with the completion times of a [`DiskModel`]. See the module.
pub struct Modeled {
    inner: Box<dyn Device>,
    clock: ModelClock,
    /// Pushed, not yet submitted.
    pushed: Vec<Operation>,
    /// When the modeled disk finishes each operation of the inner device.
    due: HashMap<OperationId, Instant>,
    /// Real completions that are not due yet, by due time and order of arrival.
    held: BTreeMap<(Instant, u64), Completion>,
    /// Number of completions held so far: makes the keys of `held` unique.
    held_count: u64,
    /// Reused by `collect`.
    real: Vec<Completion>,
}

impl Modeled {
    /// Wraps a device that has nothing in flight.
    #[must_use]
    pub fn new(inner: Box<dyn Device>, clock: ModelClock) -> Modeled {
        assert_eq!(inner.in_flight(), 0, "operations in flight have no model");
        Modeled {
            inner,
            clock,
            pushed: Vec::new(),
            due: HashMap::new(),
            held: BTreeMap::new(),
            held_count: 0,
            real: Vec::new(),
        }
    }

    /// Starts what was pushed on the modeled disk.
    fn schedule(&mut self) {
        if self.pushed.is_empty() {
            return;
        }
        let due = self.clock.schedule(&self.pushed);
        let ids = self.pushed.drain(..).map(|operation| operation.id);
        self.due.extend(ids.zip(due));
    }

    /// Collects what the inner device has completed.
    fn collect(&mut self) {
        self.inner.reap(&mut self.real);
        let now = self.clock.now();
        for completion in self.real.drain(..) {
            let due = self.due.remove(&completion.id).unwrap_or(now);
            self.held.insert((due, self.held_count), completion);
            self.held_count += 1;
        }
    }

    /// Returns when the first held completion is due.
    fn first_due(&self) -> Option<Instant> {
        self.held.first_key_value().map(|(&(due, _), _)| due)
    }
}

impl Device for Modeled {
    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }

    #[expect(unsafe_code, reason = "passes the caller's promise on")]
    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        // Held completions have left the inner device but not this one.
        let room = self.depth().saturating_sub(self.in_flight());
        let operations = &operations[..operations.len().min(room)];
        // SAFETY: the caller's promise is the one that the inner device requires; it is kept
        // longer, since completions come later.
        let taken = unsafe { self.inner.push(operations) };
        self.pushed.extend_from_slice(&operations[..taken]);
        taken
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.schedule();
        self.inner.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.collect();
        let before = completions.len();
        let now = self.clock.now();
        while let Some(entry) = self.held.first_entry()
            && entry.key().0 <= now
        {
            completions.push(entry.remove());
        }
        completions.len() - before
    }

    /// See [`Device::wait`]. Also returns when the inner device has completed something that is not
    /// due yet: only the owner knows whether the doorbell rang as well.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.schedule();
        self.collect();
        let left = self.first_due().map(|due| {
            let now = self.clock.now();
            due.saturating_duration_since(now)
        });
        let timeout = match (timeout, left) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        };
        self.inner.wait(timeout, awake)
    }

    fn next_completion_at(&self) -> Option<Instant> {
        match (self.first_due(), self.inner.next_completion_at()) {
            (Some(own), Some(inner)) => Some(own.min(inner)),
            (own, inner) => own.or(inner),
        }
    }

    fn doorbell(&self) -> Doorbell {
        self.inner.doorbell()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        self.inner.register(region)
    }

    /// See [`Device::shutdown`]. Completions are not delayed here.
    fn shutdown(
        self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        completions.extend(self.held.into_values());
        self.inner.shutdown(deadline, completions)
    }
}

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
    fn now(&self) -> Instant {
        (self.shared.time)()
    }

    #[cfg(test)]
    fn accepted_count(&self) -> usize {
        self.shared.state.lock().unwrap().accepted.len()
    }

    /// Starts operations on the disk now; returns when it finishes each.
    fn schedule(&self, operations: &[Operation]) -> Vec<Instant> {
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

debug!(ModelClock, it: model = it.shared.model);

#[cfg(test)]
mod tests;
