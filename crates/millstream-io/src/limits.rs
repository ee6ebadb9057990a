//! Every bound of this crate, with its arithmetic.

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

/// Staging of a storage unless it says otherwise: at 7 GB/s 18 ms of reading.
pub const ARENA_BYTES_DEFAULT: usize = 128 << 20;

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

/// Names tried for the file that will replace another, before another program is taken to make them
/// on purpose.
pub const REPLACE_NAMES_MAX: u32 = 64;

const _: () = assert!(ARENA_BYTES_MAX / MEMORY_ALIGNMENT <= u32::MAX as usize);
const _: () = assert!(ARENA_BYTES_DEFAULT.is_multiple_of(HUGE_PAGE_BYTES));
const _: () = assert!(BUFFER_PIECE_MAX <= SLAB_BYTES_LARGE / 4);
const _: () = assert!(SEGMENTS_MAX <= 1024);
const _: () = assert!(MEMORY_ALIGNMENT.is_power_of_two());

/// Most threads of the threads device for local files. A read that blocks needs no core, so the
/// bound is on memory and on what a disk can use: NVMe saturates below 128 in flight.
pub const THREADS_MAX: usize = 128;

/// Most threads of the threads device in slow mounts, all mounts together: eight mounts may hang
/// with two threads each before a ninth has to wait.
pub const SLOW_THREADS_MAX: usize = 16;

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
/// owner wakes for 14 at a time at depth 128, and learns of each at most an eighth later.
pub const THREADS_HOLD_RATIO: usize = 8;

/// The same while operations are fast: half of 128 take 40 µs, twenty times the cost of a wake.
pub const THREADS_HOLD_RATIO_FAST: usize = 2;

/// How long completions may be held back if all threads get stuck just then.
pub const THREADS_HOLD_NS_MAX: u64 = 1_000_000;

/// Most operations that one enter of the ring submits. A cached read runs inside the call (0.6–0.8
/// µs for 4 KiB), so 64 hold the owner for about 50 µs.
pub const URING_SUBMIT_MAX: usize = 64;

/// Entries of the submission queue: one full enter and as many of the ring's own (doorbell,
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

/// How long a ring that the kernel refused memory for waits before it tries again.
pub const URING_RETRY_NS: u64 = 1_000_000;

/// How often a ring is asked for while the answer is that there is no memory.
pub const URING_SETUP_TRIES: u32 = 10;

/// Pause between two tries: 90 ms in all, where closing a ring was seen to take 10 to 30.
pub const URING_SETUP_RETRY_NS: u64 = 10_000_000;

/// How many interrupted enters in a row are repeated before the owner gets its turn.
pub const URING_INTERRUPTED_MAX: usize = 16;

const _: () = assert!(URING_SUBMIT_MAX as u32 * 2 <= URING_SUBMISSION_ENTRIES);
const _: () = assert!(2 * URING_DEPTH_MAX + URING_OWN_ENTRIES <= 65_536);
const _: () = assert!(OPERATION_BYTES_MAX <= u32::MAX as usize);
