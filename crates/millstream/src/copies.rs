//! Copies: reads that the page cache answers, done by several cores.
//!
//! A ring serves a buffered read whose bytes are cached inside the call that submits it: one core
//! copies, the engine's. So reads that are likely to be cached do not go to the device. They wait
//! here, by class ([`turns`](crate::turns)), and whoever has time copies them with reads that must
//! not wait for the disk: the engine a little in every round, and workers, which are called when
//! more waits than the call costs. What the cache has not comes back short, and the engine gives
//! the rest to the device.
//!
//! Invariants:
//! - An operation put here comes back exactly once: by [`Copies::reap`], or, if nobody has begun
//!   it, by [`Copies::take_back`]. Its memory belongs to it until then, as with a device.
//! - Whoever takes operations finishes them in bounded time: they are reads that wait for no disk,
//!   of files that lie on no mount that can hang, and a batch is bounded in bytes and number. So
//!   what is cancelled meanwhile ends soon, and realtime requests wait for a batch at most.
//! - The engine does not sleep while anything waits here, so no copy depends on a worker: workers
//!   that decode, or are none, cost speed alone.
//!
//! Measured on two cores (virtual): a hand-over costs 7 to 54 µs, which is 10 to 70 reads of
//! 4 KiB; hence [`limits::COPY_CALL_NS`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_io::{Completion, Errno, FileSystem, Operation};

use crate::job::Span;
use crate::limits;
use crate::request::Priority;
use crate::turns::ByClass;
use crate::waiters::lock;

/// What one thread takes at a time, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) operations: usize,
    pub(crate) bytes: usize,
}

/// Copies that wait, and those that are done.
#[derive(Default)]
pub(crate) struct Copies {
    lanes: Mutex<ByClass<Operation>>,
    /// Operations in the lanes, to be looked at without their lock.
    waiting: AtomicUsize,
    done: Mutex<Vec<Completion>>,
    /// Completions in `done`, likewise.
    done_count: AtomicUsize,
    /// Workers called, and not yet gone again.
    helpers: AtomicUsize,
}

impl Copies {
    /// Engine: lets operations wait for whoever has time.
    pub(crate) fn add(&self, operations: &mut Vec<(Priority, Operation)>) {
        let mut lanes = lock(&self.lanes);
        for (class, operation) in operations.drain(..) {
            lanes.push(class, operation);
        }
        self.note_waiting(&lanes);
    }

    fn note_waiting(&self, lanes: &ByClass<Operation>) {
        self.waiting.store(lanes.len(), Ordering::Relaxed);
    }

    /// Operations that nobody has begun.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes a thread's share: no more than leaves as much for each of `threads` that copy.
    pub(crate) fn take(&self, share: Share, threads: usize, into: &mut Vec<Operation>) {
        if self.waiting() == 0 {
            return;
        }
        let mut lanes = lock(&self.lanes);
        let fair = lanes.len().div_ceil(threads.max(1));
        let mut bytes = 0;
        while into.len() < fair.min(share.operations) && bytes < share.bytes {
            let Some(operation) = lanes.pop() else {
                break;
            };
            bytes += operation.segments.bytes();
            into.push(operation);
        }
        self.note_waiting(&lanes);
    }

    /// Worker: hands finished copies to the engine.
    pub(crate) fn finish(&self, completions: &mut Vec<Completion>) {
        let mut done = lock(&self.done);
        done.append(completions);
        self.done_count.store(done.len(), Ordering::SeqCst);
    }

    /// Whether workers have finished anything.
    pub(crate) fn has_done(&self) -> bool {
        self.done_count.load(Ordering::SeqCst) > 0
    }

    /// Engine: what workers have finished.
    pub(crate) fn reap(&self, into: &mut Vec<Completion>) -> usize {
        if !self.has_done() {
            return 0;
        }
        let mut done = lock(&self.done);
        self.done_count.store(0, Ordering::SeqCst);
        let count = done.len();
        into.append(&mut done);
        count
    }

