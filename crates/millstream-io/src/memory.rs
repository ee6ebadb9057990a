//! Memory that devices fill: regions on huge pages, a bounded arena, and recycled buffers.

pub mod advice;
pub mod arena;
pub mod buffer;
pub mod destination;
pub mod region;

pub use arena::{Arena, Block};
pub use buffer::{Buffer, BufferPool};
pub use destination::{Destination, Place};
pub use region::{Region, RegionAllocator};
