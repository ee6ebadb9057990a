//! Files: opening, identity, alignment, and the operations on names.
//!
//! A [`FileSystem`] is what the engine's workers call; [`OsFileSystem`] is the system's own, the
//! simulated disk of the tests has another. Calls may block and are made on workers only, except
//! [`FileSystem::cached`] and, on mounts that cannot hang, [`FileSystem::len`], which cost under a
//! microsecond, and [`FileSystem::read_cached`].

use std::path::{Path, PathBuf};

use crate::device::{Descriptor, OwnedDescriptor};
use crate::error::{Errno, IoError};
use crate::limits::CACHED_EIGHTHS;

mod atomic;
pub mod file;
pub mod local;
pub mod names;
pub mod probe;
mod temporary;
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

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// Open for writing as well (else read only).
    pub write: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Truncate it to length 0.
    pub truncate: bool,
    /// With `create`: fail if the name exists, even as a symbolic link.
    pub exclusive: bool,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
}

impl OpenMode {
    /// Returns the mode that reopens the same file: it must exist, and keeps its content.
    #[must_use]
    pub fn again(self) -> OpenMode {
        OpenMode {
            create: false,
            exclusive: false,
            truncate: false,
            ..self
        }
    }

    /// Checks for modes in which no file can be opened.
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
    /// Decided per block: cached ranges are read from the cache, large cold ones bypass it, small
    /// cold ones go through it.
    #[default]
    Auto,
    /// Always bypass the cache; an error where the file system cannot.
    Direct,
    /// Always through the cache.
    Buffered,
}

/// The kind of mount that a file is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MountKind {
    /// A disk of this machine.
    Local,
    /// Memory (tmpfs, ramfs): no direct I/O, no waiting.
    Memory,
    /// FUSE, NFS, CIFS, 9p and the like: a read may hang forever.
    Slow,
}

/// Identifies a file and its state, to detect that a name now refers to another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Time of last modification, in nanoseconds since 1970.
    pub modified_ns: i128,
}

/// The alignment that direct I/O requires of an operation on a file: powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectAlignment {
    /// Alignment of memory addresses.
    pub memory: u32,
    /// Alignment of file offsets and lengths.
    pub offset: u32,
}

impl DirectAlignment {
    /// Returns the same alignment for memory and for the file.
    #[must_use]
    pub const fn both(bytes: u32) -> DirectAlignment {
        DirectAlignment {
            memory: bytes,
            offset: bytes,
        }
    }
}

/// What device and inode number say on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// They name a file as long as it exists, and later files get other numbers, another generation
    /// or another time of birth: ext4, xfs, btrfs, f2fs, tmpfs; NTFS, ReFS; APFS.
    Stable,
    /// As `Other`; besides, descriptors that were opened before the first open for writing lead to
    /// another file than later ones (overlay).
    Layered,
    /// Nothing for certain: they may be made anew when the kernel forgets a file (FUSE, network,
    /// FAT).
    #[default]
    Other,
}

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// Closed by [`FileSystem::close`].
    pub descriptor: OwnedDescriptor,
    /// Length in bytes.
    pub len: u64,
    /// Identifies the file and its state.
    pub identity: Identity,
    /// Whether the identity's numbers name the file for certain.
    pub numbering: Numbering,
    /// When the file was made, in nanoseconds since 1970, if the file system says so.
    pub birth_ns: Option<i128>,
    /// Number of its mount (the device number of the file system), never 0.
    pub mount: u64,
    /// Kind of its mount.
    pub mount_kind: MountKind,
    /// The alignment that direct I/O requires; `None` where there is no direct I/O.
    pub direct: Option<DirectAlignment>,
    /// Whether its disk is rotating, so that seeks are expensive.
    pub rotating: bool,
    /// On a rotating disk, the position of its first byte on the disk, if the system reports it.
    pub position: Option<u64>,
}

/// What identifies a file and its state: by this it is recognized when its path is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Device, inode and time of the last modification.
    pub identity: Identity,
    /// Whether the identity's numbers name the file for certain.
    pub numbering: Numbering,
    /// Length in bytes.
    pub len: u64,
    /// When the file was made, if the file system says so.
    pub birth_ns: Option<i128>,
    /// Tells files apart that had the same inode number one after the other, if the file system has
    /// generations and was asked.
    pub generation: Option<u32>,
}

impl Known {
    /// Returns what is known of a file that was opened.
    #[must_use]
    pub fn of(opened: &Opened) -> Known {
        Known {
            identity: opened.identity,
            numbering: opened.numbering,
            len: opened.len,
            birth_ns: opened.birth_ns,
            generation: None,
        }
    }

