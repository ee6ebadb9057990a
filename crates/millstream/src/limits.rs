//! Every bound of the engine, with its arithmetic.

/// Bits of an index in an id; the rest are 12 bits of storage and 32 of generation.
pub const INDEX_BITS: u32 = 20;

/// Storages that live at a time: 12 bits of an id.
pub const STORAGES_MAX: usize = 1 << 12;

/// Slots of a storage: requests that have not completed or are unclaimed, all queues together.
#[cfg(not(model))]
pub const SLOTS_MAX: u32 = 1 << INDEX_BITS;
/// As above, small enough for models.
#[cfg(model)]
pub const SLOTS_MAX: u32 = if cfg!(shuttle) { 16 } else { 2 };

/// Slots that a queue takes at a time: a scan for a tag sees only its own chunks.
#[cfg(not(model))]
pub const SLOT_CHUNK: u32 = 64;
/// As above.
#[cfg(model)]
pub const SLOT_CHUNK: u32 = 1;

/// Files of a storage.
pub const FILES_MAX: usize = 1 << INDEX_BITS;

/// Entries that a batch reserves room for at a time, so that one compare-exchange serves many.
pub const BATCH_RESERVE: u64 = 256;

/// Entries that one round takes in: they go from intake to the device while they are in the first
/// cache (128 lines of 64 bytes and as many columns are 16 KiB).
pub const INTAKE_MAX: usize = 128;

/// Worker threads of a storage.
pub const WORKERS_MAX: usize = 256;

/// Entries of one queue that have not completed, unless its options say otherwise: more than any
/// start-up that the founding workloads count (2096).
pub const QUEUE_CAPACITY_DEFAULT: u32 = 8192;

/// Largest capacity of a queue: half of a storage's slots.
#[cfg(not(model))]
pub const QUEUE_CAPACITY_MAX: u32 = SLOTS_MAX / 2;
/// As above.
#[cfg(model)]
pub const QUEUE_CAPACITY_MAX: u32 = SLOTS_MAX;

/// Tickets of one queue that have ended and were neither claimed nor dropped.
pub const UNCLAIMED_DEFAULT: u32 = 65_536;

/// Queues of one storage.
pub const QUEUES_MAX: usize = 4096;

/// Staging memory of a storage: what DirectStorage's authors found a good default.
pub const STAGING_BYTES_DEFAULT: usize = 128 << 20;

/// Smallest staging: one smallest block for every priority.
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
/// lately, and of a priority while a higher one has work.
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

/// While a higher priority has work, lower ones fill bytes in flight up to this time × the device's
/// rate: enough that it does not run dry when the last of the higher priority comes in.
pub const HIGHER_WAIT_NS: u64 = 500_000;

/// Bytes in flight of all priorities but realtime, without realtime requests: 8 blocks of 1 MiB.
pub const IN_FLIGHT_BYTES_MAX: u64 = 8 << 20;

/// Operations in flight.
pub const DEPTH_DEFAULT: u32 = 128;

/// Most operations in flight.
pub const DEPTH_MAX: u32 = 4096;

/// One block in this many goes to each waiting priority below the busiest, so that none starves.
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

/// Bytes of copies from the page cache under way: 0.2 ms of one core's copying, which is what a
/// request of higher priority waits for.
pub const COPIES_BYTES_MAX: u64 = 2 << 20;

/// Bytes of one copy: 20 to 30 µs, so that no request waits for long behind one, and a call for
/// each costs a hundredth.
pub const COPY_BLOCK_BYTES: u64 = 256 << 10;

/// Of a file whose reads are not cached, the system is asked about one in so many all the same.
pub const COPY_SKIPS_MAX: u32 = 63;

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
/// at most so many for each worker are in memory beside staging. No device is given such a block,
/// which would stay in memory until the device is done with it.
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

/// Opens under way, so that those which arrive later and are urgent wait for few.
pub const OPENS_MAX: usize = 32;

/// Opens under way up to which files are opened ahead of their first request.
pub const OPENS_AHEAD_MAX: usize = 4;

/// An open that takes longer hangs: it no longer counts.
pub const OPEN_HUNG_NS: u64 = 10_000_000;

/// Descriptors that are made free ahead of the opens that need them.
pub const EVICT_MARGIN: usize = 32;

/// Operations of one mount that can hang under way: as many again as its threads.
pub const SLOW_OPERATIONS_MAX: u32 = 4;

/// Threads for reads and writes on one such mount.
pub const SLOW_MOUNT_THREADS: usize = 2;

/// Such mounts that have threads of their own: so many may hang before another has to wait.
pub const SLOW_MOUNTS_MAX: usize = 8;

/// Words of granules that a file remembers: files up to 4 TiB, in 512 KiB.
pub const REPEAT_WORDS_MAX: usize = 1 << 16;

/// Events of a trace; what comes after is counted, not kept.
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

/// Waits that park at once after looking did not help again and again: what is wasted on average
/// stays below a microsecond.
pub const SPIN_SKIPS_MAX: u32 = 63;

/// Distance at which FIFO entries stop being taken while an old request has not ended: one bit
/// each.
pub const SEQUENCE_WINDOW_MAX: u64 = 1 << 26;

/// How long `close` waits for its report once its time is up: the engine answers within
/// milliseconds, unless a call of its own hangs in the system.
pub const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

const _: () = assert!(STAGING_BYTES_MIN >= 4 * BLOCK_BYTES_MIN);
const _: () = assert!(BLOCK_BYTES_SHORT <= BLOCK_BYTES_DEFAULT);
const _: () = assert!(
    BLOCK_BYTES_MAX * BUFFERED_BLOCKS as usize <= millstream_io::limits::OPERATION_BYTES_MAX
);
const _: () = assert!(MERGE_MEMBER_BYTES_MAX < MERGE_BYTES_MAX);

/// Requests of a queue with a bandwidth that are released at a time, and when more are, at the
/// latest.
pub(crate) const HELD_RELEASED: usize = 8;
pub(crate) const HELD_RETRY_NS: u64 = 1_000_000;
