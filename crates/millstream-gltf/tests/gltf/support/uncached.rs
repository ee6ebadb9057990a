//! The system's files, of which nothing is ever known to be cached: so nothing is read together
//! with its open, and every read passes the device.

use std::path::Path;

use millstream_io::fs::OsFileSystem;
use millstream_io::fs::{OpenMode, Opened};
use millstream_io::{Descriptor, FileSystem, IoError, OwnedDescriptor};

pub(crate) struct Uncached(OsFileSystem);

impl Uncached {
    pub(crate) fn new() -> Uncached {
        Uncached(OsFileSystem::new())
    }
}

impl FileSystem for Uncached {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        self.0.open(path, mode)
    }

    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        self.0.close(descriptor)
    }

    fn cached(&self, _: Descriptor, _: u64, _: u64) -> Option<u64> {
        Some(0)
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        self.0.len(descriptor)
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        self.0.read_at(descriptor, offset, into)
    }

    fn read_cached(&self, _: Descriptor, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.0.write_at(descriptor, offset, bytes)
    }

    fn sync(&self, descriptor: Descriptor, data_only: bool) -> Result<(), IoError> {
        self.0.sync(descriptor, data_only)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.0.rename(from, to)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        self.0.replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.0.remove(path)
    }
}
