//! A file system for the tests of devices, whose calls hang and panic on demand.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::{Descriptor, Operation, OperationId, OwnedDescriptor, Segment, Segments, Verb};
use crate::error::IoError;
use crate::fs::{FileSystem, Identity, MountKind, Numbering, OpenMode, Opened};

/// Returns a read into one segment.
pub(super) fn read(id: OperationId, file: Descriptor, offset: u64, segment: Segment) -> Operation {
    Operation {
        id,
        verb: Verb::Read,
        file,
        offset,
        segments: Segments::One(segment),
        offload: false,
        mount: 0,
    }
}

/// A file whose every read panics.
pub(super) const PANICS: Descriptor = Descriptor(13);

#[derive(Default)]
pub(super) struct Seen {
    /// Prefixes of the names whose calls hang.
    shut: Vec<&'static str>,
    pub(super) hanging: usize,
    pub(super) opened: Vec<String>,
    pub(super) closed: Vec<u64>,
}

/// Files by name alone: calls hang on a path that begins with a prefix in `shut`, and panic on one
/// that begins with `panic`. Reads use the name `read`; byte `n` of every file is `n % 251`.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) state: Mutex<Seen>,
    changed: Condvar,
    cached: Option<usize>,
}

impl Fake {
    pub(super) fn new(shut: &[&'static str]) -> Arc<Fake> {
        let fake = Fake::default();
        fake.state.lock().unwrap().shut = shut.to_vec();
        Arc::new(fake)
    }

    /// Makes it with this many bytes of every file cached; `None`: unknown.
    pub(super) fn with_cached(cached: Option<usize>) -> Arc<Fake> {
        Arc::new(Fake {
            cached,
            ..Fake::default()
        })
    }

    pub(super) fn shut(&self, prefix: &'static str) {
        self.state.lock().unwrap().shut.push(prefix);
    }

    pub(super) fn release(&self) {
        self.state.lock().unwrap().shut.clear();
        self.changed.notify_all();
    }

    fn pass(&self, name: &str) {
        assert!(!name.starts_with("panic"), "a panic on purpose");
        let mut state = self.state.lock().unwrap();
        state.hanging += 1;
        self.changed.notify_all();
        while state.shut.iter().any(|prefix| name.starts_with(prefix)) {
            state = self.changed.wait(state).unwrap();
        }
        state.hanging -= 1;
        if name != "close" {
            state.opened.push(name.to_owned());
        }
        self.changed.notify_all();
    }

    pub(super) fn await_state(&self, what: &str, mut is: impl FnMut(&Seen) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(20), |state| !is(state))
            .unwrap();
        assert!(!waited.1.timed_out(), "{what}");
    }
}

impl FileSystem for Fake {
    fn open(&self, path: &Path, _: OpenMode) -> Result<Opened, IoError> {
        self.pass(path.to_str().unwrap());
        Ok(Opened {
            descriptor: OwnedDescriptor(Descriptor(path.to_str().unwrap().len() as u64)),
            len: 0,
            identity: Identity::default(),
            numbering: Numbering::Stable,
            birth_ns: None,
            mount: 1,
            mount_kind: MountKind::Local,
            direct: None,
            rotating: false,
            position: None,
        })
    }
    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        self.pass("close");
        let mut state = self.state.lock().unwrap();
        state.closed.push(descriptor.raw());
        self.changed.notify_all();
        Ok(())
    }
    fn cached(&self, _: Descriptor, _: u64, _: u64) -> Option<u64> {
        None
    }
    fn len(&self, _: Descriptor) -> Result<u64, IoError> {
        Ok(77)
    }
    fn read_at(&self, _: Descriptor, _: u64, _: &mut [u8]) -> Result<usize, IoError> {
        unreachable!("nothing reads and waits")
    }
    fn read_cached(&self, file: Descriptor, offset: u64, into: &mut [u8]) -> Option<usize> {
        self.pass(if file == PANICS { "panic" } else { "read" });
        let offset = offset as usize;
        let count = into.len().min(self.cached?.saturating_sub(offset));
        for (at, byte) in into[..count].iter_mut().enumerate() {
            *byte = ((offset + at) % 251) as u8;
        }
        Some(count)
    }
    fn write_at(&self, _: Descriptor, _: u64, _: &[u8]) -> Result<(), IoError> {
        unreachable!("nothing writes")
    }
    fn sync(&self, _: Descriptor, _: bool) -> Result<(), IoError> {
        self.pass("sync");
        Ok(())
    }
    fn rename(&self, from: &Path, _: &Path) -> Result<(), IoError> {
        self.pass(from.to_str().unwrap());
        Ok(())
    }
    fn replace(&self, path: &Path, _: &[u8]) -> Result<(), IoError> {
        self.pass(path.to_str().unwrap());
        Ok(())
    }
    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.pass(path.to_str().unwrap());
        Ok(())
    }
}
