//! Every bound of this crate, with its arithmetic.

use std::time::Duration;

/// Most segments of one vectored operation. The kernel takes 1024 (`UIO_MAXIOV`); 32 segments of
/// the smallest block (4 KiB) already make an operation of 128 KiB, where the cost per byte is
/// flat.
pub const SEGMENTS_MAX: usize = 32;

/// Most bytes of one operation. Linux cuts a read at 2 GiB − 4 KiB (`MAX_RW_COUNT`); the
/// scheduler splits far below that.
pub const OPERATION_BYTES_MAX: usize = 0x7fff_f000;

/// Alignment of every buffer and staging block: a page, which is a multiple of any logical block
/// size that direct I/O asks for on the devices we know (512 and 4096).
pub const MEMORY_ALIGNMENT: usize = 4096;

/// What the kernel can back with one huge page on x86-64, and on aarch64 with 4 KiB pages. Regions
/// of this size and more are aligned to it.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Longest region: a quarter of the address space of a pointer, so that rounding and the slack of
/// the alignment never overflow.
pub const REGION_BYTES_MAX: usize = isize::MAX as usize / 2;

/// Largest arena: 2^24 pages of 4 KiB, whose tree of free runs takes 6 MiB.
pub const ARENA_BYTES_MAX: usize = 1 << 36;

/// Largest piece of a slab; longer buffers have a region of their own.
pub const BUFFER_PIECE_MAX: usize = HUGE_PAGE_BYTES - HUGE_PAGE_BYTES / 8;

/// Slabs for pieces up to 256 KiB: one huge page, at most 1/8 of it unused at the end.
pub const SLAB_BYTES_SMALL: usize = HUGE_PAGE_BYTES;

/// Slabs for larger pieces: four huge pages, so that pieces of 1.25 MiB leave 1/16 unused, not 3/8.
pub const SLAB_BYTES_LARGE: usize = 4 * HUGE_PAGE_BYTES;

/// Deepest stack of block devices that is followed (partition on array on mapping on loop …); real
/// ones have three or four levels, and a broken one must not be followed for ever.
pub const DISK_STACK_MAX: u32 = 8;

/// Mounts whose properties a file system remembers; beyond that it forgets all and asks again.
pub const MOUNTS_REMEMBERED_MAX: usize = 1024;

/// Entries of a folder that are looked at for a file to ask about its place.
pub const FOLDER_SAMPLE_MAX: usize = 256;

/// Names tried for a temporary file. More than one is needed only where a process with the same
/// number was killed and its files could not be removed, or another program makes them on purpose.
pub const TEMPORARY_NAMES_MAX: u32 = 1000;

/// How long an interruption waits for a thread that is just making or renaming a temporary file.
pub const ABANDON_WAIT: Duration = Duration::from_secs(2);

const _: () = assert!(ARENA_BYTES_MAX / MEMORY_ALIGNMENT <= u32::MAX as usize);
const _: () = assert!(BUFFER_PIECE_MAX <= SLAB_BYTES_LARGE / 4);
const _: () = assert!(SEGMENTS_MAX <= 1024);
const _: () = assert!(MEMORY_ALIGNMENT.is_power_of_two());

/// A range counts as cached if this many eighths of it are.
pub const CACHED_EIGHTHS: u64 = 7;

/// Longest range that is read together with its file's open, if it is cached: what one thread
/// copies in about 100 µs.
pub const OFFER_BYTES_MAX: u64 = 1 << 20;

/// Threads of the `threads` device unless told otherwise: what saturates an NVMe disk at 4 KiB.
pub const IO_THREADS_DEFAULT: usize = 8;

/// Bytes that a `cached` device's owner copies in one reap: less than 10 µs at 10 GB/s, unless one
/// operation is longer.
pub const COPY_OWN_BYTES_MAX: usize = 64 << 10;

/// Operations that it copies in one reap: 16 of 4 KiB are those bytes.
pub const COPY_OWN_OPERATIONS_MAX: usize = 16;

/// Bytes that a helper thread copies before it hands over what is done: about 25 µs.
pub const COPY_HELP_BYTES_MAX: usize = 256 << 10;

/// Operations that it copies before that: 32 of 4 KiB are 22 µs at 0.7 µs each.
pub const COPY_HELP_OPERATIONS_MAX: usize = 32;

/// A helper is woken if what waits takes each thread that copies longer than this, which is what a
/// wake costs (7 to 54 µs measured on two virtual cores).
pub const COPY_CALL_NS: u64 = 25_000;

/// Part of a copy's time: the call.
pub const COPY_CALL_COST_NS: u64 = 300;

/// Part of a copy's time: the bytes, at 10 GB/s.
pub const COPY_BYTES_PER_NS: u64 = 10;

/// How long a helper that has copied looks for more before it sleeps: about the cost of waking it.
pub const COPY_HELP_SPIN_NS: u64 = 20_000;

/// How long an owner whose last copies are with helpers looks for them before it sleeps: a helper's
/// share takes about as long.
pub const COPY_OWNER_SPIN_NS: u64 = 20_000;

/// Most helper threads of a `cached` device: memory bandwidth is used up by fewer.
pub const COPY_HELPERS_MAX: usize = 16;

/// Most threads of one crew of `calls`: so many calls may hang before the crew stops. Each is a
/// thread in a system call, some 20 KiB of memory.
pub const CALLS_THREADS_MAX: usize = 64;

/// Threads of the crew for closes and lengths, which take microseconds.
pub const CALLS_CLOSE_THREADS: usize = 2;

/// Threads of the crew for long calls (syncs, renames, replacements): more only queue in the same
/// journal.
pub const CALLS_LONG_THREADS: usize = 2;

