//! The program's own bounds. Those of the engine are the engine's.

use std::time::Duration;

/// Bytes that one read call asks of an input: large enough that the calls do not count, small
/// enough that a pipe's progress is seen.
pub(crate) const IO_CHUNK_BYTES: usize = 256 << 10;

/// Names tried for the file beside an output. More than one is needed only where an earlier
/// process with the same number was killed.
pub(crate) const TEMPORARY_NAMES_MAX: u32 = 1000;

/// Links followed from an output's name to the file meant, as many as Linux follows itself.
pub(crate) const LINKS_MAX: u32 = 40;

/// How long an interruption waits for the thread that is just creating or renaming an output.
pub(crate) const ABANDON_WAIT: Duration = Duration::from_secs(2);

/// Work shorter than this shows no progress bar.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Least time between two looks at the clock's display by a progress bar.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(100);
