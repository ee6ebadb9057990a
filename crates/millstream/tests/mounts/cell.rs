//! File systems, mounted with a tree, and what can be expected of them.

use std::any::Any;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millstream_testing::{FaultFs, LoopDevice, LoopExt4, Tmpfs, Unavailable};
use tempfile::TempDir;

use crate::tree::{self, Tree};

/// Mounts a file system of a size with a tree.
pub(crate) type Make = fn(&Tree, u64) -> Result<Cell, Unavailable>;

/// What is left of a mount is undone in reverse order.
#[derive(Default)]
struct Undo(Vec<Box<dyn Any>>);

impl Drop for Undo {
    fn drop(&mut self) {
        while let Some(last) = self.0.pop() {
            drop(last);
        }
    }
}

/// A mounted file system with a tree.
pub(crate) struct Cell {
    pub(crate) root: PathBuf,
    /// It has no folders.
    flat: bool,
    pub(crate) writable: bool,
    /// It identifies files by more than their length and time of modification: a file that was
    /// changed is known to be the same, and one that took its name to be another.
    pub(crate) knows_files: bool,
    /// An open file that another process changes in place has old bytes or new ones, not both.
    pub(crate) keeps_open_files: bool,
    undo: Undo,
}

impl Cell {
    fn new(root: PathBuf) -> Cell {
        Cell {
            root,
            flat: false,
            writable: true,
            knows_files: false,
            keeps_open_files: true,
            undo: Undo::default(),
        }
    }

    /// Keeps what is below the mount as long as this.
    fn over(mut self, below: impl Any) -> Cell {
        self.undo.0.insert(0, Box::new(below));
        self
    }

    fn written(self, tree: &Tree) -> Cell {
        tree.write(&self.root, self.flat, |_| true);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        tree::path_of(&self.root, name, self.flat)
    }

    /// With a journal, it gives the inode number of a removed file to the next one at once.
    pub(crate) fn ext4(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        on_disk(tree, disk_bytes, &["mkfs.ext4", "-q", "-F"], "ext4")
    }

    pub(crate) fn xfs(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        on_disk(tree, disk_bytes, &["mkfs.xfs", "-q", "-f"], "xfs")
    }

    pub(crate) fn btrfs(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        on_disk(tree, disk_bytes, &["mkfs.btrfs", "-q", "-f"], "btrfs")
    }

    pub(crate) fn vfat(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let cell = on_disk(tree, disk_bytes, &["mkfs.vfat"], "vfat")?;
        // It has no generations, and times of birth in steps of 10 ms.
        Ok(Cell {
            knows_files: false,
            ..cell
        })
    }

    pub(crate) fn tmpfs(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let memory = Tmpfs::new(disk_bytes)?;
        let cell = Cell::new(memory.root().to_owned())
            .over(memory)
            .written(tree);
        Ok(Cell {
            knows_files: true,
            ..cell
        })
    }

    pub(crate) fn squashfs(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let folder = folder()?;
        let (files, image) = (folder.path().join("files"), folder.path().join("image"));
        tree.write(&files, false, |_| true);
        let packed = [files.as_path(), image.as_path()];
        run(&["mksquashfs"], &packed, &["-quiet", "-no-progress"])?;
        let point = mounted(&["mount", "-t", "squashfs", "-o", "loop,ro"], &[&image])?;
        let cell = Cell::new(point.path()).over(point).over(folder);
        Ok(Cell {
            writable: false,
            knows_files: true,
            ..cell
        })
    }

    /// Upper and lower layer on one disk.
    pub(crate) fn overlay(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let disk = LoopExt4::new(disk_bytes)?;
        let lower = disk.root().join("lower");
        tree.write(&lower, false, |_| true);
        let point = overlay_of(&lower, disk.root())?;
        Ok(Cell::new(point.path()).over(point).over(disk))
    }

    /// Upper and lower layer on different file systems: a file that is copied up gets another
    /// inode number.
    pub(crate) fn overlay_of_two(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let disk = Cell::ext4(tree, disk_bytes)?;
        let upper = Tmpfs::new(disk_bytes)?;
        let point = overlay_of(&disk.root, upper.root())?;
        Ok(Cell::new(point.path()).over(point).over(upper).over(disk))
    }

