//! Real faults and hostile input: every request completes exactly once with the right outcome, over
//! both backends; nothing leaks and no thread is left.
//!
//! The kernel makes the faults: file systems that fail, disks that are full or truncated, limits
//! and filters on the process. Most tests run over each backend in a child process of their own,
//! which must hold what it held before once the storage is gone.

mod appends;
mod callbacks;
mod caller;
mod canary;
mod cancel;
mod close;
mod devices;
mod external;
mod fork;
mod handles;
mod handles_race;
mod hooked;
mod identity;
mod injected;
mod limits;
mod opens;
mod order;
mod read;
mod rig;
mod staging;
mod time;
mod write;
