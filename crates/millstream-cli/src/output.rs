//! Outputs that are complete or absent.
//!
//! A file is written as an [`AtomicFile`], which replaces its target once it is complete and
//! synced: a reader of the target sees the old bytes or all of the new ones, also after a crash.
//! Consequences:
//! - A symbolic link as target is followed: the file it leads to is replaced, the link stays.
//! - A replaced file keeps its permissions; one without write permission is an error, even where
//!   its folder allows the rename.
//! - The target may be the input itself: the input stays open and keeps its bytes until the end.
//!   Commands whose input is not what they replace refuse that ([`refuse_inputs`]).
//! - An existing target that is not a regular file (`/dev/null`, a FIFO, a block device) is written
//!   directly: a rename would put a file in its place. A file named `/dev/stdout` or `/dev/fd/N` is
//!   appended to: the process that opened it keeps that file.
//! - A file that cannot be replaced (a bind mount, a folder without write permission) is an error.
//!   With `--in-place`, an existing file is truncated at the first write and written into.
//! - `-` is standard output, through its descriptor, without the standard library's line buffer.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millstream_io::fs::{AtomicFile, file, names::folder_of};
use millstream_io::{Errno, IoError};
use serde_json::Value;

use crate::failure::{Ending, Failure, check_path};
use crate::limits::LINKS_MAX;
use crate::standard;

/// Whether existing files are written into and not replaced.
static IN_PLACE: AtomicBool = AtomicBool::new(false);

/// Makes all outputs that exist be written into: `--in-place`.
pub(crate) fn write_in_place() {
    IN_PLACE.store(true, Relaxed);
}

/// Returns whether outputs are written into.
pub(crate) fn is_in_place() -> bool {
    IN_PLACE.load(Relaxed)
}

/// An output of a command. If dropped before [`Output::finish`], it leaves no file behind.
pub(crate) struct Output {
    name: OsString,
    target: Target,
    /// Number of bytes written so far.
    pub(crate) written_bytes: u64,
    /// Whether there is an old file, ...
    replaces: bool,
    /// ... which is still to be truncated.
    truncates: bool,
}

enum Target {
    /// Standard output, or something that is not a regular file.
    Through(File),
    /// A regular file that is written into.
    InPlace(File),
    /// A regular file, not yet visible under its name.
    File(AtomicFile),
}

impl Output {
    /// Opens the output named on the command line, `-` for standard output.
    pub(crate) fn create(name: &OsStr) -> Result<Output, Failure> {
        let (target, replaces) = if name == "-" {
            let opened = standard::output().map(|file| (Target::Through(file), false));
            opened.map_err(|error| Failure::io(name, "write", &error))?
        } else {
            check_path(Path::new(name), "write")?;
            open_path(Path::new(name))?
        };
        let name = if name == "-" {
            OsString::from("standard output")
        } else {
            name.to_owned()
        };
        Ok(Output {
            name,
            written_bytes: 0,
            replaces,
            truncates: matches!(target, Target::InPlace(_)),
            target,
        })
    }

    /// Returns whether the bytes go into the same file as `input`.
    pub(crate) fn writes_into(&self, input: &File) -> bool {
        match &self.target {
            Target::Through(ours) | Target::InPlace(ours) => file::are_same(ours, input),
            Target::File(_) => false,
        }
    }

