//! Outputs that are whole or not there.
//!
//! A file is written under another name beside its target, synced, and renamed onto it; so
//! whoever looks at the target sees the old bytes or all the new ones, also after a crash. On an
//! error, on an interruption and when the program panics the other file is removed. What follows:
//! - A target that is a link is followed: the file it leads to is replaced, the link stays.
//! - A file that is replaced hands on its permissions; one that may not be written is an error,
//!   though its folder would allow the rename.
//! - The target may be the input itself: the input stays open and keeps its bytes until the end.
//! - A target that is there and not a regular file (`/dev/null`, a FIFO, a block device) is
//!   written through; a rename would put a file in its place. So is a file under the names
//!   `/dev/stdout` and `/dev/fd/N`, at its end: whoever opened it holds on to that very file.
//! - `-` is standard output, through its descriptor, past the line buffer of the standard library.
//!
//! The name of an unfinished file tells its process, which has at least one of them locked
//! (`flock`) as long as it lives. What a killed process left, the next output in the folder
//! removes.
//!
//! Unfinished files stand in one list of the process, for the signal thread. A file is created
//! and renamed under the list's lock, so that after [`abandon_all`], which keeps the lock, no
//! unfinished file is left and no other can come.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::{Ending, Failure};
use crate::limits::{ABANDON_WAIT, LINKS_MAX, TEMPORARY_NAMES_MAX};
use crate::{progress, standard};

/// Files that are not finished yet.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Names of unfinished files begin and end so.
const PREFIX: &str = ".millstream-";
const SUFFIX: &str = ".tmp";

/// The number in the next file's name: there may be thousands at once, and each name is tried once.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Set once they have been removed and the lock is never given back.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Where a command writes to. Dropped without [`Output::finish`], it leaves nothing behind.
pub(crate) struct Output {
    name: OsString,
    file: File,
    target: Target,
    written_bytes: u64,
}

enum Target {
    /// Standard output.
    Stdout,
    /// Something that is not a regular file.
    Through,
    /// A regular file, to be.
    File {
        unfinished: Unfinished,
        target: PathBuf,
    },
}

/// The name of a file that is removed unless it is renamed.
pub(crate) struct Unfinished(PathBuf);

