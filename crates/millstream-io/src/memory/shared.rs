//! Memory that processes share: a file of a file system in memory, mapped by each of them.
//!
//! Processes agree by its words and by locks. A lock is of the open file (`F_OFD_SETLK`), so the
//! kernel releases it when its process ends, however it ends; a child that was forked meanwhile
//! keeps it until it ends, too, or starts a program.
//!
//! # Safety
//! A mapping is owned from `open` to the drop. Its length is that of the file, which must not be
//! truncated: only this user can, and a process of this user that wants to harm this one has other
//! ways. Words are atomic. Other bytes are given out by unsafe calls alone, whose callers promise
//! that no process writes what another uses.
#![expect(
    unsafe_code,
    reason = "maps a file and hands out parts of it; see the section Safety of this file"
)]

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::mm::{MapFlags, ProtFlags};

use super::{Destination, Place};
use crate::error::{Errno, IoError};

/// A file in memory, which processes of one user find by its path. It is mapped once it has a
/// length. May be used from several threads.
pub struct SharedMemory {
    file: File,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: it hands out atomic words, and other memory by unsafe calls only.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// How a byte of the file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteLock {
    /// Not at all.
    None,
    /// By this open file and others.
    Shared,
    /// By this open file alone.
    Exclusive,
}

impl SharedMemory {
    /// Returns the path at which processes of this user find each other by a name without slashes.
    #[must_use]
    pub fn path_of(name: &str) -> PathBuf {
        let user = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/dev/shm/{user}-{name}"))
    }