    pub(crate) fn overlay_of_squashfs(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let lower = Cell::squashfs(tree, disk_bytes)?;
        let upper = LoopExt4::new(disk_bytes)?;
        let point = overlay_of(&lower.root, upper.root())?;
        Ok(Cell::new(point.path()).over(point).over(upper).over(lower))
    }

    pub(crate) fn overlay_without_upper(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        let (first, second) = (LoopExt4::new(disk_bytes)?, Tmpfs::new(disk_bytes)?);
        tree.write(first.root(), false, |at| !is_second(at));
        tree.write(second.root(), false, is_second);
        let layers = format!(
            "lowerdir={}:{}",
            first.root().display(),
            second.root().display()
        );
        let point = mounted(&["mount", "-t", "overlay", "overlay", "-o", &layers], &[])?;
        let cell = Cell::new(point.path()).over(point).over(second).over(first);
        Ok(Cell {
            writable: false,
            ..cell
        })
    }

    /// A file system that makes up other inode numbers at each lookup.
    pub(crate) fn numbers_made_anew(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let mount = FaultFs::mount(&[])?;
        mount.renumber();
        let cell = Cell {
            flat: true,
            ..Cell::new(mount.root().to_owned())
        };
        Ok(cell.over(mount).written(tree))
    }

    pub(crate) fn ntfs_3g(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        by_daemon_on_disk(
            tree,
            disk_bytes,
            &["mkfs.ntfs", "-q", "-F", "-Q"],
            "ntfs-3g",
        )
    }

    pub(crate) fn exfat_fuse(tree: &Tree, disk_bytes: u64) -> Result<Cell, Unavailable> {
        by_daemon_on_disk(tree, disk_bytes, &["mkfs.exfat"], "mount.exfat-fuse")
    }

    /// Over a pipe to a server of its own, instead of a connection of ssh.
    pub(crate) fn sshfs(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let server = Path::new("/usr/lib/openssh/sftp-server");
        if !server.exists() {
            return Err(Unavailable::because("no sftp-server"));
        }
        let folder = folder()?;
        let script = folder.path().join("ssh");
        let text = format!("#!/bin/sh\nexec {}\n", server.display());
        fs::write(&script, text).map_err(|error| because("a script", &error))?;
        run(&["chmod", "755"], &[&script], &[])?;
        let files = folder.path().join("files");
        fs::create_dir(&files).map_err(|error| because("a folder", &error))?;
        let ssh = format!("ssh_command={}", script.display());
        let remote = PathBuf::from(format!("here:{}", files.display()));
        // Symbolic links to other folders are refused by default in some versions.
        let command = ["sshfs", "-o", &ssh, "-o", "follow_symlinks"];
        let point = mounted(&command, &[&remote])?;
        Ok(Cell::new(point.path())
            .over(point)
            .over(folder)
            .written(tree))
    }

    /// Two branches, with half of the files each.
    pub(crate) fn mergerfs(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let (folder, first, second) = branches(tree)?;
        let branches = PathBuf::from(format!("{}:{}", first.display(), second.display()));
        let point = mounted(&["mergerfs"], &[&branches])?;
        Ok(Cell::new(point.path()).over(point).over(folder))
    }

    pub(crate) fn bindfs(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let folder = folder()?;
        let point = mounted(&["bindfs"], &[folder.path()])?;
        Ok(Cell::new(point.path())
            .over(point)
            .over(folder)
            .written(tree))
    }

    /// Two branches, of which the second is copied from on writes.
    pub(crate) fn unionfs_fuse(tree: &Tree, _: u64) -> Result<Cell, Unavailable> {
        let (folder, first, second) = branches(tree)?;
        let branches = format!("{}=RW:{}=RO", first.display(), second.display());
        // A copy's time of modification is rounded to microseconds, which cached attributes hide.
        let options = "cow,attr_timeout=0,entry_timeout=0";
        let point = mounted(&["unionfs", "-o", options], &[Path::new(&branches)])?;
        // The descriptor of what was copied leads to the old file, its cached pages are of the new.
        let cell = Cell {
            keeps_open_files: false,
            ..Cell::new(point.path())
        };
        Ok(cell.over(point).over(folder))
    }
}