    /// Returns whether another look found the same file, by the numbering of `self`. Where numbers
    /// are stable, it has the same device, inode and generation or, if either look did not ask for
    /// that, the same time of birth. Elsewhere it has the same length and time of modification, or
    /// device, inode and a known time of birth.
    #[must_use]
    pub fn is_same(&self, found: &Known) -> bool {
        let (known, other) = (self.identity, found.identity);
        let is_numbered = (known.device, known.inode) == (other.device, other.inode);
        let births = self.birth_ns.zip(found.birth_ns);
        let was_born = births.map(|(known, other)| known == other);
        match self.numbering {
            Numbering::Stable => {
                let generations = self.generation.zip(found.generation);
                let is_generation = generations.map(|(known, other)| known == other);
                is_numbered && is_generation.or(was_born).unwrap_or(true)
            }
            Numbering::Layered | Numbering::Other => {
                let is_unchanged = self.len == found.len && known.modified_ns == other.modified_ns;
                is_unchanged || is_numbered && was_born == Some(true)
            }
        }
    }
}

/// Opens, closes, renames and removes files. Shared by all workers.
pub trait FileSystem: Send + Sync {
    /// Opens a regular file or, on Linux, a block device. Never waits on a FIFO; refuses terminals.
    ///
    /// # Errors
    /// The system's error with its likely cause; `EISDIR` for directories, `ENXIO` with a cause in
    /// words for FIFOs, sockets and character devices; `EINVAL` for `direct` where it is not
    /// supported (a file that `create` made then remains, empty).
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError>;

    /// Closes a file. Errors of the close (of delayed writes) are reported.
    ///
    /// # Errors
    /// The system's error; the descriptor is closed in any case.
    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError>;

    /// Returns how many of `len` bytes at `offset` are in the page cache, if the system reports it
    /// (`cachestat`; without it, 0 or `len` by a NOWAIT read of the first byte).
    fn cached(&self, descriptor: Descriptor, offset: u64, len: u64) -> Option<u64>;

    /// Returns the current length of an open file.
    ///
    /// # Errors
    /// The system's error.
    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError>;

    /// Returns what identifies an open file, with its generation if it has one.
    ///
    /// # Errors
    /// The system's error; `ENOSYS` (the default) if the file system has no such answer.
    fn known(&self, _descriptor: Descriptor) -> Result<Known, IoError> {
        Err(IoError::new("statx", Errno::UNSUPPORTED))
    }

    /// Returns what identifies the file that a path leads to, without its generation.
    ///
    /// # Errors
    /// As [`FileSystem::known`].
    fn known_at(&self, _path: &Path) -> Result<Known, IoError> {
        Err(IoError::new("statx", Errno::UNSUPPORTED))
    }

