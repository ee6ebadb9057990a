//! Buffers and textures of wgpu as destinations of Millstream's requests, through Vulkan.
//!
//! The features `wgpu-30` and `wgpu-29` select the version of wgpu that the application links;
//! without them this crate is empty. The modules `v30` and `v29` have the same types, except that
//! wgpu 29 does not lend handles of its buffers: there only `WgpuDevice::buffer` makes buffers.
//!
//! ```text
//! let gpu = unsafe { WgpuDevice::adopt(&adapter, &device, &queue)? };
//! let tiles = unsafe { gpu.adopt_texture(&atlas, regions)? };
//! let ticket = storage_queue.submit(read.into_device(tiles))?;
//! // Once a frame:
//! gpu.submit();
//! ```
//!
//! Only wgpu submits to its queue, so nothing lands without `WgpuDevice::submit` (except in buffers
//! with a second queue, see `WgpuDevice::adopt_with`), and workers decode. `examples/atlas.rs` is a
//! complete program.

#[cfg(feature = "wgpu-29")]
pub mod v29;
#[cfg(feature = "wgpu-30")]
pub mod v30;
