//! With wgpu 29.

use millstream_wgpu::v29::wgpu;
use millstream_wgpu::v29::{WgpuDevice, wgpu::Buffer};

#[path = "cases.rs"]
mod cases;
#[path = "rig.rs"]
mod rig;

fn mapped(buffer: &Buffer) -> Vec<u8> {
    buffer.get_mapped_range(..).to_vec()
}
