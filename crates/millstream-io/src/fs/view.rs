//! Memory-mapped files: read-only views.
//!
//! A view costs no copy and no memory of its own, but has two drawbacks. A page that is not in the
//! page cache is read when it is touched, one fault at a time, by the thread that touches it; so
//! [`MappedView::populate`] loads a range ahead, on a thread that may block. And the kernel reports
//! an error of such a read, or access to a page that the file has lost, only as SIGBUS; so making a
//! view is unsafe, and untrusted files should be read, not mapped.
//!
//! Populating reports such errors as values (`MADV_POPULATE_READ`, Linux 5.14). Where the system
//! lacks it, the range is read ahead instead, without waiting; touching the pages is no substitute,
//! since it could raise that SIGBUS.
//!
//! # Safety
//! A view owns its mapping from `map` to its drop. The caller of `map` promises that its bytes do
//! not change or vanish while they are referenced.
#![expect(
    unsafe_code,
    reason = "maps files and makes slices of them; see the section Safety of this file"
)]

use std::ops::{Deref, Range};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{FileSystem, OpenMode, OsFileSystem};
use crate::device::Descriptor;
use crate::error::{Errno, IoError};
use crate::limits::REGION_BYTES_MAX;

/// A memory-mapped range of a file. Dereferences to its bytes; unmapped when dropped. May be used
/// from several threads.
pub struct MappedView {
    /// Start of the mapping: the page in which the view begins.
    base: NonNull<u8>,
    /// Length of the mapping in bytes.
    mapped_bytes: usize,
    /// Offset of the view in the mapping.
    start: usize,
    len: usize,
}

// SAFETY: a view is read-only memory; any thread may read and unmap it.
unsafe impl Send for MappedView {}
// SAFETY: as above.
unsafe impl Sync for MappedView {}

impl MappedView {
    /// Opens the file `path` and maps `len` bytes of it at `offset`; `u64::MAX` maps the rest of
    /// the file. Blocks, but reads nothing.
    ///
    /// # Errors
    /// The file cannot be opened or mapped; `EINVAL` if the range is not within it.
    ///
    /// # Safety
    /// As [`MappedView::map`].
    pub unsafe fn open(
        path: impl AsRef<Path>,
        offset: u64,
        len: u64,
    ) -> Result<Arc<MappedView>, IoError> {
        let files = OsFileSystem::new();
        let opened = files.open(path.as_ref(), OpenMode::default())?;
        let rest = opened.len.saturating_sub(offset);
        let wanted = if len == u64::MAX { rest } else { len };
        // A length that exceeds the address space is refused by `map`.
        let len = usize::try_from(wanted).unwrap_or(usize::MAX);
        // SAFETY: the caller's promise is the one that `map` asks for; the descriptor is open.
        let view = unsafe { MappedView::map(*opened.descriptor, offset, len) };
        // A mapping outlives its descriptor, and a close after reading has no error to report.
        let _ = files.close(opened.descriptor);
        view.map(Arc::new)
    }

    /// Maps `len` bytes of an open file at `offset`; neither needs to be aligned. The descriptor
    /// may be closed afterwards. An empty range gives an empty view.
    ///
    /// # Errors
    /// `EINVAL` if the range is not within the file now; else the system's error.
    ///
    /// # Safety
    /// As long as the view lives, no process, this one included, may truncate the file below the
    /// range's end (access to a page beyond the end raises SIGBUS) or change the bytes of the
    /// range. A device that fails raises the same SIGBUS.
    pub unsafe fn map(
        descriptor: Descriptor,
        offset: u64,
        len: usize,
    ) -> Result<MappedView, IoError> {
        let file_bytes = system::len(descriptor)?;
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > file_bytes) || len > REGION_BYTES_MAX {
            let cause = "the range is not within the file, which may have been truncated";
            return Err(IoError::because("mmap", Errno::INVALID, cause));
        }
        if len == 0 {
            return Ok(MappedView {
                base: NonNull::dangling(),
                mapped_bytes: 0,
                start: 0,
                len: 0,
            });
        }
        let start = (offset % system::granularity()) as usize;
        let mapped_bytes = start + len;
        let base = system::map(descriptor, offset - start as u64, mapped_bytes)?;
        Ok(MappedView {
            base,
            mapped_bytes,
            start,
            len,
        })
    }

    /// Loads a range (in bytes of the view) into memory, waiting for the disk (on Windows, macOS
    /// and before Linux 5.14 it only starts to read). Long ranges are best loaded in pieces of a
    /// few MiB, so that the caller can stop in between.
    ///
    /// # Errors
    /// `EINVAL` for a range that is not within the view; `EFAULT` or `EHWPOISON` with its cause if
    /// the file was truncated or its device failed; else the system's error.
    pub fn populate(&self, range: Range<usize>) -> Result<(), IoError> {
        if range.start > range.end || range.end > self.len {
            let cause = "the range is not within the view";
            return Err(IoError::because("populate", Errno::INVALID, cause));
        }
        if range.is_empty() {
            return Ok(());
        }
        let page_bytes = system::granularity() as usize;
        let first = (self.start + range.start) / page_bytes * page_bytes;
        let end = self.start + range.end;
        assert!(first < end && end <= self.mapped_bytes);
        let address = NonNull::new(self.base.as_ptr().wrapping_add(first));
        let address = address.expect("within a mapping");
        // SAFETY: the range is within the mapping that this view owns.
        unsafe { system::populate(address, end - first) }
    }
}

