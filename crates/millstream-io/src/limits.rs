//! The bounds of this crate, with their derivation.

use std::time::Duration;

/// Maximum number of segments of a vectored operation. The kernel takes 1024 (`UIO_MAXIOV`); 32
/// segments of the smallest block (4 KiB) already make an operation of 128 KiB, where the cost per
/// byte is flat.
pub const SEGMENTS_MAX: usize = 32;

/// Maximum number of bytes of an operation. Linux truncates a read at 2 GiB − 4 KiB
/// (`MAX_RW_COUNT`); the scheduler splits far below that.
pub const OPERATION_BYTES_MAX: usize = 0x7fff_f000;

/// Alignment of every buffer and staging block: a page, a multiple of the logical block sizes that
/// direct I/O requires on known devices (512 and 4096).
pub const MEMORY_ALIGNMENT: usize = 4096;

/// Size of a huge page on x86-64, and on aarch64 with 4 KiB pages. Regions of this size and more
/// are aligned to it.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maximum length of a region: a quarter of the address space, so that rounding and the slack of
/// the alignment never overflow.
pub const REGION_BYTES_MAX: usize = isize::MAX as usize / 2;

/// Largest arena: 2^24 pages of 4 KiB, whose tree of free runs takes 6 MiB.
pub const ARENA_BYTES_MAX: usize = 1 << 36;

/// Largest piece of a slab; longer buffers have their own region.
pub const BUFFER_PIECE_MAX: usize = HUGE_PAGE_BYTES - HUGE_PAGE_BYTES / 8;

/// Slabs for pieces up to 256 KiB: one huge page, at most 1/8 of it unused at the end.
pub const SLAB_BYTES_SMALL: usize = HUGE_PAGE_BYTES;

/// Slabs for larger pieces: four huge pages, so that pieces of 1.25 MiB leave 1/16 unused, not 3/8.
pub const SLAB_BYTES_LARGE: usize = 4 * HUGE_PAGE_BYTES;

/// Maximum depth of a stack of block devices that is followed (partition on array on mapping on
/// loop …); real ones have three or four levels, and a cyclic one must not be followed forever.
pub const DISK_STACK_MAX: u32 = 8;

/// Maximum number of mounts whose properties a file system caches; beyond it the cache is cleared.
pub const MOUNTS_REMEMBERED_MAX: usize = 1024;

/// Maximum number of folder entries examined for a file with which to query the folder's place.
pub const FOLDER_SAMPLE_MAX: usize = 256;

/// Maximum number of names tried for a temporary file. More than one is needed only where a process
/// with the same id was killed and its files remain, or another program makes them on purpose.
pub const TEMPORARY_NAMES_MAX: u32 = 1000;

/// How long `abandon_temporary_files` waits for a thread that is creating or renaming one.
pub const ABANDON_WAIT: Duration = Duration::from_secs(2);

const _: () = assert!(ARENA_BYTES_MAX / MEMORY_ALIGNMENT <= u32::MAX as usize);
const _: () = assert!(BUFFER_PIECE_MAX <= SLAB_BYTES_LARGE / 4);
const _: () = assert!(SEGMENTS_MAX <= 1024);
const _: () = assert!(MEMORY_ALIGNMENT.is_power_of_two());

/// A range counts as cached if at least this many eighths of it are.
pub const CACHED_EIGHTHS: u64 = 7;

/// Maximum length of a range that is read together with its file's open, if it is cached: what one
/// thread copies in about 100 µs.
pub const OFFER_BYTES_MAX: u64 = 1 << 20;

/// Default number of threads of the `threads` device: enough to saturate an NVMe disk at 4 KiB.
pub const IO_THREADS_DEFAULT: usize = 8;

/// Maximum number of bytes that the owner of a `cached` device copies in one reap: less than 10 µs
/// at 10 GB/s, unless one operation is longer.
pub const COPY_OWN_BYTES_MAX: usize = 64 << 10;

/// Maximum number of operations that it copies in one reap: 16 of 4 KiB reach the byte limit.
pub const COPY_OWN_OPERATIONS_MAX: usize = 16;

/// Bytes that a helper thread copies before it hands over its completions: about 25 µs.
pub const COPY_HELP_BYTES_MAX: usize = 256 << 10;

