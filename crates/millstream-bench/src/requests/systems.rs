//! What takes part in the case of realtime readers beside bulk.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::error::Result;
use crate::ring::ReadJob;
use crate::rows::Params;

/// Readers.
pub(crate) const READERS: usize = 4;
/// Bulk reads are handed over so many bytes at a time.
pub(crate) const BULK_BATCH_BYTES: usize = 32 << 20;
/// Bytes of a bulk request.
pub(crate) const BULK_REQUEST_BYTES: usize = 1 << 20;

/// A system with readers that are in a hurry and a bulk reader that is not.
pub(crate) trait RealtimeSystem: Send + Sync {
    /// How it is set up.
    fn params(&self) -> Params {
        Params::new()
    }
    /// What a reader does once on its thread, before its first read.
    fn begin(&self) -> Result<()> {
        Ok(())
    }
    /// Reads one request of reader number `reader`; called from one thread per reader.
    fn read(&self, reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()>;
    /// Reads the jobs over and over until `stop`, as fast as it can, and adds the bytes that have
    /// arrived to `bytes`.
    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()>;
}
