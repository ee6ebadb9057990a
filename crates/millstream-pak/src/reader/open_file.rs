//! The file of an open package: its first bytes, and what reads and decodes the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::{Buffer, BufferPool, FileId, Queue, Read, Storage};
use millstream_codec::Scratch;

use crate::error::{Error, ErrorKind, Result};

/// See the module. It is closed when dropped.
pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    /// For the package's own reads.
    pub(crate) queue: Queue,
    /// The file's first bytes: header and hot sections.
    pub(crate) hot: Buffer,
    /// For packed sections.
    scratch: Mutex<Scratch>,
    buffers: Arc<BufferPool>,
}

impl OpenFile {
    pub(super) fn new(storage: &Storage, id: FileId, queue: &Queue, hot: Buffer) -> OpenFile {
        OpenFile {
            id,
            queue: queue.clone(),
            hot,
            scratch: Mutex::default(),
            buffers: storage.buffer_pool(),
        }
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Buffer> {
        read(&self.queue, self.id, offset, len)
    }

    /// Memory in huge pages if it is long: lookups in ordinary pages take a third longer.
    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer> {
        let cause = "no memory for the package's tables";
        let taken = self.buffers.take(len);
        taken.map_err(|_| Error::new(ErrorKind::Io, cause))
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // Whatever a decoder that panicked left, the next one begins anew.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenFile {
    /// A later open of the path opens the file that it then names.
    fn drop(&mut self) {
        close(&self.queue, self.id);
    }
}

pub(super) fn read(queue: &Queue, file: FileId, offset: u64, len: u64) -> Result<Buffer> {
    Ok(queue.submit(Read::range(file, offset, len))?.wait()?)
}

/// Closes a file. A storage that is closing refuses, and closes it itself.
pub(super) fn close(queue: &Queue, file: FileId) {
    let _ = queue.batch().close(file);
}
