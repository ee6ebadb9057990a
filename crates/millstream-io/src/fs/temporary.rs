//! Temporary names of files that are renamed when complete.
//!
//! A temporary name contains its process id, and is removed with its [`TemporaryFile`].
//! [`remove_leftovers`] removes those of killed processes. [`abandon_temporary_files`] is for a
//! program that ends by a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use super::os::{self, Folder};
use crate::error::{Errno, IoError};
use crate::limits::{ABANDON_WAIT, TEMPORARY_NAMES_MAX};

/// The folders of this process's temporary files, by the number in their names.
static TEMPORARY: Mutex<BTreeMap<u64, Arc<Folder>>> = Mutex::new(BTreeMap::new());

/// Held shared while a temporary name is created or renamed. Taken permanently by
/// [`abandon_temporary_files`].
static GATE: RwLock<()> = RwLock::new(());

/// The number in the next name: there may be thousands at once, and each is tried once.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Temporary names begin and end with these.
const PREFIX: &str = ".millstream-";
const SUFFIX: &str = ".tmp";
/// Precedes the number of a file that is being replaced, on Windows.
const BACKUP: &str = "old-";

/// A temporary name of a file; removed on drop, unless renamed by [`TemporaryFile::rename`].
#[derive(Debug)]
pub struct TemporaryFile {
    folder: Arc<Folder>,
    number: u64,
}

impl TemporaryFile {
    /// Creates an empty file in an open folder, with these permissions less the process's umask
    /// (ignored on Windows). [`remove_leftovers`] leaves it alone while its process has a temporary
    /// file open in the folder (on Windows, while its process lives).
    ///
    /// # Errors
    /// The folder is full or not writable.
    pub fn create(folder: &Arc<Folder>, mode: u32) -> Result<(File, TemporaryFile), IoError> {
        TemporaryFile::named(folder, |name| folder.create_file(name, mode))
    }

    /// Has `make` create a file under a new name.
    pub(super) fn named<T>(
        folder: &Arc<Folder>,
        make: impl Fn(&str) -> Result<T, IoError>,
    ) -> Result<(T, TemporaryFile), IoError> {
        let _open = GATE.read().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TEMPORARY_NAMES_MAX {
            let number = NEXT.fetch_add(1, Relaxed);
            match make(&temporary_name(number)) {
                Ok(made) => {
                    let folder = Arc::clone(folder);
                    temporary_files().insert(number, Arc::clone(&folder));
                    return Ok((made, TemporaryFile { folder, number }));
                }
                Err(error) if error.errno == Errno::EXISTS => {}
                Err(error) => return Err(error),
            }
        }
        let cause = "the folder is full of temporary files .millstream-*.tmp";
        Err(IoError::because("create", Errno::EXISTS, cause))
    }

    /// Renames the file to `name` in an open folder of the same file system.
    ///
    /// # Errors
    /// `name` is itself a temporary name, whose file would be removed as a leftover; else the
    /// system's error. The file is removed then.
    pub fn rename(self, folder: &Folder, name: &OsStr) -> Result<(), IoError> {
        check_final_name(name)?;
        let _open = GATE.read().unwrap_or_else(PoisonError::into_inner);
        self.folder.rename(&self.name(), folder, name)?;
        temporary_files().remove(&self.number);
        Ok(())
    }

    /// Returns whether its folder takes names that differ in case only for one.
    #[must_use]
    pub fn is_case_ignored(&self) -> bool {
        let other = self.name().to_uppercase();
        self.folder.identity(OsStr::new(&other)).is_some()
    }

    /// Returns the name in its folder.
    #[must_use]
    pub fn name(&self) -> String {
        temporary_name(self.number)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // If it is not listed, it was renamed, or removed by `abandon_temporary_files`.
        let listed = temporary_files().remove(&self.number);
        if let Some(folder) = listed {
            folder.remove(&self.name());
        }
    }
}

fn temporary_files() -> MutexGuard<'static, BTreeMap<u64, Arc<Folder>>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file's name is a temporary one, which [`remove_leftovers`] may remove.
#[must_use]
pub fn is_temporary_name(name: &OsStr) -> bool {
    numbers_of(name).is_some()
}

