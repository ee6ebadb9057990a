//! Every bound and every size of this crate, with its arithmetic.

/// Bytes of the big file of workload `read`: 100 MB, as the study's.
pub const BIG_BYTES: u64 = 100_000_000;
/// Bytes of the second big file: far above any cache of a disk or of a host's read-ahead.
pub const HUGE_BYTES: u64 = 1 << 30;
/// Bytes of the file read under a throttle below [`SLOW_THROTTLE_MBPS`]: 8 MB take 3.5 s at 2.4
/// MB/s.
pub const SLOW_BYTES: u64 = 8_000_000;
/// Throttles below this many MB/s use the file of [`SLOW_BYTES`].
pub const SLOW_THROTTLE_MBPS: f64 = 20.0;
/// Bytes of the big file in a quick run.
pub const QUICK_BIG_BYTES: u64 = 12_000_000;
/// Bytes of the file that random requests read. A gibibyte holds 1024 requests of 1 MiB that do not
/// overlap, and 8192 places 128 KiB apart, farther than any read-ahead of a random read.
pub const RANDOM_BYTES: u64 = 1 << 30;
/// The same in a quick run.
pub const QUICK_RANDOM_BYTES: u64 = 128 << 20;
/// Small files of workload `startup`, as the study's.
pub const SMALL_COUNT: usize = 2096;
/// Small files of a quick run: enough that the study's quadratic scan shows, in under a second.
pub const QUICK_SMALL_COUNT: usize = 256;
/// Smallest of the small files.
pub const SMALL_BYTES_MIN: u64 = 1 << 10;
/// Largest of the small files.
pub const SMALL_BYTES_MAX: u64 = 300 << 10;
/// Mean of the small files: 86.5 MB over 2096 files.
pub const SMALL_BYTES_MEAN: u64 = 41_270;
/// Raw bytes of one block of the corpora that are cut into independent blocks. The engine's decode
/// jobs are of this size, and larger blocks gain under 1 % of ratio.
pub const CODEC_BLOCK_BYTES: usize = 256 << 10;
/// Runs of every contender unless the caller asks otherwise: as the study's ten, cheaper than the
/// thirty that a tight interval would want.
pub const RUNS: usize = 10;
/// Runs in a quick benchmark: enough for a median.
pub const QUICK_RUNS: usize = 3;
/// Most runs of one contender in a throttled case, where a run takes seconds and the device is
/// steadier than any other part.
pub const THROTTLED_RUNS_MAX: usize = 3;
/// Least rate of a throttle.
pub const THROTTLE_MBPS_MIN: f64 = 0.1;
/// Most runs of one contender that a caller may ask for.
pub const RUNS_MAX: usize = 1000;
/// Bytes that one cell of the grid of `requests` reads at most.
pub const CELL_BYTES_MAX: u64 = 256 << 20;
/// Requests that one cell of the grid reads at most.
pub const CELL_REQUESTS_MAX: usize = 16_384;
/// Requests that one cell reads at most at depth 1, where a request takes a whole round trip.
pub const CELL_REQUESTS_SERIAL_MAX: usize = 2_048;
/// In a quick run a cell reads at most one of so many of these bytes and requests.
pub const QUICK_CELL_BYTES_PART: u64 = 8;
/// See [`QUICK_CELL_BYTES_PART`].
pub const QUICK_CELL_REQUESTS_PART: usize = 16;
/// The same at depth 1.
pub const QUICK_CELL_REQUESTS_SERIAL_MAX: usize = 256;
/// Bytes of one corpus of workload `codecs`: beyond the caches of a core, so that memory counts as
/// it does in a loader, and still a thousand tiles' worth of work in a second.
pub const CODEC_CORPUS_BYTES: usize = 4 << 20;
/// The same in a quick run.
pub const QUICK_CODEC_CORPUS_BYTES: usize = 512 << 10;
/// Bytes below which what a folder has of one kind makes no corpus: eight tiles.
pub const CODEC_CORPUS_BYTES_MIN: usize = 512 << 10;
/// Most files that are looked at in a folder of corpora.
pub const CODEC_FILES_MAX: usize = 100_000;
/// Deepest folder that is looked into.
pub const CODEC_FOLDER_DEPTH_MAX: usize = 16;
/// Runs of an encoder: it works for tens of milliseconds to seconds, and its spread is small.
pub const CODEC_ENCODE_RUNS_MAX: usize = 3;
/// Threads of the case that shows how decoding scales.
pub const CODEC_THREADS: usize = 2;
/// Pixels of the big picture of workload `pnm`, across and down: 16.0 MB of samples, 57 MB of text,
/// as the study's.
pub const PNM_BIG: (u32, u32) = (2662, 2000);
/// The big one in a quick run: 3.5 MB of samples, 12.5 MB of text.
pub const PNM_QUICK_BIG: (u32, u32) = (1254, 942);
/// Files below it are loaded once more right before each timed load, as the rivals do that are
/// programs of their own: else most of the time is that of code that others have displaced.
pub const PNM_TWICE_BYTES: usize = 1 << 20;
/// Bytes of text that a sample of the measurement of cost against size is made of, at least.
pub const PNM_LINEAR_BYTES_MIN: usize = 4 << 20;
/// The medium one: 2.0 MB of samples.
pub const PNM_MEDIUM: (u32, u32) = (941, 707);
/// The small one: 7.8 KB of samples, 28 KB of text.
pub const PNM_SMALL: (u32, u32) = (60, 43);
/// Texts of the measurement of cost against size: a name, and pixels.
pub const PNM_LINEAR: [(&str, (u32, u32)); 6] = [
    ("10 KB", (30, 31)),
    ("100 KB", (96, 96)),
    ("1 MB", (304, 304)),
    ("10 MB", (962, 962)),
    ("100 MB", (3042, 3042)),
    ("1 GB", (9620, 9620)),
];

