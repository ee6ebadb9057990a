//! Bounds of this crate. Sizes are in bytes.

/// Bytes of each file that are read first. They hold the header of most files; those that need more
/// are read again, from the start.
pub const HEAD_BYTES: u64 = 1 << 20;

/// Maximum bytes of headers in flight at a time, unless a single one is longer.
pub const HEAD_WINDOW_BYTES: u64 = 64 << 20;

/// The longest header of a GGUF file. Its metadata holds the tokenizer, which has up to some 10^6
/// strings.
pub const GGUF_HEADER_BYTES_MAX: u64 = 1 << 30;

/// The longest header of a safetensors file, as in the reference implementation.
pub const SAFETENSORS_HEADER_BYTES_MAX: u64 = 100_000_000;

/// The longest `model.safetensors.index.json`.
pub const INDEX_BYTES_MAX: u64 = 100_000_000;

/// Maximum number of files of a model.
pub const FILES_MAX: usize = 16_384;

/// Maximum number of dimensions of a tensor, as in numpy 1 and torch. GGUF has at most
/// [`GGUF_DIMENSIONS_MAX`].
pub const DIMENSIONS_MAX: usize = 32;

/// Maximum number of dimensions in a GGUF file (`GGML_MAX_DIMS`).
pub const GGUF_DIMENSIONS_MAX: usize = 4;

/// The longest key or tensor name of a GGUF file.
pub const GGUF_NAME_BYTES_MAX: u64 = 65_535;

/// Maximum number of keys in the metadata of a GGUF file; models have less than a hundred.
pub const GGUF_KEYS_MAX: u64 = 1 << 16;

/// Maximum number of tensors of a GGUF file. A tensor takes up to 8 times its bytes in the header
/// as memory: 200 MB for so many.
pub const GGUF_TENSORS_MAX: u64 = 1 << 20;

/// Maximum depth of arrays of arrays in the metadata of a GGUF file.
pub const GGUF_ARRAY_DEPTH_MAX: u32 = 4;

/// Default of [`PlanOptions::bytes_max`](crate::PlanOptions::bytes_max).
pub const PLAN_BYTES_MAX_DEFAULT: u64 = 8 << 20;

/// Default of [`PlanOptions::gap_bytes_max`](crate::PlanOptions::gap_bytes_max). A disk reads so
/// many bytes in about the time that another operation takes.
pub const PLAN_GAP_BYTES_MAX_DEFAULT: u64 = 64 << 10;

/// Maximum bytes in flight in [`Model::read`](crate::Model::read), unless a single read is longer.
pub const READ_WINDOW_BYTES: u64 = 128 << 20;

/// Maximum number of reads in flight in [`Model::read`](crate::Model::read).
pub const READ_WINDOW_COUNT: usize = 1024;

/// Bytes of a file of a model that have a checksum of their own.
pub const CHECKED_BYTES: u64 = 1 << 20;

/// Maximum bytes of a model that is hashed, or shared by processes: a sparse file of any length
/// takes no room.
pub const MODEL_BYTES_MAX: u64 = 8 << 40;

/// The longest file of checksums, which is read as a whole: for models of up to 8 TiB.
pub const CHECKSUMS_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(PLAN_BYTES_MAX_DEFAULT.is_multiple_of(CHECKED_BYTES));

/// Bytes of a range that one process reads of a model that several load together.
pub const SHARED_RANGE_BYTES: u64 = 16 << 20;

/// The longest name of a group of processes that load a model together.
pub const SHARED_GROUP_BYTES_MAX: usize = 100;
