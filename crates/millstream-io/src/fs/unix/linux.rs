//! The files of Linux.
//!
//! Opening costs three system calls: `openat`, one `statx` that returns everything at once (type,
//! length, identity, mount, direct alignment), and an `fcntl`. Files are opened with `O_NONBLOCK`,
//! so that a FIFO in the place of a file never makes a worker thread wait for its writer; the
//! `fcntl` removes the flag, because io_uring would fail with `EAGAIN` instead of reading from the
//! disk (on 5.10 always, later on file systems without `FMODE_NOWAIT`). It costs 0.2 µs; open and
//! close together cost 3.3 µs. Properties of a whole mount are looked up once (`linux/mount.rs`).
//!
//! Descriptors are plain numbers; their holder (the engine) counts their users.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::{Errno, retry_on_intr};

use super::refuse_type;
use crate::error::IoError;
use crate::fs::{self, Identity, MountKind, Numbering, OpenMode, Opened, explain};
pub(super) use cached::read as read_cached;
pub use cached::{cached_bytes, evict};

use cached::CacheProbe;
use mount::{Mount, Mounts};

mod cached;
mod call;
pub(in crate::fs) mod disk;
pub(in crate::fs) mod mount;

/// `STATX_MNT_ID_UNIQUE` (6.8): the mount id is never reused. Older kernels return the plain one.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;

/// Cached properties of mounts and of the kernel.
#[derive(Debug, Default)]
pub(super) struct Known {
    mounts: Mounts,
    cache: CacheProbe,
}

impl Known {
    /// See [`FileSystem::cached`](crate::FileSystem::cached).
    pub(super) fn cached(&self, file: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
        self.cache.cached(file, offset, len)
    }

    /// See [`FileSystem::known`](crate::FileSystem::known).
    pub(super) fn known(&self, file: BorrowedFd<'_>) -> Result<fs::Known, Errno> {
        let status = status(file)?;
        let numbering = self.mounts.of(file, &status)?.numbering;
        let mut known = known_by(&status, numbering);
        if numbering == Numbering::Stable {
            // Of those, tmpfs has none.
            known.generation = call::generation(file).ok();
        }
        Ok(known)
    }

    /// Returns the properties of a file that has just been opened, with its descriptor.
    pub(super) fn describe(&self, file: OwnedFd, mode: OpenMode) -> Result<Opened, IoError> {
        let status = status(file.as_fd()).map_err(|errno| explain("statx", errno))?;
        let is_block = match FileType::from_raw_mode(u32::from(status.stx_mode)) {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            other => return Err(refuse_type(other)),
        };
        let mount = if is_block {
            Mount::of_block_device(disk::of_device(own_device_number(&status)).as_ref())
        } else {
            self.mounts
                .of(file.as_fd(), &status)
                .map_err(|errno| explain("fstatfs", errno))?
        };
        let direct = self.mounts.direct(file.as_fd(), &status, mount);
        if mode.direct && direct.is_none() {
            return Err(refuse_direct(mount.kind));
        }
        rustix::fs::fcntl_setfl(&file, direct_flag(mode))
            .map_err(|errno| explain("fcntl", errno))?;
        let len = if is_block {
            call::block_device_bytes(file.as_fd())
                .map_err(|errno| explain("ioctl BLKGETSIZE64", errno))?
        } else {
            status.stx_size
        };
        let position = if mount.rotating && !is_block {
            call::first_extent(file.as_fd())
        } else {
            (mount.rotating && is_block).then_some(0)
        };
        Ok(Opened {
            descriptor: file.into(),
            len,
            identity: identity(&status),
            numbering: mount.numbering,
            birth_ns: birth_ns(&status),
            mount: mount_number(&status, is_block),
            mount_kind: mount.kind,
            direct,
            rotating: mount.rotating,
            position,
        })
    }
}

/// See [`FileSystem::known_at`](crate::FileSystem::known_at).
pub(super) fn known_at(path: &Path) -> Result<fs::Known, Errno> {
    let status =
        retry_on_intr(|| rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), WANTED))?;
    match FileType::from_raw_mode(u32::from(status.stx_mode)) {
        FileType::RegularFile => Ok(known_by(&status, Numbering::Other)),
        // The length of a device is not in its status.
        _ => Err(Errno::NOSYS),
    }
}

fn known_by(status: &Statx, numbering: Numbering) -> fs::Known {
    fs::Known {
        identity: identity(status),
        numbering,
        len: status.stx_size,
        birth_ns: birth_ns(status),
        generation: None,
    }
}

/// Whether `cachestat` works on an open file.
pub(in crate::fs) fn has_cachestat(file: BorrowedFd<'_>) -> bool {
    call::cachestat(file, 0, 1).is_ok()
}

