//! Limits of this crate, with reasons. The sizes of cases are in `cases.toml`.

use std::time::Duration;

/// Default number of runs of every contender: ten as in the study, fewer than the thirty that a
/// tight interval would need.
pub(crate) const RUNS: usize = 10;
/// Number of runs in a quick benchmark: enough for a median.
pub(crate) const QUICK_RUNS: usize = 3;
/// Minimum number of counted runs of a case even if it exceeds its budget: the fewest for which an
/// interval says anything.
pub(crate) const RUNS_MIN: usize = 3;
/// Time after which a case begins no further round, unless the caller sets the number of runs.
pub(crate) const CASE_BUDGET: Duration = Duration::from_secs(3);
pub(crate) const RUNS_MAX: i64 = 1000;
pub(crate) const THROTTLE_MBPS_MIN: f64 = 0.1;
/// Throttles below this many MB/s read a shorter file.
pub(crate) const SLOW_THROTTLE_MBPS: f64 = 20.0;
/// Bytes of the file for random requests. A gibibyte holds 1024 requests of 1 MiB that do not
/// overlap, and 8192 offsets 128 KiB apart, no closer than any read-ahead of a random read.
pub(crate) const RANDOM_BYTES: u64 = 1 << 30;
pub(crate) const QUICK_RANDOM_BYTES: u64 = 128 << 20;
/// Size of a picture in bytes below which contenders practice before each load.
pub(crate) const PNM_SMALL_BYTES: usize = 1 << 20;
/// Number of threads of the rivals that use a pool, as in others' published figures.
pub(crate) const POOL_THREADS: usize = 8;
pub(crate) const TRIES: usize = 2;
pub(crate) const SUBMIT_THREADS: usize = 4;
/// One in this many requests of workload `startup` is canceled right after it is queued.
pub(crate) const CANCEL_ONE_IN: usize = 64;
/// Bytes moved by the cases of `streams` whose calls are so large that there would be few of them:
/// a multiple of all call sizes.
pub(crate) const STREAM_LARGE_BYTES: usize = 8 << 20;
/// Minimum time that contenders practice before a short run.
pub(crate) const PRACTICE: Duration = Duration::from_millis(2);
/// Destination memory that a batch of a whole package retains between runs: more than any corpus
/// has, because every contender's destination is recycled.
pub(crate) const BATCH_RETAINED_BYTES: usize = 4 << 30;

const _: () = assert!(RUNS_MIN <= QUICK_RUNS && QUICK_RUNS <= RUNS && RUNS <= RUNS_MAX as usize);
