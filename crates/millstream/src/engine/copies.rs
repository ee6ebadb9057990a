//! The engine's side of [`copies`](crate::copies): which reads are copied, by whom, and what
//! becomes of those that the cache could not answer.
//!
//! - **Which.** Reads through the cache of files that are on no mount that can hang, as long as
//!   the file's last ones were hits ([`Hits`](crate::copies::Hits)). About
//!   some of the others the system is asked first.
//! - **How long.** Blocks are cut to [`limits::COPY_BLOCK_BYTES`], so that one long request is
//!   shared by several cores, and nobody waits for long behind it.
//! - **By whom.** At most as many threads as the storage's depth, the engine among them, and one
//!   for each core. A worker is called when what waits takes longer than the call.
//! - **In flight.** They count in the scheduler's bytes in flight as all operations do, so what
//!   waits to be copied is bounded beside requests of higher classes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_io::{Completion, Operation};

use super::Engine;
use super::table::Members;
use crate::copies::{Share, execute};
use crate::limits;
use crate::options::StorageOptions;
use crate::request::Priority;

/// What the engine copies in a round, between looks at the device and at its mail.
const OWN_SHARE: Share = Share {
    operations: limits::COPY_OWN_OPERATIONS_MAX,
    bytes: limits::COPY_OWN_BYTES_MAX,
};

/// Copies on their way to the lanes, and what the engine does itself.
#[derive(Default)]
pub(super) struct OwnCopies {
    sent: Vec<(Priority, Operation)>,
    share: Vec<Operation>,
    /// Operations put into the lanes that have not come back.
    pub(super) out: usize,
    /// About how long it takes to copy what is out.
    out_ns: u64,
    /// Threads that may copy, the engine among them.
    threads_max: usize,
}

/// About how long a copy takes.
fn cost_ns(bytes: u64) -> u64 {
    limits::COPY_CALL_COST_NS + bytes / limits::COPY_BYTES_PER_NS
}

impl OwnCopies {
    /// A helper for each core but one, as far as there are workers.
    pub(super) fn new(options: &StorageOptions) -> OwnCopies {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = &options.threads;
        let workers = match threads.pumped {
            true => 0,
            false => threads.worker_count(),
        };
        OwnCopies {
            threads_max: (workers.min(cores - 1) + 1).min(options.depth as usize),
            ..OwnCopies::default()
        }
    }
}

impl Engine {
    /// Whether a read through the cache is to be tried without the device, and how long it may be.
    pub(super) fn copied_block(&mut self, index: u32, at: u64, bytes: u64) -> Option<u64> {
        let file = self.files.at(index);
        if file.is_slow() {
            return None;
        }
        let bytes = bytes.min(limits::COPY_BLOCK_BYTES);
        if file.hits.trusted() {
            return Some(bytes);
        }
        if !file.hits.is_due() {
            return None;
        }
        let cached = self.shared.fs.cached(file.descriptor()?, at, bytes);
        match cached {
            Some(cached) if cached >= bytes => return Some(bytes),
            Some(_) => file.hits.cold(),
            None => file.hits.unknown(),
        }
        None
    }

    /// Lets an operation wait for whoever has time to copy.
    pub(super) fn give_copy(&mut self, operation: Operation, class: Priority) {
        let own = &mut self.copies;
        own.out += 1;
        own.out_ns += cost_ns(operation.segments.bytes() as u64);
        own.sent.push((class, operation));
        if own.sent.len() >= limits::COPY_OWN_OPERATIONS_MAX {
            self.send_copies();
        }
    }

    /// Whether more operations may wait to be copied.
    pub(super) fn has_room_for_copies(&self) -> bool {
        self.copies.out < limits::COPIES_MAX
    }

    /// Hands copies over, and calls for help if that pays.
    pub(super) fn send_copies(&mut self) {
        let own = &mut self.copies;
        if !own.sent.is_empty() {
            self.shared.copies.add(&mut own.sent);
        }
        let copies = &self.shared.copies;
        let (helpers, waiting) = (copies.helpers(), copies.waiting());
        // What waits is what is out, but for what threads have taken.
        let waits_ns = own.out_ns * waiting as u64 / (own.out as u64).max(1);
        let share_ns = waits_ns / (helpers as u64 + 1);
        if helpers + 1 < own.threads_max && share_ns >= limits::COPY_CALL_NS {
            copies.helper_called();
            self.shared.jobs.call_helper();
        }
    }

    /// Copies a little; whether there was anything.
    pub(super) fn copy_own_share(&mut self) -> bool {
        let mut share = std::mem::take(&mut self.copies.share);
        let threads = self.shared.copies.helpers() + 1;
        self.shared.copies.take(OWN_SHARE, threads, &mut share);
        let any = !share.is_empty();
        let shared = Arc::clone(&self.shared);
        let done = share
            .drain(..)
            .map(|operation| execute(shared.fs.as_ref(), operation));
        self.completions.extend(done);
        self.copies.share = share;
        any
    }

    /// Nothing waits, but workers still copy: they will be done within microseconds, and to be
    /// woken would take longer. Whether they were.
    pub(super) fn await_helpers(&self) -> bool {
        if self.copies.out == 0 {
            return false;
        }
        let started = Instant::now();
        let most = Duration::from_nanos(limits::ENGINE_SPIN_NS);
        while started.elapsed() < most {
            if self.shared.copies.has_done() || self.shared.has_mail() {
                return true;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
        false
    }

    /// A copy is back: it is done, or the device brings the rest.
    pub(super) fn copied(&mut self, number: u32, completion: Completion) {
        let op = &mut self.ops[number];
        op.copied = false;
        let (index, before, need) = (op.file, op.done, op.need);
        let merged = matches!(op.members, Members::Many(_));
        let own = &mut self.copies;
        own.out -= 1;
        own.out_ns -= cost_ns(completion.segments.bytes() as u64);
        let copied = completion.result.unwrap_or(0) as u64;
        let whole = before + copied >= need;
        let hits = &mut self.files.at(index).hits;
        match completion.result {
            Err(_) => hits.unknown(),
            Ok(_) if whole => hits.hit(),
            Ok(_) => hits.missed(),
        }
        if whole {
            self.stats.copied_operations += 1;
        }
        if whole || !merged {
            self.stats.stored_bytes += copied;
            self.rate_bytes += copied;
        }
        if whole {
            self.ops[number].done += copied;
            self.finish_op(number, Ok(()));
        } else if !self.is_wanted(number) {
            self.finish_op(number, Err(None));
        } else {
            // A merged operation has its pieces in a list: it is read anew as a whole.
            let copied = if merged { 0 } else { copied };
            self.go_on(number, completion.segments, before + copied, before);
        }
    }

    /// At the end: takes back what nobody has begun, and waits for what workers have, until the
    /// deadline; how many operations did not come back.
    pub(super) fn end_copies(&mut self, deadline: Instant) -> usize {
        self.send_copies();
        self.shared.copies.take_back(&mut self.completions);
        loop {
            self.shared.copies.reap(&mut self.completions);
            self.complete_all();
            if self.copies.out == 0 || Instant::now() >= deadline {
                return self.copies.out;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