/// A call that takes longer than this no longer counts against its crew's threads: a thousand times
/// a cached open, and about one seek of a hard disk.
pub const CALLS_HUNG_NS: u64 = 10_000_000;

/// Answers of calls are held back while this many times as many calls wait: their owner wakes for
/// several, and learns of each at most an eighth later.
pub const CALLS_HOLD_RATIO: usize = 8;

/// Log messages that wait for the application's hook. 256 lines of 100 bytes are 25 KiB.
pub const LOG_LINES_MAX: usize = 256;

/// Longest seek and latency of a modeled disk: more would look like a hang.
pub const MODEL_TIME_NS_MAX: u64 = 60_000_000_000;

/// Slowest modeled disk, in bytes per second: the largest operation takes 600 hours.
pub const MODEL_RATE_MIN: u64 = 1_000;

/// Fastest modeled disk, in bytes per second: ten times what memory moves.
pub const MODEL_RATE_MAX: u64 = 1_000_000_000_000;

/// Most operations that a modeled disk works on at a time: a queue of NVMe.
pub const MODEL_DEPTH_MAX: u32 = 65_536;

const _: () = assert!(CACHED_EIGHTHS <= 8);
const _: () = assert!(COPY_OWN_BYTES_MAX <= COPY_HELP_BYTES_MAX);
const _: () = assert!(CALLS_LONG_THREADS + 1 < CALLS_THREADS_MAX);
const _: () = assert!(CALLS_CLOSE_THREADS + 1 < CALLS_THREADS_MAX);

/// Most threads of the threads device. A read that blocks needs no core, so the
/// bound is on memory and on what a disk can use: NVMe saturates below 128 in flight.
pub const THREADS_MAX: usize = 128;

/// Most operations that a thread takes at once. At 0.5 µs for a cached 4 KiB read a batch is 8 µs
/// of work, four times the cost of waking a thread.
pub const THREADS_BATCH_MAX: usize = 16;

/// A batch is closed once it has this many bytes: 16 operations of 4 KiB. Larger ones copy long
/// enough to be worth a thread each.
pub const THREADS_BATCH_BYTES_MAX: usize = 64 << 10;

/// An operation that takes less than this did not wait for a disk: a cached 4 KiB read takes 0.5 µs
/// and the copy of 16 KiB about 2; the fastest disks answer in 8 µs.
pub const THREADS_FAST_NS: u64 = 6_000;

/// Completions are held back while this many times as many operations wait for a thread: so the
/// owner wakes for 14 at a time at depth 128, and sees each at most an eighth later.
pub const THREADS_HOLD_RATIO: usize = 8;

/// The same while operations are fast: half of 128 take 40 µs, twenty times the cost of a wake.
pub const THREADS_HOLD_RATIO_FAST: usize = 2;

/// How long completions may be held back if all threads block in the meantime.
pub const THREADS_HOLD_NS_MAX: u64 = 1_000_000;

/// Most operations that one enter of the ring submits. A cached read runs inside the call (0.6–0.8
/// µs for 4 KiB), so 64 hold the owner for about 50 µs.
pub const URING_SUBMIT_MAX: usize = 64;

/// Entries of the submission queue: one full enter call and as many of the ring's own (doorbell,
/// timeouts, cancels). 128 × 64 bytes; on some kernels these count against RLIMIT_MEMLOCK.
pub const URING_SUBMISSION_ENTRIES: u32 = 128;

/// Most operations in flight in a ring. The completion queue is twice that, 512 KiB, and stays
/// below the kernel's bound of 65,536 entries.
pub const URING_DEPTH_MAX: u32 = 16_384;

/// Completion queue entries beyond twice the depth: doorbell, timeouts and cancels.
pub const URING_OWN_ENTRIES: u32 = 16;

/// Most regions that a ring registers; the table is made in one piece.
pub const URING_REGIONS_MAX: usize = 16;

/// Most bytes of a region that are registered. Registering clears and pins the memory on the spot
/// (about 0.2 ms a MiB), and keeps it resident; an arena gives out its lowest free memory, so most
/// traffic passes through its first part.
pub const URING_REGION_BYTES_MAX: usize = 16 << 20;

/// Registering less of a region than this is not worth a table entry.
pub const URING_REGION_BYTES_MIN: usize = 64 << 10;

/// Pause before entries that the kernel had no memory for are submitted again.
pub const URING_RETRY_NS: u64 = 1_000_000;

/// How often the set-up of a ring is tried while it fails with `ENOMEM`.
pub const URING_SETUP_TRIES: u32 = 10;

/// Pause between two tries: 90 ms in all; closing a ring took 10 to 30 ms when measured.
pub const URING_SETUP_RETRY_NS: u64 = 10_000_000;

/// How many interrupted enter calls in a row are repeated before `submit` returns.
pub const URING_INTERRUPTED_MAX: usize = 16;

/// Longest sleep in a completion port: a ring of the doorbell for which the system has no memory is
/// lost, and is noticed then.
#[cfg(windows)]
pub const PORT_SLEEP_MS_MAX: u32 = 1000;

/// Most bytes that are read of a file that reports no length; those of procfs have a few KiB.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;

/// Bytes of one read of such a file.
pub const CONTENT_STEP_BYTES: usize = 64 << 10;

/// Most files that this process may have open now (the soft `RLIMIT_NOFILE`); `u64::MAX` is no
/// limit.
#[must_use]
pub fn descriptors_max() -> u64 {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit};
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }
    // Handles have no limit worth the name: 16 million a process.
    #[cfg(windows)]
    {
        u64::MAX
    }
}

/// Memory of the machine in bytes.
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
