//! What a caller holds: the storage, queues, requests, tickets, and what else tells of completions.

pub(crate) mod batch;
pub(crate) mod destination;
pub(crate) mod fence;
pub(crate) mod group;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod sink;
pub(crate) mod status;
pub(crate) mod storage;
pub(crate) mod ticket;
pub(crate) mod waits;
