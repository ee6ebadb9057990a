//! Statistics: what the engine counted, and where the time went.
//!
//! The engine counts in plain memory of its own; asking for statistics has it send a copy, so that
//! counting costs nothing else.

use crate::histogram::Histogram;

/// Counts of a storage since it was made. Times are nanoseconds.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that the engine has taken.
    pub requests: u64,
    /// Requests that ended well.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Requests served after their deadline.
    pub deadlines_missed: u64,
    /// Requests whose timeout passed while the kernel held borrowed memory.
    pub overdue: u64,
    /// Operations given to devices.
    pub operations: u64,
    /// Operations that carried more than one request.
    pub merged_operations: u64,
    /// Operations past the page cache.
    pub direct_operations: u64,
    /// Operations that found all their bytes in the page cache, and needed no device.
    pub copied_operations: u64,
    /// Operations repeated because they came back short or interrupted.
    pub retried_operations: u64,
    /// Bytes that devices moved, and opens that read.
    pub stored_bytes: u64,
    /// Raw bytes that landed.
    pub raw_bytes: u64,
    /// Time in which nothing was in flight although requests waited.
    pub device_idle_ns: u64,
    /// Time in which anything was in flight.
    pub device_busy_ns: u64,
    /// Jobs done by workers or the application.
    pub jobs: u64,
    /// Time that stored bytes waited for a worker, summed over jobs.
    pub decode_wait_ns: u64,
    /// Time that decoding took, summed over jobs.
    pub decode_ns: u64,
    /// Time that workers slept while operations were in flight, summed over workers.
    pub worker_starved_ns: u64,
    /// Files opened.
    pub opens: u64,
    /// Requests whose bytes were in the page cache and were read with the open of their file.
    pub read_with_open: u64,
    /// Time that opening took, summed over files.
    pub open_ns: u64,
    /// The longest of them.
    pub open_max_ns: u64,
    /// Descriptors open now.
    pub descriptors: u64,
    /// Staging memory in use now.
    pub staging_bytes: u64,
    /// Most staging memory that was ever in use.
    pub staging_peak_bytes: u64,
    /// The bound of staging.
    pub staging_capacity_bytes: u64,
    /// Bytes in flight now.
    pub in_flight_bytes: u64,
    /// From submission to the end, per class (lowest first).
    pub latency: [Histogram; 4],
}
