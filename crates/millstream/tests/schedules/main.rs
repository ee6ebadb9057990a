//! Seeded schedules over the simulated disk: reordering, short reads, interruptions, I/O errors,
//! hangs, a device that breaks; cancellation, fences, timeouts, closes; tickets, posted and
//! detached requests, batches held for a while, byte budgets, full queues; few descriptors and many
//! opens, little staging, replaced, renamed and removed files; code of the application that the
//! engine calls and that submits, opens, closes and cancels.
//!
//! Those of threads run on real files and devices, with several threads of the application at once.
//!
//! For every schedule: each request completes exactly once and with a right outcome; its bytes are
//! right; borrowed memory is written neither after completion (it is poisoned then, and checked
//! when everything is over) nor outside of its bounds; every descriptor is closed; no staging is
//! kept; names mean what the outcomes of the operations on them say; a log holds what was appended.
//!
//! `SCHEDULE_SEED` is the first seed (default 0), `SCHEDULE_COUNT` the number of schedules; of
//! threads there are a tenth of them. A failure prints the line that repeats it.

mod appends;
mod callbacks;
mod encodings;
mod features;
mod names;
mod request;
mod runner;
mod schedule;
mod threads;

millstream_testing::watch!();

/// Of each kind, but of appends.
const SCHEDULES: u64 = 5_000;

const SCHEDULES_OF_APPENDS: u64 = 1_000;

/// One of threads takes as long as ten others.
const SCHEDULES_OF_THREADS: u64 = 100;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not \"{text}\"")),
        Err(_) => default,
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = number("SCHEDULE_SEED", 0);
    let count = number("SCHEDULE_COUNT", count);
    first..first.saturating_add(count)
}

#[test]
fn seeded_schedules_complete_every_request_once_and_correctly() {
    runner::run(seeds(SCHEDULES), |seed| schedule::Schedule::new(seed).run());
}

#[test]
fn seeded_schedules_of_appends_keep_the_order_of_each_queue() {
    runner::run(seeds(SCHEDULES_OF_APPENDS), |seed| {
        appends::Appends::new(seed).run()
    });
}

#[test]
fn seeded_schedules_of_every_feature_end_every_request() {
    runner::run(seeds(SCHEDULES), |seed| features::Features::new(seed).run());
}

#[test]
fn seeded_schedules_of_several_threads_end_every_request() {
    let seeds = seeds(10 * SCHEDULES_OF_THREADS);
    let count = (seeds.end - seeds.start).div_ceil(10);
    let disk = threads::Disk::new();
    let run = |seed| threads::run(&disk, seed);
    runner::run(seeds.start..seeds.start + count, run);
}
