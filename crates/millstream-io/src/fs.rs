//! Files: opening, identity, alignment, and the operations on names.
//!
//! A [`FileSystem`] is what the engine's workers call; [`OsFileSystem`] is the system's own, the
//! simulator brings another (`device::sim`). All calls may block and are made on workers only, but
//! for [`FileSystem::cached`], which costs under a microsecond.

use std::path::Path;

use crate::device::Descriptor;
use crate::error::{Errno, IoError};
use crate::limits::CACHED_EIGHTHS;

mod atomic;
pub mod file;
pub mod local;
pub mod names;
pub mod probe;
mod temporary;
mod transfer;
#[cfg(unix)]
mod unix;
pub mod view;
#[cfg(windows)]
mod windows;

pub use atomic::{AtomicFile, create_unnamed};
pub use local::LocalFile;
pub use os::{Folder, OsFileSystem, cached_bytes, evict};
pub use temporary::{TemporaryFile, abandon_temporary_files, is_temporary_name, remove_leftovers};
#[cfg(unix)]
use unix as os;
pub use view::MappedView;
#[cfg(windows)]
use windows as os;

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For writing as well (else read only).
    pub write: bool,
    /// Make the file if it does not exist.
    pub create: bool,
    /// Truncate it to length 0.
    pub truncate: bool,
    /// With `create`: fail if the name exists, even as a symbolic link.
    pub exclusive: bool,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
}

impl OpenMode {
    /// The mode that opens the same file again: it must exist, and keeps its bytes.
    #[must_use]
    pub fn again(self) -> OpenMode {
        OpenMode {
            create: false,
            exclusive: false,
            truncate: false,
            ..self
        }
    }

    /// Refuses modes that no file can be opened in.
    fn check(self) -> Result<(), IoError> {
        if self.truncate && !self.write {
            let cause = "a file can only be truncated if it is opened for writing";
            return Err(IoError::because("open", Errno::INVALID, cause));
        }
        Ok(())
    }
}

/// Whether reads go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Decided per block: cached ranges are read from the cache, large cold ones past it, small
    /// cold ones through it.
    #[default]
    Auto,
    /// Always past the cache; an error where the file system cannot.
    Direct,
    /// Always through the cache.
    Buffered,
}

/// What kind of mount a file is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MountKind {
    /// A disk of this machine.
    Local,
    /// Memory (tmpfs, ramfs): no direct I/O, no waiting.
    Memory,
    /// FUSE, NFS, CIFS, 9p and the like: a read may hang for ever.
    Slow,
}

/// Which file it is and which state of it, to notice that a name now means another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Last modification, nanoseconds since 1970.
    pub modified_ns: i128,
}

/// What direct I/O asks of an operation on a file: powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectAlignment {
    /// Alignment of memory addresses.
    pub memory: u32,
    /// Alignment of file offsets and lengths.
    pub offset: u32,
}

impl DirectAlignment {
    /// The same alignment of memory and of the file.
    pub(crate) const fn both(bytes: u32) -> DirectAlignment {
        DirectAlignment {
            memory: bytes,
            offset: bytes,
        }
    }
}

/// An open file.
#[derive(Debug, Clone)]
pub struct Opened {
    /// To be closed by [`FileSystem::close`].
    pub descriptor: Descriptor,
    /// Bytes.
    pub len: u64,
    /// Which file.
    pub identity: Identity,
    /// Number of its mount (the device number of the file system), not 0.
    pub mount: u64,
    /// Kind of its mount.
    pub mount_kind: MountKind,
    /// What direct I/O needs here; `None` where there is none.
    pub direct: Option<DirectAlignment>,
    /// Whether seeks cost on its disk.
    pub rotating: bool,
    /// On a rotating disk, the position of its first byte on the disk, if the system reports it.
    pub position: Option<u64>,
}

/// Opens, closes and names files. Shared by all workers.
pub trait FileSystem: Send + Sync {
    /// Opens a regular file or a block device. Never waits on a FIFO, never opens a terminal.
    ///
    /// # Errors
    /// The system's error with its likely cause; `EISDIR` for directories, `ENXIO` with a cause in
    /// words for FIFOs, sockets and character devices; `EINVAL` for `direct` where there is none (a
    /// file that `create` made stays then, empty).
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError>;

