//! What this process holds: resident memory, descriptors, threads. For checks that nothing leaks.
//!
//! All of it comes from `/proc/self`. Other tests of the same process hold things too, so a leak
//! check belongs in a [`child`](crate::child) or in a test binary of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long `settle` sleeps between two looks.
const SETTLE_STEP: Duration = Duration::from_millis(2);

/// What the process holds at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Open descriptors and what they are (`/path`, `socket:[1]`, `anon_inode:[io_uring]`).
    pub descriptors: BTreeMap<i32, PathBuf>,
    /// Threads: id and name.
    pub threads: BTreeMap<i32, String>,
}

impl Resources {
    /// Looks now.
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

    /// Looks until no thread and no descriptor is there that was not in `self`, for at most
    /// `limit`: a joined thread leaves `/proc` a moment after it was joined. What is there in
    /// excess in the end comes back in words; nothing means that nothing leaked.
    #[must_use]
    pub fn settle(&self, limit: Duration) -> Vec<String> {
        let until = Instant::now() + limit;
        loop {
            let excess = self.excess();
            if excess.is_empty() || Instant::now() >= until {
                return excess;
            }
            std::thread::sleep(SETTLE_STEP);
        }
    }

    /// Threads and descriptors that are there now and were not in `self`.
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
    // The descriptor of this very listing is in it; its link is gone when we ask, or shows the
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

/// What is known of the entries of a folder that are numbers; what ends between the listing and the
/// look at it is gone.
fn numbered<T>(folder: &str, look: impl Fn(&Path) -> Option<T>) -> BTreeMap<i32, T> {
    let entries = fs::read_dir(folder).expect("/proc is mounted").flatten();
    let found = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, look(&entry.path())?))
    });
    found.collect()
}
