//! The engine's side of queues: what has completed, entries that take effect in order, failures,
//! pauses and bandwidth.
//!
//! Invariants: an entry completes once; an entry takes effect when its sequence number is the first
//! that has not completed; capacity is released once a round.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::caller::queue::{Fifo, NO_INDEX, Parcel, QueueShared, Selection, Wishes};
use crate::error::ErrorKind;
use crate::handover::slots::{Cache, Ended, Freed, Posted};
use crate::ids::{FileId, Id};
use crate::priority::{Guard, PRIORITIES, Priorities, Priority};

/// Which sequence numbers have completed: one bit each from the watermark on.
#[derive(Default)]
pub(crate) struct Window {
    base: u64,
    words: VecDeque<u64>,
}

impl Window {
    #[inline]
    pub(crate) fn complete(&mut self, sequence: u64) {
        assert!(sequence >= self.base, "an entry completes once");
        let word = usize::try_from((sequence - self.base) / 64).expect("the window is bounded");
        while self.words.len() <= word {
            self.words.push_back(0);
        }
        let mask = 1 << (sequence % 64);
        assert!(self.words[word] & mask == 0, "an entry completes once");
        self.words[word] |= mask;
    }

    /// The first sequence number that has not completed.
    #[inline]
    pub(crate) fn watermark(&mut self) -> u64 {
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.base += 64;
        }
        let ones = self.words.front().map_or(0, |word| word.trailing_ones());
        self.base + u64::from(ones)
    }
}

/// A bytes-per-second limit: a bucket that may go into debt, by one block or by the rest of a
/// window of staging, and is paid back by time.
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

    /// The same debt at another rate.
    pub(crate) fn at_rate(&self, bytes_per_second: u64, now_ns: u64) -> Bucket {
        let owed_ns = u128::from(self.free_at_ns.saturating_sub(now_ns));
        let owed = owed_ns * u128::from(self.bytes_per_second) / 1_000_000_000;
        let mut bucket = Bucket::new(bytes_per_second);
        bucket.free_at_ns = self.free_at_ns.min(now_ns);
        bucket.spend(u64::try_from(owed).unwrap_or(u64::MAX), now_ns);
        bucket
    }

    /// When the queue may move bytes again, if not now.
    pub(crate) fn wait_until(&self, now_ns: u64) -> Option<u64> {
        (self.free_at_ns > now_ns).then_some(self.free_at_ns)
    }

    pub(crate) fn spend(&mut self, bytes: u64, now_ns: u64) {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX).min(u64::MAX / 4);
        self.free_at_ns = self.free_at_ns.max(now_ns.saturating_sub(SAVED_NS)) + cost;
    }
}

/// The sequence number and kind of a failure.
type Failure = Option<(u64, ErrorKind)>;

/// An entry that takes effect once everything before it has completed.
struct Entry {
    sequence: u64,
    fifo: Fifo,
    /// The first failure between the previous entry and this one.
    failure: Failure,
}

/// Key of a held request: priority, highest first, then arrival.
pub(crate) type HeldKey = (Reverse<Priority>, u64);

/// A queue, as the engine has it.
pub(crate) struct QueueState {
    pub(crate) shared: Arc<QueueShared>,
    /// Parcels not taken in yet, with the index reached in each.
    pub(crate) backlog: VecDeque<(Parcel, usize)>,
    /// Parcels just handed over, on their way into the backlog.
    parcels: Vec<Parcel>,
    /// Empty parcels for reuse.
    pub(crate) spare: Vec<Parcel>,
    /// Entries below this number were taken in.
    pub(crate) next_sequence: u64,
    /// Selections of entries that may not have been taken in.
    pub(crate) selections: Vec<Selection>,
    pub(crate) window: Window,
    fifo: VecDeque<Entry>,
    /// The first failure after the last entry.
    failure: Failure,
    pub(crate) paused: bool,
    pub(crate) bucket: Option<Bucket>,
    /// Requests taken out of the scheduler by a pause or the bandwidth.
    pub(crate) held: BTreeMap<HeldKey, Id>,
    pub(crate) live: u32,
    /// Completed since the last release of capacity: entries and bytes.
    ended: u64,
    ended_bytes: u64,
    posted: Vec<Posted>,
    /// Slots to be given back with the capacity.
    pub(crate) freed: Cache,
    pub(crate) dropped: bool,
    touched: bool,
}

