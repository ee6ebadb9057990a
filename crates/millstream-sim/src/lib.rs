//! A simulated disk with a seed: latency, bandwidth, seeks, short transfers, errors, reordering,
//! hangs, and a device that breaks.
//!
//! Time is simulated and advances only inside the device's calls: `wait` jumps to the next
//! completion or to its timeout, `submit` and `reap` take [`SimOptions::call_ns`] each, so that an
//! owner that only polls makes progress. Nothing sleeps, except a `wait` without a timeout while
//! nothing is scheduled: it sleeps until the doorbell rings. The same calls in the same order give
//! the same results for a seed. Faults of the owner are counted in [`SimCounts`].
//!
//! A `DeviceMaker` that returns the device, with the files, is a storage's `Backend::Custom`.
//!
//! ```
//! use std::path::Path;
//! use millstream_io::FileSystem;
//! use millstream_sim::{Sim, SimFileOptions, SimOptions};
//!
//! let options = SimOptions { seed: 7, hang_chance: 0.1, ..SimOptions::default() };
//! let (_device, files) = Sim::new(options);
//! files.add("a", b"seven".to_vec(), SimFileOptions::default());
//! assert_eq!(files.known_at(Path::new("a")).expect("it is there").len, 5);
//! ```
//!
//! # Safety
//! Lent memory is accessed by the contract of [`Device::push`]: at the completion, partly at the
//! submission too (seeded), and for abandoned operations even after the shutdown, in
//! [`SimFiles::release_hung`]. Memory freed or reused early is detected by a canary or by
//! AddressSanitizer.

#![expect(
    unsafe_code,
    reason = "moves bytes to and from memory lent as raw segments"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_io::device::Abandoned;
use millstream_io::{Completion, Device, DeviceKind, Doorbell, Errno, IoError, Operation, Segment};

mod disk;
mod files;

pub use disk::{SimCounts, SimOperation, generate};
use files::Simulation;
pub use files::{SimFileOptions, SimFiles};

/// Properties of the simulated disk. Chances are between 0 and 1.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Maximum number of operations pushed and not yet reaped.
    pub depth: usize,
    /// Minimum time from start to completion.
    pub latency_min_ns: u64,
    /// Maximum time from start to completion, without transfer and seek.
    pub latency_max_ns: u64,
    /// Transfer rate of all operations together; 0 for no limit.
    pub bytes_per_second: u64,
    /// Cost of a seek for each KiB between the head and the operation, in both directions. Only
    /// files with a position on the disk cause seeks.
    pub seek_ns_per_kib: u64,
    /// Whether operations complete in any order; else in the order of submission.
    pub reorder: bool,
    /// Chance that a part of a read is also written to memory at the submission.
    pub early_write_chance: f64,
    /// Chance that a transfer moves fewer bytes than requested (whole blocks of a direct file).
    pub short_chance: f64,
    /// Chance of `EINTR`.
    pub interrupted_chance: f64,
    /// Chance of `EAGAIN`.
    pub again_chance: f64,
    /// Chance of `EIO`.
    pub io_error_chance: f64,
    /// Chance that an operation does not complete until [`SimFiles::release_hung`].
    pub hang_chance: f64,
    /// Time that `submit` and `reap` take.
    pub call_ns: u64,
    /// The device breaks after this many completions, whatever their results: from then on `submit`
    /// and `wait` return an error (`EIO`, call `"sim"`) and nothing completes. `None`: never.
    pub break_after: Option<u64>,
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
            break_after: None,
        }
    }
}

/// A [`Device`] over the simulated disk. See the module.
pub struct Sim {
    shared: Arc<Simulation>,
    depth: usize,
    call_ns: u64,
    in_flight: usize,
    pushed: Vec<Operation>,
    /// Started operations by their completion time and sequence number, with the number of bytes
    /// that they move, or their error.
    scheduled: BTreeMap<(u64, u64), (Operation, Result<usize, Errno>)>,
    hung: Vec<Operation>,
    /// The value of `releases` when hung operations were last checked.
    releases_seen: u64,
    sequence: u64,
    completed_count: u64,
    break_after: Option<u64>,
}

impl Sim {
    /// Makes a disk, and a handle to its files.
    #[must_use]
    pub fn new(options: SimOptions) -> (Sim, SimFiles) {
        let (depth, call_ns) = (options.depth.max(1), options.call_ns);
        let break_after = options.break_after;
        let shared = Arc::new(Simulation::new(options));
        let sim = Sim {
            shared: Arc::clone(&shared),
            depth,
            call_ns,
            in_flight: 0,
            pushed: Vec::with_capacity(depth),
            scheduled: BTreeMap::new(),
            hung: Vec::new(),
            releases_seen: 0,
            sequence: 0,
            completed_count: 0,
            break_after,
        };
        (sim, SimFiles { shared })
    }

    fn is_broken(&self) -> bool {
        self.break_after
            .is_some_and(|count| self.completed_count >= count)
    }

    fn check(&self) -> Result<(), IoError> {
        if self.is_broken() {
            let cause = "the simulated device is set to break here";
            return Err(IoError::because("sim", Errno::IO, cause));
        }
        Ok(())
    }

    fn start_pushed(&mut self) {
        let mut pushed = std::mem::take(&mut self.pushed);
        for operation in pushed.drain(..) {
            self.start(operation);
        }
        self.pushed = pushed;
    }

    fn start(&mut self, operation: Operation) {
        let begun = self.shared.disk().begin(&operation, self.shared.now_ns());
        match begun {
            None => {
                self.hung.push(operation);
                self.shared.disk().hung = self.hung.len();
            }
            Some((finish_ns, moves)) => self.schedule(operation, finish_ns, moves),
        }
    }

