//! The files that `load`'s paths name, without opening any of them.
//!
//! A path in the call may be a file, a folder, or a link to either. Folders are walked with all
//! that is below. In a walked folder links to files are followed and links to folders are passed
//! over: the folder they lead to has its own place, inside the tree or not, and no circle can
//! arise. FIFOs, sockets, devices and dangling links are failures; so is a folder that cannot be
//! read. They are never opened, since opening a FIFO waits and opening a device may do anything.
//!
//! Names are relative to the path in the call (for a file: its file name) and sorted by their bytes
//! as wholes, so the order does not depend on the file system's. The list is held in memory: about
//! 200 bytes a file.

use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use millstream_pak::Package;

use crate::failure::Failure;

/// Something that a path of the call names, or that was found below it.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its name in the output, as bytes.
    pub(crate) name: OsString,
    /// Its length when it was seen, or why it cannot be loaded.
    pub(crate) len: Result<u64, Failure>,
    /// Where it is, if it is an entry of a package.
    pub(crate) entry: Option<PackageEntry>,
}

/// An entry of a package that a path of the call names.
#[derive(Debug, Clone)]
pub(crate) struct PackageEntry {
    pub(crate) package: Package,
    pub(crate) index: u32,
}

/// Everything that `paths` name, in the order of the paths, and below each in byte order.
pub(crate) fn find(paths: &[PathBuf]) -> Vec<Found> {
    let mut found = Vec::new();
    for path in paths {
        let begin = found.len();
        find_below(path, &mut found);
        found[begin..].sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    }
    found
}

fn find_below(root: &Path, found: &mut Vec<Found>) {
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => return walk(root, found),
        Ok(metadata) => Ok(metadata),
        Err(error) => Err(missing(root, &error)),
    };
    let name = root.file_name().unwrap_or(root.as_os_str()).to_owned();
    let len = metadata.and_then(|metadata| loadable(root, &metadata));
    found.push(Found {
        path: root.to_path_buf(),
        name,
        len,
        entry: None,
    });
}

/// Walks with a list of folders instead of calls in calls, so that depth costs no stack.
fn walk(root: &Path, found: &mut Vec<Found>) {
    let mut folders = vec![(root.to_path_buf(), OsString::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let mut list = || -> io::Result<()> {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let name = join_name(&prefix, &entry.file_name());
                match look_at(&entry) {
                    Seen::Folder => folders.push((entry.path(), name)),
                    Seen::LinkToFolder => {}
                    Seen::Other(len) => found.push(Found {
                        path: entry.path(),
                        name,
                        len,
                        entry: None,
                    }),
                }
            }
            Ok(())
        };
        if let Err(error) = list() {
            let len = Err(Failure::io(folder.as_os_str(), "read the folder", &error));
            found.push(Found {
                path: folder,
                name: prefix,
                len,
                entry: None,
            });
        }
    }
}

enum Seen {
    Folder,
    LinkToFolder,
    Other(Result<u64, Failure>),
}

fn look_at(entry: &DirEntry) -> Seen {
    let path = entry.path();
    let kind = match entry.file_type() {
        Ok(kind) => kind,
        Err(error) => return Seen::Other(Err(missing(&path, &error))),
    };
    if kind.is_dir() {
        return Seen::Folder;
    }
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Seen::LinkToFolder,
        Ok(metadata) => Seen::Other(loadable(&path, &metadata)),
        Err(error) => Seen::Other(Err(missing(&path, &error))),
    }
}

/// The length of a regular file; of anything else why it is not loaded.
fn loadable(path: &Path, metadata: &Metadata) -> Result<u64, Failure> {
    let kind = metadata.file_type();
    let what = if kind.is_file() {
        return Ok(metadata.len());
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_block_device() || kind.is_char_device() {
        "a device"
    } else {
        "not a file"
    };
    Err(Failure::new(
        path.as_os_str(),
        format!("{what}: only regular files are loaded"),
    ))
}

fn missing(path: &Path, error: &io::Error) -> Failure {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link && error.kind() == io::ErrorKind::NotFound {
        return Failure::new(path.as_os_str(), "a dangling symbolic link");
    }
    Failure::io(path.as_os_str(), "access", error)
}

fn join_name(prefix: &OsStr, name: &OsStr) -> OsString {
    if prefix.is_empty() {
        return name.to_owned();
    }
    let mut joined = prefix.as_bytes().to_vec();
    joined.push(b'/');
    joined.extend_from_slice(name.as_bytes());
    OsString::from_vec(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(found: &[Found]) -> Vec<(String, bool)> {
        found
            .iter()
            .map(|one| {
                (
                    millstream_pak::names::escape(one.name.as_bytes()),
                    one.len.is_ok(),
                )
            })
            .collect()
    }

    #[test]
    fn names_are_sorted_as_whole_byte_strings() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["a/b", "a-b", "a.b", "B", "a/\u{e9}", "z/y/x"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("a folder");
            std::fs::write(path, name).expect("a file");
        }
        let raw = folder.path().join(OsStr::from_bytes(b"a\xff"));
        std::fs::write(raw, "x").expect("a file");
        let found = find(&[folder.path().to_path_buf()]);
        let sorted = ["B", "a-b", "a.b", "a/b", "a/\u{e9}", "a\\xff", "z/y/x"];
        let expected: Vec<_> = sorted.iter().map(|name| (name.to_string(), true)).collect();
        assert_eq!(names(&found), expected);
    }

    #[test]
    fn links_fifos_and_sockets_are_seen_for_what_they_are() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).expect("a folder");
        std::fs::write(at("sub/file"), "12345").expect("a file");
        symlink("sub/file", at("to-file")).expect("a link");
        symlink("sub", at("to-folder")).expect("a link");
        symlink(".", at("to-itself")).expect("a link");
        symlink("nowhere", at("dangling")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a FIFO");
        symlink("fifo", at("to-fifo")).expect("a link");

        let found = find(&[folder.path().to_path_buf()]);
        let expected = [
            ("dangling", false),
            ("fifo", false),
            ("loop", false),
            ("socket", false),
            ("sub/file", true),
            ("to-fifo", false),
            ("to-file", true),
        ];
        assert_eq!(
            names(&found),
            expected.map(|(name, ok)| (name.to_string(), ok))
        );
        assert_eq!(found[6].len, Ok(5));
        let cause = found[0]
            .len
            .as_ref()
            .expect_err("it leads nowhere")
            .to_string();
        assert!(
            cause.ends_with("dangling: a dangling symbolic link"),
            "{cause}"
        );

        // Named in the call, a link to a folder is walked, and a link to a file has its own name.
        let found = find(&[at("to-folder"), at("to-file"), at("missing")]);
        let expected = [("file", true), ("to-file", true), ("missing", false)];
        assert_eq!(
            names(&found),
            expected.map(|(name, ok)| (name.to_string(), ok))
        );
    }
}
