//! What callers and the engine share: slots of requests, mail, and completions on their way back.

pub(crate) mod complete;
pub(crate) mod mailbox;
pub(crate) mod names;
pub(crate) mod park;
pub(crate) mod slots;
pub(crate) mod waiters;
