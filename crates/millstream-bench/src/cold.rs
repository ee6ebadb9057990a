//! Dropping files from the page cache, as any user may.
//!
//! `posix_fadvise(DONTNEED)` per file, and `fdatasync` where dirty pages stay; then the kernel is
//! asked what is left (`cachestat` from 6.5 on, else `mincore`), because a page that somebody maps
//! or that is still being written stays, and a run on it would be neither cold nor warm.
//! `drop_caches` is never used: it needs root and punishes the whole machine. The host of a
//! virtual machine may still cache; no guest can tell.
//!
//! # Safety
//! Two raw calls: `cachestat` fills a struct of ours, `mincore` fills a vector of ours for a
//! mapping that lives across the call and is never read.
#![expect(unsafe_code, reason = "cachestat and mincore have no safe wrapper")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{Advice, fadvise, fdatasync};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Error, Result};

/// Number of the system call, the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
/// Pages that may stay in the cache of a file called cold: a racing read-ahead leaves a few, which
/// a figure over megabytes does not see. One page in so many.
const COLD_ONE_IN: u64 = 200;
/// Tries before a file counts as impossible to drop.
const DROP_TRIES: usize = 5;

/// Opens `path` and drops it from the page cache.
///
/// # Errors
/// The file cannot be opened, or its pages stay.
pub fn drop_path(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
    drop_file(&file, path)
}

/// Drops an open file from the page cache and verifies that its pages are gone. `path` is for the
/// error's text.
///
/// # Errors
/// The system refuses, or pages stay: somebody else maps or reads the file.
pub fn drop_file(file: &File, path: &Path) -> Result<()> {
    let mut left = 0;
    for attempt in 0..DROP_TRIES {
        fadvise(file, 0, None, Advice::DontNeed)
            .map_err(|error| Error::file("posix_fadvise", path, error))?;
        left = cached_pages(file)
            .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        let all = page_count(file)?;
        if left <= all / COLD_ONE_IN {
            return Ok(());
        }
        // Dirty pages stay. Syncing comes only now: it costs milliseconds even where nothing is
        // dirty, if anyone else on the file system writes.
        fdatasync(file).map_err(|error| Error::file("fdatasync", path, error))?;
        if attempt > 0 {
            // Pages may sit in another processor's batch of additions to the cache for a moment.
            std::thread::sleep(std::time::Duration::from_millis(1 << attempt));
        }
    }
    Err(Error::new(format!(
        "{left} pages of {} stay in the page cache; likely cause: another process maps or reads it, \
         or its file system keeps its files in memory",
        path.display()
    )))
}

/// Whether any of a file is in the page cache.
///
/// # Errors
/// The file cannot be opened, or the system cannot tell.
pub fn cached_of(path: &Path) -> Result<bool> {
    let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
    Ok(cached_pages(&file)? > 0)
}

/// Reads the whole file once, so that the next run finds it in the page cache.
///
/// # Errors
/// It cannot be read.
pub fn warm_path(path: &Path) -> Result<()> {
    let mut file = File::open(path).map_err(|error| Error::file("open", path, error))?;
    std::io::copy(&mut file, &mut std::io::sink())
        .map(|_| ())
        .map_err(|error| Error::file("read", path, error))
}

fn page_count(file: &File) -> Result<u64> {
    let len = file
        .metadata()
        .map_err(|error| Error::io("fstat", error))?
        .len();
    Ok(len.div_ceil(rustix::param::page_size() as u64))
}

/// Pages of the file that are in the page cache.
///
/// # Errors
/// Neither `cachestat` nor `mincore` answers; or the user is one to whom neither tells the truth.
pub fn cached_pages(file: &File) -> Result<u64> {
    if let Some(pages) = by_cachestat(file) {
        return Ok(pages);
    }
    let pages = by_mincore(file)?;
    // To who neither owns a file nor may write to it, `mincore` says that all of it is there.
    if pages > 0 && pages == page_count(file)? && !may_be_told(file)? {
        return Err(Error::new(
            "what is in the page cache is told only to a file's owner and who may write to it",
        ));
    }
    Ok(pages)
}

/// Whether the system tells this user what of a file is in the page cache.
fn may_be_told(file: &File) -> Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let about = file.metadata().map_err(|error| Error::io("fstat", error))?;
    let user = rustix::process::geteuid();
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let writes = || rustix::fs::access(again, rustix::fs::Access::WRITE_OK).is_ok();
    Ok(user.is_root() || about.uid() == user.as_raw() || writes())
}

fn by_cachestat(file: &File) -> Option<u64> {
    /// `struct cachestat_range`; a length of 0 means to the end.
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    /// `struct cachestat`.
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let range = Range { offset: 0, len: 0 };
    let mut stat = Stat::default();
    // SAFETY: both structs are laid out as the kernel's and live across the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0,
        )
    };
    (result == 0).then_some(stat.cached)
}

fn by_mincore(file: &File) -> Result<u64> {
    let len = file
        .metadata()
        .map_err(|error| Error::io("fstat", error))?
        .len();
    if len == 0 {
        return Ok(0);
    }
    let len = usize::try_from(len).map_err(|_| Error::new("file larger than memory can map"))?;
    let mut pages = vec![0u8; len.div_ceil(rustix::param::page_size())];
    // SAFETY: a fresh read-only mapping at an address of the kernel's choice; it is never read
    // through, so a file that shrinks cannot raise a signal.
    let mapping = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        )
    }
    .map_err(|error| Error::io("map for mincore", error))?;
    // SAFETY: the mapping has `len` bytes and `pages` one byte for each of its pages.
    let result = unsafe { libc::mincore(mapping, len, pages.as_mut_ptr()) };
    let error = std::io::Error::last_os_error();
    // SAFETY: the mapping made above, used by nobody.
    let _ = unsafe { munmap(mapping, len) };
    if result != 0 {
        return Err(Error::io("mincore", error));
    }
    Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_seen_warm_then_cold_by_both_ways_of_looking() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        warm_path(&path).unwrap();
        let file = File::open(&path).unwrap();
        let pages = page_count(&file).unwrap();
        assert_eq!(by_mincore(&file).unwrap(), pages);
        if let Some(seen) = by_cachestat(&file) {
            assert_eq!(seen, pages);
        }
        if let Err(error) = drop_path(&path) {
            println!("SKIP: {error}");
            return;
        }
        assert!(by_mincore(&file).unwrap() <= pages / COLD_ONE_IN);
        if let Some(seen) = by_cachestat(&file) {
            assert!(seen <= pages / COLD_ONE_IN);
        }
    }
}
