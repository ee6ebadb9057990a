//! Runs schedules on all cores, and reports the seed of one that fails: by a panic, by an abort of
//! the engine (which panics before), or by hanging.

use std::cell::Cell;
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A schedule takes milliseconds. Shorter than the limit of the test program, which knows no seeds.
const HANG: Duration = Duration::from_secs(90);

const IDLE: u64 = u64::MAX;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(IDLE) };
}

/// Writes past the test harness's capture, which an abort would lose.
fn report(what: &str, seed: u64) {
    let repeat = format!("SCHEDULE_SEED={seed} SCHEDULE_COUNT=1");
    let command = "cargo test -p millstream --test schedules -- --nocapture";
    let _ = writeln!(
        std::io::stderr(),
        "{what}; repeat it with: {repeat} {command}"
    );
}

fn report_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let seed = SEED.try_with(Cell::get).unwrap_or(IDLE);
        if seed != IDLE {
            report("a schedule failed", seed);
        }
        before(info);
    }));
}

/// One of the threads that run schedules.
struct Runner<'a> {
    current: &'a AtomicU64,
    failed: &'a AtomicBool,
    /// Receives a message after each schedule.
    done: Sender<()>,
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        self.current.store(IDLE, Ordering::SeqCst);
        SEED.set(IDLE);
        self.failed
            .fetch_or(std::thread::panicking(), Ordering::SeqCst);
    }
}

/// Runs `schedule` for every seed; stops at the first failure.
pub(crate) fn run(seeds: Range<u64>, schedule: impl Fn(u64) + Sync) {
    report_panics();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let next = AtomicU64::new(seeds.start);
    let current: Vec<_> = (0..threads).map(|_| AtomicU64::new(IDLE)).collect();
    let failed = AtomicBool::new(false);
    let (sender, done) = channel();
    std::thread::scope(|scope| {
        for current in &current {
            let runner = Runner {
                current,
                failed: &failed,
                done: sender.clone(),
            };
            let (next, schedule, end) = (&next, &schedule, seeds.end);
            scope.spawn(move || {
                let runner = runner;
                while !runner.failed.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= end {
                        break;
                    }
                    runner.current.store(seed, Ordering::SeqCst);
                    SEED.set(seed);
                    schedule(seed);
                    let _ = runner.done.send(());
                }
            });
        }
        drop(sender);
        watch(&current, &done);
    });
}

/// Returns once all threads have finished. Aborts if none of them makes progress.
fn watch(current: &[AtomicU64], done: &Receiver<()>) {
    loop {
        match done.recv_timeout(HANG) {
            Ok(()) => millstream_testing::alive(),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    let running = current.iter().map(|seed| seed.load(Ordering::SeqCst));
    running
        .filter(|&seed| seed != IDLE)
        .for_each(|seed| report("a schedule hangs", seed));
    std::process::abort();
}