    /// Returns a path that leads to the same file once the process has another current folder, if
    /// `path` does not. Takes one system call for relative paths, none for others.
    fn anchored(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// Reads at an offset, blocking, on the calling thread; short only at the end of the file. For
    /// headers and tables, outside the engine.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError>;

    /// Reads at an offset what is in the page cache, without waiting for the disk; short where the
    /// cache or the file ends. `None`: the system cannot tell without waiting.
    fn read_cached(&self, descriptor: Descriptor, offset: u64, into: &mut [u8]) -> Option<usize>;

    /// Writes all of `bytes` at an offset, blocking, on the calling thread.
    ///
    /// # Errors
    /// The system's error; a part may have been written.
    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Makes the file's data durable (on Linux by `fdatasync` where `data_only`, else `fsync`).
    ///
    /// # Errors
    /// The system's error.
    fn sync(&self, descriptor: Descriptor, data_only: bool) -> Result<(), IoError>;

    /// Renames a file, and makes the rename durable by syncing the target's folder.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError>;

    /// Replaces the content of `path` atomically: writes a new file, syncs it, renames it, syncs
    /// the folder. At any moment a reader, or a restart after a crash, sees the old content or the
    /// new. On error nothing is left behind.
    ///
    /// # Errors
    /// The system's error.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, path: &Path) -> Result<(), IoError>;
}

/// Whether enough of a range of `len` bytes is cached (`cached`, as [`FileSystem::cached`] returns
/// it) to read it from the page cache: 7/8 of it.
#[must_use]
pub fn mostly(cached: Option<u64>, len: u64) -> bool {
    cached.is_some_and(|cached| {
        u128::from(cached) * 8 >= u128::from(len) * u128::from(CACHED_EIGHTHS)
    })
}

/// Whether a call failed because this process or the system has no file descriptor left (`EMFILE`,
/// `ENFILE`), so that closing files helps.
#[must_use]
pub fn is_out_of_descriptors(error: &IoError) -> bool {
    OUT_OF_DESCRIPTORS.contains(&error.errno.0)
}

/// Has Linux make room for `count` descriptors of the process at once. Its table grows by doubling,
/// and in a process with threads each growth takes milliseconds (a grace period of RCU), for which
/// opens wait; so does this call (see [`is_alone`](crate::thread::is_alone)). Where the system
/// refuses, nothing is changed.
pub fn reserve_descriptors(count: usize) {
    #[cfg(target_os = "linux")]
    if let Ok(number) = i32::try_from(count)
        && let Ok(any) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
    {
        // The copy is closed at once.
        let _ = rustix::io::fcntl_dupfd_cloexec(any, number);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = count;
}

/// Returns the error of `call`, with its usual cause.
fn explain(call: &'static str, errno: impl Into<Errno>) -> IoError {
    let errno = errno.into();
    IoError::because(call, errno, os::likely(errno))
}

#[cfg(unix)]
const OUT_OF_DESCRIPTORS: [i32; 2] = [libc::EMFILE, libc::ENFILE];
#[cfg(windows)]
const OUT_OF_DESCRIPTORS: [i32; 1] =
    [windows_sys::Win32::Foundation::ERROR_TOO_MANY_OPEN_FILES as i32];

/// Reads at an offset; short only at the end of the file.
fn read_all_at(
    offset: u64,
    into: &mut [u8],
    read_at: impl Fn(&mut [u8], u64) -> Result<usize, Errno>,
) -> Result<usize, IoError> {
    let mut done = 0;
    while done < into.len() {
        let at = end_of("read", offset, done)?;
        match read_at(&mut into[done..], at) {
            Ok(0) => break,
            Ok(read) => done += read,
            // A direct read that reached the end of the file ends at an offset where no direct read
            // may start.
            Err(Errno::INVALID) if done > 0 => break,
            Err(Errno::INVALID) => {
                let cause = "an offset beyond any file, or a direct read that is not aligned";
                return Err(IoError::because("read", Errno::INVALID, cause));
            }
            Err(errno) => return Err(explain("read", errno)),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at an offset.
fn write_all_at(
    offset: u64,
    bytes: &[u8],
    write_at: impl Fn(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), IoError> {
    let mut done = 0;
    while done < bytes.len() {
        let at = end_of("write", offset, done)?;
        match write_at(&bytes[done..], at) {
            Ok(0) => {
                return Err(IoError::because(
                    "write",
                    Errno::IO,
                    "the file system took no bytes",
                ));
            }
            Ok(written) => done += written,
            Err(errno) => return Err(explain("write", errno)),
        }
    }
    Ok(())
}

fn end_of(call: &'static str, offset: u64, done: usize) -> Result<u64, IoError> {
    let end = offset.checked_add(done as u64);
    end.ok_or_else(|| IoError::because(call, Errno::TOO_LARGE, "the range ends beyond any file"))
}

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
    fn a_file_is_recognized_by_what_its_file_system_keeps() {
        let known = |numbering, inode, modified_ns, birth_ns, generation| Known {
            identity: Identity {
                device: 1,
                inode,
                modified_ns,
            },
            numbering,
            len: 10,
            birth_ns,
            generation,
        };
        let is_same = |numbering, one: (u64, i128, _, _), two: (u64, i128, _, _)| {
            let known = |(inode, modified_ns, birth_ns, generation)| {
                known(numbering, inode, modified_ns, birth_ns, generation)
            };
            known(one).is_same(&known(two))
        };
        use Numbering::{Layered, Other, Stable};
        let (one, two) = (Some(1), Some(2));
        // Changed in place, or its number is given to another file.
        assert!(is_same(Stable, (7, 1, None, one), (7, 2, None, one)));
        assert!(!is_same(Stable, (7, 1, Some(5), one), (7, 1, Some(5), two)));
        assert!(!is_same(
            Stable,
            (7, 1, Some(5), None),
            (7, 1, Some(6), two)
        ));
        assert!(is_same(Stable, (7, 1, Some(5), one), (7, 2, Some(5), None)));
        assert!(!is_same(Stable, (7, 1, None, None), (8, 1, None, None)));
        for other in [Layered, Other] {
            // Numbered anew, changed without a time of birth, and with one.
            assert!(is_same(other, (7, 1, None, None), (8, 1, Some(5), None)));
            assert!(!is_same(other, (7, 1, None, None), (7, 2, None, None)));
            assert!(is_same(other, (7, 1, Some(5), None), (7, 2, Some(5), None)));
            assert!(!is_same(
                other,
                (7, 1, Some(5), None),
                (7, 2, Some(6), None)
            ));
        }
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
