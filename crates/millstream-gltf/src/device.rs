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

use std::any::Any;
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

/// Memory of a device in which bytes of a scene have landed. Cheap to clone.
#[derive(Clone)]
pub struct DeviceMemory(Arc<dyn DeviceSink>);

impl DeviceMemory {
    pub(crate) fn new(sink: Arc<dyn DeviceSink>) -> DeviceMemory {
        DeviceMemory(sink)
    }

    pub(crate) fn sink(&self) -> Arc<dyn DeviceSink> {
        Arc::clone(&self.0)
    }

    /// Bytes that it has room for.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.0.room()
    }

    /// What the [`SceneDevice`] made, if its type is `T`.
    #[must_use]
    pub fn get<T: DeviceSink>(&self) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self.sink();
        any.downcast().ok()
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory")
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}
