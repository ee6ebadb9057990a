//! Buffers and textures of wgpu as destinations of Millstream's requests, through Vulkan.
//!
//! wgpu takes over a minute to build, so this crate is empty without the feature `wgpu-30`, named
//! for the version of wgpu that the application links.
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
#![cfg(feature = "wgpu-30")]

mod destination;
mod device;

pub use destination::{BufferDestination, Destination, TextureDestination};
pub use device::WgpuDevice;
pub use wgpu;

#[cfg(test)]
millstream_testing::watch!();
