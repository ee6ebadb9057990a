//! Destinations for wgpu 29, which does not lend the handles of its buffers.

pub use wgpu_29 as wgpu;

#[path = "destination.rs"]
mod destination;
#[path = "device.rs"]
mod device;

pub use destination::{BufferDestination, Destination, TextureDestination};
pub use device::WgpuDevice;
