//! Queries which part of a file is in the page cache, without reading it.
//!
//! `cachestat` (6.5) counts pages, in 0.3 to 0.75 µs. Recent kernels allow it only on files that
//! the user owns or may write (game data below `/usr/share` is neither), so `EPERM` applies to one
//! file, `ENOSYS` to all. Without it, a non-blocking read of one byte stands for the whole range;
//! such a read starts no read-ahead.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::{Errno, ReadWriteFlags};

use super::call;

/// How to query the page cache, as found so far.
#[derive(Debug, Default)]
pub(super) struct CacheProbe {
    /// The kernel has no `cachestat`.
    missing: AtomicBool,
}

impl CacheProbe {
    /// Returns how many bytes of the range are cached, if the system reports it.
    pub(super) fn cached(&self, file: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
        if len == 0 {
            return Some(0); // To cachestat a length of 0 means up to the end.
        }
        if !self.missing.load(Relaxed) {
            match call::cachestat(file, offset, len) {
                Ok(pages) => return Some(bytes_of_pages(pages, offset, len)),
                Err(Errno::NOSYS) => self.missing.store(true, Relaxed),
                Err(_) => {}
            }
        }
        by_reading(file, offset, len)
    }

    /// Makes a probe that treats `cachestat` as missing, to test the fallback.
    #[cfg(test)]
    fn without_cachestat() -> CacheProbe {
        CacheProbe {
            missing: AtomicBool::new(true),
        }
    }
}

/// Returns the share of `len` that this many cached pages of the range are.
fn bytes_of_pages(pages: u64, offset: u64, len: u64) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    let last = offset.saturating_add(len - 1);
    let touched = last / page_bytes - offset / page_bytes + 1;
    if pages >= touched {
        return len;
    }
    let share = u128::from(len) * u128::from(pages) / u128::from(touched);
    u64::try_from(share).expect("a share of len is at most len")
}

/// Returns 0 or `len`, by the first byte.
fn by_reading(file: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
    if offset > i64::MAX as u64 {
        return None; // To the system −1 means the descriptor's own position.
    }
    let mut byte = [0];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, &mut pieces, offset, ReadWriteFlags::NOWAIT) {
        Ok(1) => Some(len),
        Ok(_) | Err(Errno::AGAIN) => Some(0),
        Err(_) => None, // No such reads here, or a descriptor for direct I/O.
    }
}

/// [`evict`] tolerates one remaining page per this many of the file: a racing read-ahead leaves a
/// few.
const EVICTED_ONE_IN: u64 = 200;
/// Maximum number of attempts of [`evict`].
const EVICT_ATTEMPTS: u32 = 5;
/// Distance of the bytes sampled where `cachestat` fails: the default read-ahead of Linux.
const SAMPLE_STEP_BYTES: u64 = 128 << 10;

/// Returns the bytes of a whole file that are in the page cache; `None` if the system does not say.
///
/// Where `cachestat` fails, one page in every 128 KiB is sampled.
///
/// # Errors
/// The length of the file cannot be read.
pub fn cached_bytes(file: &File) -> std::io::Result<Option<u64>> {
    let len = file.metadata()?.len();
    let fd = file.as_fd();
    if len == 0 {
        return Ok(Some(0));
    }
    if let Ok(pages) = call::cachestat(fd, 0, len) {
        return Ok(Some(bytes_of_pages(pages, 0, len)));
    }
    let steps = (0..len).step_by(SAMPLE_STEP_BYTES as usize);
    let cached = steps.map(|at| by_reading(fd, at, SAMPLE_STEP_BYTES.min(len - at)));
    Ok(cached.sum())
}

