//! What the engine costs by itself, without a real device: cases of workload `requests` that have no rival.

use crate::rows::Metric;

/// Requests through the whole engine over a device that does nothing.
pub(crate) const NULL_CASE: &str = "null device, batches of 1000";
/// Processor time of both threads per request.
pub(crate) const COST: Metric = Metric::lower("cost", "ns/request");

/// Order of requests on a simulated rotating disk.
pub(crate) const SEEK_CASE: &str = "seek order on a simulated disk";
/// Distance that the head travels.
pub(crate) const HEAD_TRAVEL: Metric = Metric::lower("head-travel", "MB");

/// Memory over a million requests.
pub(crate) const FLAT_CASE: &str = "memory over many requests";
/// Most staging in use over its bound.
pub(crate) const STAGING_PEAK: Metric = Metric::lower("staging-peak", "of bound");
/// Resident memory gained between the first tenth and the end.
pub(crate) const GROWTH: Metric = Metric::lower("growth", "MiB");
