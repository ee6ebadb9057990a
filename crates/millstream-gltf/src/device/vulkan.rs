//! Buffers and images of a Vulkan device.

use std::sync::Arc;

use ash::vk;
use millstream::{DeviceSink, Error};
use millstream_vulkan::{Gpu, ImageOptions, ImageRegion};

use super::SceneDevice;
use crate::image::Layout;

impl SceneDevice for Gpu {
    /// Creates a buffer for vertices and indices, which shaders may read.
    fn buffer(&self, len: u64) -> Result<Arc<dyn DeviceSink>, Error> {
        let usage = vk::BufferUsageFlags::VERTEX_BUFFER
            | vk::BufferUsageFlags::INDEX_BUFFER
            | vk::BufferUsageFlags::STORAGE_BUFFER;
        Ok(Gpu::buffer(self, len, usage)?)
    }

    /// Creates an image to be sampled. A format with a single color encoding has that one.
    fn image(&self, layout: &Layout) -> Result<Arc<dyn DeviceSink>, Error> {
        let first = layout.first_level();
        let extent = |level| {
            let (width, height) = layout.size(level);
            vk::Extent3D {
                width,
                height,
                depth: 1,
            }
        };
        let texels = layout.format().texels(layout.is_srgb());
        let about = ImageOptions {
            format: vk::Format::from_raw(texels.vulkan.cast_signed()),
            extent: extent(first),
            mip_levels: layout.levels() - first,
            layers: 1,
            usage: vk::ImageUsageFlags::SAMPLED,
            layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
        };
        let place = |level: u32| {
            let bytes = layout.level(level).expect("it is present");
            let region = ImageRegion {
                mip_level: level - first,
                layers: 0..1,
                offset: vk::Offset3D::default(),
                extent: extent(level),
            };
            (bytes.start as u64, region)
        };
        // The smallest level comes first.
        let levels = (first..layout.levels()).rev().map(place).collect();
        Ok(self.image_at(&about, levels)?)
    }
}
