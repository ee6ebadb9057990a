//! System calls on files for which there is no safe binding.
//!
//! # Safety
//! Every call passes numbers, and addresses of values on the caller's stack of exactly the size
//! that the call is defined to use.
#![expect(
    unsafe_code,
    reason = "raw system calls; see the section Safety of this file"
)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Getter, Updater, opcode};

/// `cachestat` (6.5); the same number on every architecture but alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// `FIEMAP_EXTENT_UNKNOWN | DELALLOC | ENCODED | DATA_INLINE`: the extent has no meaningful
/// position on the disk.
const EXTENT_WITHOUT_POSITION: u32 = 0x2 | 0x4 | 0x8 | 0x200;

/// Returns the length of a block device in bytes.
pub(super) fn block_device_bytes(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    // `BLKGETSIZE64` is declared with size_t but writes a u64.
    const BLKGETSIZE64: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
    // SAFETY: BLKGETSIZE64 writes one u64.
    unsafe { rustix::ioctl::ioctl(file, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Returns the generation of a file: it tells files apart that had the same inode number one after
/// the other.
pub(super) fn generation(file: BorrowedFd<'_>) -> Result<u32, Errno> {
    // `FS_IOC_GETVERSION` is declared with long, but file systems write an int.
    const FS_IOC_GETVERSION: rustix::ioctl::Opcode = opcode::read::<libc::c_long>(b'v', 1);
    // SAFETY: FS_IOC_GETVERSION writes one int.
    unsafe { rustix::ioctl::ioctl(file, Getter::<FS_IOC_GETVERSION, u32>::new()) }
}

/// Returns the number of pages of the range that are in the page cache.
pub(super) fn cachestat(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    let range: [u64; 2] = [offset, len];
    // Pages cached, dirty, in write-back, evicted, recently evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: the kernel reads 16 bytes of `range` and writes 40 bytes of `counts`.
    let answer = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    };
    if answer == 0 {
        Ok(counts[0])
    } else {
        Err(last())
    }
}

/// `struct fiemap` with room for one `struct fiemap_extent`.
#[repr(C)]
#[derive(Default)]
struct FileMap {
    start: u64,
    len: u64,
    flags: u32,
    mapped_count: u32,
    extent_count: u32,
    reserved: u32,
    extent_logical: u64,
    extent_physical: u64,
    extent_len: u64,
    extent_reserved: [u64; 2],
    extent_flags: u32,
    extent_reserved_more: [u32; 3],
}

/// `struct fiemap` without extents, whose size is part of the request code.
type FileMapHead = [u64; 4];

const _: () = assert!(size_of::<FileMap>() == 32 + 56);

/// Returns the position of the file's first extent on its device, in bytes.
pub(super) fn first_extent(file: BorrowedFd<'_>) -> Option<u64> {
    const FS_IOC_FIEMAP: rustix::ioctl::Opcode = opcode::read_write::<FileMapHead>(b'f', 11);
    let mut map = FileMap {
        len: u64::MAX,
        extent_count: 1,
        ..FileMap::default()
    };
    // SAFETY: FS_IOC_FIEMAP reads and writes a struct fiemap with as many extents behind it as
    // extent_count says: one.
    let asked =
        unsafe { rustix::ioctl::ioctl(file, Updater::<FS_IOC_FIEMAP, FileMap>::new(&mut map)) };
    let found =
        asked.is_ok() && map.mapped_count == 1 && map.extent_flags & EXTENT_WITHOUT_POSITION == 0;
    found.then_some(map.extent_physical)
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
