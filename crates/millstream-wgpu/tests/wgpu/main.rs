//! Requests that land in buffers and textures of wgpu, on whatever Vulkan device there is (lavapipe
//! is enough).

#[cfg(feature = "wgpu-29")]
mod v29;
#[cfg(feature = "wgpu-30")]
mod v30;
