//! Requests that land in device memory, on whatever Vulkan device there is (lavapipe is enough),
//! under the validation layer if there is one.

mod adopted;
mod application;
mod budget;
mod buffers;
mod gone;
mod images;
mod lost;
mod recorded;
mod rig;
mod shared;

millstream_testing::watch!();