    /// Engine, at the end: gives back what nobody has begun, as if nothing of it were cached.
    pub(crate) fn take_back(&self, into: &mut Vec<Completion>) {
        let mut lanes = lock(&self.lanes);
        into.extend(lanes.drain().map(|operation| ended(operation, Ok(0))));
        self.note_waiting(&lanes);
    }

    /// Workers called, and not yet gone.
    pub(crate) fn helpers(&self) -> usize {
        self.helpers.load(Ordering::Relaxed)
    }

    /// Engine: a worker is called.
    pub(crate) fn helper_called(&self) {
        self.helpers.fetch_add(1, Ordering::Relaxed);
    }

    /// Worker: it goes.
    pub(crate) fn helper_leaves(&self) {
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Copies what of an operation's bytes is cached.
pub(crate) fn execute(fs: &dyn FileSystem, operation: Operation) -> Completion {
    let (mut copied, mut asked) = (0, 0);
    let mut result = Ok(0);
    for segment in operation.segments.as_slice() {
        let mut span = Span::new(segment.pointer(), segment.len());
        let at = operation.offset.saturating_add(copied as u64);
        asked += segment.len();
        match fs.read_cached(operation.file, at, span.slice()) {
            Some(len) => copied += len,
            None if copied == 0 => result = Err(Errno::INVALID),
            None => {}
        }
        if copied < asked {
            break;
        }
    }
    let result = result.map(|_: usize| copied);
    ended(operation, result)
}

fn ended(operation: Operation, result: Result<usize, Errno>) -> Completion {
    Completion {
        id: operation.id,
        result,
        segments: operation.segments,
    }
}

/// What a file's last reads through the cache found there: whether its next ones are to be copied.
///
/// A read in vain is dear: it has the kernel begin to read that page by itself, outside of the
/// device's batches (10 µs in a virtual machine, where a copied hit saves less than one). So a file
/// is trusted only after some hits in a row, and no longer after the first miss. Before that the
/// system is asked about a read (`cachestat`, under a microsecond), of cold files about fewer and
/// fewer of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hits {
    /// Hits in a row.
    streak: u32,
    /// So many are needed for trust: more after each time that it was in vain.
    needed: u32,
    /// Reads to be let pass before the next question, and how many that were last time.
    skip: u32,
    skips: u32,
    /// Its file system has no reads that do not wait.
    never: bool,
}

/// Hits in a row that earn a file trust at first, and at most.
const STREAK_MIN: u32 = 8;
const STREAK_MAX: u32 = 1024;

impl Default for Hits {
    fn default() -> Hits {
        Hits {
            streak: 0,
            needed: STREAK_MIN,
            skip: 0,
            skips: 0,
            never: false,
        }
    }
}

impl Hits {
    /// Whether reads are copied without a question.
    pub(crate) fn trusted(&self) -> bool {
        self.streak >= self.needed
    }

    /// Whether the system is to be asked about the next read; counts it.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.never {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        true
    }

    /// The bytes of a read were in the cache.
    pub(crate) fn hit(&mut self) {
        self.streak = self.streak.saturating_add(1);
        if self.trusted() {
            (self.skip, self.skips) = (0, 0);
        }
        if self.streak >= 2 * STREAK_MAX {
            self.needed = STREAK_MIN;
        }
    }

    /// The system says that they are not, or not all.
    pub(crate) fn cold(&mut self) {
        self.streak = 0;
        self.skips = (2 * self.skips + 1).min(limits::COPY_SKIPS_MAX);
        self.skip = self.skips;
    }

    /// They were copied in vain.
    pub(crate) fn missed(&mut self) {
        if self.trusted() {
            self.needed = (2 * self.needed).min(STREAK_MAX);
        }
        self.cold();
    }

