//! The state of files in the page cache: cold and warm.
//!
//! `drop_caches` is never used: it needs root and slows down the whole machine. The host of a
//! virtual machine may still cache; no guest can tell.

use std::io::{copy, sink};
use std::path::{Path, PathBuf};

use millstream_io::fs::{cached_bytes, evict};

use crate::error::{Context, Error, Result};
use crate::files::open_buffered;

/// Evicts a file from the page cache and verifies that its pages are gone.
pub(crate) fn drop_path(path: &Path) -> Result<()> {
    evict(&open_buffered(path)?).on("evict from the page cache", path)
}

/// Evicts files.
pub(crate) fn drop_all(paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| drop_path(path))
}

/// Whether any of a file is in the page cache.
pub(crate) fn cached_of(path: &Path) -> Result<bool> {
    let cached = cached_bytes(&open_buffered(path)?).on("look for cached pages of", path)?;
    let cached = cached.ok_or_else(|| Error::new("the system does not report cached pages"))?;
    Ok(cached > 0)
}

/// Reads the whole file once, so that the next run finds it in the page cache.
pub(crate) fn warm_path(path: &Path) -> Result<()> {
    let mut file = open_buffered(path)?;
    copy(&mut file, &mut sink()).map(drop).on("read", path)
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
        assert!(cached_of(&path).unwrap());
        match drop_path(&path) {
            Ok(()) => assert!(!cached_of(&path).unwrap()),
            Err(error) => println!("SKIP: {error}"),
        }
    }
}
