//! A fake disk with a seed: latency, bandwidth, seeks, short transfers, errors, reordering, hangs.
//!
//! Time is simulated. The clock moves only inside the device's calls: `wait` jumps to the next
//! completion or to its timeout, and `submit` and `reap` take [`SimOptions::call_ns`] each, so that
//! an owner that only polls gets on too. Nothing sleeps, with one exception: a `wait` without a
//! timeout with nothing on its way sleeps for real until the doorbell rings, because only another
//! thread can end it.
//!
//! Given the same calls in the same order, everything that happens follows from the seed.
//!
//! What the device checks of its owner, and counts in [`SimCounts`]: files closed with operations
//! in flight, operations on closed files. Lent memory is written at the completion, partly at the
//! submission too (seeded), and for abandoned operations even after the shutdown, when
//! [`SimFiles::release_hung`] is called: so memory that was freed or reused early is found by a
//! canary or by AddressSanitizer.
//!
//! # Safety
//! The device reads and writes lent memory by the contract of [`Device::push`], up to the
//! completion, and for ever what it has reported as abandoned.

#![expect(
    unsafe_code,
    reason = "moves bytes to and from memory lent as raw segments"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, Segment, Verb};
use crate::error::{Errno, IoError};
use crate::memory::Region;

mod disk;
mod files;

use disk::Fate;
pub use disk::{SimCounts, SimOperation, generate};
use files::Shared;
pub use files::{SimFileOptions, SimFiles};

/// What the fake disk does. Chances are between 0 and 1.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Everything random follows from it.
    pub seed: u64,
    /// Most operations pushed and not yet reaped.
    pub depth: usize,
    /// Shortest time from start to completion.
    pub latency_min_ns: u64,
    /// Longest time, without transfer and seek.
    pub latency_max_ns: u64,
    /// Transfer rate of all operations together; 0 for no limit.
    pub bytes_per_second: u64,
    /// Cost of a seek for each KiB between the head and the operation, both ways alike. Only files
    /// with a position on the disk cause seeks.
    pub seek_ns_per_kib: u64,
    /// Operations complete in any order. If false, in the order of submission.
    pub reorder: bool,
    /// Part of a read is written to memory at once, the rest at the completion.
    pub early_write_chance: f64,
    /// A transfer moves fewer bytes than asked for (whole blocks of a direct file).
    pub short_chance: f64,
    /// `EINTR`.
    pub interrupted_chance: f64,
    /// `EAGAIN`.
    pub again_chance: f64,
    /// `EIO`.
    pub io_error_chance: f64,
    /// The operation never completes, until [`SimFiles::release_hung`].
    pub hang_chance: f64,
    /// Time that `submit` and `reap` take.
    pub call_ns: u64,
}

impl Default for SimOptions {
    /// A disk like a good SSD, without faults.
    fn default() -> SimOptions {
        SimOptions {
            seed: 1,
            depth: 128,
            latency_min_ns: 50_000,
            latency_max_ns: 150_000,
            bytes_per_second: 3_500_000_000,
            seek_ns_per_kib: 0,
            reorder: true,
            early_write_chance: 0.5,
            short_chance: 0.0,
            interrupted_chance: 0.0,
            again_chance: 0.0,
            io_error_chance: 0.0,
            hang_chance: 0.0,
            call_ns: 100,
        }
    }
}

/// An operation under way.
struct Scheduled {
    finish_ns: u64,
    /// Breaks ties by age.
    sequence: u64,
    operation: Operation,
    fate: Fate,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.finish_ns, self.sequence).cmp(&(other.finish_ns, other.sequence))
    }
}

/// The device. See the module.
pub struct Sim {
    shared: Arc<Shared>,
    depth: usize,
    call_ns: u64,
    in_flight: usize,
    pushed: Vec<Operation>,
    scheduled: BinaryHeap<Reverse<Scheduled>>,
    hung: Vec<Operation>,
    /// How often `release_hung` had been called when hung operations were last looked at.
    releases_seen: u64,
    sequence: u64,
}

impl Sim {
    /// A disk, and the files on it.
    #[must_use]
    pub fn new(options: SimOptions) -> (Sim, SimFiles) {
        let (depth, call_ns) = (options.depth.max(1), options.call_ns);
        let shared = Arc::new(Shared::new(options));
        let sim = Sim {
            shared: Arc::clone(&shared),
            depth,
            call_ns,
            in_flight: 0,
            pushed: Vec::with_capacity(depth),
            scheduled: BinaryHeap::with_capacity(depth),
            hung: Vec::new(),
            releases_seen: 0,
            sequence: 0,
        };
        (sim, SimFiles::of(shared))
    }

