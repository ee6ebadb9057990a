//! Every bound of the engine, with its arithmetic.

/// Requests of one queue that have not ended, unless the queue's options say otherwise. 8192 of
/// about 150 bytes are 1.2 MB, and more than any start-up that the founding workloads count (2096).
pub const QUEUE_CAPACITY_DEFAULT: u32 = 8192;

/// Largest capacity of a queue: the sequence window (one bit per entry) stays under 2 MiB.
pub const QUEUE_CAPACITY_MAX: u32 = 1 << 24;

/// Tickets of one queue that have ended and that nobody has claimed or dropped.
pub const UNCLAIMED_DEFAULT: u32 = 65_536;

/// Queues of one storage.
pub const QUEUES_MAX: usize = 4096;

/// Staging memory of a storage: what DirectStorage's authors found a good default.
pub const STAGING_BYTES_DEFAULT: usize = 128 << 20;

/// Smallest staging: one smallest block for every class.
pub const STAGING_BYTES_MIN: usize = 16 << 10;

/// Largest staging: what an arena can hold.
pub const STAGING_BYTES_MAX: usize = millstream_io::limits::ARENA_BYTES_MAX;

/// Bytes of one operation on a device without realtime requests. CPU per byte and
/// throughput are flat from 512 KiB on (measured: 1.3 ms and 1.0 ms of CPU per 100 MB).
pub const BLOCK_BYTES_DEFAULT: usize = 1 << 20;

/// Smallest block: a page.
pub const BLOCK_BYTES_MIN: usize = 4 << 10;

/// Largest block; more buys nothing and makes everything behind it wait.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;

/// Bytes of one operation that others may have to wait for: while realtime requests were seen
/// lately, and of a class while a higher one has work.
pub const BLOCK_BYTES_SHORT: usize = 256 << 10;

/// Blocks that one operation through the page cache has, if it is read from the device. The kernel
/// takes a request that is cut in two for the beginning of a stream and reads ahead, past its end:
/// cold reads of 4 MiB had 0.44 to 0.97 of the rate of whole ones in blocks of 1 MiB, and 0.76 to
/// 1.05 in one.
pub const BUFFERED_BLOCKS: u64 = 4;

/// How long a realtime request keeps the bulk in check after it.
pub const REALTIME_MEMORY_NS: u64 = 1_000_000_000;

/// What bulk may keep a realtime request waiting: bytes in flight ÷ the device's rate.
pub const REALTIME_WAIT_NS: u64 = 100_000;

/// While a higher class has work, lower ones fill bytes in flight up to this time × the device's
/// rate: enough that it does not run dry when the last of the higher class comes in.
pub const HIGHER_WAIT_NS: u64 = 500_000;

/// Bytes in flight of all classes but realtime, without realtime requests: 8 blocks of 1 MiB.
pub const IN_FLIGHT_BYTES_MAX: u64 = 8 << 20;

/// Operations in flight.
pub const DEPTH_DEFAULT: u32 = 128;

/// One block in this many goes to each waiting class below the busiest, so that none starves.
pub const STARVATION_SHARE: u32 = 16;

/// File descriptors that a storage holds open, both kinds (buffered and direct) together.
pub const DESCRIPTORS_DEFAULT: usize = 512;

/// One in so many of the descriptors that the process may have is a storage's at most, so that the
/// application keeps some (1024, the usual limit, gives the default).
pub const DESCRIPTORS_SHARE: u64 = 2;

/// From this length on a cold range is read past the page cache.
pub const DIRECT_BYTES_MIN: u64 = 64 << 10;

/// Buffered reads from this length on are handed to helper threads of the device, so that several
/// cores copy; shorter ones cost less inline than the hand-over (0.6–0.8 µs for 4 KiB).
pub const OFFLOAD_BYTES_MIN: u64 = 64 << 10;

/// Operations that wait to be copied out of the page cache, or are being copied: what two cores do
/// in about 100 µs, if they are of 4 KiB.
pub const COPIES_MAX: usize = 256;

/// Bytes of one copy: 20 to 30 µs, so that nobody waits for long behind one, and a call for each
/// costs a hundredth.
pub const COPY_BLOCK_BYTES: u64 = 256 << 10;

/// What the engine copies in a round: less than 10 µs, unless one block is longer.
pub const COPY_OWN_BYTES_MAX: usize = 64 << 10;

/// See [`COPY_OWN_BYTES_MAX`].
pub const COPY_OWN_OPERATIONS_MAX: usize = 16;

/// What a worker copies before it hands over what is done.
pub const COPY_HELP_BYTES_MAX: usize = 256 << 10;

/// See [`COPY_HELP_BYTES_MAX`].
pub const COPY_HELP_OPERATIONS_MAX: usize = 32;