    /// Closes. Errors of close are reported (delayed write errors).
    ///
    /// # Errors
    /// What the system says; the descriptor is closed in any case.
    fn close(&self, descriptor: Descriptor) -> Result<(), IoError>;

    /// Returns how many of `len` bytes at `offset` are in the page cache, if the system reports it
    /// (`cachestat`; without it, 0 or `len` by a NOWAIT read of the first byte).
    fn cached(&self, descriptor: Descriptor, offset: u64, len: u64) -> Option<u64>;

    /// Current length of an open file.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError>;

    /// Reads at an offset, blocking, on the calling thread; short at the end only. For headers and
    /// tables, off the engine.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError>;

    /// Reads at an offset what of it is in the page cache, without waiting for the disk; short
    /// where the cache or the file ends. `None`: the system cannot say without waiting.
    fn read_cached(&self, descriptor: Descriptor, offset: u64, into: &mut [u8]) -> Option<usize>;

    /// Writes all of `bytes` at an offset, blocking, on the calling thread.
    ///
    /// # Errors
    /// What the system says; a part may have been written.
    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Makes the file's bytes durable (`fdatasync` where `data_only`).
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, descriptor: Descriptor, data_only: bool) -> Result<(), IoError>;

    /// Renames, and makes the rename durable by syncing the target's folder.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError>;

    /// Replaces the content of `path` as a whole: writes a new file, syncs, renames, syncs the
    /// folder. At any moment a reader, or a restart after a crash, sees the old content or the
    /// new one. On error nothing is left behind.
    ///
    /// # Errors
    /// What the system says.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> Result<(), IoError>;
}

/// Whether `cached` bytes of a range of `len` (as [`FileSystem::cached`] returns them) are enough
/// to read it from the page cache: 7/8 of it.
#[must_use]
pub fn mostly(cached: Option<u64>, len: u64) -> bool {
    cached.is_some_and(|cached| {
        u128::from(cached) * 8 >= u128::from(len) * u128::from(CACHED_EIGHTHS)
    })
}

/// Whether a call failed because this process or the system has no file descriptor left (`EMFILE`,
/// `ENFILE`): closing files helps.
#[must_use]
pub fn is_out_of_descriptors(error: &IoError) -> bool {
    OUT_OF_DESCRIPTORS.contains(&error.errno.0)
}

/// The error of `call`, with what usually is behind it.
fn explain(call: &'static str, errno: impl Into<Errno>) -> IoError {
    let errno = errno.into();
    IoError::because(call, errno, os::likely(errno))
}

#[cfg(unix)]
const OUT_OF_DESCRIPTORS: [i32; 2] = [libc::EMFILE, libc::ENFILE];
#[cfg(windows)]
const OUT_OF_DESCRIPTORS: [i32; 1] =
    [windows_sys::Win32::Foundation::ERROR_TOO_MANY_OPEN_FILES as i32];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_eighths_are_mostly() {
        assert!(mostly(Some(7), 8) && mostly(Some(0), 0));
        assert!(!mostly(Some(6), 8) && !mostly(None, 0));
        assert!(mostly(Some(u64::MAX), u64::MAX) && !mostly(Some(u64::MAX / 2), u64::MAX));
    }

    #[test]
    fn running_out_of_descriptors_is_told_from_other_errors() {
        let error = |errno| IoError::new("open", Errno(errno));
        for errno in OUT_OF_DESCRIPTORS {
            assert!(is_out_of_descriptors(&error(errno)));
        }
        assert!(!is_out_of_descriptors(&error(Errno::NOT_FOUND.0)));
    }

    #[test]
    fn the_system_tells_its_limits() {
        assert!(crate::limits::descriptors_max() >= 16);
        if let Some(bytes) = probe::machine().memory_bytes {
            let told = crate::limits::memory_bytes();
            assert!(told.abs_diff(bytes) <= bytes / 8, "{told}, not {bytes}");
        }
    }
}
