//! The files of the simulated disk as a [`FileSystem`], and the controls for tests.

#![expect(unsafe_code, reason = "descriptors are numbers of its own")]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_io::fs::{DirectAlignment, Known, Numbering};
use millstream_io::{
    Descriptor, Doorbell, Errno, FileSystem, Identity, IoError, MountKind, OpenMode, Opened,
    OwnedDescriptor,
};

use crate::SimOptions;
use crate::disk::{self, Content, Disk, File, Rule, SimCounts, SimOperation};

/// State shared by the device and its files.
pub(crate) struct Simulation {
    disk: Mutex<Disk>,
    now_ns: AtomicU64,
    pub(crate) bell: Doorbell,
}

impl Simulation {
    pub(crate) fn new(options: SimOptions) -> Simulation {
        Simulation {
            disk: Mutex::new(Disk::new(options)),
            now_ns: AtomicU64::new(0),
            bell: Doorbell::condvar(),
        }
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    pub(crate) fn advance_ns(&self, by_ns: u64) {
        self.advance_to(self.now_ns().saturating_add(by_ns));
    }

    pub(crate) fn advance_to(&self, now_ns: u64) {
        self.now_ns.fetch_max(now_ns, Ordering::SeqCst);
    }
}

/// Properties of a file.
#[derive(Debug, Clone)]
pub struct SimFileOptions {
    /// Kind of its mount.
    pub mount_kind: MountKind,
    /// Number of its mount, not 0.
    pub mount: u64,
    /// Alignment that direct I/O requires, enforced with `EINVAL`. `None`: no direct I/O.
    pub direct: Option<DirectAlignment>,
    /// Whether seeks are expensive on its disk.
    pub rotating: bool,
    /// Position of its first byte on the disk; `None`: it causes no seeks.
    pub position: Option<u64>,
    /// Number of its first bytes that are in the page cache; `None`: unknown.
    pub cached_bytes: Option<u64>,
}

impl Default for SimFileOptions {
    fn default() -> SimFileOptions {
        SimFileOptions {
            mount_kind: MountKind::Local,
            mount: 1,
            direct: Some(DirectAlignment::both(512)),
            rotating: false,
            position: None,
            cached_bytes: Some(0),
        }
    }
}

/// The files of a [`Sim`](crate::Sim). Clones share the files. Paths are compared literally.
#[derive(Clone)]
pub struct SimFiles {
    pub(crate) shared: Arc<Simulation>,
}

impl SimFiles {
    /// Adds a file, or replaces one (as a rename does: open descriptors keep the old file).
    pub fn add(&self, path: impl Into<PathBuf>, bytes: Vec<u8>, options: SimFileOptions) {
        let content = Content::Bytes(bytes);
        add(&mut self.shared.disk(), path.into(), content, options);
    }

    /// Adds a file with `len` bytes from [`generate`](crate::generate); it takes no memory until it
    /// is written to.
    pub fn add_generated(
        &self,
        path: impl Into<PathBuf>,
        seed: u64,
        len: u64,
        options: SimFileOptions,
    ) {
        let content = Content::Generated { seed, len };
        add(&mut self.shared.disk(), path.into(), content, options);
    }

    /// Returns the current content of a file; `None` if there is no such file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.shared.disk();
        let content = &disk.files[*disk.names.get(path)?].content;
        Some(content.read(0, content.len() as usize))
    }

    /// Truncates a file, or extends it with zeros. Returns false if there is no such file.
    pub fn resize(&self, path: &Path, len: u64) -> bool {
        self.with(path, |file| {
            file.content.bytes_mut().resize(len as usize, 0);
            file.version += 1;
        })
    }

    /// Changes a file's properties from now on. Returns false if there is no such file.
    pub fn change(&self, path: &Path, change: impl FnOnce(&mut SimFileOptions)) -> bool {
        self.with(path, |file| change(&mut file.options))
    }