/// A worker is called to copy if what waits takes each that copies longer than this: what a
/// hand-over costs.
pub const COPY_CALL_NS: u64 = 25_000;

/// Of a copy: the call.
pub const COPY_CALL_COST_NS: u64 = 300;

/// Of a copy: the bytes (10 GB/s).
pub const COPY_BYTES_PER_NS: u64 = 10;

/// How long a worker that has copied looks for more before it sleeps.
pub const COPY_HELP_SPIN_NS: u64 = 20_000;

/// Of a file whose reads are not cached, the system is asked about one in so many all the same.
pub const COPY_SKIPS_MAX: u32 = 63;

/// A range counts as cached if this many eighths of it are.
pub const CACHED_EIGHTHS: u64 = 7;

/// Second loads go through the page cache up to this fraction of memory.
pub const REPEAT_MEMORY_FRACTION: u64 = 8;

/// Granule in which a file remembers what was loaded before.
pub const REPEAT_GRANULE_BYTES: u64 = 1 << 20;

/// Adjacent reads no longer than this are merged into one vectored operation.
pub const MERGE_MEMBER_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a merged operation.
pub const MERGE_BYTES_MAX: u64 = 512 << 10;

/// Windows of stored bytes that one request holds in staging: one being decoded, one complete,
/// two on their way.
pub const WINDOWS_AHEAD: usize = 4;

/// Bytes of a window of a codec whose streams may hold independent units: room for the
/// largest LZ4 block (4 MiB), and again as much before it for the rest of the window before.
pub const UNIT_WINDOW_BYTES: usize = 4 << 20;

/// Stored bytes of a block that lies in another file than its request: a worker reads it whole, so
/// at most so many for each worker are in memory beside staging.
pub const OTHER_BLOCK_BYTES_MAX: u32 = 16 << 20;

/// Raw bytes below which a request is not worth cutting into units for several workers.
pub const UNITS_RAW_BYTES_MIN: u64 = 128 << 10;

/// Copies up to this length are made by the engine itself: a hand-over to a worker costs more
/// (2 µs) than copying 16 KiB (about 1.5 µs).
pub const INLINE_COPY_BYTES_MAX: usize = 16 << 10;

/// Windows of staging after which it is registered with the device. That saves about 1 µs a read,
/// and costs a pin of up to 16 MiB, which the kernel clears first: in a virtual machine, 24 MB of
/// LZ4 on a fresh storage took 11 to 32 ms of processor time with it and 7 without. So it waits
/// until it is sure to pay.
pub const WINDOWS_BEFORE_REGISTERING: u64 = 4096;

/// Jobs waiting for a worker.
pub const JOBS_MAX: usize = 1024;

/// Files opened by one job.
pub const OPENS_PER_JOB: usize = 16;

/// Open jobs for each worker: one that it does, one that it finds when it comes back.
pub const OPEN_JOBS_PER_WORKER: usize = 2;

/// Longest range that is read together with its file's open, if it is cached: what one worker
/// copies in about 100 µs.
pub const OFFER_BYTES_MAX: u64 = 1 << 20;

/// Events of a trace; what comes after is counted, not kept. 1 M of 48 bytes are 48 MB.
pub const TRACE_EVENTS_MAX: usize = 1 << 20;

/// Free destination memory kept for reuse.
pub const RETAINED_BYTES_DEFAULT: usize = 256 << 20;

/// How long dropping a storage waits for the kernel and the workers.
pub const DROP_DEADLINE_SECONDS: u64 = 5;

/// How long the engine looks for mail before it sleeps, if the last mail came within this time.
pub const ENGINE_SPIN_NS: u64 = 20_000;

/// How long a thread that waits looks before it parks, as long as that pays: a small request from
/// memory takes 10 µs, or 50 with the wake of an engine on an idle core.
pub const WAIT_SPIN_NS: u64 = 50_000;

/// Waits that park at once after looking was in vain again and again: what is wasted on average
/// stays below a microsecond.
pub const SPIN_SKIPS_MAX: u32 = 63;

/// Distance at which FIFO entries stop being taken while an old request has not ended: one bit
/// each.
pub const SEQUENCE_WINDOW_MAX: u64 = 1 << 26;

const _: () = assert!(STAGING_BYTES_MIN >= 4 * BLOCK_BYTES_MIN);
const _: () = assert!(BLOCK_BYTES_SHORT <= BLOCK_BYTES_DEFAULT);
const _: () = assert!(
    BLOCK_BYTES_MAX * BUFFERED_BLOCKS as usize <= millstream_io::limits::OPERATION_BYTES_MAX
);
const _: () = assert!(MERGE_MEMBER_BYTES_MAX < MERGE_BYTES_MAX);
