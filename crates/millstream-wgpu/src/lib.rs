//! Buffers and textures of wgpu as destinations of Millstream's requests, over Vulkan.
//!
//! One of the features `wgpu-30` and `wgpu-29` says which wgpu the application links; without any
//! this crate is empty. The modules `v30` and `v29` have the same types, but that wgpu 29 does
//! not lend handles of its buffers: there buffers are made by `WgpuDevice::buffer` alone.
//!
//! ```text
//! let gpu = unsafe { WgpuDevice::adopt(&adapter, &device, &queue)? };
//! let tiles = unsafe { gpu.adopt_texture(&atlas, regions)? };
//! let ticket = storage_queue.submit(read.into_device(tiles))?;
//! // Once a frame:
//! gpu.submit();
//! ```
//!
//! wgpu alone submits to its queue, so nothing moves without `WgpuDevice::submit` (but to buffers,
//! by a second queue of `WgpuDevice::adopt_with`), and workers decode. `examples/atlas.rs` is a
//! whole program.

#[cfg(feature = "wgpu-29")]
pub mod v29;
#[cfg(feature = "wgpu-30")]
pub mod v30;
