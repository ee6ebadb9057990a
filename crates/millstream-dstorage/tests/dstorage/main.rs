//! The interface of DirectStorage as programs call it: through the declarations of the crate
//! `direct-storage`, which this crate's own are compared with. Runs on Windows and under Wine.
#![cfg(windows)]

millstream_testing::watch!();

mod calls;
mod closing;
mod codec;
mod common;
mod configuration;
mod custom;
mod d3d12;
mod decompression;
mod device;
mod device_schedules;
mod fences;
mod files;
mod layout;
mod library;
mod queues;
mod records;
mod refused;
mod schedules;
mod unknown;
