//! Every bound of this crate, with its arithmetic.

/// Bytes of a buffer of a file stream. Two in flight and one in use stay within a second-level
/// cache of 1 MiB, and a request costs its hand-over (some microseconds) once in 65,536 fields.
pub const FILE_BUFFER_BYTES: usize = 256 << 10;

/// Bytes of the first read after a seek: random access does not pay for bytes that it skips.
pub const SEEK_BUFFER_BYTES: usize = 64 << 10;

/// Reads of a file stream in flight ahead of its reader.
pub const READS_AHEAD: usize = 3;

/// Writes of a file stream in flight behind its writer.
pub const WRITES_BEHIND: usize = 3;

/// Bytes that a stream writes, or reads out of the page cache, on the calling thread before it
/// takes the engine: until then waking other threads (10 to 45 µs of the caller for each buffer)
/// costs more than they save.
pub const LOCAL_BYTES_MAX: u64 = 2 << 20;

/// First memory of a memory stream that grows: a page.
pub const MEMORY_BYTES_MIN: usize = 4 << 10;

/// Bytes that a length read from a stream may make a helper allocate before it has seen as many:
/// a forged length costs no more than this.
pub const UNSEEN_BYTES_MAX: usize = 64 << 10;

/// Bytes of the longest LEB128 number of 64 bits: ⌈64 ÷ 7⌉.
pub const LEB128_BYTES_MAX: usize = 10;

const _: () = assert!(SEEK_BUFFER_BYTES <= FILE_BUFFER_BYTES);
const _: () = assert!(READS_AHEAD >= 2 && WRITES_BEHIND >= 2);
const _: () = assert!(LEB128_BYTES_MAX == 64usize.div_ceil(7));

/// Alignment of a blob's memory and, at most, of what lies in it: that of vectors of four floats.
pub const BLOB_ALIGNMENT: usize = 16;

/// Levels of owned records in a blob. Each costs the checker a few hundred bytes of stack: 256 stay
/// under 128 KiB, and no scene of use is nested as deep.
pub const BLOB_DEPTH_MAX: usize = 256;

/// Objects of one archive: ids stay far from the largest number, and the writer's marks (a byte
/// each) under 1 GiB.
pub const ARCHIVE_OBJECTS_MAX: u32 = 1 << 30;

/// Bytes of the fields of one object, which are gathered in memory before they are written.
pub const OBJECT_BYTES_MAX: u64 = 1 << 31;

const _: () = assert!(OBJECT_BYTES_MAX <= u32::MAX as u64);
