//! The file of an open package: its hot bytes, and the queue that reads the others.

use std::path::Path;

use millstream::{
    Buffer, FileId, FileOptions, Priority, Queue, QueueOptions, Read, Storage, Ticket,
};

use crate::error::Result;
use crate::limits::TABLE_QUEUE_CAPACITY;

/// The open file of a package. Dropping it closes the file.
pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    /// For the package's own reads.
    pub(crate) queue: Queue,
    /// The file's first bytes, once they are read: header and hot sections.
    pub(crate) hot: Buffer,
}

impl OpenFile {
    pub(crate) fn open(storage: &Storage, path: &Path) -> Result<OpenFile> {
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
        })
    }

    /// Requests bytes of the file.
    pub(crate) fn request(&self, offset: u64, len: u64) -> Result<Ticket<Buffer>> {
        Ok(self.queue.submit(Read::range(self.id, offset, len))?)
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Buffer> {
        Ok(self.request(offset, len)?.wait()?)
    }
}

impl Drop for OpenFile {
    /// Closes the file, so that a later open of the path opens the file that it names then.
    fn drop(&mut self) {
        // A storage that is closing refuses the request, and closes the file itself.
        let _ = self.queue.batch().close(self.id);
    }
}
