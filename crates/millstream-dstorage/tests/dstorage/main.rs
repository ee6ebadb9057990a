//! The interface of DirectStorage as programs call it: through the declarations of the crate
//! `direct-storage`, which this crate's own are compared with. Runs on Windows and under Wine.
#![cfg(windows)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks call methods of objects that the test holds, with memory that it keeps"
)]

millstream_testing::watch!();

mod closing;
mod codec;
mod common;
mod configuration;
mod custom;
mod decompression;
mod fences;
mod files;
mod layout;
mod library;
mod queues;
mod records;
mod refused;
mod schedules;
mod unknown;
