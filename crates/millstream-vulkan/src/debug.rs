//! `Debug` of the types that have fields of Vulkan: enumerations and flags by number, as ash has
//! their names only with its feature `debug`, which makes it take twice as long to build.

use std::fmt::{Debug, Formatter, Result};

use ash::vk::{Extent3D, Offset3D};

use crate::image::ImageOptions;
use crate::regions::{AdoptedImage, ImageRegion, ImageState};

fn sides(extent: Extent3D) -> [u32; 3] {
    [extent.width, extent.height, extent.depth]
}

impl Debug for ImageState {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ImageState")
            .field("layout", &self.layout.as_raw())
            .field("family", &self.family)
            .finish()
    }
}

impl Debug for ImageRegion {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Offset3D { x, y, z } = self.offset;
        f.debug_struct("ImageRegion")
            .field("mip_level", &self.mip_level)
            .field("layers", &self.layers)
            .field("offset", &[x, y, z])
            .field("extent", &sides(self.extent))
            .finish()
    }
}

impl Debug for AdoptedImage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("AdoptedImage")
            .field("image", &self.image)
            .field("format", &self.format.as_raw())
            .field("regions", &self.regions)
            .field("before", &self.before)
            .field("handover", &self.handover)
            .finish()
    }
}

impl Debug for ImageOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ImageOptions")
            .field("format", &self.format.as_raw())
            .field("extent", &sides(self.extent))
            .field("mip_levels", &self.mip_levels)
            .field("layers", &self.layers)
            .field("usage", &self.usage.as_raw())
            .field("layout", &self.layout.as_raw())
            .finish()
    }
}
