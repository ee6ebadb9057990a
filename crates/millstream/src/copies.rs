//! Copies: reads that the page cache answers, done by several cores.
//!
//! A ring serves a buffered read whose bytes are cached inside the call that submits it: one core
//! copies, the engine's. So reads that are likely to be cached do not go to the device. They wait
//! here, in two lanes (realtime, the rest), and whoever has time copies them with reads that must
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

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_io::{Completion, Errno, FileSystem, Operation};

use crate::job::Span;
use crate::limits;
use crate::waiters::lock;

/// What one thread takes at a time, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) operations: usize,
    pub(crate) bytes: usize,
}

#[derive(Default)]
struct Lanes {
    realtime: VecDeque<Operation>,
    rest: VecDeque<Operation>,
}

/// Copies that wait, and those that are done.
#[derive(Default)]
pub(crate) struct Copies {
    lanes: Mutex<Lanes>,
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
    pub(crate) fn add(&self, realtime: &mut Vec<Operation>, rest: &mut Vec<Operation>) {
        let mut lanes = lock(&self.lanes);
        lanes.realtime.extend(realtime.drain(..));
        lanes.rest.extend(rest.drain(..));
        self.note_waiting(&lanes);
    }

    fn note_waiting(&self, lanes: &Lanes) {
        let waiting = lanes.realtime.len() + lanes.rest.len();
        self.waiting.store(waiting, Ordering::Relaxed);
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
        let fair = (lanes.realtime.len() + lanes.rest.len()).div_ceil(threads.max(1));
        let mut bytes = 0;
        while into.len() < fair.min(share.operations) && bytes < share.bytes {
            let next = lanes.realtime.pop_front();
            let Some(operation) = next.or_else(|| lanes.rest.pop_front()) else {
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
        let Lanes { realtime, rest } = &mut *lanes;
        let back = realtime.drain(..).chain(rest.drain(..));
        into.extend(back.map(|operation| ended(operation, Ok(0))));
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

/// What a file's last reads through the cache found there: whether its next ones are worth a try.
///
/// A try in vain costs about a microsecond, so a cold file has few: one at first, then one in two,
/// four, up to one in [`limits::COPY_SKIPS_MAX`] reads, and never a second before the first has
/// come back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hits {
    /// Above 0: likely. Between −[`SCORE_MAX`] and [`SCORE_MAX`].
    score: i8,
    /// Reads to be let pass before the next try, and how many that were last time.
    skip: u32,
    skips: u32,
    trying: bool,
    /// Its file system has no reads that do not wait.
    never: bool,
}

/// Hits in a row after which a few misses change nothing.
const SCORE_MAX: i8 = 8;

impl Hits {
    /// Whether its bytes are likely to be cached.
    pub(crate) fn likely(&self) -> bool {
        self.score > 0
    }

    /// Whether the next read is to be tried though that is not likely; counts it.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.never || self.trying {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        true
    }

    /// A read is tried.
    pub(crate) fn tries(&mut self) {
        self.trying = true;
    }

    /// The bytes of a read were in the cache.
    pub(crate) fn hit(&mut self) {
        *self = Hits {
            score: (self.score + 1).clamp(1, SCORE_MAX),
            never: self.never,
            ..Hits::default()
        };
    }

    /// They were not, or not all.
    pub(crate) fn missed(&mut self) {
        self.trying = false;
        self.score = (self.score - 2).max(-SCORE_MAX);
        if self.score <= 0 {
            self.skips = (2 * self.skips + 1).min(limits::COPY_SKIPS_MAX);
            self.skip = self.skips;
        }
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
    fn realtime_goes_first_and_shares_are_bounded() {
        let copies = Copies::default();
        let mut rest: Vec<Operation> = (0..8).map(|id| operation(id, 1000)).collect();
        copies.add(&mut vec![], &mut rest);
        copies.add(&mut vec![operation(100, 1)], &mut vec![]);
        assert_eq!(copies.waiting(), 9);
        assert_eq!(taken(&copies, 2, 10_000, 1), [100, 0], "so many operations");
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

    /// Tries among `reads` reads, each of them in vain.
    fn tries(hits: &mut Hits, reads: usize) -> usize {
        (0..reads)
            .filter(|_| {
                let tried = hits.likely() || hits.is_due();
                if tried {
                    hits.tries();
                    hits.missed();
                }
                tried
            })
            .count()
    }

    #[test]
    fn a_cold_file_is_tried_less_and_less() {
        let mut hits = Hits::default();
        assert_eq!(tries(&mut hits, 1), 1);
        assert!(tries(&mut hits, 128) <= 7);
        assert_eq!(tries(&mut hits, 64 * 100), 100);
    }

    #[test]
    fn only_one_try_is_out_until_the_first_hit() {
        let mut hits = Hits::default();
        assert!(hits.is_due());
        hits.tries();
        assert!(!hits.is_due() && !hits.likely());
        hits.hit();
        assert!(hits.likely());
    }

    #[test]
    fn a_few_misses_among_many_hits_change_nothing() {
        let mut hits = Hits::default();
        (0..100).for_each(|_| hits.hit());
        (0..3).for_each(|_| hits.missed());
        assert!(hits.likely());
        (0..3).for_each(|_| hits.missed());
        assert!(!hits.likely());
    }

    #[test]
    fn a_file_system_that_cannot_say_is_asked_once() {
        let mut hits = Hits::default();
        hits.tries();
        hits.unknown();
        assert_eq!(tries(&mut hits, 1000), 0);
    }
}
