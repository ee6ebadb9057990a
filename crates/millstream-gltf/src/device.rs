//! Scenes in the memory of a device, such as a GPU.
//!
//! With [`LoaderOptions::device`](crate::LoaderOptions::device) bytes of buffers land there without
//! passing through memory of the scene, and so do images that a package stores ready for upload.
//! Images that workers decode land in memory first, from where a second request takes them to the
//! device.
//!
//! The processor does not see what lands on a device, so the loader compares no indices with their
//! vertices: of a scene that is not trusted the device itself must check them
//! (`robustBufferAccess` in Vulkan).

#[cfg(feature = "vulkan")]
mod vulkan;

use std::fmt;
use std::sync::Arc;

use millstream::{DeviceSink, Error};

use crate::image::Layout;

/// Makes memory of a device. Called on the thread that drives the load.
pub trait SceneDevice: fmt::Debug + Send + Sync {
    /// Memory for `len` bytes of a buffer, at least one: vertices, indices, and whatever else its
    /// views hold.
    ///
    /// # Errors
    /// The device has no such memory.
    fn buffer(&self, len: u64) -> Result<Arc<dyn DeviceSink>, Error>;

    /// An image. Its request brings all bytes of `layout`, the header and gaps among them;
    /// [`Layout::level`] says which are those of a level.
    ///
    /// # Errors
    /// The device has no such image, or no memory for it.
    fn image(&self, layout: &Layout) -> Result<Arc<dyn DeviceSink>, Error>;
}
