//! The limits of the codecs.

/// Largest window of a zstd frame in bytes: 2^27, the maximum that the `zstd` tool accepts without
/// `--long`. A stream decoder reserves this much for a frame that requires it; pages that are never
/// written cost nothing.
pub const ZSTD_WINDOW_BYTES_MAX: u64 = 1 << 27;

/// Largest block of a zstd frame, stored or raw (RFC 8878, 3.1.1.2.4).
pub(crate) const ZSTD_BLOCK_BYTES_MAX: usize = 128 << 10;

/// Longest zstd frame header: magic 4, descriptor 1, window 1, dictionary 4, content size 8.
pub(crate) const ZSTD_HEADER_BYTES_MAX: usize = 4 + 1 + 1 + 4 + 8;

/// Largest block of an LZ4 frame (block size code 7).
pub(crate) const LZ4_BLOCK_BYTES_MAX: usize = 4 << 20;

/// Longest LZ4 frame header: magic 4, flags 2, content size 8, dictionary 4, header checksum 1.
pub(crate) const LZ4_HEADER_BYTES_MAX: usize = 4 + 2 + 8 + 4 + 1;

/// Maximum distance of an LZ4 match: the history that a linked block may need.
pub(crate) const LZ4_WINDOW_BYTES: usize = 64 << 10;

/// Raw bytes per block, and unit, of the LZ4 frames written here (block size code 5): large enough
/// for the match finder, small enough that one request keeps all workers busy.
pub(crate) const LZ4_ENCODE_BLOCK_BYTES: usize = 256 << 10;
pub(crate) const LZ4_ENCODE_BLOCK_CODE: u8 = 5;
const _: () = assert!(LZ4_ENCODE_BLOCK_BYTES == 1 << (8 + 2 * LZ4_ENCODE_BLOCK_CODE as usize));

/// Maximum stored bytes of a unit: an eighth of the default staging memory. A longer zstd frame is
/// left to the stream decoder, because a whole unit must be in memory before its decoding begins.
pub const UNIT_STORED_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(UNIT_STORED_BYTES_MAX > LZ4_BLOCK_BYTES_MAX + 4);

/// Size of a buffer of [`compress`](crate::compress) and [`decompress`](crate::decompress).
pub(crate) const TRANSFER_BYTES: usize = 256 << 10;

/// Largest raw size of a GDeflate stream: 65535 tiles of 64 KiB.
pub const GDEFLATE_RAW_BYTES_MAX: u64 = 65_535 << 16;
const _: () = assert!(GDEFLATE_RAW_BYTES_MAX == (4 << 30) - (64 << 10));

/// Minimum growth of a vector whose final size is not known.
#[cfg(not(feature = "c"))]
pub(crate) const GROW_BYTES_MIN: usize = 64 << 10;

/// Raw bytes required per step of a scanner (a unit, a frame, its end) beyond the first
/// [`UNIT_STEPS_FREE`]: a stream of smaller units is decoded as a stream, because a job for each
/// would cost more memory and time than its bytes.
pub(crate) const UNIT_STEP_RAW_BYTES: u64 = 2048;

/// Steps that a scanner may always take, see [`UNIT_STEP_RAW_BYTES`].
pub(crate) const UNIT_STEPS_FREE: u64 = 1024;
