//! With wgpu 30.

use millstream_wgpu::v30::wgpu;
use millstream_wgpu::v30::{WgpuDevice, wgpu::Buffer};

mod adopt;
#[path = "cases.rs"]
mod cases;
#[path = "rig.rs"]
mod rig;

fn mapped(buffer: &Buffer) -> Vec<u8> {
    let range = buffer.get_mapped_range(..).expect("mapped");
    range.to_vec()
}
