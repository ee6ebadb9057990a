//! The commands, one file each.

pub(crate) mod codec;
pub(crate) mod decode;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod extract;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod pack;
pub(crate) mod report;
pub(crate) mod scene;
pub(crate) mod verify;
pub(crate) mod weights;

/// Why a build without the feature `gpu` uses no device, and what to do about it.
pub(crate) const NO_GPU: &str = "this program was built without Vulkan; build it with \
                                 `cargo build --release --features gpu`";