impl QueueState {
    fn new(shared: Arc<QueueShared>) -> QueueState {
        QueueState {
            bucket: shared.options.bandwidth.map(Bucket::new),
            shared,
            backlog: VecDeque::new(),
            parcels: Vec::new(),
            spare: Vec::new(),
            next_sequence: 0,
            selections: Vec::new(),
            window: Window::default(),
            fifo: VecDeque::new(),
            failure: None,
            paused: false,
            held: BTreeMap::new(),
            live: 0,
            ended: 0,
            ended_bytes: 0,
            posted: Vec::new(),
            freed: Cache::default(),
            dropped: false,
            touched: false,
        }
    }

    /// Moves what was submitted into the backlog; returns the wishes.
    pub(crate) fn take(&mut self) -> Wishes {
        let wishes = self.shared.take(&mut self.parcels, &mut self.spare);
        self.backlog
            .extend(self.parcels.drain(..).map(|parcel| (parcel, 0)));
        wishes
    }

    /// Entries below `sequence` were taken in.
    pub(crate) fn taken_in(&mut self, sequence: u64) {
        self.next_sequence = sequence;
        if !self.selections.is_empty() {
            self.selections.retain(|one| one.before > sequence);
        }
    }

    /// Whether it is paused or has a bandwidth.
    pub(crate) fn is_limited(&self) -> bool {
        self.paused || self.bucket.is_some()
    }

    /// When its bandwidth lets it move bytes again, if not now.
    #[inline]
    pub(crate) fn held_until(&self, now_ns: u64) -> Option<u64> {
        self.bucket.as_ref()?.wait_until(now_ns)
    }

    pub(crate) fn set_bandwidth(&mut self, limit: Option<u64>, now_ns: u64) {
        self.bucket = limit.map(|limit| match &self.bucket {
            Some(bucket) => bucket.at_rate(limit, now_ns),
            None => Bucket::new(limit),
        });
    }

    #[inline]
    pub(crate) fn completed(&mut self, sequence: u64, charged: u64, ended: Ended) {
        match ended {
            Ended::Ticket(_) => {}
            Ended::Posted(posted) => self.posted.push(posted),
            Ended::Freed(freed) => self.free(freed),
        }
        self.window.complete(sequence);
        self.live -= 1;
        self.ended += 1;
        self.ended_bytes += charged;
    }

    /// Frees a slot, at the end of the round.
    #[inline]
    pub(crate) fn free(&mut self, freed: Freed) {
        self.shared.pool.retire_ended(freed, &mut self.freed);
    }

    /// Records a failure with the next entry after the request, which keeps the first one.
    pub(crate) fn failed(&mut self, sequence: u64, kind: ErrorKind) {
        let at = self.fifo.partition_point(|other| other.sequence < sequence);
        let first = match self.fifo.get_mut(at) {
            Some(entry) => &mut entry.failure,
            None => &mut self.failure,
        };
        if first.is_none_or(|(before, _)| sequence < before) {
            *first = Some((sequence, kind));
        }
    }

    /// Inserts an entry that takes effect in order.
    pub(crate) fn add_fifo(&mut self, sequence: u64, fifo: Fifo) {
        // Entries arrive in order, but a request released by a fence arrives late.
        let at = self.fifo.partition_point(|other| other.sequence < sequence);
        let entry = Entry {
            sequence,
            fifo,
            failure: self.failure.take_if(|_| at == self.fifo.len()),
        };
        self.fifo.insert(at, entry);
    }

