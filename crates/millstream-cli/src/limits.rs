//! The program's own bounds. Those of the engine are the engine's.

use std::time::Duration;

/// Bytes that one read call asks of an input: large enough that the calls do not count, small
/// enough that a pipe's progress is seen.
pub(crate) const IO_CHUNK_BYTES: usize = 256 << 10;

/// Failures that are listed; the others are only counted.
pub(crate) const FAILURES_LISTED: usize = 10;

/// Raw bytes that commands take out of packages by default: so many times those of the files ...
pub(crate) const RAW_RATIO_MAX: u64 = 64;

/// ... and so many of any package.
pub(crate) const RAW_BYTES_MIN: u64 = 1 << 30;

/// Files that the list of a walk has room for from the beginning ...
pub(crate) const LIST_FILES_MIN: usize = 1024;

/// ... and bytes of an allocator's overhead for the path and the name of each.
pub(crate) const LIST_OVERHEAD: usize = 64;

/// Links followed from an output's name to the file meant, as many as Linux follows itself.
pub(crate) const LINKS_MAX: u32 = 40;

/// Work shorter than this shows no progress bar.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Least time between two looks at the clock's display by a progress bar.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Longest request of `load`; longer files are several. Long enough that a request's cost does not
/// count (0.1 µs of 10 ms), short enough that the window holds several.
pub(crate) const PIECE_BYTES: u64 = 32 << 20;

/// Bytes that `load` has asked for and not dropped yet. Enough for 70 ms of a 3.7 GB/s disk, and
/// what the engine keeps for reuse by default, so that buffers are recycled and not mapped anew.
pub(crate) const WINDOW_BYTES: u64 = 256 << 20;
const _: () = assert!(WINDOW_BYTES >= 4 * PIECE_BYTES);

/// Requests that `load` has enqueued and not claimed yet: eight times the default depth, so that
/// the device has work while a quarter of the window is refilled.
pub(crate) const WINDOW_REQUESTS: usize = 1024;

/// Bytes of the scratch file that `pack --target here` reads: more than a throttle or a disk's own
/// cache gives away at once.
pub(crate) const TARGET_FILE_BYTES: u64 = 64 << 20;

/// Bytes of one of its reads ...
pub(crate) const TARGET_READ_BYTES: u64 = 1 << 20;

/// ... and how many are asked for ahead.
pub(crate) const TARGET_READS: usize = 16;

/// How long it reads at least; a slow disk reads the file once.
pub(crate) const TARGET_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// Workers that may be asked for; no machine has more cores.
pub(crate) const WORKERS_MAX: u32 = 1024;

/// Longest timeout that may be asked for: about 31 years, far from where clocks overflow.
pub(crate) const TIMEOUT_SECONDS_MAX: f64 = 1e9;

/// How long an interrupted command that ends by itself may take: longer than
/// the engine waits for the kernel when it closes. A second signal ends it at once.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(8);

/// How long `load` waits at its end for what the kernel still holds.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);
const _: () = assert!(CLOSE_WAIT.as_secs() < INTERRUPT_GRACE.as_secs());

/// Rows of the table of `scene` that say when a part was loaded.
pub(crate) const EVENTS_LISTED: usize = 10_000;

/// Hashes after which the other scenes of a package are not loaded.
pub(crate) const HASHES_MAX: usize = 100_000;

/// Failures of scenes after which the others of a package are not tried: small ones can have very
/// many.
pub(crate) const SCENE_FAILURES_MAX: u64 = 10_000;