    fn schedule(&mut self, operation: Operation, finish_ns: u64, moves: Result<usize, Errno>) {
        self.sequence += 1;
        let key = (finish_ns, self.sequence);
        self.scheduled.insert(key, (operation, moves));
    }

    /// Schedules hung operations that were released: they now succeed.
    fn release(&mut self) {
        let releases = self.shared.disk().releases;
        if releases != self.releases_seen {
            self.releases_seen = releases;
            for operation in std::mem::take(&mut self.hung) {
                let moves = Ok(operation.segments.bytes());
                self.schedule(operation, self.shared.now_ns(), moves);
            }
            self.shared.disk().hung = 0;
        }
    }

    fn next_finish_ns(&self) -> Option<u64> {
        self.scheduled.first_key_value().map(|(key, _)| key.0)
    }

    fn reap_until(&mut self, until_ns: u64, completions: &mut Vec<Completion>) -> usize {
        let mut count = 0;
        while !self.is_broken()
            && let Some(first) = self.scheduled.first_entry()
            && first.key().0 <= until_ns
        {
            let (operation, moves) = first.remove();
            let mut disk = self.shared.disk();
            let moved = moves.and_then(|bytes| disk.transfer(&operation, bytes));
            disk.end(&operation);
            completions.push(Completion::new(operation.id, moved));
            self.completed_count += 1;
            count += 1;
        }
        self.in_flight -= count;
        count
    }

    /// Advances the clock to the next completion or by the timeout, or sleeps if there is neither.
    fn pass_time(&mut self, timeout: Option<Duration>) {
        let now_ns = self.shared.now_ns();
        let timeout_ns =
            timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let until_ns = timeout_ns.map(|timeout_ns| now_ns.saturating_add(timeout_ns));
        match (self.next_finish_ns(), until_ns) {
            (Some(finish_ns), Some(until_ns)) => self.shared.advance_to(finish_ns.min(until_ns)),
            (Some(finish_ns), None) => self.shared.advance_to(finish_ns),
            (None, Some(until_ns)) => {
                self.shared.advance_to(until_ns);
                // What the owner waits for must be done by another thread.
                std::thread::yield_now();
            }
            (None, None) => self.shared.bell.sleep(None),
        }
    }

    fn take_started(&mut self) -> Vec<Operation> {
        let scheduled = std::mem::take(&mut self.scheduled).into_values();
        let operations = scheduled.map(|(operation, _)| operation);
        self.shared.disk().hung = 0;
        operations.chain(self.hung.drain(..)).collect()
    }
}

impl Device for Sim {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Custom
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        let count = operations.len().min(self.depth - self.in_flight);
        self.pushed.extend(&operations[..count]);
        self.in_flight += count;
        count
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.shared.advance_ns(self.call_ns);
        self.check()?;
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.shared.advance_ns(self.call_ns);
        self.release();
        self.reap_until(self.shared.now_ns(), completions)
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.check()?;
        self.start_pushed();
        self.release();
        let now_ns = self.shared.now_ns();
        let due = |finish_ns| finish_ns <= now_ns;
        if self.next_finish_ns().is_some_and(due) || !self.shared.bell.arm() {
            return Ok(());
        }
        if !awake() {
            self.pass_time(timeout);
        }
        self.shared.bell.disarm();
        Ok(())
    }

    fn doorbell(&self) -> Doorbell {
        self.shared.bell.clone()
    }

    /// See [`Device::shutdown`]. The deadline is in real time and does not bound the simulated
    /// clock: everything scheduled completes, unless the device is broken; the rest is abandoned at
    /// once.
    fn shutdown(
        mut self: Box<Self>,
        _deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        self.release();
        self.in_flight -= self.pushed.len();
        completions.extend(self.pushed.drain(..).map(|one| Completion::canceled(&one)));
        if let Some((&(last_ns, _), _)) = self.scheduled.last_key_value()
            && !self.is_broken()
        {
            self.shared.advance_to(last_ns);
            self.reap_until(last_ns, completions);
        }
        let abandoned = self.take_started();
        let operations = abandoned.iter().map(|operation| operation.id).collect();
        self.shared.disk().orphans.extend(abandoned);
        Abandoned { operations }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Dropped without a shutdown: started operations may write to their memory forever.
        let abandoned = self.take_started();
        self.shared.disk().orphans.extend(abandoned);
    }
}

/// Returns the segments of an operation that was pushed and has not been reaped.
fn segments(operation: &Operation) -> &[Segment] {
    // SAFETY: the disk holds operations from their push to their completion, or forever if it
    // reported them as abandoned; the list is in place as long (Device::push).
    unsafe { operation.segments.as_slice() }
}

/// Copies `bytes` into the segments, as far as they fit.
fn fill_segments(segments: &[Segment], mut bytes: &[u8]) {
    for segment in segments {
        let len = segment.len().min(bytes.len());
        // SAFETY: by the contract of `push` the segment is `len` or more writable bytes that are
        // not used otherwise; a slice of the disk's own memory does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), segment.pointer(), len) };
        bytes = &bytes[len..];
    }
}

/// Returns the first `len` bytes of the segments.
fn gather_segments(segments: &[Segment], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for segment in segments {
        let take = segment.len().min(len - bytes.len());
        if take > 0 {
            // SAFETY: by the contract of `push` the segment is `take` or more initialized bytes
            // that do not change.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(segment.pointer(), take) });
        }
    }
    bytes
}
