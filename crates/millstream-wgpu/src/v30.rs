//! Destinations for wgpu 30.

pub use wgpu_30 as wgpu;

mod adopt;
#[path = "destination.rs"]
mod destination;
#[path = "device.rs"]
mod device;

pub use destination::{BufferDestination, Destination, TextureDestination};
pub use device::WgpuDevice;
