//! The engine's side of queues: sequence windows, FIFO entries, failures, pauses and bandwidth.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::error::ErrorKind;
use crate::job::Target;
use crate::queue::{Fifo, QueueShared};
use crate::sequence::SequenceWindow;

/// A bytes-per-second cap: a bucket that may go into debt by one block and is paid back by time.
pub(crate) struct Bucket {
    bytes_per_second: u64,
    /// When the debt is paid.
    free_at_ns: u64,
}

/// How long an idle bucket saves up: 10 ms.
const SAVED_NS: u64 = 10_000_000;

impl Bucket {
    pub(crate) fn new(bytes_per_second: u64) -> Bucket {
        Bucket {
            bytes_per_second: bytes_per_second.max(1),
            free_at_ns: 0,
        }
    }

    /// When the queue may move bytes again, if not now.
    pub(crate) fn wait_until(&self, now_ns: u64) -> Option<u64> {
        (self.free_at_ns > now_ns).then_some(self.free_at_ns)
    }

    pub(crate) fn spend(&mut self, bytes: u64, now_ns: u64) {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = u64::try_from(cost)
            .unwrap_or(u64::MAX / 4)
            .min(u64::MAX / 4);
        self.free_at_ns = self.free_at_ns.max(now_ns.saturating_sub(SAVED_NS)) + cost;
    }
}

pub(crate) struct QueueState {
    pub(crate) shared: Arc<QueueShared>,
    pub(crate) window: SequenceWindow,
    /// Entries below were taken; the watermark must not pass those that were not.
    pub(crate) fifo: VecDeque<(u64, Fifo)>,
    /// Failures that no status entry has told, by sequence number.
    pub(crate) failures: BTreeMap<u64, ErrorKind>,
    pub(crate) paused: bool,
    pub(crate) bucket: Option<Bucket>,
    pub(crate) held: Vec<Target>,
    pub(crate) live: u32,
    /// Ended since the last release of capacity.
    pub(crate) ended: u32,
    pub(crate) dropped: bool,
    pub(crate) touched: bool,
}

/// The queues of a storage by id; ids are used again.
#[derive(Default)]
pub(crate) struct Queues {
    states: Vec<Option<Box<QueueState>>>,
    /// Queues whose FIFO entries or capacity must be looked at this round.
    pub(crate) touched: Vec<u32>,
}

impl Queues {
    pub(crate) fn add(&mut self, shared: Arc<QueueShared>) {
        let bucket = shared.options.bandwidth.map(Bucket::new);
        let state = QueueState {
            window: SequenceWindow::default(),
            fifo: VecDeque::new(),
            failures: BTreeMap::new(),
            paused: false,
            bucket,
            held: Vec::new(),
            live: 0,
            ended: 0,
            dropped: false,
            touched: false,
            shared,
        };
        let index = state.shared.id as usize;
        if index >= self.states.len() {
            self.states.resize_with(index + 1, || None);
        }
        assert!(
            self.states[index].is_none(),
            "a queue's id is used by one queue at a time"
        );
        self.states[index] = Some(Box::new(state));
    }

    pub(crate) fn get(&mut self, id: u32) -> Option<&mut QueueState> {
        self.states.get_mut(id as usize)?.as_deref_mut()
    }

    pub(crate) fn state(&mut self, id: u32) -> &mut QueueState {
        self.get(id).expect("a queue lives as long as its requests")
    }

    /// Marks a queue to be looked at when the round ends.
    pub(crate) fn touch(&mut self, id: u32) -> &mut QueueState {
        let state = self.states[id as usize].as_deref_mut();
        let state = state.expect("a queue lives as long as its requests");
        if !state.touched {
            state.touched = true;
            self.touched.push(id);
        }
        state
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.states[id as usize] = None;
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        let live = self.states.iter().flatten();
        live.map(|state| state.shared.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_moves_its_rate_over_time() {
        let mut bucket = Bucket::new(1_000_000);
        let (mut now_ns, mut moved) = (1_000_000_000, 0);
        let start = now_ns;
        while now_ns < start + 2_000_000_000 {
            match bucket.wait_until(now_ns) {
                Some(at) => now_ns = at,
                None => {
                    bucket.spend(10_000, now_ns);
                    moved += 10_000;
                }
            }
        }
        assert!((1_990_000..=2_040_000).contains(&moved), "{moved}");
    }
}