impl Output {
    /// Opens the output named in the call, `-` for standard output.
    ///
    /// # Errors
    /// The target is a folder or a socket, may not be written, or its folder is missing or full.
    pub(crate) fn create(name: &OsStr) -> Result<Output, Failure> {
        let opened = if name == "-" {
            open_stdout()
        } else {
            open_path(Path::new(name))
        };
        let (file, target) = opened.map_err(|error| Failure::io(name, "write", &error))?;
        let name = if name == "-" {
            OsString::from("standard output")
        } else {
            name.to_owned()
        };
        Ok(Output {
            name,
            file,
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
        if matches!(self.target, Target::File { .. }) {
            return false;
        }
        match (self.file.metadata(), input.metadata()) {
            (Ok(ours), Ok(theirs)) => {
                let stored = ours.is_file() || ours.file_type().is_block_device();
                stored && (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
            }
            _ => false,
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

    /// Opens the output of a package, which is written at offsets: a file.
    ///
    /// # Errors
    /// As [`Output::create`]; or the name is that of standard output.
    pub(crate) fn create_package(name: &OsStr) -> Result<Output, Ending> {
        if name == "-" {
            return Err(Ending::Usage(String::from(
                "a package is written at offsets, so it must be a file and not -",
            )));
        }
        Ok(Output::create(name)?)
    }

    /// The file, for whoever writes at offsets. Only what will be renamed can be written so.
    ///
    /// # Errors
    /// The target is standard output, or no regular file.
    pub(crate) fn file(&self) -> Result<&File, Failure> {
        match &self.target {
            Target::File { .. } => Ok(&self.file),
            Target::Stdout | Target::Through => Err(Failure::new(
                &self.name,
                "a package is written to a regular file",
            )),
        }
    }

    /// Makes the bytes durable and the file visible under its name.
    ///
    /// # Errors
    /// The system cannot store the bytes after all, or not rename; nothing is left behind then.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Target::File { unfinished, target } = self.target else {
            return Ok(());
        };
        let done = self
            .file
            .sync_all()
            .and_then(|()| unfinished.rename(&target));
        done.map_err(|error| Failure::io(&self.name, "write", &error))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unfinished {
    /// Makes an empty file in `folder`, with these permissions less the process's mask.
    pub(crate) fn create(folder: &Path, mode: u32) -> io::Result<(File, Unfinished)> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        for _ in 0..TEMPORARY_NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // Not made of the target's name, which may be as long as names can be.
            let path = folder.join(format!("{PREFIX}{process}-{number}{SUFFIX}"));
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(mode).open(&path) {
                Ok(file) => {
                    // Where there are no locks, nothing is removed either. Before this one was
                    // taken, another process may have removed the file.
                    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
                    let removed = file.metadata()?.nlink() == 0;
                    if removed || locked.is_err_and(|errno| errno == Errno::WOULDBLOCK) {
                        let _ = std::fs::remove_file(&path);
                        continue;
                    }
                    unfinished.insert(path.clone());
                    return Ok((file, Unfinished(path)));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(
            "the folder is full of unfinished files .millstream-*.tmp",
        ))
    }

    /// Gives the file its name, and makes the name durable where the folder's file system can.
    fn rename(self, target: &Path) -> io::Result<()> {
        self.rename_by(|path| std::fs::rename(path, target))?;
        // A folder that may be written and not read cannot be synced; the bytes are safe already.
        if let Ok(folder) = File::open(folder_of(target)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Unfinished {
    /// Has `rename` give the file its name.
    ///
    /// # Errors
    /// What `rename` says; the file is removed then.
    pub(crate) fn rename_by(self, rename: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let done = rename(&self.0);
        if done.is_ok() {
            unfinished.remove(&self.0);
        }
        drop(unfinished);
        done
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if ABANDONED.load(Ordering::Acquire) {
            return;
        }
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        if unfinished.remove(&self.0) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Removes the unfinished files in a folder that killed processes left.
pub(crate) fn remove_left(folder: &Path) {
    let left = unfinished_in(folder);
    if left.is_empty() {
        return;
    }
    // Listed anew: what a living process has locked was there before its other files.
    let now = unfinished_in(folder).into_iter();
    let alive: BTreeSet<String> = now
        .filter(|(path, _)| is_locked(path))
        .map(|(_, process)| process)
        .collect();
    for (path, process) in left {
        if !alive.contains(&process) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Files in a folder that are named as unfinished ones, each with its process.
fn unfinished_in(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let numbers = numbers.and_then(|name| name.strip_suffix(SUFFIX));
        if let Some((process, _)) = numbers.and_then(|numbers| numbers.split_once('-')) {
            found.push((entry.path(), process.to_owned()));
        }
    }
    found
}

/// Whether a process holds a file's lock, or may hold it.
fn is_locked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let locked = rustix::fs::open(path, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive));
    locked.is_err_and(|errno| errno != Errno::NOENT)
}

/// Removes every unfinished file and lets no other be made or finished. For the signal thread:
/// the process must end soon after.
///
/// A thread that hangs while it creates or renames a file holds the lock; after
/// [`ABANDON_WAIT`] the interruption no longer waits for it.
pub(crate) fn abandon_all() {
    let begun = Instant::now();
    let unfinished = loop {
        match UNFINISHED.try_lock() {
            Ok(guard) => break guard,
            Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if begun.elapsed() < ABANDON_WAIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return,
        }
    };
    for path in unfinished.iter() {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(unfinished);
    ABANDONED.store(true, Ordering::Release);
}

fn open_stdout() -> io::Result<(File, Target)> {
    if io::stdout().is_terminal() {
        progress::silence();
    }
    standard::check(1)?;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((File::from(descriptor), Target::Stdout))
}

fn open_path(path: &Path) -> io::Result<(File, Target)> {
    let replaced = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        Ok(metadata) if metadata.is_file() => Some(metadata),
        // By its own name: the links of /dev/fd lead to pipes that have no other.
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok((file, Target::Through));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some(target) = follow_links(path)? else {
        let file = OpenOptions::new().append(true).open(path)?;
        return Ok((file, Target::Through));
    };
    if target.file_name().is_none() || ends_with_slash(&target) {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if replaced.is_some() {
        rustix::fs::access(&target, rustix::fs::Access::WRITE_OK)?;
    }
    let folder = folder_of(&target);
    remove_left(folder);
    // What replaces a private file is private from the beginning.
    let mode = replaced.as_ref().map_or(0o666, |old| old.mode() & 0o777);
    let (file, unfinished) = Unfinished::create(folder, mode)?;
    if let Some(metadata) = replaced {
        // Without the bits for set-user-ID and the like: they vouch for the old bytes.
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o777))?;
    }
    Ok((file, Target::File { unfinished, target }))
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
        if rustix::fs::statfs(folder).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC) {
            return Ok(None);
        }
        // An absolute link replaces the whole path here.
        path = folder.join(link);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Writes text to standard output.
///
/// # Errors
/// Its reader has gone, or the file behind it cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Ending> {
    let mut output = Output::create(OsStr::new("-"))?;
    output
        .write_all(text.as_bytes())
        .map_err(|error| output.ending(&error))
}

/// Writes a command's JSON document, with what failed of the command if something did.
///
/// # Errors
/// As [`print()`], or how the command ended.
pub(crate) fn conclude(
    document: &impl serde::Serialize,
    mut ended: Result<(), Ending>,
) -> Result<(), Ending> {
    let mut document = serde_json::to_value(document).expect("documents have text keys");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_files_may_be_unfinished_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let count = 3 * TEMPORARY_NAMES_MAX as usize;
        let created = || Unfinished::create(folder.path(), 0o666).expect("a file").1;
        let unfinished: Vec<Unfinished> = (0..count).map(|_| created()).collect();
        let files = || std::fs::read_dir(folder.path()).expect("ours").count();
        assert_eq!(files(), count);
        drop(unfinished);
        assert_eq!(files(), 0);
    }
}
