//! The tests of the crate but those that need a process of their own.

mod batches;
mod causes;
mod completions;
mod decoding;
mod examples;
#[cfg(target_os = "linux")]
mod faults;
mod ids;
mod load;
mod open_close;
mod outcomes;
mod page_cache;
mod priorities;
mod semantics;
mod support;
mod waiting;

millstream_testing::watch!();
