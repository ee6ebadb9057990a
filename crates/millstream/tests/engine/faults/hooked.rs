//! The system's files, with places where a test holds the threads that call them, and with closes
//! that fail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use millstream::{Backend, DeviceMaker, StorageOptions};
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::fs::OsFileSystem;
use millstream_io::{
    Descriptor, Device, Errno, FileSystem, IoError, Known, Numbering, OpenMode, Opened,
    OwnedDescriptor,
};

use crate::faults::rig::PATIENCE;

/// A place where threads are held while it is shut.
#[derive(Default)]
pub(crate) struct Gate {
    /// Whether it is shut, and how many threads are at it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.state.lock().expect("no panic").0 = true;
    }

    pub(crate) fn open(&self) {
        self.state.lock().expect("no panic").0 = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.0);
        state.as_mut().expect("no panic").1 -= 1;
    }

    /// Waits until a thread is held.
    pub(crate) fn holds_one(&self) {
        let state = self.state.lock().expect("no panic");
        let nobody = |state: &mut (bool, usize)| state.1 == 0;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, nobody);
        assert!(!waited.expect("no panic").1.timed_out(), "no thread came");
    }
}

/// The system's files, with gates behind opens and before looks.
#[derive(Default)]
pub(crate) struct Hooked {
    fs: OsFileSystem,
    /// How files say they are numbered, if not as they are.
    numbering: Option<Numbering>,
    pub(crate) opened: Gate,
    pub(crate) known: Gate,
    pub(crate) looked: Gate,
    /// What was opened, in order.
    pub(crate) opens: Mutex<Vec<PathBuf>>,
    /// The descriptors that were closed, in order.
    pub(crate) closed: Mutex<Vec<u64>>,
    /// Closes are only listed: no number is used again.
    pub(crate) keeps_open: AtomicBool,
    /// Closes of files that were open for writing fail, as those of network file systems may.
    pub(crate) loses_writes: AtomicBool,
    /// How many closes have failed.
    pub(crate) lost: AtomicUsize,
    written: Mutex<Vec<u64>>,
}

/// Options of a storage over such files, by threads.
pub(crate) fn over(fs: &Arc<Hooked>, descriptors: usize) -> StorageOptions {
    let make = || -> Result<Box<dyn Device>, IoError> {
        Ok(Box::new(Threads::new(ThreadsOptions::default())?))
    };
    let mut options = crate::support::options(|options| options.descriptors = descriptors);
    options.backend = Backend::Custom(DeviceMaker::new(make), Arc::clone(fs) as _);
    options
}

impl Hooked {
    pub(crate) fn numbered(numbering: Option<Numbering>) -> Hooked {
        Hooked {
            numbering,
            ..Hooked::default()
        }
    }
}

impl FileSystem for Hooked {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        let mut opened = self.fs.open(path, mode);
        self.opens.lock().expect("no panic").push(path.to_owned());
        if let Ok(opened) = &mut opened {
            if let Some(numbering) = self.numbering {
                opened.numbering = numbering;
            }
            if mode.write {
                let raw = opened.descriptor.raw();
                self.written.lock().expect("no panic").push(raw);
            }
        }
        self.opened.pass();
        opened
    }

    fn close(&self, file: OwnedDescriptor) -> Result<(), IoError> {
        let raw = file.raw();
        self.closed.lock().expect("no panic").push(raw);
        let mut written = self.written.lock().expect("no panic");
        let was_written = written.extract_if(.., |own| *own == raw).count() > 0;
        drop(written);
        if self.keeps_open.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.fs.close(file)?;
        match was_written && self.loses_writes.load(Ordering::SeqCst) {
            true => {
                self.lost.fetch_add(1, Ordering::SeqCst);
                Err(IoError::new("close", Errno::IO))
            }
            false => Ok(()),
        }
    }

    fn known(&self, file: Descriptor) -> Result<Known, IoError> {
        self.known.pass();
        self.fs.known(file)
    }

    fn known_at(&self, path: &Path) -> Result<Known, IoError> {
        self.looked.pass();
        self.fs.known_at(path)
    }

    fn anchored(&self, path: &Path) -> Option<PathBuf> {
        self.fs.anchored(path)
    }

    fn cached(&self, file: Descriptor, offset: u64, len: u64) -> Option<u64> {
        self.fs.cached(file, offset, len)
    }

    fn len(&self, file: Descriptor) -> Result<u64, IoError> {
        self.fs.len(file)
    }

    fn read_at(&self, file: Descriptor, at: u64, into: &mut [u8]) -> Result<usize, IoError> {
        self.fs.read_at(file, at, into)
    }

    fn read_cached(&self, file: Descriptor, at: u64, into: &mut [u8]) -> Option<usize> {
        self.fs.read_cached(file, at, into)
    }

    fn write_at(&self, file: Descriptor, at: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.fs.write_at(file, at, bytes)
    }

    fn sync(&self, file: Descriptor, data_only: bool) -> Result<(), IoError> {
        self.fs.sync(file, data_only)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.fs.rename(from, to)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        self.fs.replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.fs.remove(path)
    }
}
