//! Mapped views: a file's bytes as memory, warmed ahead of use.
//!
//! A view maps a file. Touching a page that is not in memory blocks the toucher until it is read: a
//! request of kind [`Request::warm`](crate::Request::warm) walks ahead at low priority, so that it
//! rarely does.
//!
//! # Safety
//! Creating a view is unsafe: a file that shrinks while it is mapped ends the process with SIGBUS
//! at the next touch of what is gone.
#![expect(unsafe_code, reason = "declares the contract of mapping a file")]

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use millstream_io::fs::view::Populated;
use millstream_io::fs::{self, OsFileSystem};
use millstream_io::{Errno, FileSystem, IoError, OpenMode};

use crate::error::{Error, ErrorKind};

/// A mapped range of a file, read only. Shared by reference count with the requests that warm it.
pub struct MappedView {
    map: fs::MappedView,
}

impl MappedView {
    /// Maps `len` bytes at `offset` of the file `path`; `u64::MAX` for the rest of the file.
    /// Blocks: opens and maps on the calling thread, reads nothing.
    ///
    /// # Safety
    /// The file must not shrink, nor its bytes change, while the view lives.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or the range reaches past its end.
    pub unsafe fn open(
        path: impl AsRef<Path>,
        offset: u64,
        len: u64,
    ) -> Result<Arc<MappedView>, Error> {
        let path = path.as_ref();
        let files = OsFileSystem::new();
        let at = |error: Error| error.at(Some(Arc::from(path)), offset, len);
        let opened = files.open(path, OpenMode::default());
        let opened = opened.map_err(|error| at(Error::from_io(&error)))?;
        let rest = opened.len.saturating_sub(offset);
        let wanted = if len == u64::MAX { rest } else { len };
        let result = if wanted > rest || offset > opened.len {
            let cause = "the range reaches past the end of the file";
            Err(at(Error::new(ErrorKind::PastEnd, cause)))
        } else {
            let len = usize::try_from(wanted).unwrap_or(usize::MAX);
            // SAFETY: the caller promises that the file does not shrink; the descriptor is open.
            let map = unsafe { fs::MappedView::map(opened.descriptor, offset, len) };
            map.map_err(|error| at(Error::from_io(&error)))
        };
        // A mapping outlives its descriptor.
        let _ = files.close(opened.descriptor);
        Ok(Arc::new(MappedView { map: result? }))
    }

    /// Brings a range into memory, blocking; for workers.
    pub(crate) fn populate(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let Some(range) = range.filter(|range| range.end <= self.map.len()) else {
            let cause = "the range reaches past the end of the view";
            return Err(IoError::because("warm", Errno::INVALID, cause));
        };
        match self.map.populate(range)? {
            Populated::Present | Populated::Requested => Ok(()),
        }
    }
}

impl Deref for MappedView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl std::fmt::Debug for MappedView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedView")
            .field("len", &self.map.len())
            .finish()
    }
}