impl Deref for MappedView {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: start + len is within the mapping, which lives as long as the view; the caller of
        // `map` promised that its bytes stay and do not change. An empty view has a dangling base,
        // aligned and not null.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().wrapping_add(self.start), self.len) }
    }
}

impl Drop for MappedView {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: the mapping made in `map`, which no reference points to any more.
            unsafe { system::unmap(self.base, self.mapped_bytes) };
        }
    }
}

debug!(MappedView, it: base = it.base, start = it.start, len = it.len);

/// Mappings on Unix.
#[cfg(unix)]
#[expect(unsafe_code, reason = "maps and unmaps files")]
mod system {
    use std::ptr::NonNull;

    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    use crate::device::Descriptor;
    use crate::error::IoError;
    use crate::fs::explain;
    use crate::fs::unix::{borrow, len_of};

    /// The granularity of a mapping's file offset.
    pub(super) fn granularity() -> u64 {
        rustix::param::page_size() as u64
    }

    /// Returns the length of an open file.
    pub(super) fn len(descriptor: Descriptor) -> Result<u64, IoError> {
        len_of(borrow(&descriptor).map_err(|errno| explain("mmap", errno))?)
    }

    /// Maps `len` bytes of an open file for reading, at an offset that is a multiple of the
    /// granularity.
    pub(super) fn map(
        descriptor: Descriptor,
        offset: u64,
        len: usize,
    ) -> Result<NonNull<u8>, IoError> {
        let file = borrow(&descriptor).map_err(|errno| explain("mmap", errno))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps no existing memory.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset,
            )
        };
        let base = base.map_err(|errno| match errno {
            Errno::NODEV => IoError::because("mmap", errno, "the file system cannot map files"),
            _ => explain("mmap", errno),
        })?;
        Ok(NonNull::new(base.cast()).expect("mmap never answers with address zero"))
    }

    /// Unmaps what `map` returned. This cannot fail for such a range.
    ///
    /// # Safety
    /// Address and length are those of one call of `map`, and the memory is no longer used.
    pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
        // SAFETY: by the contract of this function.
        let _ = unsafe { munmap(base.as_ptr().cast(), len) };
    }

    /// Loads whole pages into memory.
    ///
    /// # Safety
    /// The range is within a mapping.
    pub(super) unsafe fn populate(address: NonNull<u8>, len: usize) -> Result<(), IoError> {
        // SAFETY: by the contract of this function.
        match unsafe { advise(address, len, populating()) } {
            Ok(()) => Ok(()),
            // Linux before 5.14 does not know the advice. (The range is valid, so is no cause.)
            Err(Errno::INVAL) => {
                // SAFETY: as above.
                let advised = unsafe { advise(address, len, Advice::WillNeed) };
                advised.map_err(|errno| explain("madvise", errno))
            }
            Err(errno) if is_lost(errno) => {
                let cause = "the file has become shorter, or its device failed";
                Err(IoError::because("populate", errno, cause))
            }
            Err(errno) => Err(explain("populate", errno)),
        }
    }

    #[cfg(target_os = "linux")]
    fn populating() -> Advice {
        Advice::LinuxPopulateRead
    }

    #[cfg(not(target_os = "linux"))]
    fn populating() -> Advice {
        Advice::WillNeed
    }

    fn is_lost(errno: Errno) -> bool {
        #[cfg(target_os = "linux")]
        if errno == Errno::HWPOISON {
            return true;
        }
        errno == Errno::FAULT
    }

    /// # Safety
    /// The range is within a mapping, and the advice changes none of its content.
    unsafe fn advise(address: NonNull<u8>, len: usize, advice: Advice) -> Result<(), Errno> {
        loop {
            // SAFETY: by the contract of this function.
            match unsafe { madvise(address.as_ptr().cast(), len, advice) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                result => return result,
            }
        }
    }
}

