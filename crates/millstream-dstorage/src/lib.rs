//! `dstorage.dll`: the interface of DirectStorage 1.3, served by Millstream.
//!
//! Programs written for DirectStorage load this library in place of Microsoft's. Requests read
//! files or memory into memory or resources of D3D12. `docs/DIRECTSTORAGE.md` says how
//! to install it and what each method does. On systems other than Windows the crate is empty.
//!
//! | file | what it does |
//! |---|---|
//! | `abi`, `vtables` | types, constants, tables of methods |
//! | `exports`, `factory`, `runtime` | the four functions, the factory, the storage behind it |
//! | `file`, `status`, `codec` | the objects that need no queue |
//! | `queue`, `request`, `record`, `fence`, `event` | queues: entries, order, errors, markers |
//! | `gpu` | destinations that are resources of D3D12 |
//! | `memory`, `custom`, `access` | sources in memory; custom decompression; bad addresses |
//! | `com`, `registry`, `results`, `log` | objects, their addresses, errors, the log |
//! | `system` | the end of the process, the loader lock |
//!
//! # Safety
//!
//! As in every COM interface, a pointer that a program passes is null or valid: that is not
//! checked. Pointers to files and status arrays are looked up, so released ones are usually
//! detected (addresses are reused). Memory of a request stays valid until the request completes or
//! its queue is closed.
#![cfg(windows)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("DirectStorage exists for 64-bit Windows only");

#[cfg(test)]
millstream_testing::watch!();

pub mod abi;
mod access;
mod codec;
mod com;
mod custom;
mod event;
mod exports;
mod factory;
mod fence;
mod file;
mod gpu;
mod log;
mod memory;
mod queue;
mod record;
mod registry;
mod request;
mod results;
mod runtime;
mod status;
mod system;
pub mod vtables;

pub use exports::*;