    fn with(&self, path: &Path, work: impl FnOnce(&mut File)) -> bool {
        let mut disk = self.shared.disk();
        let index = disk.names.get(path).copied();
        index.map(|index| work(&mut disk.files[index])).is_some()
    }

    /// Makes operations that touch the range of the file fail, `times` times or always.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn fail(&self, path: &Path, range: Range<u64>, errno: Errno, times: Option<u64>) {
        self.add_rule(path, range, Some(errno), times);
    }

    /// Makes operations that touch the range of the file hang until [`SimFiles::release_hung`],
    /// `times` times or always.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn hang(&self, path: &Path, range: Range<u64>, times: Option<u64>) {
        self.add_rule(path, range, None, times);
    }

    fn add_rule(&self, path: &Path, range: Range<u64>, errno: Option<Errno>, left: Option<u64>) {
        let mut disk = self.shared.disk();
        let file = *disk.names.get(path).expect("a rule needs a file");
        disk.rules.push(Rule {
            file,
            offset: range.start,
            end: range.end,
            errno,
            left,
        });
    }

    /// Lets hung operations complete, removes the rules to hang, and rings the doorbell. Operations
    /// that a shutdown has abandoned access their memory now.
    pub fn release_hung(&self) {
        let mut disk = self.shared.disk();
        disk.rules.retain(|rule| rule.errno.is_some());
        for operation in std::mem::take(&mut disk.orphans) {
            let len = operation.segments.bytes();
            // Its owner is gone, so an error has no receiver.
            let _ = disk.transfer(&operation, len);
        }
        disk.releases += 1;
        drop(disk);
        self.shared.bell.ring();
    }

    /// Makes the file system call after `skip` more calls fail.
    pub fn fail_call(&self, skip: u64, errno: Errno) {
        self.shared.disk().fail_call(skip, errno);
    }

    /// Returns the counts of events so far.
    #[must_use]
    pub fn counts(&self) -> SimCounts {
        self.shared.disk().counts
    }

    /// Returns the number of descriptors that are open now.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.shared.disk().open.len()
    }

    /// Returns the number of operations that hang now, without those that a shutdown has abandoned.
    #[must_use]
    pub fn hung_count(&self) -> usize {
        self.shared.disk().hung
    }

    /// Takes the list of operations that reached the device since the last call.
    #[must_use]
    pub fn take_log(&self) -> Vec<SimOperation> {
        std::mem::take(&mut self.shared.disk().log)
    }

    /// Returns the simulated time in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    /// Makes a call of the file system.
    fn call<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Disk) -> Result<T, Errno>,
    ) -> Result<T, IoError> {
        let mut disk = self.shared.disk();
        let done = disk.call().and_then(|()| work(&mut disk));
        done.map_err(|errno| IoError::new(name, errno))
    }

    /// Makes a call on an open file.
    fn on<T>(
        &self,
        name: &'static str,
        descriptor: Descriptor,
        work: impl FnOnce(&mut File) -> Result<T, Errno>,
    ) -> Result<T, IoError> {
        self.call(name, |disk| disk.file(descriptor.raw()).and_then(work))
    }
}

fn add(disk: &mut Disk, path: PathBuf, content: Content, options: SimFileOptions) -> usize {
    let index = disk.files.len();
    disk.files.push(File {
        path: path.clone(),
        content,
        options,
        version: 0,
    });
    disk.names.insert(path, index);
    index
}

/// What identifies a file; numbers are never used again.
fn known(index: usize, file: &File) -> Known {
    Known {
        identity: Identity {
            device: file.options.mount,
            inode: index as u64 + 1,
            modified_ns: i128::from(file.version),
        },
        numbering: match file.options.mount_kind {
            MountKind::Slow => Numbering::Other,
            _ => Numbering::Stable,
        },
        len: file.content.len(),
        birth_ns: None,
        generation: None,
    }
}

