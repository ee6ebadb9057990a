//! A slow disk made of a fast one: the kernel's throttle of a block device for this process.
//!
//! Uses cgroup v1 (`blkio.throttle.read_bps_device`) or v2 (`io.max`), whichever this system has.
//! The process moves itself into a group of its own, with all its threads, so that direct, buffered
//! and ring reads from any thread are all held to the rate. It needs root and a real block device:
//! if either is missing, the case is skipped with the reason. The guard moves the process back and
//! removes the group on every exit but a kill; groups left by a killed benchmark are empty and
//! harmless. The controller `io` of v2 stays enabled.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};

pub(crate) struct Throttle {
    group: PathBuf,
    /// `cgroup.procs` of the group that the process was in.
    home: PathBuf,
}

impl Throttle {
    /// Limits this process' reads of the disk under `path` to a rate, in bytes per second.
    pub(crate) fn new(path: &Path, rate: u64) -> Result<Throttle> {
        let device = disk_of(path)?;
        // Every distribution mounts one of the two here.
        let (one, two) = (
            Path::new("/sys/fs/cgroup/blkio"),
            Path::new("/sys/fs/cgroup"),
        );
        let (root, file, text) = match one.exists() {
            true => (
                one,
                "blkio.throttle.read_bps_device",
                format!("{device} {rate}"),
            ),
            false => (two, "io.max", format!("{device} rbps={rate}")),
        };
        let groups = fs::read_to_string("/proc/self/cgroup").what("read /proc/self/cgroup")?;
        let home = own_group(&groups, root == one)
            .ok_or_else(|| Error::new("/proc/self/cgroup does not name this process' group"))?;
        let group = root.join(format!("millstream-bench-{}", std::process::id()));
        fs::create_dir(&group).on("make a control group (root is needed)", &group)?;
        let home = root.join(home.trim_start_matches('/')).join("cgroup.procs");
        let throttle = Throttle { group, home };
        if root == two {
            write(&root.join("cgroup.subtree_control"), "+io")?;
        }
        write(&throttle.group.join(file), &text)?;
        let procs = throttle.group.join("cgroup.procs");
        write(&procs, &std::process::id().to_string())?;
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Both steps are tried even if the first failed; at worst an empty group is left.
        let _ = write(&self.home, &std::process::id().to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).on(&format!("write {text:?} to"), path)
}

/// Returns `MAJOR:MINOR` of the whole disk that holds `path`; partitions cannot be throttled.
fn disk_of(path: &Path) -> Result<String> {
    let device = rustix::fs::stat(path).on("stat", path)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let node = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !node.exists() {
        return Err(Error::new(format!(
            "{} is on no block device of its own (tmpfs, overlay, btrfs or a network)",
            path.display()
        )));
    }
    if !node.join("partition").exists() {
        return Ok(format!("{major}:{minor}"));
    }
    // The node is a link into the disk's folder; a partition is a folder below its disk.
    let partition = fs::canonicalize(&node);
    let disk = partition.and_then(|it| fs::read_to_string(it.join("../dev")));
    Ok(disk.on("find the disk of", &node)?.trim().to_owned())
}

/// Returns the process' group relative to its hierarchy's root, from `/proc/self/cgroup`: in
/// version 1 that of `blkio`, in version 2 the only one.
fn own_group(groups: &str, is_one: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match is_one {
            true => controllers.split(',').any(|name| name == "blkio"),
            false => number == "0" && controllers.is_empty(),
        };
        ours.then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_either_version() {
        let groups = "12:cpu,cpuacct:/a\n9:blkio:/user/b:c\n0::/unified";
        assert_eq!(own_group(groups, true), Some("/user/b:c"));
        assert_eq!(own_group(groups, false), Some("/unified"));
        assert_eq!(own_group("", false), None);
    }

    #[test]
    fn a_throttle_comes_and_goes_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let before = fs::read_to_string("/proc/self/cgroup").unwrap();
        // A rate that slows nothing down, because other tests of this process read meanwhile.
        match Throttle::new(folder.path(), 1 << 40) {
            Err(error) => println!("SKIP: {error}"),
            Ok(throttle) => {
                let group = throttle.group.clone();
                assert!(group.exists());
                assert!(fs::read_to_string("/proc/self/cgroup").unwrap() != before);
                drop(throttle);
                assert!(!group.exists());
            }
        }
        assert_eq!(fs::read_to_string("/proc/self/cgroup").unwrap(), before);
    }
}
