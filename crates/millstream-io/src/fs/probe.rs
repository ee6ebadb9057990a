//! Capabilities of this machine and of a place on it, for diagnostics.
//!
//! Everything is queried anew and nothing is cached. What the system does not report is `None`,
//! never a guess.

use std::path::Path;

use super::{DirectAlignment, MountKind};
use crate::error::IoError;
use crate::thread::available_cores;

/// Properties of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Machine {
    /// The kernel's release: `6.18.2-generic`.
    pub kernel: Option<String>,
    /// The processor's name, if the system reports it.
    pub cpu: Option<String>,
    /// Number of threads that this process may run at once (by affinity and control groups).
    pub cpus: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that is available without swapping, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Maximum number of bytes that this process may lock (`RLIMIT_MEMLOCK`), which bounds
    /// registered buffers; `None` if there is no limit or the system does not report it.
    pub memlock_max_bytes: Option<u64>,
    /// Maximum number of open files (`RLIMIT_NOFILE`); `None`: no limit, or not reported.
    pub open_files_max: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`; `None` if the kernel has none.
    pub huge_pages: Option<String>,
    /// Processor features that codecs use, by their names in Rust.
    pub cpu_features: Vec<&'static str>,
}

/// Properties of the file system and the disk of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountFacts {
    /// Kind of its mount.
    pub mount_kind: MountKind,
    /// Name of the file system (`ext4`), or its magic number in hexadecimal.
    pub file_system: String,
    /// Number of the file system's device (of the disk, for a block device).
    pub device: u64,
    /// The kernel's name of the disk or partition (`nvme0n1p2`), if one can be named.
    pub device_name: Option<String>,
    /// Whether the disk is rotating, so that seeks are expensive.
    pub rotating: bool,
    /// The alignment that direct I/O requires there; `None` if there is no direct I/O, or no file
    /// to query could be found or made.
    pub direct: Option<DirectAlignment>,
    /// Whether `cachestat` reports which parts of its files are in the page cache.
    pub cachestat: bool,
}

#[cfg(not(target_os = "linux"))]
impl MountFacts {
    /// Makes a place of which the system reports only how it is mounted.
    fn on(mount_kind: MountKind, device: u64, direct: Option<DirectAlignment>) -> MountFacts {
        let name = match mount_kind {
            MountKind::Local => "local volume",
            _ => "network share",
        };
        MountFacts {
            mount_kind,
            file_system: name.to_owned(),
            device,
            device_name: None,
            rotating: false,
            direct,
            cachestat: false,
        }
    }
}

/// Queries the machine. Makes a few calls, or reads a few small files of the system.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        cpus: available_cores(),
        cpu_features: cpu_features(),
        ..system::machine()
    }
}

/// Queries the place of a file, folder or block device. On Linux, in a folder it creates an unnamed
/// file for a moment or, where it may not, queries a file that it finds.
///
/// # Errors
/// The path cannot be opened or queried; with the likely cause.
pub fn place(path: &Path) -> Result<MountFacts, IoError> {
    system::place(path)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn cpu_features() -> Vec<&'static str> {
    macro_rules! detected {
        ($detected:ident: $($name:tt),*) => {
            [$(($name, std::arch::$detected!($name))),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    #[rustfmt::skip]
    let known = detected!(
        is_x86_feature_detected:
        "sse4.2", "pclmulqdq", "avx2", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512vbmi",
        "avx512vbmi2", "gfni", "vpclmulqdq"
    );
    #[cfg(target_arch = "aarch64")]
    let known = detected!(
        is_aarch64_feature_detected: "neon", "crc", "pmull", "aes", "sve", "sve2"
    );
    let found = known.into_iter().filter(|(_, found)| *found);
    found.map(|(name, _)| name).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(target_os = "linux")]
#[path = "probe/linux.rs"]
mod system;

/// What macOS reports about a machine and a place: little is queried.
#[cfg(target_os = "macos")]
mod system {
    use std::path::Path;

    use super::{Machine, MountFacts};
    use crate::error::IoError;
    use crate::fs::{FileSystem as _, OpenMode, OsFileSystem};

    pub(super) fn machine() -> Machine {
        Machine::default()
    }

    /// See [`super::place`]. Fails for folders and block devices.
    pub(super) fn place(path: &Path) -> Result<MountFacts, IoError> {
        let files = OsFileSystem::new();
        let opened = files.open(path, OpenMode::default())?;
        files.close(opened.descriptor)?;
        let device = opened.identity.device;
        Ok(MountFacts::on(opened.mount_kind, device, opened.direct))
    }
}

/// What Windows reports about a machine and a place.
#[cfg(windows)]
mod system {
    use std::path::Path;

    use super::{Machine, MountFacts};
    use crate::error::IoError;
    use crate::fs::os;
    use crate::system;

    pub(super) fn machine() -> Machine {
        let (all, free) = system::memory();
        Machine {
            kernel: Some(system::version()),
            memory_bytes: Some(all),
            memory_available_bytes: Some(free),
            ..Machine::default()
        }
    }

    /// See [`super::place`].
    pub(super) fn place(path: &Path) -> Result<MountFacts, IoError> {
        let (device, volume) = os::volume_of(path)?;
        Ok(MountFacts {
            rotating: volume.rotating,
            ..MountFacts::on(volume.kind, device, volume.direct())
        })
    }
}
