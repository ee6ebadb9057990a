//! GPU memory as a destination of Millstream's requests, through Vulkan.
//!
//! A request reads stored bytes as any other does, and [`GpuBuffer`] or [`GpuImage`] transfers them
//! to the device: raw bytes by copies, GDeflate by a compute shader that decodes one tile in each
//! workgroup. Codecs that the device does not decode are decoded by workers first. One ticket,
//! group or fence reports when the bytes are in device memory.
//!
//! ```text
//! part → pieces → batch: upload, or staging ─ copy ──────────────→ buffer, image
//!                                          └ decode → scratch ─ copy ↗
//! ```
//!
//! The decoder of the CPU is the authority: a tile that the device rejects is decoded again there,
//! and that result counts. Before the first request each shader decodes tiles with known results;
//! a shader that fails is not used, see [`Gpu::report`].
//!
//! This has not run on a real GPU yet, only on Mesa's lavapipe.
//!
//! # Example
//! ```no_run
//! use millstream::{CodecId, Decode, Read, Storage};
//! use millstream_vulkan::{Gpu, GpuOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let storage = Storage::new(Default::default())?;
//! let queue = storage.queue(Default::default())?;
//! let file = storage.open("terrain.gdeflate", Default::default());
//!
//! let gpu = Gpu::create(GpuOptions::default())?;
//! let buffer = gpu.buffer(16 << 20, ash::vk::BufferUsageFlags::VERTEX_BUFFER)?;
//! let read = Read::whole(file).decode(Decode::codec(CodecId::GDEFLATE));
//! queue.submit(read.into_device(buffer.clone()))?.wait()?;
//! # Ok(())
//! # }
//! ```

mod batch;
mod buffer;
mod check;
mod commands;
mod context;
mod create;
mod debug;
mod decoder;
mod devices;
mod done;
mod error;
mod format;
mod gpu;
mod image;
mod import;
mod lane;
pub mod limits;
mod memory;
mod message;
mod pieces;
mod points;
mod queue;
mod record;
mod regions;
mod sending;
mod target;
mod threads;

pub use buffer::GpuBuffer;
pub use create::{AdoptedDevice, GpuFeatures, GpuWanted};
pub use devices::{GpuDevice, devices};
pub use gpu::{Gpu, GpuOptions, GpuReport, GpuStats, Tier};
pub use image::{GpuImage, ImageOptions};
pub use queue::{AdoptedQueue, GpuPoint, QueueAccess, QueueLock};
pub use record::Recorded;
pub use regions::{AdoptedImage, ImageRegion, ImageState};

#[cfg(test)]
millstream_testing::watch!();
