//! Requests that land in buffers and textures of wgpu, on whatever Vulkan device there is (lavapipe
//! is enough).

mod adopt;
mod cases;
mod rig;
#[cfg(feature = "noop")]
mod shaders;

millstream_testing::watch!();