/// Mappings on Windows. A range is prefetched without waiting for it, and access to a page that the
/// file has lost ends the process, as SIGBUS does elsewhere.
#[cfg(windows)]
#[expect(unsafe_code, reason = "maps and unmaps files")]
mod system {
    use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
    use std::ptr::{NonNull, null};

    use windows_sys::Win32::System::Memory::{
        CreateFileMappingW, FILE_MAP_READ, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile,
        PAGE_READONLY, PrefetchVirtualMemory, UnmapViewOfFile, WIN32_MEMORY_RANGE_ENTRY,
    };
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    use crate::device::Descriptor;
    use crate::error::{Errno, IoError};
    use crate::fs::explain;
    use crate::fs::os::calls;

    /// The granularity of a mapping's file offset: 64 KiB on every Windows.
    pub(super) fn granularity() -> u64 {
        64 << 10
    }

    /// Returns the length of an open file.
    pub(super) fn len(descriptor: Descriptor) -> Result<u64, IoError> {
        calls::len(descriptor.handle()).map_err(|errno| explain("GetFileSizeEx", errno))
    }

    /// Maps `len` bytes of an open file for reading, at an offset that is a multiple of the
    /// granularity.
    pub(super) fn map(
        descriptor: Descriptor,
        offset: u64,
        len: usize,
    ) -> Result<NonNull<u8>, IoError> {
        // SAFETY: passes an open handle; no name and no attributes.
        let mapping =
            unsafe { CreateFileMappingW(descriptor.handle(), null(), PAGE_READONLY, 0, 0, null()) };
        if mapping.is_null() {
            return Err(explain("CreateFileMapping", Errno::last()));
        }
        // SAFETY: a handle just made, which nothing else owns. The view keeps the mapping.
        let mapping = unsafe { OwnedHandle::from_raw_handle(mapping) };
        // SAFETY: maps at an address of the system's choice, which overlaps no existing memory.
        let view = unsafe {
            let (high, low) = ((offset >> 32) as u32, offset as u32);
            MapViewOfFile(mapping.as_raw_handle(), FILE_MAP_READ, high, low, len)
        };
        NonNull::new(view.Value.cast()).ok_or_else(|| explain("MapViewOfFile", Errno::last()))
    }

    /// Unmaps what `map` returned.
    ///
    /// # Safety
    /// The address is that of one call of `map`, and the memory is no longer used.
    pub(super) unsafe fn unmap(base: NonNull<u8>, _len: usize) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS {
            Value: base.as_ptr().cast(),
        };
        // SAFETY: by the contract of this function.
        unsafe { UnmapViewOfFile(view) };
    }

    /// Starts to load whole pages into memory. A hint: on failure they are read when touched.
    ///
    /// # Safety
    /// The range is within a mapping.
    pub(super) unsafe fn populate(address: NonNull<u8>, len: usize) -> Result<(), IoError> {
        let range = WIN32_MEMORY_RANGE_ENTRY {
            VirtualAddress: address.as_ptr().cast(),
            NumberOfBytes: len,
        };
        // SAFETY: one range of this process, within a mapping; its content does not change.
        unsafe { PrefetchVirtualMemory(GetCurrentProcess(), 1, &raw const range, 0) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_opened_by_name_shows_the_range() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        // SAFETY: the file is this test's own and is not changed.
        let open = |offset, len| unsafe { MappedView::open(&path, offset, len) };
        assert_eq!(&**open(2, 3).unwrap(), b"234");
        assert_eq!(&**open(4, u64::MAX).unwrap(), b"456789");
        assert!(open(10, u64::MAX).unwrap().is_empty());
        for (offset, len) in [(5, 6), (11, 0), (11, u64::MAX), (0, u64::MAX - 1)] {
            assert_eq!(open(offset, len).unwrap_err().errno, Errno::INVALID);
        }
    }
}