/// Makes the data of a file durable.
pub(super) fn sync(file: BorrowedFd<'_>, data_only: bool) -> Result<(), IoError> {
    if data_only {
        retry_on_intr(|| rustix::fs::fdatasync(file)).map_err(|errno| explain("fdatasync", errno))
    } else {
        retry_on_intr(|| rustix::fs::fsync(file)).map_err(|errno| explain("fsync", errno))
    }
}

/// Returns the current length of an open file or block device.
pub(in crate::fs) fn len_of(file: BorrowedFd<'_>) -> Result<u64, IoError> {
    let status = rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno))?;
    if FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice {
        return call::block_device_bytes(file)
            .map_err(|errno| explain("ioctl BLKGETSIZE64", errno));
    }
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}

/// Returns everything that this crate needs to know about an open file, in one call.
pub(in crate::fs) fn status(file: BorrowedFd<'_>) -> Result<Statx, Errno> {
    retry_on_intr(|| rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED))
}

const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::BTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::MNT_ID)
    .union(StatxFlags::DIOALIGN)
    .union(StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE));

/// Returns the flag for opening a file for direct I/O.
pub(super) fn direct_flag(mode: OpenMode) -> OFlags {
    if mode.direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    }
}

fn identity(status: &Statx) -> Identity {
    Identity {
        device: mount::device_number(status),
        inode: status.stx_ino,
        modified_ns: nanoseconds(status.stx_mtime),
    }
}

fn nanoseconds(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn birth_ns(status: &Statx) -> Option<i128> {
    let is_known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_known.then(|| nanoseconds(status.stx_btime))
}

pub(in crate::fs) fn own_device_number(status: &Statx) -> u64 {
    rustix::fs::makedev(status.stx_rdev_major, status.stx_rdev_minor)
}

fn mount_number(status: &Statx, is_block: bool) -> u64 {
    let number = if is_block {
        own_device_number(status)
    } else {
        mount::device_number(status)
    };
    number.max(1) // 0 means no mount; no file system has the number 0:0.
}

fn refuse_direct(kind: MountKind) -> IoError {
    let cause = match kind {
        MountKind::Memory => "no direct I/O in a file system in memory",
        MountKind::Slow => "no direct I/O known on this network or FUSE mount",
        MountKind::Local => "the file system has no direct I/O for this file",
    };
    IoError::because("open", Errno::INVAL, cause)
}

/// Returns the error of a failed `open`. For some errors the cause depends on the file's type.
pub(super) fn explain_open(path: &Path, mode: OpenMode, errno: Errno) -> IoError {
    if path.as_os_str().as_bytes().contains(&0) {
        return IoError::because("open", errno, "the name holds a zero byte");
    }
    if errno != Errno::NXIO && errno != Errno::INVAL && errno != Errno::NODEV {
        return explain("open", errno);
    }
    let found = rustix::fs::stat(path).map(|status| FileType::from_raw_mode(status.st_mode));
    match found {
        Ok(FileType::RegularFile) | Err(_) if mode.direct && errno == Errno::INVAL => {
            refuse_direct(MountKind::Local)
        }
        Ok(FileType::BlockDevice) => {
            IoError::because("open", errno, "no disk is behind the block device")
        }
        Ok(FileType::RegularFile) | Err(_) => explain("open", errno),
        Ok(other) => refuse_type(other),
    }
}

#[cfg(test)]
mod tests {
    use super::call::first_extent;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::process::Command;

    fn run(program: &str, arguments: &[&str]) -> bool {
        Command::new(program)
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Writes `content` to a file in `folder`; returns the position of its first extent.
    fn write_and_locate(folder: &Path, content: &[u8]) -> Option<u64> {
        let path = folder.join("file");
        std::fs::write(&path, content).unwrap();
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        first_extent(file.as_fd())
    }

    #[test]
    fn first_extent_is_where_the_disk_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(8 << 20).unwrap();
        let disk = image.path().to_str().unwrap();
        let target = folder.path().to_str().unwrap();
        let made = run("mkfs.ext4", &["-q", "-O", "^inline_data", disk])
            && run("mount", &["-o", "loop", disk, target]);
        if !made {
            println!("SKIP: mounting an image needs root, mkfs.ext4 and loop devices");
            return;
        }
        let content: Vec<u8> = (0..8192_u32).map(|index| (index % 253) as u8).collect();
        let found = std::panic::catch_unwind(|| write_and_locate(folder.path(), &content));
        assert!(run("umount", &[target]));
        let position = found.unwrap().expect("ext4 tells where a synced file is");
        let mut stored = vec![0; content.len()];
        image
            .as_file()
            .read_exact_at(&mut stored, position)
            .unwrap();
        assert!(
            stored == content,
            "the file is not at {position} of its disk"
        );
    }
}
