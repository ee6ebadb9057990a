//! Every bound of the engine, with its arithmetic.

/// Bits of an index in an id; the rest are 12 bits of storage and 32 of generation.
pub const INDEX_BITS: u32 = 20;

/// Maximum number of living storages: 12 bits of an id.
pub const STORAGES_MAX: usize = 1 << 12;

/// Slots of a storage: requests that have not completed or are unclaimed, all queues together.
#[cfg(not(model))]
pub const SLOTS_MAX: u32 = 1 << INDEX_BITS;
/// `SLOTS_MAX` in models, whose state must stay small.
#[cfg(model)]
pub const SLOTS_MAX: u32 = if cfg!(shuttle) { 16 } else { 2 };

/// Slots that a queue takes at a time: a scan for a tag visits only the queue's own chunks.
#[cfg(not(model))]
pub const SLOT_CHUNK: u32 = 64;
/// As above.
#[cfg(model)]
pub const SLOT_CHUNK: u32 = 1;

/// Maximum number of files of a storage.
pub const FILES_MAX: usize = 1 << INDEX_BITS;

/// Entries that a batch reserves room for at a time, so that one compare-exchange serves many.
pub const BATCH_RESERVE: u64 = 256;

/// Entries that one round takes in: they go from intake to the device while they are in the L1
/// cache (128 lines of 64 bytes and as many columns are 16 KiB).
pub const INTAKE_MAX: usize = 128;

/// Maximum number of worker threads of a storage.
pub const WORKERS_MAX: usize = 256;

/// Default capacity of a queue, in entries that have not completed: more than any start-up of the
/// reference workloads submits (2096).
pub const QUEUE_CAPACITY_DEFAULT: u32 = 8192;

/// Largest capacity of a queue: half of a storage's slots.
#[cfg(not(model))]
pub const QUEUE_CAPACITY_MAX: u32 = SLOTS_MAX / 2;
/// As above.
#[cfg(model)]
pub const QUEUE_CAPACITY_MAX: u32 = SLOTS_MAX;

/// Default limit of a queue's completed requests that were neither claimed nor dropped.
pub const UNCLAIMED_DEFAULT: u32 = 65_536;

/// Maximum number of queues of a storage.
pub const QUEUES_MAX: usize = 4096;

/// Default staging memory of a storage: what DirectStorage's authors found a good default.
pub const STAGING_BYTES_DEFAULT: usize = 128 << 20;

/// Smallest staging: one smallest block for every priority.
pub const STAGING_BYTES_MIN: usize = 16 << 10;

/// Largest staging: what an arena can hold.
pub const STAGING_BYTES_MAX: usize = millstream_io::limits::ARENA_BYTES_MAX;

/// Default bytes of one operation on a device without realtime requests. CPU per byte and
/// throughput are flat from 512 KiB on (measured: 1.3 ms and 1.0 ms of CPU per 100 MB).
pub const BLOCK_BYTES_DEFAULT: usize = 1 << 20;

/// Smallest block: a page.
pub const BLOCK_BYTES_MIN: usize = 4 << 10;

/// Largest block: a longer one gains nothing and delays everything behind it.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;

/// Bytes of one operation that others may have to wait for: of any while realtime requests were
/// seen lately, of a priority while a higher one has work.
pub const BLOCK_BYTES_SHORT: usize = 256 << 10;

/// Blocks in one operation through the page cache that is read from the device. The kernel takes a
/// request that is cut in two for the start of a sequential stream and reads ahead, past its end:
/// cold reads of 4 MiB had 0.44 to 0.97 of the rate of whole ones in blocks of 1 MiB, and 0.76 to
/// 1.05 in one.
pub const BUFFERED_BLOCKS: u64 = 4;

/// How long after a request that they may delay lower priorities stay limited.
pub const HIGHER_MEMORY_NS: u64 = 1_000_000_000;

/// How long other priorities may make a realtime request wait: bytes in flight ÷ the device's rate.
pub const REALTIME_WAIT_NS: u64 = 100_000;

/// While a higher priority has work, lower ones fill bytes in flight up to this time × the device's
/// rate: enough that it does not run dry when the last of the higher priority completes.
pub const HIGHER_WAIT_NS: u64 = 500_000;

/// Default of [`StorageOptions::low_wait`](crate::StorageOptions::low_wait). With this value,
/// speculative reads use a disk's idle time, and delay others by 0.4 ms at most at 2 GB/s.
pub const LOW_WAIT: std::time::Duration = std::time::Duration::from_micros(300);

/// Maximum bytes in flight of all priorities but realtime, without realtime requests: 8 MiB.
pub const IN_FLIGHT_BYTES_MAX: u64 = 8 << 20;