    /// Returns how the command ends after a write failed with `error`.
    pub(crate) fn ending(&self, error: &io::Error) -> Ending {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Ending::ClosedPipe;
        }
        Failure::io(&self.name, "write", error)
            .at(self.written_bytes)
            .into()
    }

    /// Writes all of `bytes`.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        self.write_all(bytes).map_err(|error| self.ending(&error))
    }

    /// Writes a whole file and makes it visible under its name; returns its length in bytes.
    pub(crate) fn put_all(mut self, bytes: &[u8]) -> Result<u64, Ending> {
        self.put(bytes)?;
        let written_bytes = self.written_bytes;
        self.finish()?;
        Ok(written_bytes)
    }

    /// Opens the output of a package: a regular file, because packages are written at offsets.
    pub(crate) fn create_package(name: &OsStr) -> Result<Output, Ending> {
        refuse_stdout(name, "a package is written at offsets, so it")?;
        // Before a FIFO is opened, which blocks until there is a reader.
        let about = std::fs::metadata(name);
        if about.is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            return Err(no_regular_file(name).into());
        }
        Ok(Output::create(name)?)
    }

    /// Returns the file, for writes at offsets; only for a regular file.
    pub(crate) fn file(&mut self) -> Result<&File, Failure> {
        let truncated = self.truncate();
        truncated.map_err(|error| Failure::io(&self.name, "write", &error))?;
        match &self.target {
            Target::File(file) => Ok(file.file()),
            Target::InPlace(file) => Ok(file),
            Target::Through(_) => Err(no_regular_file(&self.name)),
        }
    }

    /// Truncates a file that is written into, once.
    fn truncate(&mut self) -> io::Result<()> {
        match &self.target {
            Target::InPlace(file) if std::mem::take(&mut self.truncates) => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// Makes the bytes durable and the file visible under its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let truncated = self.truncate();
        let ended = match self.target {
            Target::Through(_) => Ok(()),
            Target::InPlace(file) => truncated.and_then(|()| file.sync_all()),
            Target::File(file) => {
                let committed = file.commit(AtomicFile::KEEP_PERMISSIONS);
                return committed.map_err(|error| refused(&self.name, &error, self.replaces));
            }
        };
        ended.map_err(|error| Failure::io(&self.name, "write", &error))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.truncate()?;
        let mut file = match &self.target {
            Target::Through(file) | Target::InPlace(file) => file,
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

/// Refuses an output that is the same file as an input named on the command line, which it would
/// replace.
pub(crate) fn refuse_inputs<'a>(
    output: &OsStr,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let existing = match output == "-" {
        true => None,
        false => file::about(Path::new(output)).ok(),
    };
    let Some(existing) = existing.filter(|existing| existing.is_file) else {
        return Ok(());
    };
    // Without the time, at which another program may be writing.
    let number = |about: file::About| (about.identity.device, about.identity.inode);
    let existing = number(existing);
    let is_input = |input| file::about(input).is_ok_and(|input| number(input) == existing);
    match inputs.into_iter().any(is_input) {
        true => Err(Failure::new(
            output,
            "cannot write: the command reads this file",
        )),
        false => Ok(()),
    }
}

fn no_regular_file(name: &OsStr) -> Failure {
    Failure::new(name, "a package is written to a regular file")
}

/// Refuses standard output for an output that must be a file; `why` begins the message and ends
/// with the output's name.
pub(crate) fn refuse_stdout(name: &OsStr, why: &str) -> Result<(), Ending> {
    match name == "-" {
        true => Err(Ending::Usage(format!("{why} must be a file and not -"))),
        false => Ok(()),
    }
}

/// As [`refuse_stdout`], for the output `what` of a command that prints JSON with `--json`.
pub(crate) fn refuse_beside_json(json: bool, name: &OsStr, what: &str) -> Result<(), Ending> {
    match json {
        true => refuse_stdout(
            name,
            &format!("--json prints to standard output, so {what}"),
        ),
        false => Ok(()),
    }
}

/// Opens an output file, and returns whether it exists and is a regular file.
fn open_path(path: &Path) -> Result<(Target, bool), Failure> {
    let failed = |error: io::Error| Failure::io(path, "write", &error);
    let is_folder = || failed(io::Error::from_raw_os_error(Errno::IS_FOLDER.0));
    let replaces = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(is_folder()),
        Ok(metadata) if metadata.is_file() => true,
        // Opened by the name given: the links of /dev/fd lead to pipes that have no other name.
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path);
            return Ok((Target::Through(file.map_err(failed)?), false));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    let Some(target) = follow_links(path).map_err(failed)? else {
        let file = OpenOptions::new().append(true).open(path);
        return Ok((Target::Through(file.map_err(failed)?), false));
    };
    let last = target.as_os_str().as_encoded_bytes().last();
    let ends_with_slash = last.is_some_and(|&last| std::path::is_separator(char::from(last)));
    if target.file_name().is_none() || ends_with_slash {
        return Err(is_folder());
    }
    if replaces {
        file::check_writable(&target).map_err(failed)?;
    }
    if replaces && is_in_place() {
        let file = OpenOptions::new().read(true).write(true).open(&target);
        return Ok((Target::InPlace(file.map_err(failed)?), true));
    }
    let made = AtomicFile::create(&target);
    let made = made.map_err(|error| refused(path.as_os_str(), &error, replaces))?;
    Ok((Target::File(made), replaces))
}

/// Returns the failure of an output that cannot be made; if it replaces a file, this user may write
/// that.
fn refused(name: &OsStr, error: &IoError, replaces: bool) -> Failure {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    let failure = Failure::system(name, "write", error);
    let kind = io::Error::from_raw_os_error(error.errno.0).kind();
    match replaces && [PermissionDenied, ReadOnlyFilesystem, ResourceBusy].contains(&kind) {
        true => failure.hint("it can only be written into, as --in-place does"),
        false => failure,
    }
}

/// Resolves symbolic links in the last component of a path, whether or not the target exists.
/// `None` for `/dev/stdout` and the like: procfs links to files that are already open.
pub(crate) fn follow_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(link) = std::fs::read_link(&path) else {
            // Not a symbolic link, or missing.
            return Ok(Some(path));
        };
        let folder = folder_of(&path);
        if file::is_of_procfs(folder) {
            return Ok(None);
        }
        // `join` with an absolute link replaces the whole path.
        path = folder.join(link);
    }
    Err(io::Error::from_raw_os_error(Errno::LINK_CIRCLE.0))
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Ending> {
    Output::create(OsStr::new("-"))?.put(text.as_bytes())
}

/// Writes a command's JSON document with its failures, and returns how the command ended.
pub(crate) fn conclude(mut document: Value, mut ended: Result<(), Ending>) -> Result<(), Ending> {
    if let Err(Ending::Failed(failures)) = &mut ended {
        failures.document(&mut document);
    }
    print_json(&document)?;
    ended
}

/// Writes a JSON document and a newline to standard output.
pub(crate) fn print_json(document: &impl serde::Serialize) -> Result<(), Ending> {
    let text = serde_json::to_string(document).expect("documents have text keys and plain values");
    print(&(text + "\n"))
}
