//! The shaders that decode tiles: `shaders/gdeflate.wgsl` with one of two ways to exchange data
//! between lanes, committed as SPIR-V.
//!
//! A workgroup of 32 lanes decodes a tile. It checks everything it reads, writes nothing outside of
//! its tile, and stores a status: [`GOOD`], or the reason why it rejected the tile.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::borrow::Cow;
use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::context::Context;
use crate::error::vulkan;
use crate::memory::DeviceBuffer;

#[cfg(test)]
mod tests;

/// A shader, as SPIR-V.
pub(crate) struct Shader {
    words: Cow<'static, [u8]>,
    /// The size of subgroups that it needs, if any.
    subgroup_size: Option<u32>,
}

impl Shader {
    /// For subgroups of any size.
    pub(crate) const WORKGROUP: Shader = Shader {
        words: Cow::Borrowed(include_bytes!("../shaders/workgroup.spv")),
        subgroup_size: None,
    };
    /// For [`GpuFeatures::subgroups_of_32`](crate::GpuFeatures).
    pub(crate) const SUBGROUP: Shader = Shader {
        words: Cow::Borrowed(include_bytes!("../shaders/subgroup.spv")),
        subgroup_size: Some(32),
    };
}

/// The status of a tile that was decoded. Status 0: the shader did not reach the tile.
pub(crate) const GOOD: u32 = 1;
/// The status of a tile with more blocks, or longer ones, than the shader supports.
pub(crate) const LIMIT: u32 = 10;

/// Number of buffers bound to the shader: stored bytes, raw bytes, tiles, statuses.
const BINDINGS: u32 = 4;

/// Words of a tile's entry: first stored word, stored words, first raw word, raw bytes.
pub(crate) type TileEntry = [u32; 4];

/// The pipeline of a shader, and its layouts.
pub(crate) struct Decoder {
    context: Arc<Context>,
    layout: vk::PipelineLayout,
    set_layout: vk::DescriptorSetLayout,
    pipeline: vk::Pipeline,
}

impl Decoder {
    pub(crate) fn new(context: &Arc<Context>, shader: &Shader) -> Result<Decoder, Error> {
        let device = &context.device;
        let binding = |binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_count(1)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..BINDINGS).map(binding).collect();
        let mut made = Decoder {
            context: Arc::clone(context),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            pipeline: vk::Pipeline::null(),
        };
        // SAFETY: valid descriptions; what was made is destroyed with `made`, also on an error.
        unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = device.create_descriptor_set_layout(&info, None);
            made.set_layout =
                set_layout.map_err(|error| vulkan("vkCreateDescriptorSetLayout", error))?;
            let layouts = [made.set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
            let layout = device.create_pipeline_layout(&info, None);
            made.layout = layout.map_err(|error| vulkan("vkCreatePipelineLayout", error))?;
        }
        made.pipeline = made.pipeline(shader)?;
        Ok(made)
    }

    fn pipeline(&self, shader: &Shader) -> Result<vk::Pipeline, Error> {
        let device = &self.context.device;
        let words: Vec<u32> = shader
            .words
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the module was validated when it was made.
        let module = unsafe { device.create_shader_module(&info, None) };
        let module = module.map_err(|error| vulkan("vkCreateShaderModule", error))?;
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(shader.subgroup_size.unwrap_or(0));
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        if shader.subgroup_size.is_some() {
            stage = stage
                .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS)
                .push_next(&mut size);
        }
        let info = vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout);
        // SAFETY: the layout has what the module declares; the module is not needed afterwards.
        let made = unsafe {
            let made = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            device.destroy_shader_module(module, None);
            made
        };
        match made {
            Ok(pipelines) => Ok(pipelines[0]),
            Err((_, error)) => Err(vulkan("vkCreateComputePipelines", error)),
        }
    }

    /// Records the decoding of this many tiles.
    pub(crate) fn record(&self, commands: vk::CommandBuffer, bound: &Bound, tiles: u32) {
        let device = &self.context.device;
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: commands that are being recorded, and sets of this pipeline's layout.
        unsafe {
            device.cmd_bind_pipeline(commands, point, self.pipeline);
            device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[bound.set], &[]);
            device.cmd_dispatch(commands, tiles, 1, 1);
        }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let device = &self.context.device;
        // SAFETY: created here; no batch is in flight any more. Null handles are ignored.
        unsafe {
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

/// Buffers bound to the shader.
pub(crate) struct Bound {
    context: Arc<Context>,
    pool: vk::DescriptorPool,
    set: vk::DescriptorSet,
}

impl Bound {
    /// Binds stored bytes, raw bytes, tiles and statuses.
    pub(crate) fn new(decoder: &Decoder, buffers: [&DeviceBuffer; 4]) -> Result<Bound, Error> {
        let context = &decoder.context;
        let device = &context.device;
        let sizes = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::STORAGE_BUFFER,
            descriptor_count: BINDINGS,
        }];
        let info = vk::DescriptorPoolCreateInfo::default()
            .max_sets(1)
            .pool_sizes(&sizes);
        // SAFETY: a valid description.
        let pool = unsafe { device.create_descriptor_pool(&info, None) };
        let pool = pool.map_err(|error| vulkan("vkCreateDescriptorPool", error))?;
        let mut made = Bound {
            context: Arc::clone(context),
            pool,
            set: vk::DescriptorSet::null(),
        };
        let layouts = [decoder.set_layout];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(pool)
            .set_layouts(&layouts);
        // SAFETY: the pool has room for one set.
        let sets = unsafe { device.allocate_descriptor_sets(&info) };
        made.set = sets.map_err(|error| vulkan("vkAllocateDescriptorSets", error))?[0];
        let whole = |buffer: &DeviceBuffer| {
            [vk::DescriptorBufferInfo {
                buffer: buffer.buffer,
                offset: 0,
                range: vk::WHOLE_SIZE,
            }]
        };
        let infos = buffers.map(whole);
        let writes = (0..BINDINGS).zip(&infos).map(|(binding, info)| {
            vk::WriteDescriptorSet::default()
                .dst_set(made.set)
                .dst_binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(info)
        });
        let writes: Vec<_> = writes.collect();
        // SAFETY: the set is new, and the buffers are storage buffers.
        unsafe { device.update_descriptor_sets(&writes, &[]) };
        Ok(made)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: created here; the batch that used it has run.
        unsafe { self.context.device.destroy_descriptor_pool(self.pool, None) };
    }
}
