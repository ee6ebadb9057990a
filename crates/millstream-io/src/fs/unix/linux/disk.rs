//! What `/sys` reports about the disk of a device number: its name, and whether it is rotating.
//!
//! A disk's queue has a flag `rotational`, which is not reliable: it defaults to 1, and virtual
//! disks that do not set it keep that. So disks of a hypervisor never count as rotating. A
//! partition has no queue (its parent has), and a mapped device, an array or a loop device depends
//! on what is below it: it is rotating if anything below is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::limits::DISK_STACK_MAX;

/// Drivers of virtual disks.
const VIRTUAL_DRIVERS: [&str; 4] = ["virtio_blk", "vbd", "hv_storvsc", "nbd"];

/// Vendor names of hypervisors' SCSI disks.
const VIRTUAL_VENDORS: [&str; 7] = [
    "QEMU", "VMware", "Msft", "VBOX", "Google", "Amazon", "Nutanix",
];

/// Name prefixes of disks that are virtual, whatever their driver.
const VIRTUAL_NAMES: [&str; 4] = ["vd", "xvd", "zram", "ram"];

/// A disk or partition, as known to the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The kernel's name, as under `/dev`: `nvme0n1p2`.
    pub(crate) name: String,
    /// Whether it is rotating, so that seeks are expensive.
    pub(crate) rotating: bool,
}

/// Returns the disk with a device number; `None` if that is not a block device's.
pub(crate) fn of_device(device: u64) -> Option<Disk> {
    let folder = folder_of(Path::new("/sys"), device)?;
    Some(Disk {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        rotating: is_rotating(Path::new("/sys"), &folder, DISK_STACK_MAX),
    })
}

/// Returns the folder of a block device below `sys`, by its link: the last parts of the path are
/// the names of the disk and, of a partition, its own.
fn folder_of(sys: &Path, device: u64) -> Option<PathBuf> {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let links = sys.join("dev/block");
    let link = fs::read_link(links.join(number)).ok()?;
    Some(links.join(link))
}

fn is_rotating(sys: &Path, folder: &Path, levels: u32) -> bool {
    if levels == 0 {
        return false;
    }
    if folder.join("partition").exists() {
        return folder
            .parent()
            .is_some_and(|disk| is_rotating(sys, disk, levels - 1));
    }
    let under: Vec<PathBuf> = fs::read_dir(folder.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .chain(backing_folder(sys, folder))
        .collect();
    if !under.is_empty() {
        return under
            .iter()
            .any(|folder| is_rotating(sys, folder, levels - 1));
    }
    read_word(&folder.join("queue/rotational")).is_some_and(|word| word == "1")
        && !is_virtual(folder)
}

/// Returns the folder of the disk that a loop device's file is on.
fn backing_folder(sys: &Path, folder: &Path) -> Option<PathBuf> {
    let path = read_word(&folder.join("loop/backing_file"))?;
    folder_of(sys, fs::metadata(path).ok()?.dev())
}

fn is_virtual(folder: &Path) -> bool {
    let name = folder
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default();
    if VIRTUAL_NAMES.iter().any(|start| name.starts_with(start)) {
        return true;
    }
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name);
    let vendor = read_word(&folder.join("device/vendor")).unwrap_or_default();
    let mut vendors = VIRTUAL_VENDORS.iter();
    driver.is_some_and(|driver| VIRTUAL_DRIVERS.iter().any(|&known| driver == known))
        || vendors.any(|known| vendor.starts_with(known))
}

fn read_word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{DISK_STACK_MAX, is_rotating};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Makes a folder with the layout that `/sys` has for a disk.
    fn disk(sys: &Path, name: &str, rotational: &str, vendor: &str) -> std::path::PathBuf {
        let folder = sys.join("devices").join(name);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::create_dir_all(folder.join("device")).unwrap();
        fs::write(folder.join("queue/rotational"), format!("{rotational}\n")).unwrap();
        fs::write(folder.join("device/vendor"), format!("{vendor}  \n")).unwrap();
        folder
    }

    #[test]
    fn disks_partitions_and_stacks_are_told_apart() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        let rotating = |folder: &Path| is_rotating(sys, folder, DISK_STACK_MAX);
        let real = disk(sys, "sda", "1", "ATA");
        let flash = disk(sys, "nvme0n1", "0", "");
        assert!(rotating(&real) && !rotating(&flash));
        assert!(!rotating(&disk(sys, "sdb", "1", "QEMU")));
        assert!(!rotating(&disk(sys, "vda", "1", "")));
        let driven = disk(sys, "disk9", "1", "");
        fs::create_dir_all(sys.join("bus/virtio_blk")).unwrap();
        symlink(sys.join("bus/virtio_blk"), driven.join("device/driver")).unwrap();
        assert!(!rotating(&driven));
        let partition = real.join("sda1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        assert!(rotating(&partition));
        for (under, expected) in [(&partition, true), (&flash, false)] {
            let name = format!("dm-{expected}");
            let mapped = disk(sys, &name, if expected { "0" } else { "1" }, "");
            fs::create_dir_all(mapped.join("slaves")).unwrap();
            symlink(under, mapped.join("slaves/under")).unwrap();
            assert_eq!(rotating(&mapped), expected);
        }
        // A cyclic stack ends.
        let circle = disk(sys, "md0", "1", "");
        fs::create_dir_all(circle.join("slaves")).unwrap();
        symlink(&circle, circle.join("slaves/md0")).unwrap();
        assert!(!rotating(&circle));
    }
}
