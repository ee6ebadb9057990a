//! The resources of this process: resident memory, descriptors, threads. For leak checks.
//!
//! All of it comes from `/proc/self`. Other tests of the same process hold resources, too, so a
//! leak check belongs in a [`child`](crate::child) or in a test binary of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait_at_most;

/// The resources of the process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Open descriptors and their targets (`/path`, `socket:[1]`, `anon_inode:[io_uring]`).
    pub descriptors: BTreeMap<i32, PathBuf>,
    /// Threads: id and name.
    pub threads: BTreeMap<i32, String>,
}

impl Resources {
    /// Returns the current resources.
    ///
    /// # Panics
    /// If `/proc` is not mounted.
    #[must_use]
    pub fn now() -> Resources {
        Resources {
            resident_bytes: resident_bytes(),
            descriptors: descriptors(),
            threads: threads(),
        }
    }

    /// Waits, at most `limit`, until there is no thread and no descriptor that is not in `self`: a
    /// joined thread leaves `/proc` a moment after the join. Returns descriptions of those that
    /// remain; none means that nothing leaked.
    #[must_use]
    pub fn settle(&self, limit: Duration) -> Vec<String> {
        let mut excess = Vec::new();
        let _ = wait_at_most(limit, || {
            excess = self.excess();
            excess.is_empty()
        });
        excess
    }

    /// Returns the current threads and descriptors that are not in `self`.
    fn excess(&self) -> Vec<String> {
        let now = Resources::now();
        let mut excess = Vec::new();
        for (id, name) in &now.threads {
            if !self.threads.contains_key(id) {
                excess.push(format!("thread {id} ({name})"));
            }
        }
        for (fd, target) in &now.descriptors {
            if self.descriptors.get(fd) != Some(target) {
                excess.push(format!("descriptor {fd} ({})", target.display()));
            }
        }
        excess
    }
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("VmRSS is a number of kB") * 1024
}

fn descriptors() -> BTreeMap<i32, PathBuf> {
    // The descriptor of this listing is in it; its link is gone when it is read, or names the
    // listing itself.
    let is_listing = |target: &PathBuf| target.ends_with("fd") && target.starts_with("/proc");
    numbered("/proc/self/fd", |path| {
        fs::read_link(path)
            .ok()
            .filter(|target| !is_listing(target))
    })
}

fn threads() -> BTreeMap<i32, String> {
    numbered("/proc/self/task", |path| {
        let name = fs::read_to_string(path.join("comm")).ok()?;
        Some(name.trim_end().to_owned())
    })
}

/// Returns what `look` finds for the numeric entries of a folder; an entry that vanishes before it
/// is looked at is left out.
fn numbered<T>(folder: &str, look: impl Fn(&Path) -> Option<T>) -> BTreeMap<i32, T> {
    let entries = fs::read_dir(folder).expect("/proc is mounted").flatten();
    let found = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, look(&entry.path())?))
    });
    found.collect()
}
