//! Properties of all files of a mount, queried once and cached.
//!
//! A mount is identified by the device number of its file system and its mount id. The device
//! number alone is not enough: file systems without a device get numbers that are reused after an
//! unmount, and a network mount must not be taken for the tmpfs whose number it got. Kernels from
//! 6.8 on have mount ids that are never reused.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::disk;
use crate::fs::{DirectAlignment, MountKind, Numbering};
use crate::limits::{MEMORY_ALIGNMENT, MOUNTS_REMEMBERED_MAX};
use crate::memory::Arena;

/// Smallest alignment of direct I/O: a sector.
const SECTOR_BYTES: usize = 512;

/// An alignment that is sufficient wherever direct I/O is possible.
const PAGE_ALIGNED: DirectAlignment = DirectAlignment::both(MEMORY_ALIGNMENT as u32);

/// Properties of all files of a mount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mount {
    pub(crate) kind: MountKind,
    /// The file system's magic number, as in `statfs`.
    pub(crate) magic: u64,
    pub(crate) numbering: Numbering,
    pub(crate) rotating: bool,
    /// Determined by trying, where the kernel does not report it per file; the inner `None`: there
    /// is no direct I/O.
    tried: Option<Option<DirectAlignment>>,
}

impl Mount {
    /// Describes a block device, which counts as a mount of its own, by its disk.
    pub(crate) fn of_block_device(disk: Option<&disk::Disk>) -> Mount {
        Mount {
            kind: MountKind::Local,
            magic: 0,
            numbering: Numbering::Stable,
            rotating: disk.is_some_and(|disk| disk.rotating),
            tried: None,
        }
    }
}

/// The mounts seen so far.
#[derive(Debug, Default)]
pub(crate) struct Mounts(RwLock<HashMap<(u64, u64), Mount>>);

impl Mounts {
    /// Returns the mount of an open file.
    pub(crate) fn of(&self, file: BorrowedFd<'_>, status: &Statx) -> Result<Mount, Errno> {
        let key = key(status);
        let remembered = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = remembered.get(&key) {
            return Ok(*mount);
        }
        drop(remembered);
        let magic = magic(file)?;
        let mount = Mount {
            kind: known(magic).1,
            magic,
            numbering: numbering(magic),
            rotating: disk_of(status).is_some_and(|disk| disk.rotating),
            tried: None,
        };
        self.remember(key, mount);
        Ok(mount)
    }

    /// Returns what direct I/O requires on an open regular file, or `None` where there is none.
    pub(crate) fn direct(
        &self,
        file: BorrowedFd<'_>,
        status: &Statx,
        mount: Mount,
    ) -> Option<DirectAlignment> {
        // Direct I/O on memory only costs speed (tmpfs accepts the flag since 6.6, and copies all
        // the same).
        if mount.kind == MountKind::Memory {
            return None;
        }
        if status.stx_mask & rustix::fs::StatxFlags::DIOALIGN.bits() != 0 {
            return (status.stx_dio_offset_align > 0).then_some(DirectAlignment {
                memory: status.stx_dio_mem_align.max(1),
                offset: status.stx_dio_offset_align,
            });
        }
        if let Some(found) = mount.tried {
            return found;
        }
        // A trial read may hang there, and such mounts are normally read buffered anyway.
        if mount.kind == MountKind::Slow {
            return None;
        }
        match try_direct(file, status.stx_size) {
            Tried::Known(found) => {
                let tried = Some(found);
                self.remember(key(status), Mount { tried, ..mount });
                found
            }
            Tried::TooShort => Some(PAGE_ALIGNED),
        }
    }

    fn remember(&self, key: (u64, u64), mount: Mount) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOUNTS_REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, mount);
    }
}

/// Returns the device number of the file system that a file is on.
pub(crate) fn device_number(status: &Statx) -> u64 {
    rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor)
}

fn key(status: &Statx) -> (u64, u64) {
    (device_number(status), status.stx_mnt_id)
}

/// Returns the magic number of the file system that a file is on.
fn magic(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    let status = rustix::io::retry_on_intr(|| rustix::fs::fstatfs(file))?;
    // The field's sign and width differ by architecture; the numbers are 32 bits wide.
    #[expect(clippy::cast_sign_loss, reason = "only the low 32 bits matter")]
    Ok(status.f_type as u64 & 0xffff_ffff)
}

/// Magic numbers of `linux/magic.h` (and of file systems outside the kernel), with their kind of
/// mount. Others count as local disks.
const KNOWN: [(u64, &str, MountKind); 25] = [
    (0x0102_1994, "tmpfs", MountKind::Memory),
    (0x8584_58f6, "ramfs", MountKind::Memory),
    (0x9584_58f6, "hugetlbfs", MountKind::Memory),
    (0x6573_5546, "fuse", MountKind::Slow),
    (0x0000_6969, "nfs", MountKind::Slow),
    (0xff53_4d42, "cifs", MountKind::Slow),
    (0xfe53_4d42, "smb2", MountKind::Slow),
    (0x0000_517b, "smb", MountKind::Slow),
    (0x0102_1997, "9p", MountKind::Slow),
    (0x00c3_6400, "ceph", MountKind::Slow),
    (0x5346_414f, "afs", MountKind::Slow),
    (0x7375_7245, "coda", MountKind::Slow),
    (0x0bd0_0bd0, "lustre", MountKind::Slow),
    (0x4750_4653, "gpfs", MountKind::Slow),
    (0x786f_4256, "vboxsf", MountKind::Slow),
    (0x0000_0187, "autofs", MountKind::Slow),
    (0x0000_ef53, "ext4", MountKind::Local),
    (0x5846_5342, "xfs", MountKind::Local),
    (0x9123_683e, "btrfs", MountKind::Local),
    (0xf2f5_2010, "f2fs", MountKind::Local),
    (0x2fc1_2fc1, "zfs", MountKind::Local),
    (0x794c_7630, "overlay", MountKind::Local),
    (0x0000_4d44, "vfat", MountKind::Local),
    (0x2011_bab0, "exfat", MountKind::Local),
    (0x7366_746e, "ntfs3", MountKind::Local),
];