/// Checks that a file may have a name permanently.
pub(super) fn check_final_name(name: &OsStr) -> Result<(), IoError> {
    if is_temporary_name(name) {
        let cause = "names .millstream-NUMBER-NUMBER.tmp are those of temporary files";
        return Err(IoError::because("name a file", Errno::BAD_NAME, cause));
    }
    Ok(())
}

/// Returns the process id in a temporary name, and the number.
fn numbers_of(name: &OsStr) -> Option<(&str, &str)> {
    let numbers = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let (process, number) = numbers.split_once('-')?;
    let number = number.strip_prefix(BACKUP).unwrap_or(number);
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (decimal(process) && decimal(number)).then_some((process, number))
}

/// Whether a name is that of a temporary file of this process, in any folder.
fn is_ours(name: &OsStr) -> bool {
    numbers_of(name).is_some_and(|(process, number)| {
        let listed = |number| temporary_files().contains_key(&number);
        process == std::process::id().to_string() && number.parse().is_ok_and(listed)
    })
}

/// Not derived from the target's name, which may have the maximum length.
fn temporary_name(number: u64) -> String {
    format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id())
}

/// Returns a name for a file while it is being replaced; if the process is killed, it is removed as
/// its temporary files are.
#[cfg(windows)]
pub(super) fn backup_name() -> String {
    let number = NEXT.fetch_add(1, Relaxed);
    format!("{PREFIX}{}-{BACKUP}{number}{SUFFIX}", std::process::id())
}

/// Removes temporary files of killed processes from a folder. Blocks.
pub fn remove_leftovers(folder: &Path) {
    let left = temporary_files_in(folder);
    if left.is_empty() {
        return;
    }
    // Listed again: a living process opens the file that it keeps open before its others.
    let now = temporary_files_in(folder).into_iter();
    let alive: BTreeSet<String> = now
        .filter(|(path, process)| {
            path.file_name().is_some_and(is_ours) || os::is_in_use(path, process)
        })
        .map(|(_, process)| process)
        .collect();
    for (path, process) in left {
        if !alive.contains(&process) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the files in a folder with temporary names, each with its process id.
fn temporary_files_in(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Some((process, _)) = numbers_of(&entry.file_name()) {
            found.push((entry.path(), process.to_owned()));
        }
    }
    found
}

/// Removes every temporary file of this process and lets no other be created or renamed: a thread
/// that tries waits forever. For a thread that handles signals: the process must end soon after.
///
/// Waits at most two seconds for a thread that is creating or renaming a file; if that hangs,
/// nothing is removed, since the removal could hang as well.
pub fn abandon_temporary_files() {
    let begun = Instant::now();
    let gate = loop {
        match GATE.try_write() {
            Ok(guard) => break guard,
            Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if begun.elapsed() < ABANDON_WAIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return,
        }
    };
    std::mem::forget(gate);
    let abandoned = std::mem::take(&mut *temporary_files());
    for (number, folder) in abandoned {
        folder.remove(&temporary_name(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_files_may_be_temporary_at_once() {
        let path = tempfile::tempdir().expect("a temporary folder");
        let folder = Arc::new(Folder::open(path.path()).expect("opened"));
        let count = 3 * TEMPORARY_NAMES_MAX as usize;
        let created = || TemporaryFile::create(&folder, 0o666).expect("a file").1;
        let temporary: Vec<TemporaryFile> = (0..count).map(|_| created()).collect();
        let files = || fs::read_dir(path.path()).expect("ours").count();
        assert_eq!(files(), count);
        drop(temporary);
        assert_eq!(files(), 0);
    }

    #[test]
    fn no_file_gets_the_name_of_a_temporary_one() {
        let path = tempfile::tempdir().expect("a temporary folder");
        let folder = Arc::new(Folder::open(path.path()).expect("opened"));
        let created = || TemporaryFile::create(&folder, 0o666).expect("a file").1;
        let refused = created().rename(&folder, OsStr::new(".millstream-5-0.tmp"));
        assert_eq!(refused.unwrap_err().errno, Errno::BAD_NAME);
        for name in [
            ".millstream-5.tmp",
            "millstream-5-0.tmp",
            ".millstream-5-0.tmp~",
            ".millstream-my-notes.tmp",
            ".millstream--.tmp",
        ] {
            created()
                .rename(&folder, OsStr::new(name))
                .expect("renamed");
        }
        remove_leftovers(path.path());
        assert_eq!(fs::read_dir(path.path()).expect("ours").count(), 5);
    }
}