/// Threads of the rivals that use a pool, as the figures of others were taken.
pub const POOL_THREADS: usize = 8;
/// Longest that a rival may take over one run; the slowest takes a few seconds under a throttle.
pub const PEER_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Seconds that a contender's run in a cell of the heat map is meant to take: long beside the
/// microseconds of its start, short enough for thousands of runs.
pub const HEAT_SECONDS: f64 = 0.03;
/// The same in a quick run.
pub const QUICK_HEAT_SECONDS: f64 = 0.005;
/// Counted rounds of a cell of the heat map in a full run: a thousand cells times contenders.
pub const HEAT_RUNS_MAX: usize = 4;
/// Fewest requests of a cell of the heat map, whatever the time.
pub const HEAT_REQUESTS_MIN: usize = 32;
/// Threads that submit in workload `startup`.
pub const SUBMIT_THREADS: usize = 4;
/// One of so many requests of workload `startup` is canceled right after it was queued.
pub const CANCEL_ONE_IN: usize = 64;
const _: () = assert!(QUICK_RUNS <= RUNS && RUNS <= RUNS_MAX);
const _: () = assert!(SMALL_BYTES_MIN < SMALL_BYTES_MEAN && SMALL_BYTES_MEAN < SMALL_BYTES_MAX);
const _: () = assert!(CODEC_CORPUS_BYTES_MIN <= QUICK_CODEC_CORPUS_BYTES);
const _: () = assert!(QUICK_CODEC_CORPUS_BYTES <= CODEC_CORPUS_BYTES);
const _: () = assert!(CELL_REQUESTS_SERIAL_MAX <= CELL_REQUESTS_MAX);
/// Bytes of workload `streams`, as the study's: 100,000 vectors of three floats.
pub const STREAM_BYTES: usize = 1_200_000;
/// Bytes where a call moves so many that there would be few calls: a multiple of all sizes.
pub const STREAM_LARGE_BYTES: usize = 8 << 20;
/// Runs of a case of `streams`, in the number of other workloads': one takes about a millisecond.
pub const STREAM_RUNS_TIMES: usize = 3;
/// How long a contender of `streams` practises at least before each counted run.
pub const STREAM_PRACTICE: std::time::Duration = std::time::Duration::from_millis(2);
/// Objects of the cases of objects.
pub const OBJECTS: usize = 100_000;
/// Destination memory that a batch of a whole package keeps between runs: more than any corpus
/// has, because everyone's destination is recycled.
pub const BATCH_RETAINED_BYTES: usize = 4 << 30;
