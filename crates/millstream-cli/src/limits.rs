//! Limits of the program itself; those of the engine are in `millstream::limits`.

use std::time::Duration;

/// Bytes of one read call on an input: large enough that the cost of calls is negligible, small
/// enough that the progress of a pipe is visible.
pub(crate) const IO_CHUNK_BYTES: usize = 256 << 10;

/// Maximum number of failures that are listed; further ones are only counted.
pub(crate) const FAILURES_LISTED: usize = 10;

/// Default limit of raw bytes read from packages: this many times the file bytes ...
pub(crate) const RAW_RATIO_MAX: u64 = 64;

/// ... but at least this many bytes.
pub(crate) const RAW_BYTES_MIN: u64 = 1 << 30;

/// Initial capacity, in files, of the list of a walk ...
pub(crate) const LIST_FILES_MIN: usize = 1024;

/// ... and allocator overhead in bytes for the path and the name of each.
pub(crate) const LIST_OVERHEAD: usize = 64;

/// Maximum number of links followed from an output's name to its file, the same as Linux follows.
pub(crate) const LINKS_MAX: u32 = 40;

/// Work shorter than this shows no progress bar.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Time between two redraws of the progress bar.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// No remaining time is shown while this many times what is done is left ...
pub(crate) const ESTIMATE_SHARE_MAX: f64 = 1000.0;

/// ... or if it is longer than this.
pub(crate) const ESTIMATE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Longest request of `load`; longer files are several requests. Long enough that a request's cost
/// is negligible (0.1 µs of 10 ms), short enough that the window holds several.
pub(crate) const PIECE_BYTES: u64 = 32 << 20;

/// Bytes that `load` has requested and not yet dropped. Enough for 70 ms of a 3.7 GB/s disk, and as
/// much as the engine retains by default, so that buffers are recycled and not mapped anew.
pub(crate) const WINDOW_BYTES: u64 = 256 << 20;
const _: () = assert!(WINDOW_BYTES >= 4 * PIECE_BYTES);

/// Requests that `load` has submitted and not yet claimed: eight times the default depth, so that
/// the device has work while a quarter of the window is refilled.
pub(crate) const WINDOW_REQUESTS: usize = 1024;

/// Bytes of the scratch file that `pack --target here` reads: more than a throttle's burst or a
/// disk's own cache.
pub(crate) const TARGET_FILE_BYTES: u64 = 64 << 20;

/// Bytes of one of its reads ...
pub(crate) const TARGET_READ_BYTES: u64 = 1 << 20;

/// ... and number of reads in flight.
pub(crate) const TARGET_READS: usize = 16;

/// Minimum time of the measurement; a slow disk reads the file once.
pub(crate) const TARGET_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// Maximum number of workers; no machine has more cores.
pub(crate) const WORKERS_MAX: u32 = 1024;

/// Maximum timeout: about 31 years, far from where clocks overflow.
pub(crate) const TIMEOUT_SECONDS_MAX: f64 = 1e9;

/// Time in which an interrupted command may end by itself: longer than the engine waits for the
/// kernel when it closes. A second signal ends it at once.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(8);

/// Time that `load` waits at its end for operations that the kernel still holds.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);
const _: () = assert!(CLOSE_WAIT.as_secs() < INTERRUPT_GRACE.as_secs());

/// Maximum number of rows in the table of `scene` that shows when each part was loaded.
pub(crate) const EVENTS_LISTED: usize = 10_000;

/// Number of hashes after which the remaining scenes of a package are not loaded.
pub(crate) const HASHES_MAX: usize = 100_000;

/// Number of failed scenes after which the remaining ones of a package are not tried: small
/// packages can have very many scenes.
pub(crate) const SCENE_FAILURES_MAX: u64 = 10_000;
