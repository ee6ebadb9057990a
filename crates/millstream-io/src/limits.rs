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

const _: () = assert!(SEGMENTS_MAX <= 1024);
const _: () = assert!(MEMORY_ALIGNMENT.is_power_of_two());
