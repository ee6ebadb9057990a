//! What this process holds: resident memory, descriptors, threads. For checks that nothing leaks.
//!
//! All of it comes from `/proc/self`. Other tests of the same process hold things too, so a leak
//! check belongs in a [`child`](crate::child) or in a test binary of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
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
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a process has resident memory");
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .expect("VmRSS is a number of kB");
    kib * 1024
}

fn descriptors() -> BTreeMap<i32, PathBuf> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd").expect("/proc is mounted") {
        let Ok(entry) = entry else { continue };
        // The descriptor of this very listing is in it; its link is gone when we ask, or shows
        // the listing itself.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        if target.ends_with("fd") && target.starts_with("/proc") {
            continue;
        }
        if let Some(fd) = entry.file_name().to_str().and_then(|s| s.parse().ok()) {
            found.insert(fd, target);
        }
    }
    found
}

fn threads() -> BTreeMap<i32, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").expect("/proc is mounted") {
        let Ok(entry) = entry else { continue };
        // A thread may end between the listing and the look at its name: then it is gone.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else {
            continue;
        };
        if let Some(id) = entry.file_name().to_str().and_then(|s| s.parse().ok()) {
            found.insert(id, name.trim_end().to_owned());
        }
    }
    found
}
