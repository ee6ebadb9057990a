//! Small disks: an ext4 in a file, a bare block device whose file can shrink, a bounded tmpfs.
//!
//! They are real mounts of the real kernel, so a full disk is full (`ENOSPC` from the allocator)
//! and a truncated disk returns `EIO`. All need root. Every guard undoes what it made when dropped,
//! also on a panic: unmount, detach, delete, in this order.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use crate::Unavailable;
use crate::user::need_root;

/// A loop device over a sparse file.
pub struct LoopDevice {
    device: PathBuf,
    folder: TempDir,
}

impl LoopDevice {
    /// Creates a device of `len` zero bytes (whole sectors of 512 bytes).
    ///
    /// # Errors
    /// There is no root, no loop driver or no `losetup`.
    pub fn new(len: u64) -> Result<LoopDevice, Unavailable> {
        need_root("a loop device")?;
        let folder = temporary_folder("millstream-loop-")?;
        let backing = folder.path().join("backing");
        let file = File::create(&backing).map_err(|error| because("the backing file", &error))?;
        file.set_len(len)
            .map_err(|error| because("the backing file", &error))?;
        let device = output_of(
            Command::new("losetup")
                .args(["--find", "--show", "--"])
                .arg(&backing),
        )?;
        Ok(LoopDevice {
            device: PathBuf::from(device.trim()),
            folder,
        })
    }

    /// Returns the path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device
    }

    /// Returns the path of the file that holds its bytes.
    #[must_use]
    pub fn backing(&self) -> PathBuf {
        self.folder.path().join("backing")
    }

    /// Truncates the file under the device, which keeps its size: bytes beyond the end of the file
    /// cannot be read any more.
    ///
    /// # Panics
    /// If the file cannot be truncated.
    pub fn shrink_backing(&self, len: u64) {
        let file = File::options().write(true).open(self.backing());
        file.and_then(|file| file.set_len(len))
            .expect("our own file can be cut");
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup")
            .arg("--detach")
            .arg(&self.device)
            .status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("cannot detach {}", self.device.display());
        }
    }
}

/// A mount, undone when dropped.
struct Mounted {
    point: TempDir,
}

impl Mounted {
    fn new(source: &Path, kind: &str, options: &str) -> Result<Mounted, Unavailable> {
        let point = temporary_folder("millstream-mount-")?;
        let options = std::ffi::CString::new(options).expect("our options hold no zero byte");
        rustix::mount::mount(
            source,
            point.path(),
            kind,
            MountFlags::empty(),
            Some(options.as_c_str()),
        )
        .map_err(|errno| because(&format!("mounting {kind}"), &errno.into()))?;
        Ok(Mounted { point })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a failed test may have left files open, and the mount must go all the same.
        if let Err(errno) = rustix::mount::unmount(self.point.path(), UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {errno}", self.point.path().display());
        }
    }
}

/// A small ext4 on a loop device. Fields are dropped in order: unmounted, then detached.
pub struct LoopExt4 {
    mounted: Mounted,
    device: LoopDevice,
}

impl LoopExt4 {
    /// Creates an empty file system on a device of `len` bytes; ext4 uses a part of it for
    /// metadata, and none is reserved for root.
    ///
    /// # Errors
    /// There is no root, no loop driver or no `mkfs.ext4`.
    pub fn new(len: u64) -> Result<LoopExt4, Unavailable> {
        let device = LoopDevice::new(len)?;
        output_of(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-m", "0", "-O", "^has_journal", "--"])
                .arg(device.path()),
        )?;
        let mounted = Mounted::new(device.path(), "ext4", "")?;
        Ok(LoopExt4 { mounted, device })
    }

    /// Returns the path of the mount's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.mounted.point.path()
    }

    /// Returns the device under it.
    #[must_use]
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }
}

/// A tmpfs of bounded size: it fills up soon and has no direct I/O.
pub struct Tmpfs {
    mounted: Mounted,
}

impl Tmpfs {
    /// Creates an empty tmpfs of `len` bytes.
    ///
    /// # Errors
    /// There is no root.
    pub fn new(len: u64) -> Result<Tmpfs, Unavailable> {
        need_root("mounting a tmpfs")?;
        let mounted = Mounted::new(Path::new("tmpfs"), "tmpfs", &format!("size={len}"))?;
        Ok(Tmpfs { mounted })
    }

    /// Returns the path of the mount's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.mounted.point.path()
    }
}

fn temporary_folder(prefix: &str) -> Result<TempDir, Unavailable> {
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map_err(|error| because("a temporary folder", &error))
}

/// Runs a system program, and returns what it printed.
fn output_of(command: &mut Command) -> Result<String, Unavailable> {
    let name = command.get_program().to_string_lossy().into_owned();
    // An ordinary PATH may lack the folders of administration programs.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output().map_err(|error| because(&name, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(Unavailable::because(format!(
        "{name}: {} {said}",
        output.status
    )))
}

fn because(what: &str, error: &std::io::Error) -> Unavailable {
    Unavailable::because(format!("{what}: {error}"))
}
