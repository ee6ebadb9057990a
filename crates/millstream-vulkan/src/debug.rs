//! `Debug` of the handles, and of the types that have fields of Vulkan: enumerations and flags by
//! number, as ash has their names only with its feature `debug`, which makes it take twice as long
//! to build.

use std::fmt::{Debug, Formatter, Result};

use ash::vk::Extent3D;

use crate::buffer::GpuBuffer;
use crate::gpu::Gpu;
use crate::image::{GpuImage, ImageOptions};
use crate::record::Recorded;
use crate::regions::{AdoptedImage, ImageRegion, ImageState};

fn sides(extent: Extent3D) -> [u32; 3] {
    [extent.width, extent.height, extent.depth]
}

macro_rules! debug {
    ($of:ident$(<$lifetime:lifetime>)?, $it:ident: $($field:ident = $value:expr),*) => {
        impl Debug for $of$(<$lifetime>)? {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                let $it = self;
                f.debug_struct(stringify!($of))$(.field(stringify!($field), &$value))*.finish()
            }
        }
    };
}

debug!(ImageState, it: layout = it.layout.as_raw(), family = it.family);
debug!(ImageRegion, it: mip_level = it.mip_level, layers = it.layers,
    offset = [it.offset.x, it.offset.y, it.offset.z], extent = sides(it.extent));
debug!(AdoptedImage, it: image = it.image, format = it.format.as_raw(), regions = it.regions,
    before = it.before, handover = it.handover);
debug!(ImageOptions, it: format = it.format.as_raw(), extent = sides(it.extent),
    mip_levels = it.mip_levels, layers = it.layers, usage = it.usage.as_raw(),
    layout = it.layout.as_raw());
debug!(Gpu, it: report = it.report());
debug!(GpuBuffer, it: buffer = it.target.buffer(), len = it.target.len());
debug!(GpuImage, it: about = it.place().image.about);
debug!(Recorded<'_>, it: point = it.point);