/// Whether a file is in the second of two layers. Links are in the first, and so what hard links
/// lead to must be.
fn is_second(at: usize) -> bool {
    at % 10 != 9 && at.is_multiple_of(3)
}

fn branches(tree: &Tree) -> Result<(TempDir, PathBuf, PathBuf), Unavailable> {
    let folder = folder()?;
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    tree.write(&first, false, |at| !is_second(at));
    tree.write(&second, false, is_second);
    Ok((folder, first, second))
}

/// A disk with a file system of the kernel.
fn on_disk(tree: &Tree, bytes: u64, make: &[&str], kind: &str) -> Result<Cell, Unavailable> {
    let disk = LoopDevice::new(bytes)?;
    run(make, &[disk.path()], &[])?;
    let point = mounted(&["mount", "-t", kind], &[disk.path()])?;
    let cell = Cell::new(point.path()).over(point).over(disk).written(tree);
    Ok(Cell {
        knows_files: true,
        ..cell
    })
}

/// A disk with a file system that a process serves.
fn by_daemon_on_disk(
    tree: &Tree,
    bytes: u64,
    make: &[&str],
    daemon: &str,
) -> Result<Cell, Unavailable> {
    let disk = LoopDevice::new(bytes)?;
    run(make, &[disk.path()], &[])?;
    let point = mounted(&[daemon], &[disk.path()])?;
    Ok(Cell::new(point.path()).over(point).over(disk).written(tree))
}

fn overlay_of(lower: &Path, disk: &Path) -> Result<Point, Unavailable> {
    let (upper, work) = (disk.join("upper"), disk.join("work"));
    for folder in [&upper, &work] {
        fs::create_dir(folder).map_err(|error| because("a folder", &error))?;
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mounted(&["mount", "-t", "overlay", "overlay", "-o", &layers], &[])
}

/// A mount point, unmounted when dropped.
struct Point(TempDir);

impl Point {
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        // Lazily if something is still open: a test has failed then.
        let path = [self.0.path()];
        if run(&["umount"], &path, &[]).is_err()
            && let Err(error) = run(&["umount", "--lazy"], &path, &[])
        {
            eprintln!("cannot unmount: {error}");
        }
    }
}

/// Runs a program that mounts `what` at a folder, which it takes last.
fn mounted(command: &[&str], what: &[&Path]) -> Result<Point, Unavailable> {
    let point = folder()?;
    let paths: Vec<&Path> = what.iter().copied().chain([point.path()]).collect();
    run(command, &paths, &[])?;
    Ok(Point(point))
}

/// Runs a program: its words, paths, and more words.
fn run(command: &[&str], paths: &[&Path], more: &[&str]) -> Result<(), Unavailable> {
    let name = command[0];
    let wrote = |error| because(name, &error);
    // A file: a process that stays in the background would keep a pipe open.
    let mut said: File = tempfile::tempfile().map_err(wrote)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let status = Command::new(name)
        .args(&command[1..])
        .args(paths)
        .args(more)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .stdout(said.try_clone().map_err(wrote)?)
        .stderr(said.try_clone().map_err(wrote)?)
        .status()
        .map_err(wrote)?;
    if status.success() {
        return Ok(());
    }
    let mut text = String::new();
    let read = said.rewind().and_then(|()| said.read_to_string(&mut text));
    read.map_err(wrote)?;
    let text = text.trim().replace('\n', "; ");
    Err(Unavailable::because(format!("{name}: {status} {text}")))
}

fn folder() -> Result<TempDir, Unavailable> {
    tempfile::Builder::new()
        .prefix("millstream-mounts-")
        .tempdir()
        .map_err(|error| because("a temporary folder", &error))
}

fn because(what: &str, error: &std::io::Error) -> Unavailable {
    Unavailable::because(format!("{what}: {error}"))
}
