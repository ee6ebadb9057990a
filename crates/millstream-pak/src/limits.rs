//! Every bound of packages, with its arithmetic.

/// Bytes of a page: the unit in which sections are hashed and read on their first touch. At 2 GB/s
/// of BLAKE3 a first touch costs about 30 µs.
pub const PAGE_BYTES: usize = 64 << 10;

/// Bytes of a metadata record. A record never crosses a page, so that it is used in place.
pub const METADATA_BYTES_MAX: usize = 48 << 10;

/// Most bytes of an entry's front that a describer may ask for. The largest JSON part of a scene
/// that we know of has 8 MB.
pub const DESCRIBE_HEAD_BYTES_MAX: usize = 32 << 20;

/// Mip levels of an image; 2^31 texels on a side have 32.
pub const MIP_LEVELS_MAX: usize = 32;

const _: () = assert!(METADATA_BYTES_MAX <= PAGE_BYTES);