    /// Takes the next entry whose turn has come. Signals and status entries take effect here; the
    /// others are the engine's, with their number. A close whose file is not `open` yet waits.
    fn next_effect(
        &mut self,
        wakers: &mut Vec<Waker>,
        is_open: impl Fn(FileId) -> bool,
    ) -> Option<(u64, Fifo)> {
        loop {
            let watermark = self.window.watermark();
            let first = self.fifo.front()?;
            let waits = matches!(first.fifo, Fifo::Close(file) if !is_open(file));
            if first.sequence > watermark || waits {
                return None;
            }
            let Entry {
                sequence,
                fifo,
                failure,
            } = self.fifo.pop_front()?;
            if let Fifo::Status(statuses, index) = &fifo {
                statuses.write(*index, failure.map(|(_, kind)| kind));
            } else if let Some((failed, kind)) = failure {
                // The next status entry reports it.
                self.failed(failed, kind);
            }
            match fifo {
                // A request that ended while it waited for its turn.
                Fifo::Start(_) if sequence < watermark => continue,
                // Its number stays open until the request has completed.
                Fifo::Start(_) => return Some((sequence, fifo)),
                _ => assert_eq!(sequence, watermark, "an entry takes effect once"),
            }
            self.window.complete(sequence);
            self.ended += 1;
            match fifo {
                Fifo::Signal(fence, value) => fence.raise(value, wakers),
                Fifo::Close(_) => return Some((sequence, fifo)),
                _ => {}
            }
        }
    }

    /// Publishes completions and releases capacity.
    fn release(&mut self, wakers: &mut Vec<Waker>) {
        self.shared.pool.give_back(&mut self.freed);
        self.shared.publish(&mut self.posted, wakers);
        let ended = std::mem::take(&mut self.ended);
        let bytes = std::mem::take(&mut self.ended_bytes);
        if ended > 0 {
            let watermark = self.window.watermark();
            self.shared.set_watermark(watermark, wakers);
            self.shared.release(ended, bytes, wakers);
        }
    }
}

#[derive(Default)]
pub(crate) struct Queues {
    states: Vec<Option<Box<QueueState>>>,
    touched: Vec<u32>,
    guard: Guard,
    /// The queue that was served last, for each priority.
    served: [u32; PRIORITIES],
    /// Whether any queue is paused or has a bandwidth.
    limited: bool,
}

