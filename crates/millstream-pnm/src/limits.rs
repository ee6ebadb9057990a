//! The limits of this crate, with their derivation.

/// Maximum width, height and depth: the reference implementation's `int`.
pub const DIMENSION_MAX: u32 = i32::MAX as u32;
/// Maximum of the maximal value of a sample, by the format.
pub const MAXVAL_MAX: u32 = 65_535;
/// Largest image in memory in bytes, 64 GiB; options can only lower it. (Memory is allocated only
/// for samples that the file's length can hold.)
pub const IMAGE_BYTES_MAX: u64 = 64 << 30;
/// Maximum bytes of a line of a PAM header, except comments; the reference implementation has 256.
pub const PAM_LINE_BYTES_MAX: usize = 1024;
/// Maximum bytes of a PAM tuple type over all its lines, as in the reference implementation.
pub const TUPLE_TYPE_BYTES_MAX: usize = 255;

/// Bytes of text read and parsed at a time: half of a second-level cache of 512 KiB, so that the
/// text is still in the cache when it is parsed. (Measured: 64 KiB to 512 KiB are within 3 %, 1 MiB
/// and more lose 10 % where that cache is small.)
pub const WINDOW_BYTES: usize = 256 << 10;
/// Bytes read past a window when several threads parse: the last number of the window ends in them.
/// Longer numbers (only leading zeros make them so long) are left to one thread.
pub const WINDOW_AFTER_BYTES: usize = 64;
/// Smallest text for which a second thread pays: starting one takes about 30 µs, in which one
/// thread parses 256 KiB.
pub const THREADED_BYTES_MIN: u64 = 1 << 20;
/// Maximum threads that parse one image: with more, memory bandwidth is the limit on any machine.
pub const THREADS_MAX: usize = 64;
/// Checks for its turn before a thread sleeps: about 10 µs, the time to read and count a window;
/// a wakeup costs as much.
pub const SPINS: usize = 256;
/// Bytes of text that the plain parser parses before a kernel is tried again.
pub const PLAIN_STEP_BYTES: usize = 256;
/// Longest rest of a piece that is copied, so that a kernel can convert it without whole blocks:
/// three blocks cover what a kernel leaves if it lacks text, or room for a block's samples.
pub const TAIL_BYTES: usize = 192;
/// Size of a huge page, as on x86-64 and on aarch64 with 4 KiB pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Room for the header that an allocator keeps with memory that it maps.
pub const ALLOCATOR_BYTES: usize = 64;
/// Bytes of the first read of a file larger than a window: one page, with the header and more.
pub const HEAD_BYTES: usize = 4096;

const _: () = assert!(WINDOW_AFTER_BYTES < WINDOW_BYTES);
const _: () = assert!(PLAIN_STEP_BYTES >= crate::kernel::BLOCK_BYTES);
