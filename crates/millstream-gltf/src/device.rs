//! Scenes in the memory of a device, such as a GPU.
//!
//! With [`LoaderOptions::device`](crate::LoaderOptions::device) bytes of buffers land there without
//! passing through memory of the scene, and so do images that a package stores ready for upload.
//! Images that workers decode land in memory first, and a second request copies them to the device.
//!
//! The CPU does not read what lands on a device, so the loader does not check indices against the
//! number of vertices: for untrusted scenes the device itself must (`robustBufferAccess` in
//! Vulkan).

#[cfg(feature = "vulkan")]
mod vulkan;

use std::fmt;
use std::sync::Arc;

use millstream::{DeviceSink, Error};

use crate::image::Layout;

/// Allocates memory of a device. Called on the thread that drives the load.
pub trait SceneDevice: fmt::Debug + Send + Sync {
    /// Allocates memory for `len` bytes of a buffer, at least one: vertices, indices, and whatever
    /// else its views hold.
    ///
    /// # Errors
    /// The device has no such memory.
    fn buffer(&self, len: u64) -> Result<Arc<dyn DeviceSink>, Error>;

    /// Creates an image. Its request delivers all bytes of `layout`, including the header and gaps;
    /// [`Layout::level`] returns the range of a level.
    ///
    /// # Errors
    /// The device has no such image, or no memory for it.
    fn image(&self, layout: &Layout) -> Result<Arc<dyn DeviceSink>, Error>;
}