    /// Its file system cannot say.
    pub(crate) fn unknown(&mut self) {
        *self = Hits {
            never: true,
            ..Hits::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use millstream_io::{Descriptor, Segment, Segments, Verb};

    use super::*;

    fn operation(id: u64, len: usize) -> Operation {
        Operation {
            id,
            verb: Verb::Read,
            file: Descriptor(-1),
            offset: 0,
            segments: Segments::One(Segment::new(std::ptr::null_mut(), len)),
            offload: false,
            mount: 0,
        }
    }

    fn taken(copies: &Copies, operations: usize, bytes: usize, threads: usize) -> Vec<u64> {
        let mut into = Vec::new();
        copies.take(Share { operations, bytes }, threads, &mut into);
        into.iter().map(|operation| operation.id).collect()
    }

    #[test]
    fn higher_classes_go_first_and_shares_are_bounded() {
        let copies = Copies::default();
        let low = |id| (Priority::Low, operation(id, 1000));
        copies.add(&mut (0..8).map(low).collect());
        copies.add(&mut vec![(Priority::High, operation(101, 1))]);
        copies.add(&mut vec![(Priority::Realtime, operation(100, 1))]);
        assert_eq!(copies.waiting(), 10);
        let first = taken(&copies, 3, 10_000, 1);
        assert_eq!(first, [100, 101, 0], "so many operations");
        assert_eq!(
            taken(&copies, 9, 1_500, 1),
            [1, 2],
            "so many bytes, or a whole one"
        );
        assert_eq!(
            taken(&copies, 9, 10_000, 2),
            [3, 4, 5],
            "half for the other"
        );
        let mut back = Vec::new();
        copies.take_back(&mut back);
        let back: Vec<u64> = back.iter().map(|completion| completion.id).collect();
        assert_eq!((back, copies.waiting()), (vec![6, 7], 0));
    }

    #[test]
    fn what_workers_finish_is_reaped_once() {
        let copies = Copies::default();
        assert!(!copies.has_done());
        copies.finish(&mut vec![ended(operation(7, 1), Ok(1))]);
        let mut into = Vec::new();
        assert_eq!((copies.has_done(), copies.reap(&mut into)), (true, 1));
        assert_eq!((copies.has_done(), copies.reap(&mut into)), (false, 0));
    }

    /// Questions among `reads` reads of a cold file.
    fn questions(hits: &mut Hits, reads: usize) -> usize {
        (0..reads)
            .filter(|_| {
                assert!(!hits.trusted());
                let asked = hits.is_due();
                if asked {
                    hits.cold();
                }
                asked
            })
            .count()
    }

    #[test]
    fn a_cold_file_is_asked_about_less_and_less() {
        let mut hits = Hits::default();
        assert_eq!(questions(&mut hits, 1), 1);
        assert!(questions(&mut hits, 128) <= 7);
        assert_eq!(questions(&mut hits, 64 * 100), 100);
    }

    /// Whether a read of the file is a miss that nobody had asked about.
    fn in_vain(hits: &mut Hits, cached: bool) -> bool {
        let trusted = hits.trusted();
        match (trusted || hits.is_due(), cached) {
            (true, true) => hits.hit(),
            (true, false) if trusted => hits.missed(),
            (true, false) => hits.cold(),
            (false, _) => {}
        }
        trusted && !cached
    }

    #[test]
    fn a_warm_file_is_trusted_soon_and_again_after_a_miss() {
        let mut hits = Hits::default();
        for misses in 0..4 {
            let reads = (0..200).take_while(|_| !hits.trusted() && !in_vain(&mut hits, true));
            let reads = reads.count();
            assert!(hits.trusted() && reads <= (8 << misses) + 2, "{reads}");
            assert!(in_vain(&mut hits, false) && !hits.trusted());
        }
    }

    #[test]
    fn a_file_that_is_cached_by_halves_costs_hardly_a_read_in_vain() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut hits = Hits::default();
        let reads = (0..100_000).filter(|_| in_vain(&mut hits, random.bool()));
        let misses = reads.count();
        assert!(misses < 50, "{misses} of 100000 reads in vain");
    }

    #[test]
    fn a_file_system_that_cannot_say_is_asked_once() {
        let mut hits = Hits::default();
        assert!(hits.is_due());
        hits.unknown();
        assert_eq!(questions(&mut hits, 1000), 0);
    }
}
