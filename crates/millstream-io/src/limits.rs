//! Every bound of this crate, with its arithmetic.

/// Most segments of one vectored operation. The kernel takes 1024 (`UIO_MAXIOV`); 32 segments of
/// the smallest block (4 KiB) already make an operation of 128 KiB, where the cost per byte is flat.
pub const SEGMENTS_MAX: usize = 32;

/// Most bytes of one operation. Linux cuts a read at 2 GiB − 4 KiB (`MAX_RW_COUNT`); the
/// scheduler splits far below that.
pub const OPERATION_BYTES_MAX: usize = 0x7fff_f000;

/// Alignment of every buffer and staging block: a page, which is a multiple of any logical block
/// size that direct I/O asks for on the devices we know (512 and 4096).
pub const MEMORY_ALIGNMENT: usize = 4096;

/// What the kernel can back with one huge page on x86-64, and on aarch64 with 4 KiB pages. Regions
/// of this size and more are aligned to it.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Longest region: a quarter of the address space of a pointer, so that rounding and the slack of the alignment never overflow.
pub const REGION_BYTES_MAX: usize = isize::MAX as usize / 2;

/// Staging of a storage unless it says otherwise: at 7 GB/s 18 ms of reading.
pub const ARENA_BYTES_DEFAULT: usize = 128 << 20;

/// Largest arena: 2^28 pages of 4 KiB, which the arena's numbers (u32) hold with room.
pub const ARENA_BYTES_MAX: usize = 1 << 40;

/// Largest piece of a slab; longer buffers have a region of their own.
pub const BUFFER_PIECE_MAX: usize = HUGE_PAGE_BYTES - HUGE_PAGE_BYTES / 8;

/// Slabs for pieces up to 256 KiB: one huge page, at most 1/8 of it unused at the end.
pub const SLAB_BYTES_SMALL: usize = HUGE_PAGE_BYTES;

/// Slabs for larger pieces: four huge pages, so that pieces of 1.25 MiB leave 1/16 unused, not 3/8.
pub const SLAB_BYTES_LARGE: usize = 4 * HUGE_PAGE_BYTES;

const _: () = assert!(ARENA_BYTES_MAX / MEMORY_ALIGNMENT <= u32::MAX as usize);
const _: () = assert!(ARENA_BYTES_DEFAULT.is_multiple_of(HUGE_PAGE_BYTES));
const _: () = assert!(BUFFER_PIECE_MAX <= SLAB_BYTES_LARGE / 4);
const _: () = assert!(SEGMENTS_MAX <= 1024);
const _: () = assert!(MEMORY_ALIGNMENT.is_power_of_two());