    /// The simulated time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    fn start_pushed(&mut self) {
        let mut pushed = std::mem::take(&mut self.pushed);
        for operation in pushed.drain(..) {
            self.start(operation);
        }
        self.pushed = pushed;
    }

    fn start(&mut self, operation: Operation) {
        let fate = self.shared.disk().begin(&operation, self.shared.now_ns());
        match fate {
            Fate::Hangs => self.hung.push(operation),
            fate => {
                if let Fate::Moves { early_bytes, .. } = fate
                    && operation.verb == Verb::Read
                {
                    self.shared.disk().look_ahead(&operation, early_bytes);
                }
                self.schedule(operation, fate);
            }
        }
    }

    fn schedule(&mut self, operation: Operation, fate: Fate) {
        self.sequence += 1;
        let finish_ns = match fate {
            Fate::Moves { finish_ns, .. } | Fate::Fails { finish_ns, .. } => finish_ns,
            Fate::Hangs => unreachable!("a hung operation has no end"),
        };
        self.scheduled.push(Reverse(Scheduled {
            finish_ns,
            sequence: self.sequence,
            operation,
            fate,
        }));
    }

    /// Gives hung operations an end, if they were released.
    fn release(&mut self) {
        let releases = self.shared.releases();
        if releases != self.releases_seen {
            self.releases_seen = releases;
            for operation in std::mem::take(&mut self.hung) {
                let fate = self.shared.disk().resume(&operation, self.shared.now_ns());
                self.schedule(operation, fate);
            }
        }
    }

    fn next_finish_ns(&self) -> Option<u64> {
        self.scheduled.peek().map(|next| next.0.finish_ns)
    }

    fn finish(&mut self, scheduled: Scheduled, completions: &mut Vec<Completion>) {
        let Scheduled {
            operation, fate, ..
        } = scheduled;
        let result = match fate {
            Fate::Moves { bytes, .. } => self.shared.disk().transfer(&operation, bytes),
            Fate::Fails { errno, .. } => Err(errno),
            Fate::Hangs => unreachable!("a hung operation is not scheduled"),
        };
        self.shared.disk().end(&operation);
        completions.push(Completion {
            id: operation.id,
            result,
            segments: operation.segments,
        });
    }

    fn reap_until(&mut self, until_ns: u64, completions: &mut Vec<Completion>) -> usize {
        let mut count = 0;
        while self
            .next_finish_ns()
            .is_some_and(|finish_ns| finish_ns <= until_ns)
        {
            if let Some(Reverse(scheduled)) = self.scheduled.pop() {
                self.finish(scheduled, completions);
                count += 1;
            }
        }
        self.in_flight -= count;
        count
    }
}

impl Device for Sim {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Sim
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    unsafe fn push(&mut self, operation: Operation) -> Result<(), Operation> {
        if self.in_flight == self.depth {
            return Err(operation);
        }
        self.in_flight += 1;
        self.pushed.push(operation);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.shared.advance_ns(self.call_ns);
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.shared.advance_ns(self.call_ns);
        self.release();
        self.reap_until(self.shared.now_ns(), completions)
    }

    fn wait(&mut self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool) {
        self.start_pushed();
        self.release();
        let bell = self.shared.bell();
        let now_ns = self.shared.now_ns();
        if self
            .next_finish_ns()
            .is_some_and(|finish_ns| finish_ns <= now_ns)
            || !bell.arm()
        {
            return;
        }
        if !awake() {
            let timeout_ns =
                timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
            let until_ns = timeout_ns.map(|timeout_ns| now_ns.saturating_add(timeout_ns));
            match (self.next_finish_ns(), until_ns) {
                (Some(finish_ns), Some(until_ns)) => {
                    self.shared.advance_to(finish_ns.min(until_ns))
                }
                (Some(finish_ns), None) => self.shared.advance_to(finish_ns),
                (None, Some(until_ns)) => {
                    self.shared.advance_to(until_ns);
                    // Whatever the owner waits for, another thread has to do it.
                    std::thread::yield_now();
                }
                (None, None) => bell.sleep(None),
            }
        }
        bell.disarm();
    }

    fn doorbell(&self) -> Doorbell {
        self.shared.bell().clone()
    }

    fn register(&mut self, _region: &Arc<Region>) -> usize {
        0
    }

    /// See [`Device::shutdown`]. The deadline is a real time and the simulated clock is not bound
    /// by it: everything scheduled completes, and what hangs is abandoned at once.
    fn shutdown(
        mut self: Box<Self>,
        _deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        self.release();
        for operation in std::mem::take(&mut self.pushed) {
            self.in_flight -= 1;
            completions.push(Completion {
                id: operation.id,
                result: Err(Errno(libc::ECANCELED)),
                segments: operation.segments,
            });
        }
        if let Some(last_ns) = self.scheduled.iter().map(|next| next.0.finish_ns).max() {
            self.shared.advance_to(last_ns);
            self.reap_until(last_ns, completions);
        }
        let hung = std::mem::take(&mut self.hung);
        let operations = hung.iter().map(|operation| operation.id).collect();
        self.shared.disk().orphans.extend(hung);
        Abandoned { operations }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Dropped without a shutdown: what was under way is the system's for ever.
        let under_way = self.scheduled.drain().map(|next| next.0.operation);
        let mut disk = self.shared.disk();
        disk.orphans.extend(under_way.chain(self.hung.drain(..)));
    }
}

/// Copies `bytes` into the segments, as many as they hold.
fn fill_segments(segments: &[Segment], mut bytes: &[u8]) {
    for segment in segments {
        let len = segment.len().min(bytes.len());
        // SAFETY: by the contract of `push` the segment is `len` or more writable bytes that nobody
        // else uses; a slice of the disk's own memory does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), segment.pointer(), len) };
        bytes = &bytes[len..];
    }
}

/// The first `len` bytes of the segments.
fn gather_segments(segments: &[Segment], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for segment in segments {
        let take = segment.len().min(len - bytes.len());
        if take > 0 {
            // SAFETY: by the contract of `push` the segment is `take` or more initialized bytes
            // that nobody changes.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(segment.pointer(), take) });
        }
    }
    bytes
}
