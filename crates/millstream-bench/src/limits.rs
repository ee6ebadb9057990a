//! Bounds of this crate, with their reasons. The sizes of cases stand in `cases.toml`.

use std::time::Duration;

/// Runs of every contender unless the caller asks otherwise: as the study's ten, cheaper than the
/// thirty that a tight interval would want.
pub const RUNS: usize = 10;
/// Runs in a quick benchmark: enough for a median.
pub const QUICK_RUNS: usize = 3;
/// Counted runs that a case has even if it exceeds its budget: the fewest of which an interval says
/// anything.
pub const RUNS_MIN: usize = 3;
/// Time after which a case begins no further round, unless the caller asks for a number of runs.
pub const CASE_BUDGET: Duration = Duration::from_secs(3);
/// Most runs of one contender that a caller may ask for.
pub const RUNS_MAX: i64 = 1000;
/// Least rate of a throttle.
pub const THROTTLE_MBPS_MIN: f64 = 0.1;
/// Throttles below this many MB/s read a shorter file.
pub const SLOW_THROTTLE_MBPS: f64 = 20.0;
/// Bytes of the file that random requests read. A gibibyte holds 1024 requests of 1 MiB that do not
/// overlap, and 8192 places 128 KiB apart, farther than any read-ahead of a random read.
pub const RANDOM_BYTES: u64 = 1 << 30;
/// The same in a quick run.
pub const QUICK_RANDOM_BYTES: u64 = 128 << 20;
/// Below that many bytes of a picture contenders practice before each load.
pub const PNM_SMALL_BYTES: usize = 1 << 20;
/// Threads of the rivals that use a pool, as the figures of others were taken.
pub const POOL_THREADS: usize = 8;
/// Tries of a rival in a sweep: the better one counts.
pub const TRIES: usize = 2;
/// Threads that submit in workload `startup`.
pub const SUBMIT_THREADS: usize = 4;
/// One of so many requests of workload `startup` is canceled right after it was queued.
pub const CANCEL_ONE_IN: usize = 64;
/// Bytes where a call of `streams` moves so many that there would be few calls: a multiple of all
/// sizes.
pub const STREAM_LARGE_BYTES: usize = 8 << 20;
/// How long contenders practice at least before a run that is short.
pub const PRACTICE: Duration = Duration::from_millis(2);
/// Destination memory that a batch of a whole package keeps between runs: more than any corpus
/// has, because everyone's destination is recycled.
pub const BATCH_RETAINED_BYTES: usize = 4 << 30;

const _: () = assert!(RUNS_MIN <= QUICK_RUNS && QUICK_RUNS <= RUNS && RUNS <= RUNS_MAX as usize);
