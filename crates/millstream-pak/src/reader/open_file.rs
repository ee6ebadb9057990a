//! The file of an open package: its hot bytes, and what is needed to read and decode the others.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::{
    Buffer, BufferPool, FileId, FileOptions, Priority, Queue, QueueOptions, Read, Storage, Ticket,
};
use millstream_codec::Scratch;

use crate::error::Result;
use crate::limits::TABLE_QUEUE_CAPACITY;
use crate::memory::no_memory;

/// The open file of a package. Dropping it closes the file.
pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    /// For the package's own reads.
    pub(crate) queue: Queue,
    /// The file's first bytes, once they are read: header and hot sections.
    pub(crate) hot: Buffer,
    /// Decodes pages of packed sections.
    scratch: Mutex<Scratch>,
    buffers: Arc<BufferPool>,
}

impl OpenFile {
    pub(super) fn open(storage: &Storage, path: &Path) -> Result<OpenFile> {
        let mut queue_options = QueueOptions::default();
        queue_options.name = String::from("package");
        queue_options.capacity = TABLE_QUEUE_CAPACITY;
        queue_options.priority = Priority::High;
        let queue = storage.queue(queue_options)?;
        let options = FileOptions {
            package: true,
            ..FileOptions::default()
        };
        Ok(OpenFile {
            id: storage.open(path, options),
            queue,
            hot: Buffer::empty(),
            scratch: Mutex::default(),
            buffers: storage.buffer_pool(),
        })
    }

    /// Requests bytes of the file.
    pub(crate) fn request(&self, offset: u64, len: u64) -> Result<Ticket<Buffer>> {
        Ok(self.queue.submit(Read::range(self.id, offset, len))?)
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Buffer> {
        Ok(self.request(offset, len)?.wait()?)
    }

    /// Returns memory, in huge pages if it is long: lookups in ordinary pages take a third longer.
    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer> {
        self.buffers.take(len).map_err(|_| no_memory(len))
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // A decoder that panicked may leave any state, which the next one resets.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenFile {
    /// Closes the file, so that a later open of the path opens the file that it names then.
    fn drop(&mut self) {
        // A storage that is closing refuses the request, and closes the file itself.
        let _ = self.queue.batch().close(self.id);
    }
}
