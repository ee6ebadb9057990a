//! Files that are opened, read and written on the calling thread.
//!
//! For the first bytes of a file, and for small files, a blocking call is faster than a request to
//! another thread. A [`LocalFile`] blocks its caller. Once it pays to have requests in flight, its
//! descriptor can be moved to an engine ([`LocalFile::into_opened`]): it refers to the same file,
//! even if the name by now refers to another.
//!
//! ```
//! use std::sync::Arc;
//! use millstream_io::{FileSystem, LocalFile, OpenMode, fs::OsFileSystem};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("file");
//! # std::fs::write(&path, [7; 100])?;
//! let files: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
//! let file = LocalFile::open(files, &path, OpenMode::default())?;
//! let mut head = [0; 16];
//! assert_eq!(file.read_at(0, &mut head)?, 16);
//! file.close()?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::Arc;

use super::{FileSystem, OpenMode, Opened, mostly};
use crate::device::Descriptor;
use crate::error::IoError;

/// A file opened on the calling thread. Closed when dropped.
pub struct LocalFile {
    fs: Arc<dyn FileSystem>,
    path: Arc<Path>,
    mode: OpenMode,
    /// `None` after `close` or `into_opened`.
    opened: Option<Opened>,
}

impl LocalFile {
    /// Opens `path`. Blocks.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    pub fn open(
        fs: Arc<dyn FileSystem>,
        path: impl AsRef<Path>,
        mode: OpenMode,
    ) -> Result<LocalFile, IoError> {
        let path: Arc<Path> = Arc::from(path.as_ref());
        let opened = Some(fs.open(&path, mode)?);
        Ok(LocalFile {
            fs,
            path,
            mode,
            opened,
        })
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length, identity and mount as of when it was opened.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        self.opened
            .as_ref()
            .expect("a LocalFile is open until it is consumed")
    }

    fn descriptor(&self) -> Descriptor {
        *self.opened().descriptor
    }

    /// Whether a read of the range would hardly wait for the disk, as far as the system reports: at
    /// least 7/8 of it are in the page cache. False for a direct descriptor.
    #[must_use]
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
        !self.mode.direct && mostly(self.fs.cached(self.descriptor(), offset, len), len)
    }

    /// Reads at an offset; short only at the end of the file. Blocks.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        self.fs.read_at(self.descriptor(), offset, into)
    }

    /// Writes all of `bytes` at an offset. Blocks.
    ///
    /// # Errors
    /// The system's error; a part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.fs.write_at(self.descriptor(), offset, bytes)
    }

    /// Makes written data durable. Blocks.
    pub fn sync(&self) -> Result<(), IoError> {
        self.fs.sync(self.descriptor(), false)
    }

    /// Closes the file and reports errors that a drop would hide: a network file system may report
    /// a write error only now.
    ///
    /// # Errors
    /// The system's error; the file is closed in any case.
    pub fn close(mut self) -> Result<(), IoError> {
        match self.opened.take() {
            Some(opened) => self.fs.close(opened.descriptor),
            None => Ok(()),
        }
    }

    /// Returns the file system that opened the file and that its descriptor belongs to.
    #[must_use]
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns the path, a mode that opens the file again (without creating or truncating it), and
    /// the open descriptor, which the caller closes through [`LocalFile::fs`].
    #[must_use]
    pub fn into_opened(mut self) -> (Arc<Path>, OpenMode, Opened) {
        let opened = self
            .opened
            .take()
            .expect("a LocalFile is open until it is consumed");
        (Arc::clone(&self.path), self.mode.again(), opened)
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            // A drop cannot report an error; `close` can.
            let _ = self.fs.close(opened.descriptor);
        }
    }
}

debug!(LocalFile, it: path = it.path);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::OsFileSystem;

    #[test]
    fn a_file_is_written_read_and_handed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mode = OpenMode {
            write: true,
            create: true,
            truncate: true,
            ..OpenMode::default()
        };
        let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
        let file = LocalFile::open(Arc::clone(&fs), &path, mode).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        let mut into = [9; 8];
        assert_eq!(file.read_at(2, &mut into).unwrap(), 4);
        assert_eq!(&into[..4], b"\0abc");
        let told = file.fs().cached(*file.opened().descriptor, 0, 6).is_some();
        assert_eq!(file.is_cached(0, 6), told, "just written");
        assert_eq!((file.path(), file.opened().len), (path.as_path(), 0));
        let (name, again, opened) = file.into_opened();
        assert_eq!(&*name, path);
        assert!(again.write && !again.create && !again.truncate && !again.exclusive);
        assert_eq!(fs.len(*opened.descriptor).unwrap(), 6, "still open");
        fs.close(opened.descriptor).unwrap();
    }
}
