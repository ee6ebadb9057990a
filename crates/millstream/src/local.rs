//! Files opened on the calling thread, for streams: the first bytes of a file, and files that are
//! small, are faster got by a call than by asking two other threads for it.
//!
//! A [`LocalFile`] reads and writes on the calling thread, which blocks. Once it pays to have
//! requests in flight it is given to the engine ([`Storage::adopt`]), by its descriptor: whatever
//! its name has come to mean since, the file is the same.
//!
//! ```
//! use millstream::{FileOptions, QueueOptions, Request, Storage, StorageOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-local-{}", std::process::id()));
//! # std::fs::write(&path, vec![7u8; 100_000])?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let file = storage.open_local(&path, FileOptions::default())?;
//! let mut head = [0; 16];
//! assert_eq!(file.read_at(0, &mut head)?, 16);
//! let queue = storage.queue(QueueOptions::default())?;
//! let id = storage.adopt(file);
//! let rest = queue.enqueue(Request::read(id, 16, 99_984))?;
//! assert_eq!(rest.wait()?.into_buffer().len(), 99_984);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::Arc;

use millstream_io::{OpenMode, Opened};

use crate::error::Error;
use crate::files::{Access, FileId, FileInfo, FileOptions};
use crate::limits;
use crate::storage::{Control, Shared, Storage};
use crate::waiters::lock;

/// See the module. Closed when it is dropped.
pub struct LocalFile {
    shared: Arc<Shared>,
    path: Arc<Path>,
    options: FileOptions,
    /// Taken by the engine; else closed on drop.
    opened: Option<Opened>,
}

impl Storage {
    /// Opens a file on the calling thread, through the page cache.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_local(
        &self,
        path: impl AsRef<Path>,
        options: FileOptions,
    ) -> Result<LocalFile, Error> {
        let path: Arc<Path> = Arc::from(path.as_ref());
        let mode = OpenMode {
            write: options.write,
            create: options.create,
            exclusive: options.exclusive,
            truncate: options.truncate,
            direct: false,
        };
        let shared = Arc::clone(self.shared());
        let opened = shared.fs.open(&path, mode);
        let opened =
            opened.map_err(|error| Error::from_io(&error).at(Some(Arc::clone(&path)), 0, 0))?;
        Ok(LocalFile {
            shared,
            path,
            options,
            opened: Some(opened),
        })
    }

    /// Gives a file to the engine. Makes no system call of its own; the id is the file's alone, and
    /// is closed like any other ([`Queue::enqueue_close`](crate::Queue::enqueue_close)).
    pub fn adopt(&self, file: LocalFile) -> FileId {
        let path = Arc::clone(&file.path);
        let id = lock(&self.shared().names).adopt(path, file.options);
        self.shared().control(Control::Adopt {
            file: id,
            local: file,
        });
        id
    }
}

impl LocalFile {
    fn opened(&self) -> &Opened {
        let opened = self.opened.as_ref();
        opened.expect("only the engine takes the descriptor, of a value that it owns")
    }

    /// The engine takes the descriptor over.
    pub(crate) fn take(mut self) -> (Arc<Path>, FileOptions, Opened) {
        let opened = self.opened.take().expect("taken once, by its owner");
        // If it is ever closed to make room and opened again, it must be there.
        let options = FileOptions {
            create: false,
            exclusive: false,
            truncate: false,
            ..self.options
        };
        (Arc::clone(&self.path), options, opened)
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length and identity when it was opened.
    #[must_use]
    pub fn info(&self) -> FileInfo {
        let opened = self.opened();
        FileInfo {
            len: opened.len,
            identity: opened.identity,
            direct: opened.direct.is_some(),
        }
    }

    /// Whether a read of the range would not wait for the disk, as far as the system tells (7/8 of
    /// it are in the page cache). A storage that reads everything past the cache says no.
    #[must_use]
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
        if self.shared.options.access == Access::Direct {
            return false;
        }
        let cached = self.shared.fs.cached(self.opened().descriptor, offset, len);
        cached.is_some_and(|cached| cached / limits::CACHED_EIGHTHS >= len / 8)
    }

    /// Reads at an offset, blocking; short at the end of the file only.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let len = into.len();
        let read = self
            .shared
            .fs
            .read_at(self.opened().descriptor, offset, into);
        read.map_err(|error| self.error(&error, offset, len))
    }

    /// Writes all of `bytes` at an offset, blocking.
    ///
    /// # Errors
    /// What the system says; a part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self
            .shared
            .fs
            .write_at(self.opened().descriptor, offset, bytes);
        written.map_err(|error| self.error(&error, offset, bytes.len()))
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> Result<(), Error> {
        let synced = self.shared.fs.sync(self.opened().descriptor, false);
        synced.map_err(|error| self.error(&error, 0, 0))
    }

    /// Closes; unlike a drop it tells what the system says (a network file system may have kept
    /// the error of a write until now).
    ///
    /// # Errors
    /// What the system says.
    pub fn close(mut self) -> Result<(), Error> {
        let Some(opened) = self.opened.take() else {
            return Ok(());
        };
        let closed = self.shared.fs.close(opened.descriptor);
        closed.map_err(|error| self.error(&error, 0, 0))
    }

    fn error(&self, error: &millstream_io::IoError, offset: u64, len: usize) -> Error {
        Error::from_io(error).at(Some(Arc::clone(&self.path)), offset, len as u64)
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            // Nobody is there to be told.
            let _ = self.shared.fs.close(opened.descriptor);
        }
    }
}

impl std::fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LocalFile").field(&self.path).finish()
    }
}