impl FileSystem for SimFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        self.call("open", |disk| {
            let index = match disk.names.get(path) {
                Some(_) if mode.create && mode.exclusive => return Err(Errno::EXISTS),
                Some(index) => *index,
                None if mode.create => {
                    let empty = Content::Bytes(Vec::new());
                    add(disk, path.to_owned(), empty, SimFileOptions::default())
                }
                None => return Err(Errno::NOT_FOUND),
            };
            let file = &mut disk.files[index];
            let options = file.options.clone();
            if mode.direct && options.direct.is_none() {
                return Err(Errno::INVALID);
            }
            if mode.truncate && mode.write {
                file.content = Content::Bytes(Vec::new());
                file.version += 1;
            }
            let known = known(index, file);
            let number = disk.new_descriptor(index, mode.write, mode.direct);
            Ok(Opened {
                // SAFETY: a new number of the simulated disk, which is none of the system's.
                descriptor: unsafe { OwnedDescriptor::from_raw(number) },
                len: known.len,
                identity: known.identity,
                numbering: known.numbering,
                birth_ns: None,
                mount: options.mount,
                mount_kind: options.mount_kind,
                direct: options.direct,
                rotating: options.rotating,
                position: options.position,
            })
        })
    }

    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        let mut disk = self.shared.disk();
        let asked = disk.call();
        let closed = disk.close(descriptor.raw()).and(asked);
        closed.map_err(|errno| IoError::new("close", errno))
    }

    fn known(&self, descriptor: Descriptor) -> Result<Known, IoError> {
        self.call("statx", |disk| {
            let open = disk
                .open
                .get(&descriptor.raw())
                .ok_or(Errno::BAD_DESCRIPTOR)?;
            Ok(known(open.file, &disk.files[open.file]))
        })
    }

    fn known_at(&self, path: &Path) -> Result<Known, IoError> {
        self.call("statx", |disk| {
            let index = *disk.names.get(path).ok_or(Errno::NOT_FOUND)?;
            Ok(known(index, &disk.files[index]))
        })
    }

    fn cached(&self, descriptor: Descriptor, offset: u64, len: u64) -> Option<u64> {
        let disk = self.shared.disk();
        let file = &disk.files[disk.open.get(&descriptor.raw())?.file];
        let cached = file.options.cached_bytes?.min(file.content.len());
        Some(cached.saturating_sub(offset).min(len))
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        self.on("fstat", descriptor, |file| Ok(file.content.len()))
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        self.on("pread", descriptor, |file| {
            let bytes = file.content.read(offset, into.len());
            into[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        })
    }

    fn read_cached(&self, descriptor: Descriptor, offset: u64, into: &mut [u8]) -> Option<usize> {
        let cached = self.cached(descriptor, offset, into.len() as u64)?;
        let cached = usize::try_from(cached).ok()?;
        self.read_at(descriptor, offset, &mut into[..cached]).ok()
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let written = self.on("pwrite", descriptor, |file| {
            disk::write(file, offset, bytes)
        });
        written.map(drop)
    }

    fn sync(&self, descriptor: Descriptor, _data_only: bool) -> Result<(), IoError> {
        self.on("fsync", descriptor, |_| Ok(()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.call("rename", |disk| {
            let index = disk.names.remove(from).ok_or(Errno::NOT_FOUND)?;
            disk.names.insert(to.to_owned(), index);
            disk.files[index].path = to.to_owned();
            Ok(())
        })
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        self.call("replace", |disk| {
            let options = match disk.names.get(path) {
                Some(index) => disk.files[*index].options.clone(),
                None => SimFileOptions::default(),
            };
            let content = Content::Bytes(content.to_vec());
            add(disk, path.to_owned(), content, options);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.call("unlink", |disk| {
            let removed = disk.names.remove(path);
            removed.map(drop).ok_or(Errno::NOT_FOUND)
        })
    }
}