/// Default depth: the maximum number of operations in flight.
pub const DEPTH_DEFAULT: u32 = 128;

/// Largest depth that options may set.
pub const DEPTH_MAX: u32 = 4096;

/// One block in this many goes to each waiting priority below the busiest, so that none starves.
pub const STARVATION_SHARE: u32 = 16;

/// Default limit of a storage's open file descriptors, buffered and direct ones together.
pub const DESCRIPTORS_DEFAULT: usize = 512;

/// A storage holds at most one in this many of the descriptors that the process may have, so that
/// the application keeps some (1024, the usual limit, gives the default).
pub const DESCRIPTORS_SHARE: u64 = 2;

/// From this length on a cold read bypasses the page cache.
pub const DIRECT_BYTES_MIN: u64 = 64 << 10;

/// Buffered reads from this length on are handed to helper threads of the device, so that several
/// cores copy; shorter ones cost less inline (0.6–0.8 µs for 4 KiB) than the hand-over.
pub const OFFLOAD_BYTES_MIN: u64 = 64 << 10;

/// Maximum number of copies from the page cache that wait or run: what two cores do in about 100
/// µs, at 4 KiB each.
pub const COPIES_MAX: usize = 256;

/// Maximum bytes of copies from the page cache that wait or run: 0.2 ms of one core's copying,
/// which is what a request of higher priority waits for.
pub const COPIES_BYTES_MAX: u64 = 2 << 20;

/// Bytes of one copy: 20 to 30 µs, so that no request waits for long behind one, and the call for
/// each adds a hundredth.
pub const COPY_BLOCK_BYTES: u64 = 256 << 10;

/// Of a file whose reads are not cached, at most this many pass before the system is asked again.
pub const COPY_SKIPS_MAX: u32 = 63;

/// Second loads go through the page cache, up to one byte in this many of the machine's memory.
pub const REPEAT_MEMORY_FRACTION: u64 = 8;

/// Granularity in which a file records what was loaded before.
pub const REPEAT_GRANULE_BYTES: u64 = 1 << 20;

/// Appends no longer than this are copied, to be written together.
pub const APPEND_COPY_BYTES_MAX: u64 = 64 << 10;

/// Maximum bytes of appends that are written together.
pub const APPEND_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of appends that are written together.
pub const APPENDS_MAX: usize = 1024;

/// Adjacent reads no longer than this are merged into one vectored operation.
pub const MERGE_MEMBER_BYTES_MAX: u64 = 64 << 10;

/// Maximum bytes of a merged operation.
pub const MERGE_BYTES_MAX: u64 = 512 << 10;

/// Maximum number of windows that one request has in staging: one being decoded, one complete, two
/// being read.
pub const WINDOWS_AHEAD: usize = 4;

/// Bytes of a window of a codec whose streams may hold independent units: room for the largest LZ4
/// block (4 MiB), and as much again before it for the rest of the previous window.
pub const UNIT_WINDOW_BYTES: usize = 4 << 20;

/// Maximum stored bytes of an external block, which is read whole into memory besides staging. No
/// device sink is given such a block, which would stay in memory until the device is done with it.
pub const OTHER_BLOCK_BYTES_MAX: u32 = 16 << 20;

/// No external block is read while those being read, and those that wait for a worker or are
/// decoded, have this many stored bytes.
pub const EXTERNAL_BYTES_MAX: u64 = 64 << 20;

/// Bytes that a shorter external block counts for: at most 32 are read at a time, half of the
/// threads that may hang.
pub const EXTERNAL_READ_BYTES_MIN: u64 = 2 << 20;

/// Maximum raw bytes of a stream that declares no raw size, unless
/// [`Decode::max_raw`](crate::Decode::max_raw) says otherwise.
pub const RAW_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// Shortest and longest buffer that such a stream begins with, before it doubles.
pub const GROW_BYTES: std::ops::Range<u64> = 64 << 10..4 << 20;

/// Requests of fewer raw bytes are not worth cutting into units for several workers.
pub const UNITS_RAW_BYTES_MIN: u64 = 128 << 10;

/// Copies up to this length are made by the engine itself: a hand-over to a worker costs more
/// (2 µs) than copying 16 KiB (about 1.5 µs).
pub const INLINE_COPY_BYTES_MAX: usize = 16 << 10;

/// Windows of staging after which it is registered with the device. That saves about 1 µs a read,
/// and costs a pin of up to 16 MiB, which the kernel clears first: in a virtual machine, 24 MB of
/// LZ4 on a fresh storage took 11 to 32 ms of processor time with it and 7 without. So registration
/// waits until it is sure to pay.
pub const WINDOWS_BEFORE_REGISTERING: u64 = 4096;

