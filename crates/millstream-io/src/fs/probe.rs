//! What this machine and a place on it can do, for people to read.
//!
//! Everything is looked up afresh and nothing is remembered. What the system does not tell is
//! `None`, never a guess.

use std::path::Path;

use super::{DirectAlignment, MountKind};
use crate::error::IoError;
use crate::thread::available_cores;

#[cfg_attr(target_os = "linux", path = "probe/linux.rs")]
#[cfg_attr(target_os = "macos", path = "probe/macos.rs")]
#[cfg_attr(windows, path = "probe/windows.rs")]
mod system;

/// What the machine offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Machine {
    /// The kernel's release: `6.18.2-generic`.
    pub kernel: Option<String>,
    /// The processor's name, if the system reports it.
    pub cpu: Option<String>,
    /// Threads that this process may run at once (affinity and control groups counted).
    pub cpus: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that can be had without swapping, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Most bytes that this process may lock (`RLIMIT_MEMLOCK`), which bounds registered buffers;
    /// `None` is no limit.
    pub memlock_max_bytes: Option<u64>,
    /// Most files that this process may have open (`RLIMIT_NOFILE`); `None` is no limit.
    pub open_files_max: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`; `None` if the kernel has none.
    pub huge_pages: Option<String>,
    /// Processor features that codecs use, by the names that Rust calls them.
    pub cpu_features: Vec<&'static str>,
}

/// What a path's place offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// What kind of mount.
    pub mount_kind: MountKind,
    /// Name of the file system (`ext4`), or its magic number in hexadecimal.
    pub file_system: String,
    /// Number of the file system's device (of the disk, for a block device).
    pub device: u64,
    /// The kernel's name of the disk or partition (`nvme0n1p2`), if one can be named.
    pub device_name: Option<String>,
    /// Whether seeks cost on the disk.
    pub rotating: bool,
    /// What direct I/O needs there; `None` if there is none, or if no file could be found or made
    /// to ask with.
    pub direct: Option<DirectAlignment>,
    /// Whether `cachestat` reports what of its files is in the page cache.
    pub cachestat: bool,
}

#[cfg(not(target_os = "linux"))]
impl Place {
    /// A place of which the system tells no more than how it is mounted.
    fn on(mount_kind: MountKind, device: u64, direct: Option<DirectAlignment>) -> Place {
        let name = match mount_kind {
            MountKind::Local => "local volume",
            _ => "network share",
        };
        Place {
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

/// Looks at the machine. Makes a few calls, or reads a few small files of the system.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        cpus: available_cores(),
        cpu_features: cpu_features(),
        ..system::machine()
    }
}

/// Looks at the place of a file, folder or block device. For a folder it makes a file without a
/// name there for a moment, or where it may not, looks at a file that it finds.
///
/// # Errors
/// If the path cannot be opened or asked; with the likely cause.
pub fn place(path: &Path) -> Result<Place, IoError> {
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
