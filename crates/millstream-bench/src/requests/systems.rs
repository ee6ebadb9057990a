//! What takes part in the case of realtime readers beside bulk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Result;
use crate::ring::ReadJob;
use crate::rows::Params;

/// Reads one request into memory.
pub(crate) type Reader<'a> = Box<dyn FnMut(&ReadJob, &mut [u8]) -> Result<()> + 'a>;

/// What the bulk reads, over and over.
pub(crate) struct Bulk<'a> {
    pub(crate) jobs: &'a [ReadJob],
    pub(crate) stop: &'a AtomicBool,
    pub(crate) bytes: &'a AtomicU64,
}

impl Bulk<'_> {
    /// Whether to read more.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Counts bytes that have arrived.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of all jobs.
    pub(crate) fn batch_bytes(&self) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.len)).sum()
    }
}

/// A system with readers that are in a hurry and a bulk reader that is not.
pub(crate) trait System: Sync {
    /// How it is set up.
    fn params(&self) -> Params {
        Params::new()
    }

    /// Reader number `nth`, which stays on the calling thread.
    fn reader(&self, nth: usize) -> Result<Reader<'_>>;

    /// Reads the jobs over and over as long as the bulk goes on, as fast as it can.
    fn bulk(&self, bulk: &Bulk<'_>, into: &mut [u8]) -> Result<()>;
}
