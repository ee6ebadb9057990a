//! Decoding: its description in requests, plans, jobs, worker threads.

pub(crate) mod external;
pub(crate) mod growing;
pub(crate) mod jobs;
pub(crate) mod plan;
pub(crate) mod spec;
pub(crate) mod workers;
