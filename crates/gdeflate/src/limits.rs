//! Every number that the format fixes or that bounds memory and work, with its derivation.

/// Raw bytes of every tile but the last; the last may be shorter.
pub const TILE_RAW_BYTES: usize = 65_536;

/// Number of bit streams (lanes) that one tile is interleaved over.
pub const LANE_COUNT: usize = 32;

/// Bytes of one refill word.
pub const WORD_BYTES: usize = 4;

/// Bytes of the stream header in front of the tile table.
pub const HEADER_BYTES: usize = 8;

/// Bytes of one entry of the tile table.
pub const TABLE_ENTRY_BYTES: usize = 4;

/// Maximum number of tiles in a stream: the header's tile count is 16 bits wide.
pub const TILE_COUNT_MAX: usize = 65_535;

/// Most raw bytes that one stream can hold: 65,535 full tiles.
pub const STREAM_RAW_BYTES_MAX: u64 = TILE_COUNT_MAX as u64 * TILE_RAW_BYTES as u64;

/// Minimum stored bytes of a tile: every lane begins with one word.
pub const TILE_STORED_BYTES_MIN: usize = LANE_COUNT * WORD_BYTES;

/// Maximum stored bytes of a tile that the decoder accepts, which bounds the work per tile. The
/// most expensive encoding of three bytes is a match of 31 + 29 bits: 20 bits per byte, 160 KiB per
/// tile; the rest is room for block headers. Stored blocks, the encoder's fallback, take 65,672.
pub const TILE_STORED_BYTES_MAX: usize = 4 * TILE_RAW_BYTES;

/// Maximum raw bytes of a stored block, whose length has 16 bits.
pub const STORED_BLOCK_RAW_BYTES_MAX: usize = 65_535;

/// Bits of a stored block in front of its bytes: final flag 1, type 2, length 16.
pub const STORED_BLOCK_HEADER_BITS: usize = 19;

/// Number of literal/length symbols that a code may define (the static code defines 286 and 287,
/// which must not be used).
pub const LITLEN_SYMBOL_COUNT: usize = 288;

/// Number of distance symbols; unlike in DEFLATE, all 32 are usable.
pub const DISTANCE_SYMBOL_COUNT: usize = 32;

/// Number of symbols of the precode, the code for the lengths of the other two codes.
pub const PRECODE_SYMBOL_COUNT: usize = 19;

/// Longest literal/length or distance codeword.
pub const CODEWORD_BITS_MAX: usize = 15;

/// Longest codeword of the precode.
pub const PRECODE_BITS_MAX: usize = 7;

/// Shortest match. The longest is 3 + 65,535 bytes in the format; no tile has room for it.
pub const MATCH_BYTES_MIN: usize = 3;

/// Maximum number of matches in one tile.
pub const TILE_MATCH_COUNT_MAX: usize = TILE_RAW_BYTES / MATCH_BYTES_MIN;

/// Base lengths, minus 3, of the length symbols 257..=285.
pub const LENGTH_BASE: [u16; 29] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
    160, 192, 224, 0,
];

/// Extra bits of the length symbols 257..=285.
pub const LENGTH_EXTRA: [u16; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 16,
];

/// Base distances, minus 1, so that all 32 fit 16 bits with their extra bits added.
pub const DISTANCE_BASE: [u16; DISTANCE_SYMBOL_COUNT] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Extra bits of the distance symbols.
pub const DISTANCE_EXTRA: [u16; DISTANCE_SYMBOL_COUNT] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13, 14, 14,
];

/// The order in which a dynamic header states the precode's lengths.
pub const PRECODE_ORDER: [u8; PRECODE_SYMBOL_COUNT] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// The literal/length symbol that ends a block.
pub const END_OF_BLOCK: usize = 256;

// A turn never takes more bits than a refilled lane is guaranteed to hold.
const _: () = assert!(CODEWORD_BITS_MAX + 16 <= 32 && CODEWORD_BITS_MAX + 14 <= 32);
// Positions, lengths minus 3 and distances minus 1 fit 16 bits.
const _: () = assert!(TILE_RAW_BYTES - 1 == u16::MAX as usize);
const _: () = assert!(DISTANCE_BASE[31] as usize + (1 << 14) - 1 == u16::MAX as usize);
// The most expensive encoding without block headers, 20 bits per byte, is accepted.
const _: () = assert!(TILE_RAW_BYTES * 20 / 8 < TILE_STORED_BYTES_MAX);

/// Bits of the stored blocks that hold `raw_len` bytes: one empty block for 0.
pub(crate) const fn stored_bits(raw_len: usize) -> usize {
    let blocks = raw_len.div_ceil(STORED_BLOCK_RAW_BYTES_MAX);
    8 * raw_len + STORED_BLOCK_HEADER_BITS * if blocks == 0 { 1 } else { blocks }
}

/// Returns an upper bound of the stored bytes of a tile with `raw_len` bytes in stored blocks only:
/// with B bits in the tile, the worst distribution over the lanes takes `4 * (B / 32 + 64)` bytes.
#[must_use]
pub const fn tile_stored_bytes_bound(raw_len: usize) -> usize {
    WORD_BYTES * (stored_bits(raw_len) / 32 + 2 * LANE_COUNT)
}

/// Returns the maximum number of bytes that [`compress`](crate::compress) can return for `raw_len`
/// raw bytes at any level. Saturates instead of overflowing.
#[must_use]
pub const fn compress_bound(raw_len: usize) -> usize {
    let full = raw_len / TILE_RAW_BYTES;
    let rest = raw_len % TILE_RAW_BYTES;
    let mut bound = full
        .saturating_mul(tile_stored_bytes_bound(TILE_RAW_BYTES) + TABLE_ENTRY_BYTES)
        .saturating_add(HEADER_BYTES);
    if rest > 0 {
        bound = bound.saturating_add(tile_stored_bytes_bound(rest) + TABLE_ENTRY_BYTES);
    }
    bound
}
