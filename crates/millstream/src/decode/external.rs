//! Stored bytes of external blocks in memory, which are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits;

/// The stored bytes of an external block.
pub(crate) struct ExternalBytes {
    pub(crate) bytes: Vec<u8>,
    /// Returned with the bytes.
    _share: Option<Share>,
}

impl ExternalBytes {
    pub(crate) fn new(bytes: Vec<u8>, share: Option<Share>) -> ExternalBytes {
        ExternalBytes {
            bytes,
            _share: share,
        }
    }
}

/// What one block takes of [`limits::EXTERNAL_BYTES_MAX`], returned when it is dropped.
pub(crate) struct Share {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl Share {
    /// Adds a block of `len` bytes to the total.
    pub(crate) fn of(total: &Arc<AtomicU64>, len: usize) -> Share {
        let bytes = limits::EXTERNAL_READ_BYTES_MIN.max(len as u64);
        total.fetch_add(bytes, Ordering::Relaxed);
        Share {
            total: Arc::clone(total),
            bytes,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
