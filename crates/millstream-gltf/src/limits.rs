//! All limits of scenes, with their arithmetic.

/// Largest JSON text. The largest scenes of public test sets have 2 MiB; a parsed element takes
/// about 100 bytes for some 20 of text, so this bounds a valid model to about 320 MiB. An invalid
/// element is an error of some 300 bytes, whatever its text, bounded by [`ELEMENTS_MAX`] alone.
pub const JSON_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a GLB that are read before its JSON's length is known. The JSON of nearly every GLB
/// ends within them, and a device of 3.5 GB/s reads them in 75 µs.
pub const GLB_HEAD_BYTES: u64 = 256 << 10;

/// Maximum number of elements in one array of the JSON (accessors, nodes, ...), and of primitives
/// in all meshes together.
pub const ELEMENTS_MAX: usize = 1 << 20;

/// Longest path within the JSON, in bytes, in errors and texture slots. Khronos extensions have
/// paths of less than 100.
pub const PLACE_BYTES_MAX: usize = 200;

/// Maximum number of elements of one accessor; at 252 bytes, the largest stride, 504 GiB.
pub const ACCESSOR_COUNT_MAX: u64 = 1 << 31;

/// Largest accessor, in bytes, that has no stored bytes (no view; zeros with sparse elements): 5.5
/// million vertices of a morph target, of 12 bytes each.
pub const ZEROS_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of requests of one load in flight. More would only wait in longer queues: the
/// engine has 128 operations in flight by default.
pub const REQUESTS_MAX: usize = 1024;

/// Ranges of a buffer with at most this many unwanted bytes between them are read as one: the
/// device transfers them in the time of one more request.
pub const GAP_BYTES_MAX: u64 = 64 << 10;

/// Default of the largest number of pixels of one image: 8192 × 8192, 256 MiB as RGBA8.
pub const IMAGE_PIXELS_MAX_DEFAULT: u64 = 64 << 20;

/// Memory that any scene may take by default: two textures of 2048 × 2048 as RGBA8.
pub const SCENE_BYTES_FREE: u64 = 32 << 20;

/// Memory that a scene may take beyond [`SCENE_BYTES_FREE`], as a multiple of the stored bytes of
/// its files. Photographs grow some ten times when decoded; only textures of one color come near
/// deflate's 1032 times. Files of 64 KiB may take 56 MiB.
pub const SCENE_RATIO_MAX: u64 = 384;

/// Returns the default memory limit, in bytes, of a scene whose files have this many stored bytes.
#[must_use]
pub fn scene_memory(stored_bytes: u64) -> u64 {
    stored_bytes
        .saturating_mul(SCENE_RATIO_MAX)
        .saturating_add(SCENE_BYTES_FREE)
}

/// Returns an upper bound on the memory that parsing a JSON text takes: each value in its array,
/// both as in the JSON and as an element of the scene; each object with the smallest node of its
/// tree.
pub(crate) fn model_memory(json: &[u8]) -> u64 {
    let count = |wanted: u8| json.iter().filter(|&&byte| byte == wanted).count() as u64;
    json.len() as u64 + 320 * (count(b',') + count(b'[')) + 640 * count(b'{')
}

/// Bytes that any image may be decoded to: 4096 × 4096 as RGBA8, and work space. Larger ones are
/// subject to `ImageLimits::ratio_max`.
pub const IMAGE_BYTES_FREE: usize = 65 << 20;

/// Largest width or height of an image. Direct3D 12 devices guarantee 16384.
pub const IMAGE_SIDE_MAX: u32 = 1 << 16;

/// Largest ratio of deflate (RFC 1951: 258 bytes from two bits): a PNG that declares more raw bytes
/// is refused before memory is allocated for it.
pub const DEFLATE_RATIO_MAX: u64 = 1032;

/// Largest side of a small level: 64 × 64 as RGBA8 and all levels below are 22 KiB.
pub const SMALL_LEVEL_SIDE: u32 = 64;

/// Maximum number of indices of one scene that are checked against its vertices: 1 GiB as `u32`,
/// read in about a tenth of a second.
pub const INDICES_MAX: u64 = 1 << 28;

/// Maximum depth of the node tree; a deeper one is a mistake or an attack.
pub const NODE_DEPTH_MAX: usize = 4096;

const _: () = assert!(GLB_HEAD_BYTES < JSON_BYTES_MAX);
