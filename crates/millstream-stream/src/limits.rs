//! All limits of this crate, with their arithmetic.

/// Bytes of a buffer of a file stream. Three in flight and one in use are a second-level cache of 1
/// MiB, and submitting a request (some microseconds) is paid once in 65,536 fields of four bytes.
pub const FILE_BUFFER_BYTES: usize = 256 << 10;

/// Bytes of the first read after a seek: random access does not pay for bytes that it skips.
pub const SEEK_BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of reads of a file stream in flight ahead of its reader.
pub const READS_AHEAD: usize = 3;

/// Maximum number of writes of a file stream in flight behind its writer.
pub const WRITES_BEHIND: usize = 3;

/// Bytes that a stream writes, or reads out of the page cache, on the calling thread before it uses
/// the engine: until then waking other threads (10 to 45 µs of the caller for each buffer) costs
/// more than they save.
pub const LOCAL_BYTES_MAX: u64 = 2 << 20;

/// First allocation of a memory stream that grows: a page.
pub const MEMORY_BYTES_MIN: usize = 4 << 10;

/// Bytes that may be allocated for a length read from a stream before its bytes are; from then on,
/// at most as many as were read. So a forged length costs little.
pub const UNSEEN_BYTES_MAX: usize = 64 << 10;

/// Length of the longest LEB128 encoding of 64 bits: ⌈64 ÷ 7⌉.
pub const LEB128_BYTES_MAX: usize = 10;

const _: () = assert!(SEEK_BUFFER_BYTES <= FILE_BUFFER_BYTES);
const _: () = assert!(READS_AHEAD >= 2 && WRITES_BEHIND >= 2);
const _: () = assert!(LEB128_BYTES_MAX == 64usize.div_ceil(7));

/// Maximum number of objects in one archive: ids stay far below `u32::MAX`, and the writer's marks
/// (a byte each) within 1 GiB.
pub const ARCHIVE_OBJECTS_MAX: u32 = 1 << 30;

/// Largest size of an object's fields, which are gathered in memory before they are written.
pub const OBJECT_BYTES_MAX: u64 = 1 << 31;

const _: () = assert!(OBJECT_BYTES_MAX <= u32::MAX as u64);
