//! Outputs that are whole or not there.
//!
//! A file is written as an [`AtomicFile`], which replaces its target when it is complete and
//! synced: a reader of the target sees the old bytes or all the new ones, also after a crash. What
//! follows:
//! - A target that is a link is followed: the file it leads to is replaced, the link stays.
//! - A file that is replaced hands on its permissions; one that may not be written is an error,
//!   though its folder would allow the rename.
//! - The target may be the input itself: the input stays open and keeps its bytes until the end.
//! - A target that is there and not a regular file (`/dev/null`, a FIFO, a block device) is
//!   written through; a rename would put a file in its place. So is a file under the names
//!   `/dev/stdout` and `/dev/fd/N`, at its end: the process that opened it keeps that very file.
//! - `-` is standard output, through its descriptor, past the line buffer of the standard library.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use millstream_io::Errno;
use millstream_io::fs::{AtomicFile, file};
use serde_json::Value;

use crate::failure::{Ending, Failure, check_path};
use crate::limits::LINKS_MAX;
use crate::standard;

/// Where a command writes to. Dropped without [`Output::finish`], it leaves nothing behind.
pub(crate) struct Output {
    name: OsString,
    target: Target,
    written_bytes: u64,
}

enum Target {
    /// Standard output, or something that is not a regular file.
    Through(File),
    /// A regular file, to be.
    File(AtomicFile),
}

impl Output {
    /// Opens the output named in the call, `-` for standard output.
    ///
    /// # Errors
    /// The target is a folder or a socket, may not be written, or its folder is missing or full.
    pub(crate) fn create(name: &OsStr) -> Result<Output, Failure> {
        let opened = if name == "-" {
            standard::output().map(Target::Through)
        } else {
            check_path(Path::new(name), "write")?;
            open_path(Path::new(name))
        };
        let target = opened.map_err(|error| Failure::io(name, "write", &error))?;
        let name = if name == "-" {
            OsString::from("standard output")
        } else {
            name.to_owned()
        };
        Ok(Output {
            name,
            target,
            written_bytes: 0,
        })
    }

    /// Bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Whether the bytes end up in the very file that `input` is.
    pub(crate) fn writes_into(&self, input: &File) -> bool {
        match &self.target {
            Target::Through(ours) => file::are_same(ours, input),
            Target::File(_) => false,
        }
    }

    /// How the command ends after a write has failed with `error`.
    pub(crate) fn ending(&self, error: &io::Error) -> Ending {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Ending::ClosedPipe;
        }
        Failure::io(&self.name, "write", error)
            .at(self.written_bytes)
            .into()
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// How the command ends.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        self.write_all(bytes).map_err(|error| self.ending(&error))
    }

    /// Writes a whole file and makes it visible under its name; returns its length in bytes.
    ///
    /// # Errors
    /// As [`Output::put`] and [`Output::finish`].
    pub(crate) fn put_all(mut self, bytes: &[u8]) -> Result<u64, Ending> {
        self.put(bytes)?;
        let written_bytes = self.written_bytes;
        self.finish()?;
        Ok(written_bytes)
    }

    /// Opens the output of a package, which is written at offsets: a file.
    ///
    /// # Errors
    /// As [`Output::create`]; or the name is that of standard output.
    pub(crate) fn create_package(name: &OsStr) -> Result<Output, Ending> {
        refuse_stdout(name, "a package is written at offsets, so it")?;
        // Before a FIFO is opened, which waits for a reader.
        let about = std::fs::metadata(name);
        if about.is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            return Err(no_regular_file(name).into());
        }
        Ok(Output::create(name)?)
    }

    /// The file, for writes at offsets; only a file that will be renamed.
    ///
    /// # Errors
    /// The target is standard output, or not a regular file.
    pub(crate) fn file(&self) -> Result<&File, Failure> {
        match &self.target {
            Target::File(file) => Ok(file.file()),
            Target::Through(_) => Err(no_regular_file(&self.name)),
        }
    }

    /// Makes the bytes durable and the file visible under its name.
    ///
    /// # Errors
    /// The system cannot store the bytes after all, or not rename; nothing is left behind then.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.target {
            Target::Through(_) => Ok(()),
            Target::File(file) => file
                .commit(AtomicFile::KEEP_PERMISSIONS)
                .map_err(|error| Failure::system(&self.name, "write", &error)),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = match &self.target {
            Target::Through(file) => file,
            Target::File(file) => file.file(),
        };
        let count = file.write(bytes)?;
        self.written_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn no_regular_file(name: &OsStr) -> Failure {
    Failure::new(name, "a package is written to a regular file")
}

/// Refuses standard output as the name of an output that must be a file; `why` says so, and ends
/// with its name.
///
/// # Errors
/// The name is `-`.
pub(crate) fn refuse_stdout(name: &OsStr, why: &str) -> Result<(), Ending> {
    match name == "-" {
        true => Err(Ending::Usage(format!("{why} must be a file and not -"))),
        false => Ok(()),
    }
}

/// As [`refuse_stdout`], for the output `what` of a command that prints its document with `--json`.
pub(crate) fn refuse_beside_json(json: bool, name: &OsStr, what: &str) -> Result<(), Ending> {
    match json {
        true => refuse_stdout(
            name,
            &format!("--json prints to standard output, so {what}"),
        ),
        false => Ok(()),
    }
}

fn open_path(path: &Path) -> io::Result<Target> {
    let replaces = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            return Err(io::Error::from_raw_os_error(Errno::IS_FOLDER.0));
        }
        Ok(metadata) if metadata.is_file() => true,
        // By its own name: the links of /dev/fd lead to pipes that have no other.
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Target::Through(file));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let Some(target) = follow_links(path)? else {
        let file = OpenOptions::new().append(true).open(path)?;
        return Ok(Target::Through(file));
    };
    if target.file_name().is_none() || ends_with_slash(&target) {
        return Err(io::Error::from_raw_os_error(Errno::IS_FOLDER.0));
    }
    if replaces {
        file::check_writable(&target)?;
    }
    Ok(Target::File(AtomicFile::create(&target)?))
}

/// The file that a name means, there or not: links are followed even if what they lead to is
/// missing. `None` for `/dev/stdout` and its like, links of procfs to what is open already.
pub(crate) fn follow_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(link) = std::fs::read_link(&path) else {
            // Not a link, or not there.
            return Ok(Some(path));
        };
        let folder = folder_of(&path);
        if file::is_of_procfs(folder) {
            return Ok(None);
        }
        // An absolute link replaces the whole path here.
        path = folder.join(link);
    }
    Err(io::Error::from_raw_os_error(Errno::LINK_CIRCLE.0))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn ends_with_slash(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    last.is_some_and(|&last| std::path::is_separator(char::from(last)))
}

/// Writes text to standard output.
///
/// # Errors
/// Its reader has gone, or the file behind it cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Ending> {
    Output::create(OsStr::new("-"))?.put(text.as_bytes())
}

/// Writes a command's JSON document, with what failed of the command if something did.
///
/// # Errors
/// As [`print()`], or how the command ended.
pub(crate) fn conclude(mut document: Value, mut ended: Result<(), Ending>) -> Result<(), Ending> {
    if let Err(Ending::Failed(failures)) = &mut ended {
        failures.document(&mut document);
    }
    print_json(&document)?;
    ended
}

/// Writes a JSON document and a line's end to standard output.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_json(document: &impl serde::Serialize) -> Result<(), Ending> {
    let text = serde_json::to_string(document).expect("documents have text keys and plain values");
    print(&(text + "\n"))
}