/// Operations that it copies before that: 32 of 4 KiB take 22 µs at 0.7 µs each.
pub const COPY_HELP_OPERATIONS_MAX: usize = 32;

/// A helper is woken if the waiting copies take each copying thread longer than this, the cost of a
/// wake (7 to 54 µs measured on two virtual cores).
pub const COPY_CALL_NS: u64 = 25_000;

/// Fixed part of a copy's time: the call.
pub const COPY_CALL_COST_NS: u64 = 300;

/// Variable part of a copy's time: bytes per ns, 10 GB/s.
pub const COPY_BYTES_PER_NS: u64 = 10;

/// How long a helper that has copied polls for more before it sleeps: about the cost of waking it.
pub const COPY_HELP_SPIN_NS: u64 = 20_000;

/// How long an owner whose last copies are with helpers polls for them before it sleeps: a helper's
/// share takes about as long.
pub const COPY_OWNER_SPIN_NS: u64 = 20_000;

/// Maximum number of helper threads of a `cached` device: fewer already use up memory bandwidth.
pub const COPY_HELPERS_MAX: usize = 16;

/// Maximum number of threads in one crew of `calls`: this many calls may hang before the crew
/// stops. Each is a thread in a system call, about 20 KiB of memory.
pub const CALLS_THREADS_MAX: usize = 64;

/// Threads of the crew for closes and lengths, which take microseconds.
pub const CALLS_CLOSE_THREADS: usize = 2;

/// Threads of the crew for long calls (syncs, renames, replacements): more would only queue in the
/// same journal.
pub const CALLS_LONG_THREADS: usize = 2;

/// A call that takes longer than this no longer counts against its crew's threads: a thousand times
/// a cached open, and about one seek of a hard disk.
pub const CALLS_HUNG_NS: u64 = 10_000_000;

/// Answers of calls are held back while they are fewer than this many, and than twice as many as
/// calls wait: each wake of the owner costs as much as an open, and on busy cores far more.
pub const CALLS_HOLD_MAX: usize = 48;

/// Calls that take longer than this hold no answers back: opens of cached names take 5 µs.
pub const CALLS_FAST_NS: u64 = 50_000;

/// Answers are held back after so many fast calls in a row: where some wait for the disk, an answer
/// would wait for those.
pub const CALLS_FAST_MIN: usize = 8;

/// Maximum number of log messages queued for the hook. 256 lines of 100 bytes are 25 KiB.
pub const LOG_LINES_MAX: usize = 256;

/// Maximum seek time and latency of a modeled disk: more would look like a hang.
pub const MODEL_TIME_NS_MAX: u64 = 60_000_000_000;

/// Minimum rate of a modeled disk, in bytes per second: the largest operation takes 600 hours.
pub const MODEL_RATE_MIN: u64 = 1_000;

/// Maximum rate of a modeled disk, in bytes per second: ten times that of memory.
pub const MODEL_RATE_MAX: u64 = 1_000_000_000_000;

/// Maximum number of operations that a modeled disk serves at a time: the depth of an NVMe queue.
pub const MODEL_DEPTH_MAX: u32 = 65_536;

const _: () = assert!(CACHED_EIGHTHS <= 8);
const _: () = assert!(COPY_OWN_BYTES_MAX <= COPY_HELP_BYTES_MAX);
const _: () = assert!(CALLS_LONG_THREADS + 1 < CALLS_THREADS_MAX);
const _: () = assert!(CALLS_CLOSE_THREADS + 1 < CALLS_THREADS_MAX);

/// Maximum number of threads of the `threads` device. A blocked read needs no core, so the bound is
/// on memory and on what a disk can use: NVMe saturates below 128 in flight.
pub const THREADS_MAX: usize = 128;

/// Maximum number of operations that a thread takes at once. At 0.5 µs for a cached 4 KiB read a
/// batch is 8 µs of work, four times the cost of waking a thread.
pub const THREADS_BATCH_MAX: usize = 16;

/// A batch is closed once it has this many bytes: 16 operations of 4 KiB. Larger operations copy
/// long enough to be worth a thread each.
pub const THREADS_BATCH_BYTES_MAX: usize = 64 << 10;

/// An operation that takes less than this did not wait for a disk: a cached 4 KiB read takes 0.5 µs
/// and the copy of 16 KiB about 2 µs; the fastest disks take 8 µs.
pub const THREADS_FAST_NS: u64 = 6_000;

