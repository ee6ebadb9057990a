//! Every bound of this crate, with its arithmetic.

/// Greatest width, height and depth: what the reference implementation holds in an `int`.
pub const DIMENSION_MAX: u32 = i32::MAX as u32;
/// Greatest maximal value of a sample, by the format.
pub const MAXVAL_MAX: u32 = 65_535;
/// Largest image in memory unless the caller says otherwise: 64 GiB. (Nothing is allocated before
/// the file is known to be long enough for what its header declares.)
pub const IMAGE_BYTES_MAX: u64 = 64 << 30;
/// Bytes of one line of a PAM header that is not a comment; the reference implementation has 256.
pub const PAM_LINE_BYTES_MAX: usize = 1024;
/// Bytes of a PAM tuple type, over all its lines: as the reference implementation.
pub const TUPLE_TYPE_BYTES_MAX: usize = 255;

/// Bytes of text that are read and parsed at a time: half of a second-level cache of 512 KiB, so
/// that the parser finds what the kernel has just copied. (Measured: 64 KiB to 512 KiB are within
/// 3 %, 1 MiB and more lose 10 % where that cache is small.)
pub const WINDOW_BYTES: usize = 256 << 10;
/// Bytes behind a window that are read too when several threads parse: the last number of the
/// window ends in them. Longer ones (only leading zeros make them so) are left to one thread.
pub const WINDOW_AFTER_BYTES: usize = 64;
/// Smallest text for which a second thread pays: starting one takes about 30 µs, in which one
/// thread parses 256 KiB.
pub const THREADED_BYTES_MIN: u64 = 1 << 20;
/// Most threads that parse one image: more than that and memory is the limit on any machine.
pub const THREADS_MAX: usize = 64;
/// Looks at whose turn it is before a thread sleeps: about 10 µs, as long as a window takes to be
/// read and counted; a wake costs as much.
pub const SPINS: usize = 256;
/// Bytes of text that the plain parser does before a kernel gets another chance.
pub const PLAIN_STEP_BYTES: usize = 256;
/// Longest rest of a piece that is copied, so that a kernel can convert it though it has no whole
/// blocks: three blocks cover what a kernel leaves where it lacks text, or room for a block's
/// samples.
pub const TAIL_BYTES: usize = 192;
/// Bytes of a huge page, on all systems that have them at all.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Room for the words that an allocator keeps beside memory that it maps.
pub const ALLOCATOR_BYTES: usize = 64;
/// Bytes of the first read of a file: the header and more, in one page.
pub const HEAD_BYTES: usize = 4096;

const _: () = assert!(WINDOW_AFTER_BYTES < WINDOW_BYTES);
const _: () = assert!(PLAIN_STEP_BYTES >= crate::kernel::BLOCK_BYTES);
