//! Every bound of scenes, with its arithmetic.

/// Largest JSON text. The richest scenes of public test sets have 2 MiB; a parsed element takes
/// about 100 bytes for some 20 of text, so this bounds the model to about 320 MiB.
pub const JSON_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a GLB that are read before its JSON's length is known. The JSON of nearly every GLB
/// ends within them, and a device of 3.5 GB/s reads them in 75 µs.
pub const GLB_HEAD_BYTES: u64 = 256 << 10;

/// Elements of one array of the JSON (accessors, nodes, ...).
pub const ELEMENTS_MAX: usize = 1 << 20;

/// Bytes of a place within the JSON, as errors and textures of materials name it. The longest of
/// all extensions of Khronos have less than 100.
pub const PLACE_BYTES_MAX: usize = 200;

/// Elements of one accessor: 2³¹ vertices are beyond what an index can address.
pub const ACCESSOR_COUNT_MAX: u64 = 1 << 31;

/// Bytes of an accessor of which none is stored (no view; zeros with sparse elements): 4 M vertices
/// of morph targets.
pub const ZEROS_BYTES_MAX: u64 = 64 << 20;

/// Requests of one load that have not ended. More only wait in longer queues: the device has 128
/// operations in flight.
pub const REQUESTS_MAX: usize = 1024;

/// Ranges of a buffer with at most so many unwanted bytes between them are read as one: the device
/// moves them in the time of one more request.
pub const GAP_BYTES_MAX: u64 = 64 << 10;

/// Pixels of one image, unless the application says otherwise: 8192 × 8192, 256 MiB as RGBA8.
pub const IMAGE_PIXELS_MAX_DEFAULT: u64 = 64 << 20;

/// Memory that any scene may take, unless the application says otherwise: a texture of 2048 × 2048
/// as RGBA8, and half as much again.
pub const SCENE_BYTES_FREE: u64 = 32 << 20;

/// Beside that, times the stored bytes of the scene's files. Photographs become some ten times as
/// long in memory; only textures of one color come near to the 1032 times of deflate. Files of 64
/// KiB may cost 56 MiB.
pub const SCENE_RATIO_MAX: u64 = 384;

/// Memory that a scene may take whose files have so many stored bytes, unless the application says
/// otherwise.
#[must_use]
pub fn scene_memory(stored_bytes: u64) -> u64 {
    stored_bytes
        .saturating_mul(SCENE_RATIO_MAX)
        .saturating_add(SCENE_BYTES_FREE)
}

/// At most what a JSON text takes in memory while it is parsed: each value in its array, as it is
/// in the JSON and as an element of the scene; each object with the least node of its tree.
#[must_use]
pub(crate) fn model_memory(json: &[u8]) -> u64 {
    let count = |wanted: u8| json.iter().filter(|&&byte| byte == wanted).count() as u64;
    json.len() as u64 + 320 * (count(b',') + count(b'[')) + 640 * count(b'{')
}

/// Bytes that any image may be decoded to: 4096 × 4096 as RGBA8, and work space. Beyond that
/// `ImageLimits::ratio_max` holds.
pub const IMAGE_BYTES_FREE: usize = 65 << 20;

/// Width or height of an image: what graphics APIs guarantee is 16384.
pub const IMAGE_SIDE_MAX: u32 = 1 << 16;

/// Raw bytes that one stored byte of deflate can make, at the very most (RFC 1951: 258 bytes from
/// two bits): a PNG that declares more is refused before memory is taken for it.
pub const DEFLATE_RATIO_MAX: u64 = 1032;

/// Levels up to this side count as the small ones: 64 × 64 as RGBA8 and all below are 22 KiB.
pub const SMALL_LEVEL_SIDE: u32 = 64;

/// Indices of one scene that are compared with its vertices: 1 GiB of them as `u32`, looked at in
/// about a tenth of a second.
pub const INDICES_MAX: u64 = 1 << 28;

/// Children of children of nodes; a deeper tree is a mistake or an attack.
pub const NODE_DEPTH_MAX: usize = 4096;

const _: () = assert!(GLB_HEAD_BYTES < JSON_BYTES_MAX);
