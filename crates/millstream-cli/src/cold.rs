//! Dropping files from the page cache before they are loaded.
//!
//! A file whose pages stay (another program maps it, or its file system is in memory), or whose
//! pages the system does not report, is reported on standard error and loaded all the same: it is
//! no failure, but the figures may not be those of a cold load then.

use millstream_io::fs::file;

use crate::failure;
use crate::walk::Found;

/// Drops what can be dropped. Files that cannot even be opened show when they are loaded.
pub(crate) fn drop_files(found: &[Found]) {
    let mut stayed: u64 = 0;
    let mut first = None;
    let mut before = None;
    for one in found
        .iter()
        .filter(|one| one.len.as_ref().is_ok_and(|len| *len > 0))
    {
        // The entries of a package follow one another, and are one file.
        if one.entry.is_some() && before == Some(&one.path) {
            continue;
        }
        before = Some(&one.path);
        // A FIFO may have taken the file's place.
        let Ok(file) = file::open(&one.path) else {
            continue;
        };
        if let Err(error) = millstream_io::fs::evict(&file) {
            stayed += 1;
            let name = failure::shown(&one.path);
            first.get_or_insert_with(|| format!("{name}: {error}"));
        }
    }
    if let Some(first) = first {
        failure::tell(&format!(
            "--cold: not seen to leave the page cache: {}, the first: {first}",
            failure::counted(stayed, "file")
        ));
    }
}