/// Jobs waiting for a worker or running from which on nothing more is issued.
pub const JOBS_MAX: usize = 1024;

/// Maximum number of opens handed to threads: so many that these, while they run, need no engine,
/// which may wait for a core. Urgent ones that come later overtake those that no thread has begun.
pub const OPENS_MAX: usize = 512;

/// Descriptors that opens of the lower priorities leave to urgent ones while others are under way.
pub const OPENS_URGENT: usize = 4;

/// Files are opened ahead of their first request while fewer opens than this are in flight.
pub const OPENS_AHEAD_MAX: usize = 4;

/// An open that takes longer counts as hung, and not as in flight.
pub const OPEN_HUNG_NS: u64 = 10_000_000;

/// How long an open waits that found the process out of descriptors; twice as long each next time.
pub const SHORTAGE_WAIT_NS: u64 = 1_000_000;

/// The longest such wait.
pub const SHORTAGE_WAIT_NS_MAX: u64 = 64_000_000;

/// How long a process is out of descriptors before opens fail.
pub const SHORTAGE_MAX_NS: u64 = 1_000_000_000;

/// Descriptors that are freed ahead of the opens that need them.
pub const EVICT_MARGIN: usize = 32;

/// Maximum number of operations in flight on one mount that can hang: twice its threads.
pub const SLOW_OPERATIONS_MAX: u32 = 4;

/// Threads for reads and writes on one mount that can hang.
pub const SLOW_MOUNT_THREADS: usize = 2;

/// Mounts that can hang with threads of their own: this many may hang before another has to wait.
pub const SLOW_MOUNTS_MAX: usize = 8;

/// Maximum words of a file's record of loaded granules, a bit each: up to 4 TiB, in 512 KiB.
pub const REPEAT_WORDS_MAX: usize = 1 << 16;

/// Maximum number of events of a trace; later ones are counted, not kept.
pub const TRACE_EVENTS_MAX: usize = 1 << 20;

/// Default bytes of free destination memory kept for reuse.
pub const RETAINED_BYTES_DEFAULT: usize = 256 << 20;

/// How long dropping a storage waits for the kernel and the workers.
pub const DROP_DEADLINE_SECONDS: u64 = 5;

/// How long the engine spins for mail before it sleeps, if the last mail came within this time.
pub const ENGINE_SPIN_NS: u64 = 20_000;

/// How long a waiting thread spins before it parks, as long as that pays: a small request from
/// memory takes 10 µs, or 50 with the wake of an engine on an idle core.
pub const WAIT_SPIN_NS: u64 = 50_000;

/// Maximum number of waits that park at once after spinning has failed repeatedly: on average less
/// than a microsecond is wasted.
pub const SPIN_SKIPS_MAX: u32 = 63;

/// Longest file that [`Storage::load`](crate::Storage::load) reads from the disk on the calling
/// thread: of longer ones, requests take less time.
pub const LOAD_BYTES_MAX: u64 = 128 << 10;

/// The same for a file in the page cache.
pub const LOAD_CACHED_BYTES_MAX: u64 = 2 << 20;

/// Maximum number of files that are open a second time, for
/// [`Storage::read`](crate::Storage::read) on the calling thread.
pub const LOCAL_FILES_MAX: usize = 16;

/// At most one file is open a second time for so many
/// [`StorageOptions::descriptors`](crate::StorageOptions::descriptors).
pub const DESCRIPTORS_PER_LOCAL: usize = 32;

/// A queue accepts no entries while its next sequence number is further than this above the oldest
/// entry that has not completed: the engine keeps a bit for each between them.
pub const SEQUENCE_WINDOW_MAX: u64 = 1 << 26;

/// How long `close` waits for its report after its timeout: the engine answers within milliseconds,
/// unless a system call of its own hangs.
pub const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

const _: () = assert!(STAGING_BYTES_MIN >= 4 * BLOCK_BYTES_MIN);
const _: () = assert!(BLOCK_BYTES_SHORT <= BLOCK_BYTES_DEFAULT);
const _: () = assert!(
    BLOCK_BYTES_MAX * BUFFERED_BLOCKS as usize <= millstream_io::limits::OPERATION_BYTES_MAX
);
const _: () = assert!(MERGE_MEMBER_BYTES_MAX < MERGE_BYTES_MAX);

/// How many held requests of a queue with a bandwidth are released at a time, and the longest time
/// until more are.
pub(crate) const HELD_RELEASED: usize = 8;
pub(crate) const HELD_RETRY_NS: u64 = 1_000_000;