/// Removes a file from the page cache (`posix_fadvise`, and `fdatasync` where pages are dirty), and
/// checks that its pages are gone. May block.
///
/// # Errors
/// The system refuses, does not report what is cached, or keeps more than one page in 200: another
/// process maps or reads the file, or its file system keeps its files in memory.
pub fn evict(file: &File) -> std::io::Result<()> {
    let page_bytes = rustix::param::page_size() as u64;
    let mut left = 0;
    for attempt in 0..EVICT_ATTEMPTS {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        let cached = cached_bytes(file)?;
        left = cached.ok_or_else(|| std::io::Error::other("the page cache cannot be examined"))?;
        let all = file.metadata()?.len().div_ceil(page_bytes);
        if left.div_ceil(page_bytes) <= all / EVICTED_ONE_IN {
            return Ok(());
        }
        // Dirty pages stay. Syncing costs milliseconds even where nothing is dirty, if another
        // process writes to the file system, so it is done only now.
        rustix::fs::fdatasync(file)?;
        if attempt > 0 {
            // Pages may be in another processor's batch of additions to the cache for a moment.
            std::thread::sleep(std::time::Duration::from_millis(1 << attempt));
        }
    }
    Err(std::io::Error::other(format!(
        "{left} bytes stay in the page cache; likely cause: another process maps or reads the \
         file, or its file system keeps its files in memory"
    )))
}

/// Reads what is cached, up to where the cache or the file ends. The system may start to read ahead
/// what is missing.
pub(in crate::fs) fn read(file: BorrowedFd<'_>, offset: u64, into: &mut [u8]) -> Option<usize> {
    let mut done = 0;
    while done < into.len() {
        // An offset of −1 would mean the file's own position.
        let at = offset
            .checked_add(done as u64)
            .filter(|&at| at <= i64::MAX as u64)?;
        let mut pieces = [IoSliceMut::new(&mut into[done..])];
        match rustix::io::preadv2(file, &mut pieces, at, ReadWriteFlags::NOWAIT) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::{CacheProbe, bytes_of_pages};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn pages_are_shared_out_over_the_range() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(bytes_of_pages(2, 0, 2 * page), 2 * page);
        assert_eq!(bytes_of_pages(1, 0, 2 * page), page);
        assert_eq!(bytes_of_pages(1, page - 1, 2), 1);
        assert_eq!(bytes_of_pages(1, 10, 20), 20);
        assert_eq!(bytes_of_pages(0, 10, 20), 0);
        assert_eq!(bytes_of_pages(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn only_cached_bytes_are_read() {
        let page = rustix::param::page_size();
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..8 * page).map(|at| (at / page) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        let mut into = vec![9; 8 * page + 1];
        let Some(read) = super::read(file.as_fd(), 0, &mut into) else {
            println!("SKIP: this file system reads nothing without waiting");
            return;
        };
        assert_eq!((read, &into[..read]), (bytes.len(), &bytes[..]));
        let from_middle = super::read(file.as_fd(), page as u64 + 1, &mut into[..7]);
        assert_eq!((from_middle, &into[..7]), (Some(7), &[1; 7][..]));
        assert_eq!(super::read(file.as_fd(), u64::MAX, &mut into), None);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if super::CacheProbe::default().cached(file.as_fd(), 0, 8 * page as u64) != Some(0) {
            println!("SKIP: this file system does not let go of cached pages");
            return;
        }
        // A fast disk may load the first pages while the call looks for them.
        let read = super::read(file.as_fd(), 0, &mut into).unwrap();
        assert_eq!(into[..read], bytes[..read]);
    }

    #[test]
    fn an_evicted_file_has_nothing_cached() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        assert_ne!(super::cached_bytes(&file).unwrap(), Some(0));
        match super::evict(&file) {
            Ok(()) => {
                let left = super::cached_bytes(&file).unwrap();
                assert!(left.is_some_and(|left| left <= 4096), "{left:?}");
            }
            Err(error) => println!("SKIP: {error}"),
        }
    }

    #[test]
    fn both_ways_see_a_file_come_and_go() {
        let len = 1_u64 << 20;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; len as usize]).unwrap();
        file.sync_all().unwrap();
        for probe in [CacheProbe::default(), CacheProbe::without_cachestat()] {
            assert_eq!(probe.cached(file.as_fd(), 0, 0), Some(0));
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(&file, 0, None, advice).unwrap();
            if probe.cached(file.as_fd(), 0, len) != Some(0) {
                println!("SKIP: this file system does not let go of cached pages");
                return;
            }
            std::io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut Vec::new()).unwrap();
            assert_eq!(probe.cached(file.as_fd(), 0, len), Some(len));
            assert_eq!(probe.cached(file.as_fd(), 4096, 100), Some(100));
            assert_eq!(probe.cached(file.as_fd(), len * 2, 4096), Some(0));
        }
    }
}
