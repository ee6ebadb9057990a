//! Dropping files from the page cache before they are loaded.
//!
//! A file whose pages stay (another program maps it, or its file system is in memory), or whose
//! pages the system does not report, is named on standard error and loaded all the same: it is no
//! failure, but the figures may not be those of a cold load.

use std::path::Path;

use millstream_io::fs::file;

use crate::failure;
use crate::loader::Source;

/// Drops the files of all sources. Files that cannot be opened fail later, when they are loaded.
pub(crate) fn drop_files(sources: &[Source]) {
    let mut paths: Vec<&Path> = Vec::new();
    for source in sources {
        match source {
            Source::Entries(package, _) => paths.push(package.path()),
            Source::Archive(archive) => paths.push(archive.path()),
            Source::Files(files) => {
                let held = |len: &u64| *len > 0;
                let files = files.iter().filter(|one| one.len.as_ref().is_ok_and(held));
                paths.extend(files.map(|one| &*one.path));
            }
        }
    }
    drop_paths("--cold", paths);
}

/// Drops files, as [`drop_files`]. `what` says in a message what they are dropped for.
pub(crate) fn drop_paths<'a>(what: &str, paths: impl IntoIterator<Item = &'a Path>) {
    let mut stayed: u64 = 0;
    let mut first = None;
    for path in paths {
        // A FIFO may have replaced the file.
        if let Ok(file) = file::open(path)
            && let Err(error) = millstream_io::fs::evict(&file)
        {
            stayed += 1;
            first.get_or_insert_with(|| format!("{}: {error}", failure::shown(path)));
        }
    }
    if let Some(first) = first {
        failure::tell(&format!(
            "{what}: not seen to leave the page cache: {}, the first: {first}",
            failure::counted(stayed, "file")
        ));
    }
}
