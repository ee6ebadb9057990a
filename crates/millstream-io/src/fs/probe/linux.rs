//! What Linux reports about a machine and a place.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Statx};
use rustix::process::{Resource, getrlimit};

use super::{Machine, MountFacts};
use crate::error::IoError;
use crate::fs::explain;
use crate::fs::unix::linux::mount::{Mount, Mounts, device_number, disk_of, known};
use crate::fs::unix::linux::{disk, has_cachestat, own_device_number, status};
use crate::limits::FOLDER_SAMPLE_MAX;

/// Reads a few small files of `/proc` and `/sys`.
pub(super) fn machine() -> Machine {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let huge_pages = read_line("/sys/kernel/mm/transparent_hugepage/enabled");
    Machine {
        kernel: read_line("/proc/sys/kernel/osrelease"),
        cpu: field(&cpus, "model name").map(str::to_owned),
        memory_bytes: kilobytes(&memory, "MemTotal"),
        memory_available_bytes: kilobytes(&memory, "MemAvailable"),
        memlock_max_bytes: getrlimit(Resource::Memlock).current,
        open_files_max: getrlimit(Resource::Nofile).current,
        huge_pages: huge_pages.as_deref().and_then(chosen).map(str::to_owned),
        ..Machine::default()
    }
}

/// See [`super::place`].
pub(super) fn place(path: &Path) -> Result<MountFacts, IoError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let here =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| explain("open", errno))?;
    let about = status(here.as_fd()).map_err(|errno| explain("statx", errno))?;
    let kind = FileType::from_raw_mode(u32::from(about.stx_mode));
    if kind == FileType::BlockDevice {
        return Ok(block_device(&here, &about));
    }
    let mounts = Mounts::default();
    let failed = |errno| explain("fstatfs", errno);
    let mount = mounts.of(here.as_fd(), &about).map_err(failed)?;
    let sample = match kind {
        FileType::RegularFile => Some((here, about)),
        FileType::Directory => sample_file(path, &about),
        _ => None,
    };
    let direct = sample
        .as_ref()
        .and_then(|(file, about)| mounts.direct(file.as_fd(), about, mount));
    let disk = disk_of(&about);
    Ok(MountFacts {
        mount_kind: mount.kind,
        file_system: name_of(mount.magic),
        device: device_number(&about),
        device_name: disk.map(|disk| disk.name),
        rotating: mount.rotating,
        direct,
        cachestat: sample.is_some_and(|(file, _)| has_cachestat(file.as_fd())),
    })
}

fn block_device(file: &OwnedFd, about: &Statx) -> MountFacts {
    let device = own_device_number(about);
    let disk = disk::of_device(device);
    let mount = Mount::of_block_device(disk.as_ref());
    MountFacts {
        mount_kind: mount.kind,
        file_system: "block device".to_owned(),
        device,
        rotating: mount.rotating,
        device_name: disk.map(|disk| disk.name),
        direct: Mounts::default().direct(file.as_fd(), about, mount),
        cachestat: has_cachestat(file.as_fd()),
    }
}

/// Opens a file on the same file system as a folder, to query what only files report.
fn sample_file(folder: &Path, about: &Statx) -> Option<(OwnedFd, Statx)> {
    let nameless = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, nameless, Mode::from_raw_mode(0o600)) {
        let status = status(file.as_fd()).ok()?;
        return Some((file, status));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    fs::read_dir(folder)
        .ok()?
        .flatten()
        .take(FOLDER_SAMPLE_MAX)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .find_map(|entry| {
            let file = rustix::fs::open(entry.path(), flags, Mode::empty()).ok()?;
            let found = status(file.as_fd()).ok()?;
            let same = (found.stx_dev_major, found.stx_dev_minor)
                == (about.stx_dev_major, about.stx_dev_minor);
            same.then_some((file, found))
        })
}

fn name_of(magic: u64) -> String {
    known(magic)
        .0
        .map_or_else(|| format!("{magic:#x}"), str::to_owned)
}

fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the value of a `name : value` line.
fn field<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let count: u64 = field(text, name)?.strip_suffix(" kB")?.parse().ok()?;
    count.checked_mul(1024)
}

/// Returns the word in brackets.
fn chosen(choices: &str) -> Option<&str> {
    choices
        .split_once('[')?
        .1
        .split_once(']')
        .map(|word| word.0)
}

#[cfg(test)]
mod tests {
    use super::{chosen, kilobytes, name_of};

    #[test]
    fn texts_of_the_kernel_are_read() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always madvise"), None);
        let text = "MemTotal:       24684092 kB\nMemFree: 7 kB\nHugePages_Total:       0\n";
        assert_eq!(kilobytes(text, "MemTotal"), Some(24_684_092 * 1024));
        assert_eq!(kilobytes(text, "MemFree"), Some(7 * 1024));
        assert_eq!(kilobytes(text, "HugePages_Total"), None);
        assert_eq!(kilobytes(text, "Mem"), None);
        assert_eq!(name_of(0xef53), "ext4");
        assert_eq!(name_of(0x1234_5678), "0x12345678");
    }
}
