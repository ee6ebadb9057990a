//! Handles to device memory of scenes and images.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use millstream::DeviceSink;

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

    /// Returns the number of bytes that it has room for.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.0.room()
    }

    /// Returns what the [`SceneDevice`](crate::SceneDevice) created, if its type is `T`.
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