    /// Opens a file, which is made if it is missing. Nothing is mapped yet. Blocks.
    ///
    /// # Errors
    /// The system's error; `EACCES` for what is no file of this user alone.
    pub fn open(path: &Path) -> Result<SharedMemory, IoError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| {
            rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)
        });
        let file = opened.map_err(|errno| IoError::new("open", errno))?;
        let about = rustix::fs::fstat(&file).map_err(|errno| IoError::new("fstat", errno))?;
        let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        let is_own = about.st_uid == rustix::process::geteuid().as_raw();
        if !is_file || !is_own || about.st_mode & 0o077 != 0 {
            let cause = "it is no file that only this user can read and write";
            return Err(IoError::because("open", Errno(libc::EACCES), cause));
        }
        Ok(SharedMemory {
            file: File::from(file),
            base: NonNull::dangling(),
            len: 0,
        })
    }

    /// Returns the file, whose locks are shared by all descriptors that are made of it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether the path still leads to this file: another process may have removed it.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let own = rustix::fs::fstat(&self.file);
        let found = rustix::fs::lstat(path);
        own.ok()
            .zip(found.ok())
            .is_some_and(|(own, found)| (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino))
    }

    /// Returns the length of the file.
    pub fn file_len(&self) -> Result<u64, IoError> {
        let about = rustix::fs::fstat(&self.file);
        let about = about.map_err(|errno| IoError::new("fstat", errno))?;
        Ok(about.st_size as u64)
    }

    /// Empties the file and gives it a length; all its bytes are zero.
    ///
    /// # Errors
    /// The system's error.
    ///
    /// # Safety
    /// No process has it mapped.
    pub unsafe fn resize(&self, len: usize) -> Result<(), IoError> {
        let truncated = rustix::fs::ftruncate(&self.file, 0)
            .and_then(|()| rustix::fs::ftruncate(&self.file, len as u64));
        truncated.map_err(|errno| IoError::new("ftruncate", errno))
    }

    /// Maps the file.
    ///
    /// # Errors
    /// `EINVAL` if it has another length; the system's error.
    pub fn map(&mut self, len: usize) -> Result<(), IoError> {
        assert!(self.len == 0, "it is mapped once");
        if len == 0 || self.file_len()? != len as u64 {
            let cause = "the shared file has another length";
            return Err(IoError::because("mmap", Errno::INVALID, cause));
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, &self.file, 0) };
        let base = base.map_err(|errno| IoError::new("mmap", errno))?;
        let base = NonNull::new(base.cast());
        self.base = base.ok_or(IoError::new("mmap", Errno::INVALID))?;
        self.len = len;
        Ok(())
    }

    /// Has the file system provide memory for a range of the file, so that touching it cannot fail.
    ///
    /// # Errors
    /// `ENOSPC` if there is not so much; the system's error.
    pub fn allocate(&self, range: Range<usize>) -> Result<(), IoError> {
        let (at, len) = (range.start as u64, range.len() as u64);
        let allocated =
            retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, len));
        allocated.map_err(|errno| IoError::new("fallocate", errno))
    }

    /// Locks a byte of the file, which may be beyond its end, as `lock` says; returns whether it
    /// could. Never waits. An open file has one lock of a byte: another replaces it.
    pub fn lock(&self, byte: u64, lock: ByteLock) -> Result<bool, IoError> {
        // SAFETY: zeros are a value of this struct of numbers.
        let mut about: libc::flock = unsafe { std::mem::zeroed() };
        about.l_type = match lock {
            ByteLock::None => libc::F_UNLCK,
            ByteLock::Shared => libc::F_RDLCK,
            ByteLock::Exclusive => libc::F_WRLCK,
        } as libc::c_short;
        about.l_whence = libc::SEEK_SET as libc::c_short;
        (about.l_start, about.l_len) = (byte as libc::off_t, 1);
        // SAFETY: the system reads one struct of this type.
        let done =
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const about) };
        match (done, Errno::last()) {
            (0, _) => Ok(true),
            (_, Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
            (_, errno) => Err(IoError::new("fcntl", errno)),
        }
    }

    /// Returns word `index` of the mapping.
    ///
    /// # Panics
    /// If the mapping ends before.
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.len / 4, "a word of the mapping");
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; all processes
        // use words as atomics.
        unsafe { AtomicU32::from_ptr(self.base.cast::<u32>().add(index).as_ptr()) }
    }

    /// Returns bytes of the mapping.
    ///
    /// # Panics
    /// If the mapping ends before.
    ///
    /// # Safety
    /// No process writes them while they are referenced.
    #[must_use]
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.check(&range);
        // SAFETY: inside the mapping; the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.add(range.start).as_ptr(), range.len()) }
    }

    /// Returns a range of the mapping as memory to read into. It keeps the mapping.
    ///
    /// # Panics
    /// If the mapping ends before.
    ///
    /// # Safety
    /// Nothing else, in no process, uses the range until what is returned is dropped.
    #[must_use]
    pub unsafe fn part(self: &Arc<Self>, range: Range<usize>) -> SharedPart {
        self.check(&range);
        SharedPart {
            memory: Arc::clone(self),
            range,
        }
    }

    fn check(&self, range: &Range<usize>) {
        let is_inside = range.start <= range.end && range.end <= self.len;
        assert!(is_inside, "a range of the mapping");
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the whole mapping, which nothing refers to any more. It cannot fail.
            let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

debug!(SharedMemory, it: len = it.len);

/// A range of shared memory that bytes are read into.
#[derive(Debug)]
pub struct SharedPart {
    memory: Arc<SharedMemory>,
    range: Range<usize>,
}

// SAFETY: `SharedMemory::part` has its caller promise that nothing else uses the range, which the
// part keeps mapped, and which does not move.
unsafe impl Destination for SharedPart {
    fn place(&mut self) -> Place {
        // SAFETY: inside the mapping.
        let pointer = unsafe { self.memory.base.add(self.range.start) };
        Place::Host {
            pointer: pointer.as_ptr(),
            len: self.range.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_opens_of_a_file_share_words_and_exclude_each_other_by_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let mut one = SharedMemory::open(&path).unwrap();
        // SAFETY: nothing has mapped it.
        unsafe { one.resize(8192) }.unwrap();
        one.map(8192).unwrap();
        let mut other = SharedMemory::open(&path).unwrap();
        assert!(other.map(4096).is_err(), "another length");
        other.map(8192).unwrap();
        one.word(7).store(5, Ordering::Release);
        assert_eq!(other.word(7).load(Ordering::Acquire), 5);
        one.allocate(4096..8192).unwrap();

        let lock = |memory: &SharedMemory, lock| memory.lock(1 << 40, lock).unwrap();
        assert!(lock(&one, ByteLock::Exclusive) && !lock(&other, ByteLock::Shared));
        assert!(other.lock(3, ByteLock::Exclusive).unwrap(), "another byte");
        assert!(lock(&one, ByteLock::Shared) && lock(&other, ByteLock::Shared));
        assert!(!lock(&one, ByteLock::Exclusive));
        drop(other);
        assert!(lock(&one, ByteLock::Exclusive), "its lock went with it");

        let one = Arc::new(one);
        // SAFETY: nothing else uses these bytes.
        let mut part = unsafe { one.part(4096..4100) };
        let Place::Host { pointer, len } = part.place();
        // SAFETY: the place of `part`.
        unsafe { std::slice::from_raw_parts_mut(pointer, len) }.copy_from_slice(b"abcd");
        drop(part);
        // SAFETY: nothing writes them any more.
        assert_eq!(unsafe { one.bytes(4096..4100) }, b"abcd");
        assert!(one.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!one.is_at(&path));
    }

    #[test]
    fn what_others_could_write_is_refused() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open to all");
        std::fs::write(&path, b"").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let refused = |path: &Path| SharedMemory::open(path).map(drop).is_err();
        assert!(refused(&path) && refused(folder.path()));
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(refused(&link));
    }
}
