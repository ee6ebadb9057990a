//! The files that the paths of `load` name, found without opening any of them.
//!
//! A path on the command line may be a file, a folder, or a symbolic link to either. Folders are
//! walked recursively. In a walked folder links to files are followed and links to folders are
//! skipped, so that no cycle can arise: the target folder has its own path, inside the tree or not.
//! FIFOs, sockets, devices and dangling links are failures, and so are unreadable folders. They are
//! never opened, since opening a FIFO blocks and opening a device may have side effects.
//!
//! Names are relative to the path on the command line (for a file: its file name) and sorted
//! bytewise as a whole, so the order does not depend on the file system's. The list is held in
//! memory: about 200 bytes per file.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use millstream_io::fs::file::{self, Kind};
use millstream_io::fs::names;
use walkdir::WalkDir;

use crate::failure::{Failure, check_path};
use crate::limits::{LIST_FILES_MIN, LIST_OVERHEAD};

/// A file that a command-line path names, or that was found below it.
#[derive(Debug)]
pub(crate) struct Found {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Name in the output, with `/` between its components.
    pub(crate) name: Vec<u8>,
    /// Length in bytes when it was found, or why it cannot be loaded.
    pub(crate) len: Result<u64, Failure>,
}

impl Found {
    /// Returns a file, or why it cannot be loaded.
    fn file(path: &Path, name: &Path, len: Result<u64, Failure>) -> Found {
        Found {
            path: path.to_path_buf(),
            name: names::bytes(name),
            len,
        }
    }

    /// Returns what a command-line path names; its name is the file name.
    pub(crate) fn named(path: &Path, len: Result<u64, Failure>) -> Found {
        Found::file(path, path.file_name().map_or(path, Path::new), len)
    }
}

/// Adds everything that `path` names, in byte order.
pub(crate) fn find(path: &Path, found: &mut Vec<Found>) -> Result<(), Failure> {
    let begin = found.len();
    find_below(path, found)?;
    // No two files below a folder have one name.
    found[begin..].sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}

/// Appends a file to the list. When the list grows, memory for as many names is reserved, too: a
/// small allocation that fails later would end the program without a message.
fn push(found: &mut Vec<Found>, one: Found) -> Result<(), Failure> {
    if found.len() == found.capacity() {
        let more = found.len().max(LIST_FILES_MIN);
        let of_names = 2 * (one.path.as_os_str().len() + one.name.len()) + LIST_OVERHEAD;
        let mut names: Vec<u8> = Vec::new();
        let reserved = found.try_reserve_exact(more);
        let reserved = reserved.and_then(|()| names.try_reserve_exact(more * of_names));
        // Otherwise the compiler may remove the allocation.
        std::hint::black_box(&names);
        reserved.map_err(|_| {
            let cause = format!("no memory for a list of more than {} files", found.len());
            Failure::new(&one.path, cause).kind(&millstream::ErrorKind::OutOfMemory)
        })?;
    }
    found.push(one);
    Ok(())
}

fn find_below(root: &Path, found: &mut Vec<Found>) -> Result<(), Failure> {
    if let Err(failure) = check_path(root, "access") {
        return push(found, Found::named(root, Err(failure)));
    }
    if let Some(len) = look_at(root) {
        return push(found, Found::named(root, len));
    }
    for entry in WalkDir::new(root).min_depth(1) {
        let (path, len) = match entry {
            Ok(entry) if entry.file_type().is_dir() => continue,
            Ok(entry) => {
                let len = look_at(entry.path());
                (entry.into_path(), len)
            }
            Err(error) => {
                let path = error.path().unwrap_or(root).to_path_buf();
                let error = error.into_io_error().expect("links are not followed");
                let failure = match path.is_dir() {
                    true => Failure::io(&path, "read the folder", &error),
                    false => missing(&path, &error),
                };
                (path, Some(Err(failure)))
            }
        };
        // `None` is a link to a folder, which is skipped.
        if let Some(len) = len {
            let name = path.strip_prefix(root).unwrap_or(&path);
            push(found, Found::file(&path, name, len))?;
        }
    }
    Ok(())
}

/// Returns the length of a regular file, or why it cannot be loaded; `None` for a folder.
fn look_at(path: &Path) -> Option<Result<u64, Failure>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(metadata) => Some(loadable(path, &metadata)),
        Err(error) => Some(Err(missing(path, &error))),
    }
}

/// Returns the length of a regular file; for anything else, why it cannot be loaded.
fn loadable(path: &Path, metadata: &Metadata) -> Result<u64, Failure> {
    let what = match file::kind(metadata) {
        Kind::File => return Ok(metadata.len()),
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::Device => "a device",
        Kind::Folder | Kind::Link | Kind::Other => "not a file",
    };
    Err(Failure::new(
        path,
        format!("{what}: only regular files are loaded"),
    ))
}

fn missing(path: &Path, error: &io::Error) -> Failure {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link && error.kind() == io::ErrorKind::NotFound {
        return Failure::new(path, "a dangling symbolic link");
    }
    Failure::io(path, "access", error)
}