/// Returns the name of a file system, if it is well known, and its kind of mount.
pub(crate) fn known(magic: u64) -> (Option<&'static str>, MountKind) {
    let known = KNOWN.iter().find(|known| known.0 == magic);
    known.map_or((None, MountKind::Local), |known| (Some(known.1), known.2))
}

fn numbering(magic: u64) -> Numbering {
    match known(magic).0 {
        Some("ext4" | "xfs" | "btrfs" | "f2fs" | "tmpfs") => Numbering::Stable,
        Some("overlay") => Numbering::Layered,
        _ => Numbering::Other,
    }
}

/// Returns the disk below the file system of a file. File systems that span devices (btrfs) have no
/// block device number; for them the mount table names one.
pub(crate) fn disk_of(status: &Statx) -> Option<disk::Disk> {
    if status.stx_dev_major != 0 {
        return disk::of_device(device_number(status));
    }
    let wanted = format!("{}:{}", status.stx_dev_major, status.stx_dev_minor);
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = table
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(&wanted))
        .and_then(|line| line.split(" - ").nth(1)?.split(' ').nth(1))
        .filter(|source| source.starts_with("/dev/"))?;
    let source = fs::metadata(source).ok()?;
    source
        .file_type()
        .is_block_device()
        .then(|| disk::of_device(source.rdev()))?
}

enum Tried {
    Known(Option<DirectAlignment>),
    /// Not determined: the file has no second page to read, or a call failed for another reason.
    TooShort,
}

/// Opens the file again for direct I/O, and reads a sector that is not aligned to a page, then one
/// that is.
fn try_direct(file: BorrowedFd<'_>, file_bytes: u64) -> Tried {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::DIRECT;
    let direct = match rustix::fs::open(name, flags, Mode::empty()) {
        Ok(direct) => direct,
        Err(Errno::INVAL) => return Tried::Known(None),
        Err(_) => return Tried::TooShort, // Not an answer: no descriptor left, no /proc.
    };
    if file_bytes < 2 * MEMORY_ALIGNMENT as u64 {
        return Tried::TooShort;
    }
    let reads = |alignment: usize| direct_read_works(direct.as_fd(), alignment);
    match [SECTOR_BYTES, MEMORY_ALIGNMENT].map(|alignment| (alignment, reads(alignment))) {
        [(alignment, Some(true)), _] | [_, (alignment, Some(true))] => {
            let alignment = u32::try_from(alignment).expect("at most a page");
            Tried::Known(Some(DirectAlignment::both(alignment)))
        }
        [(_, Some(false)), (_, Some(false))] => Tried::Known(None),
        _ => Tried::TooShort,
    }
}

/// Whether a direct read succeeds at `alignment`, but no multiple of it; `None` if it fails for
/// another reason.
fn direct_read_works(file: BorrowedFd<'_>, alignment: usize) -> Option<bool> {
    let mut arena = Arena::new(2 * MEMORY_ALIGNMENT, None).ok()?;
    let mut block = arena.take(2 * MEMORY_ALIGNMENT)?;
    let into = &mut block.as_mut_slice()[alignment % MEMORY_ALIGNMENT..][..alignment];
    let read = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *into, alignment as u64));
    arena.give(block);
    match read {
        Ok(_) => Some(true),
        Err(Errno::INVAL) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::status;
    use super::{Mount, Mounts, SECTOR_BYTES, Tried, try_direct};
    use crate::fs::MountKind;
    use crate::limits::{MEMORY_ALIGNMENT, MOUNTS_REMEMBERED_MAX};
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn trying_direct_io_agrees_with_what_the_kernel_tells() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 4 * MEMORY_ALIGNMENT]).unwrap();
        let about = status(file.as_file().as_fd()).unwrap();
        let mounts = Mounts::default();
        let mount = mounts.of(file.as_file().as_fd(), &about).unwrap();
        let told = mounts.direct(file.as_file().as_fd(), &about, mount);
        let short = matches!(try_direct(file.as_file().as_fd(), 0), Tried::TooShort);
        match try_direct(file.as_file().as_fd(), about.stx_size) {
            Tried::Known(found) => {
                assert_eq!(found.is_some(), told.is_some());
                let (Some(found), Some(told)) = (found, told) else {
                    return;
                };
                assert!(short, "an empty file tells nothing about alignment");
                // A device may accept less than a sector for memory; the alignment found by trying
                // is sufficient.
                assert!(found.memory >= told.memory && found.offset >= told.offset);
                assert!(found.offset as usize >= SECTOR_BYTES);
            }
            Tried::TooShort => println!("SKIP: no direct I/O to try in the temporary folder"),
        }
    }

    #[test]
    fn remembered_mounts_are_bounded() {
        let mounts = Mounts::default();
        let mount = Mount::of_block_device(None);
        for number in 0..3 * MOUNTS_REMEMBERED_MAX as u64 {
            mounts.remember((number, 0), mount);
            assert!(mounts.0.read().unwrap().len() <= MOUNTS_REMEMBERED_MAX);
        }
        assert_eq!(mount.kind, MountKind::Local);
    }
}
