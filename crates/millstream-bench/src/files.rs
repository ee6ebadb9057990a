//! File operations without the engine, and control of the page cache: cold and warm files.
//!
//! `drop_caches` is never used: it needs root and slows down the whole machine. The host of a
//! virtual machine may still cache, which a guest cannot detect.

use std::fs::File;
use std::io::{self, copy, sink};
use std::path::{Path, PathBuf};

use millstream_io::fs::{AtomicFile, cached_bytes, evict};

use crate::error::{Context, Error, Result};

/// Alignment of offsets and lengths of direct reads: a page suits every block size up to it.
pub(crate) const DIRECT_ALIGNMENT: u64 = 4096;

pub(crate) fn open_buffered(path: &Path) -> Result<File> {
    File::open(path).on("open", path)
}

pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).on("make", path)
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).on("remove", path)
}

/// Checks that a file can be written, before hours of work that make its content.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).on("write to", path)
}

/// Replaces a file atomically: an interrupted run leaves no partial file under its name. A device
/// or a pipe is written directly.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return std::fs::write(path, bytes).on("write", path);
    }
    let new = AtomicFile::create(path);
    let written = new.and_then(|new| new.write_and_commit(bytes, AtomicFile::KEEP_PERMISSIONS));
    written.map_err(io::Error::from).on("write", path)
}

pub(crate) fn len_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).on("find", path)?.len())
}

pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).on("list", folder)?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.on("list", folder)?;
    paths.sort();
    Ok(paths)
}

/// Evicts a file from the page cache and verifies that its pages are gone.
pub(crate) fn drop_path(path: &Path) -> Result<()> {
    evict(&open_buffered(path)?).on("evict from the page cache", path)
}

/// Asks the kernel to evict the pages of a file that are not mapped.
pub(crate) fn forget(path: &Path) -> Result<()> {
    let advice = rustix::fs::Advice::DontNeed;
    rustix::fs::fadvise(open_buffered(path)?, 0, None, advice).on("fadvise", path)
}

pub(crate) fn drop_all(paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| drop_path(path))
}

pub(crate) fn is_cached(path: &Path) -> Result<bool> {
    let cached = cached_bytes(&open_buffered(path)?).on("look for cached pages of", path)?;
    let cached = cached.ok_or_else(|| Error::new("the system does not report cached pages"))?;
    Ok(cached > 0)
}

/// Reads the whole file once, so that the next run finds it in the page cache.
pub(crate) fn warm_path(path: &Path) -> Result<()> {
    let mut file = open_buffered(path)?;
    copy(&mut file, &mut sink()).map(drop).on("read", path)
}

pub(crate) fn make_ready(paths: &[PathBuf], is_cold: bool) -> Result<()> {
    let make = if is_cold { drop_path } else { warm_path };
    paths.iter().try_for_each(|path| make(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_warm_after_a_read_and_cold_after_an_eviction() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        warm_path(&path).unwrap();
        assert!(is_cached(&path).unwrap());
        match drop_path(&path) {
            Ok(()) => assert!(!is_cached(&path).unwrap()),
            Err(error) => println!("SKIP: {error}"),
        }
    }
}