/// Completions are held back while this many times as many operations wait for a thread: the owner
/// wakes for 14 at a time at depth 128, and sees each at most an eighth later.
pub const THREADS_HOLD_RATIO: usize = 8;

/// As [`THREADS_HOLD_RATIO`], while operations are fast: half of 128 take 40 µs, 20 times a wake.
pub const THREADS_HOLD_RATIO_FAST: usize = 2;

/// How long completions may be held back if all threads block in the meantime, in nanoseconds.
pub const THREADS_HOLD_NS_MAX: u64 = 1_000_000;

/// Maximum number of operations that one enter of the ring submits. A cached read runs inside the
/// call (0.6–0.8 µs for 4 KiB), so 64 hold the owner for about 50 µs.
pub const URING_SUBMIT_MAX: usize = 64;

/// Entries of the submission queue: one full enter call and as many of the ring's own (doorbell,
/// timeouts, cancels). 128 × 64 bytes; on some kernels these count against RLIMIT_MEMLOCK.
pub const URING_SUBMISSION_ENTRIES: u32 = 128;

/// Maximum number of operations in flight in a ring. The completion queue has twice as many
/// entries, 512 KiB, and stays below the kernel's bound of 65,536.
pub const URING_DEPTH_MAX: u32 = 16_384;

/// Completion queue entries beyond twice the depth: doorbell, timeouts and cancels.
pub const URING_OWN_ENTRIES: u32 = 16;

/// Maximum number of regions that a ring registers; the table has a fixed size.
pub const URING_REGIONS_MAX: usize = 16;

/// Maximum number of bytes of a region that are registered. Registering populates and pins memory
/// at once (about 0.2 ms per MiB), and keeps it resident; an arena gives out its lowest free
/// memory, so most traffic passes through its first part.
pub const URING_REGION_BYTES_MAX: usize = 16 << 20;

/// Registering less of a region than this is not worth a table entry.
pub const URING_REGION_BYTES_MIN: usize = 64 << 10;

/// Pause before entries that the kernel had no memory for are resubmitted.
pub const URING_RETRY_NS: u64 = 1_000_000;

/// Maximum number of attempts to set up a ring while that fails with `ENOMEM`.
pub const URING_SETUP_TRIES: u32 = 10;

/// Pause between two attempts: 90 ms in all; closing a ring takes 10 to 30 ms (measured).
pub const URING_SETUP_RETRY_NS: u64 = 10_000_000;

/// How many interrupted enter calls in a row are repeated before `submit` returns.
pub const URING_INTERRUPTED_MAX: usize = 16;

/// Maximum sleep in a completion port: a ring of the doorbell for which the system has no memory is
/// lost, and is noticed after this time.
#[cfg(windows)]
pub const PORT_SLEEP_MS_MAX: u32 = 1000;

/// Maximum number of bytes read from a file that reports no length; files of procfs have a few KiB.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;

/// Bytes of one read of such a file.
pub const CONTENT_STEP_BYTES: usize = 64 << 10;

/// Returns the number of files that this process may have open (the soft `RLIMIT_NOFILE`);
/// `u64::MAX` if there is no limit.
#[must_use]
pub fn descriptors_max() -> u64 {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit};
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }
    // Handles have no practical limit: 16 million per process.
    #[cfg(windows)]
    {
        u64::MAX
    }
}

/// Returns the memory of the machine in bytes; 0 if unknown (neither Linux nor Windows).
#[must_use]
pub fn memory_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let about = rustix::system::sysinfo();
        (about.totalram as u64).saturating_mul(u64::from(about.mem_unit.max(1)))
    }
    #[cfg(windows)]
    {
        crate::system::memory().0
    }
    #[cfg(not(any(target_os = "linux", windows)))]
    {
        0
    }
}

const _: () = assert!(URING_SUBMIT_MAX as u32 * 2 <= URING_SUBMISSION_ENTRIES);
const _: () = assert!(2 * URING_DEPTH_MAX + URING_OWN_ENTRIES <= 65_536);
const _: () = assert!(URING_SUBMISSION_ENTRIES.is_power_of_two());
const _: () = assert!(OPERATION_BYTES_MAX < 1 << 31);
