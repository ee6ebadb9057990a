//! Every bound of this crate, in one place.

use std::time::Duration;

/// Batches in flight, each with an upload buffer and scratch.
pub const BATCHES: usize = 3;

/// Tiles of a batch.
pub const BATCH_TILES: usize = 64;

/// Bytes of a batch's upload buffer: stored bytes of tiles, and raw bytes to copy.
pub const UPLOAD_BYTES: usize = 8 << 20;

/// Raw bytes of a batch; bytes copied from imported staging take no room in the upload buffer.
pub const BATCH_BYTES: usize = 16 << 20;

/// Bytes of the pieces in which staging is imported, a size that drivers accept.
pub const IMPORT_BYTES: usize = 64 << 20;

/// Longest piece of raw bytes that is copied at once.
pub const COPY_BYTES: usize = 2 << 20;

/// Bytes that a piece may need in an upload buffer beyond its own, to align the next one to 4.
pub const PADDING_MAX: usize = 3;

/// How long a batch that is not full waits for more pieces.
pub const GATHER_WAIT: Duration = Duration::from_micros(200);

/// How often a wait for the device checks whether the device was lost.
pub const WAIT_SLICE: Duration = Duration::from_millis(100);

/// Pause before a wait that failed for lack of memory is repeated.
pub const WAIT_PAUSE: Duration = Duration::from_millis(1);

/// Time of nothing but such failures after which the device counts as lost.
pub const WAIT_RETRIES: Duration = Duration::from_secs(10);

/// After this many tiles that the device rejects but the CPU does not, the device decodes no more.
pub const DISAGREEMENTS_MAX: u64 = 3;

/// Raw bytes of a tile.
pub const TILE_BYTES: usize = 65536;

/// Maximum stored bytes of a tile that the device decodes.
pub const TILE_STORED_BYTES_MAX: usize = 4 * 65536;