impl Queues {
    pub(crate) fn add(&mut self, shared: Arc<QueueShared>) {
        let free = self.states.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.states.push(None);
            self.states.len() - 1
        });
        shared.index.store(index as u32, Ordering::Relaxed);
        self.states[index] = Some(Box::new(QueueState::new(shared)));
        self.note_limits();
    }

    /// Updates `limited` after a queue was paused, resumed, or given another bandwidth.
    pub(crate) fn note_limits(&mut self) {
        let mut states = self.states.iter().flatten();
        self.limited = states.any(|state| state.is_limited());
    }

    /// Whether any queue is paused or has a bandwidth.
    #[inline]
    pub(crate) fn are_limited(&self) -> bool {
        self.limited
    }

    #[inline]
    pub(crate) fn get(&mut self, index: u32) -> Option<&mut QueueState> {
        self.states.get_mut(index as usize)?.as_deref_mut()
    }

    /// A queue that has live requests.
    #[inline]
    pub(crate) fn state(&mut self, index: u32) -> &mut QueueState {
        self.get(index)
            .expect("a queue lives as long as its requests")
    }

    /// Returns a queue, which is looked at before the round ends.
    #[inline]
    pub(crate) fn touch(&mut self, index: u32) -> &mut QueueState {
        let state = self.states[index as usize].as_deref_mut();
        let state = state.expect("a queue lives as long as its requests");
        if !std::mem::replace(&mut state.touched, true) {
            self.touched.push(index);
        }
        state
    }

    pub(crate) fn indices(&self) -> Vec<u32> {
        let live = |(index, state): (usize, &Option<Box<QueueState>>)| {
            state.as_ref().map(|_| index as u32)
        };
        self.states.iter().enumerate().filter_map(live).collect()
    }

    /// Whether submissions wait to be taken in.
    pub(crate) fn have_backlog(&self) -> bool {
        let mut states = self.states.iter().flatten();
        states.any(|state| !state.backlog.is_empty())
    }

    /// One more than the largest index of a queue.
    pub(crate) fn len(&self) -> u32 {
        self.states.len() as u32
    }

    /// Queues other than `but` with a backlog of parcels numbered up to `number`, and the sequence
    /// number after the last entry of these.
    pub(crate) fn backlog_ends(&self, but: u32, number: u64) -> Vec<(u32, u64)> {
        let end = |state: &QueueState| {
            let mut parcels = state.backlog.iter().rev().map(|(parcel, _)| parcel);
            let last = parcels.find(|parcel| parcel.number <= number)?;
            Some(last.first_sequence + last.indices.len() as u64)
        };
        let states = self.states.iter().zip(0..);
        let others = states.filter(|(_, index)| *index != but);
        others
            .filter_map(|(state, index)| Some((index, end(state.as_ref()?)?)))
            .collect()
    }

    /// Whether a queue has entries below a sequence number that were not taken in.
    pub(crate) fn has_backlog_below(&mut self, queue: u32, end: u64) -> bool {
        let state = self.get(queue);
        state.is_some_and(|state| !state.backlog.is_empty() && state.next_sequence < end)
    }

    /// The queue whose submissions are to be taken in next: by priority, with the starvation guard.
    pub(crate) fn next_backlog(&mut self) -> Option<u32> {
        let mut waiting = [None; PRIORITIES];
        for (index, state) in self.states.iter().enumerate() {
            if let Some((parcel, _)) = state.as_ref().and_then(|state| state.backlog.front()) {
                let (index, level) = (index as u32, parcel.highest as usize);
                // The first behind the one that was served last, or else the first.
                let is_behind = |index: u32| index > self.served[level];
                let next = waiting[level].get_or_insert(index);
                if is_behind(index) && !is_behind(*next) {
                    *next = index;
                }
            }
        }
        let waits = Priorities::of(|priority| waiting[priority as usize].is_some());
        let priority = self.guard.next(waits, |_| true)?;
        self.guard.served(priority, waits);
        let queue = waiting[priority as usize];
        self.served[priority as usize] = queue?;
        queue
    }

    /// The next effect of a touched queue that the engine must handle, with its queue and number;
    /// `None`: all is done.
    pub(crate) fn next_effect(
        &mut self,
        wakers: &mut Vec<Waker>,
        is_open: impl Fn(FileId) -> bool,
    ) -> Option<(u32, u64, Fifo)> {
        while let Some(&index) = self.touched.last() {
            let Some(state) = self.get(index) else {
                self.touched.pop();
                continue;
            };
            if let Some((sequence, effect)) = state.next_effect(wakers, &is_open) {
                return Some((index, sequence, effect));
            }
            state.release(wakers);
            state.touched = false;
            let gone = state.dropped
                && state.live == 0
                && state.fifo.is_empty()
                && state.backlog.is_empty();
            self.touched.pop();
            if gone {
                self.remove(index);
            }
        }
        None
    }

    fn remove(&mut self, index: u32) {
        if let Some(state) = self.states[index as usize].take() {
            state.shared.index.store(NO_INDEX, Ordering::Relaxed);
            state.shared.mailbox.queues.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_the_first_entry_that_has_not_completed_in_any_order() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let count = random.u64(1..500);
            let mut order: Vec<u64> = (0..count).collect();
            random.shuffle(&mut order);
            let mut window = Window::default();
            let mut done = vec![false; count as usize];
            for sequence in order {
                window.complete(sequence);
                done[sequence as usize] = true;
                let first = done.iter().position(|&done| !done);
                let expected = first.map_or(count, |first| first as u64);
                assert_eq!(window.watermark(), expected, "seed {seed}");
            }
        }
    }

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
