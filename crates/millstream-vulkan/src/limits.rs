//! Every bound of this crate, in one place.

use std::time::Duration;

/// Batches in flight, each with an upload buffer and scratch.
pub const BATCHES: usize = 3;

/// Tiles of a batch.
pub const BATCH_TILES: usize = 64;

/// Bytes of a batch's upload buffer: stored bytes of tiles, and raw bytes to copy.
pub const UPLOAD_BYTES: usize = 8 << 20;

/// Raw bytes of a batch: what is copied from imported staging takes no room of the upload buffer.
pub const BATCH_BYTES: usize = 16 << 20;

/// Staging is imported in pieces of this size, which drivers take.
pub const IMPORT_BYTES: usize = 64 << 20;

/// Longest piece of raw bytes that is copied at once.
pub const COPY_BYTES: usize = 2 << 20;

/// What a piece may need in an upload buffer beyond its bytes: two texel blocks that become whole
/// with it, of at most 32 bytes, and three times what brings an offset to a multiple of 4 and of
/// such a block.
pub const PADDING_MAX: usize = 2 * 32 + 3 * 32;

/// A batch that is not full waits so long for more.
pub const GATHER_WAIT: Duration = Duration::from_micros(200);

/// A wait for the device looks so often whether it was lost.
pub const WAIT_SLICE: Duration = Duration::from_millis(100);

/// A wait that fails because it is out of memory is repeated after so long.
pub const WAIT_PAUSE: Duration = Duration::from_millis(1);

/// After so long of nothing but such failures the device counts as lost.
pub const WAIT_RETRIES: Duration = Duration::from_secs(10);

/// So many tiles that the device refuses and the CPU does not, and it decodes no more.
pub const DISAGREEMENTS_MAX: u64 = 3;

/// Raw bytes of a tile.
pub const TILE_BYTES: usize = 65536;

/// Longest tile that the device decodes, as it is stored.
pub const TILE_STORED_BYTES_MAX: usize = 4 * 65536;
