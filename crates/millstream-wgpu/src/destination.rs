//! Destinations that keep their wgpu resource alive.

use std::sync::Arc;

use millstream::{CodecId, DevicePart, DeviceSink};
use millstream_vulkan::{GpuBuffer, GpuImage};

/// A range of a buffer, to be passed to [`Read::into_device`](millstream::Read::into_device).
pub type BufferDestination = Destination<wgpu::Buffer, GpuBuffer>;

/// Regions of a texture, to be passed to [`Read::into_device`](millstream::Read::into_device). A
/// request must provide all their bytes; only one request at a time may land in them.
pub type TextureDestination = Destination<wgpu::Texture, GpuImage>;

/// A wgpu resource as a destination of requests, which keep it alive.
#[derive(Debug)]
pub struct Destination<R, S> {
    // Dropped before the resource, which keeps the device.
    sink: Arc<S>,
    resource: Arc<R>,
    /// Whether the device was lost.
    is_lost: fn(&S) -> bool,
}

impl<R, S> Destination<R, S> {
    pub(crate) fn new(
        sink: Arc<S>,
        resource: R,
        is_lost: fn(&S) -> bool,
    ) -> Arc<Destination<R, S>> {
        Arc::new(Destination {
            sink,
            resource: Arc::new(resource),
            is_lost,
        })
    }

    /// Returns the buffer or texture.
    #[must_use]
    pub fn resource(&self) -> &R {
        &self.resource
    }
}

impl<R, S> Drop for Destination<R, S> {
    fn drop(&mut self) {
        if (self.is_lost)(&self.sink) {
            // wgpu does not know about the copies, which may still run: the resource is leaked.
            std::mem::forget(Arc::clone(&self.resource));
        }
    }
}

impl<R: Send + Sync + 'static, S: DeviceSink> DeviceSink for Destination<R, S> {
    fn room(&self) -> u64 {
        self.sink.room()
    }

    fn decodes(&self, codec: CodecId) -> bool {
        self.sink.decodes(codec)
    }

    fn wants_last(&self) -> bool {
        self.sink.wants_last()
    }

    fn take(&self, part: DevicePart) {
        self.sink.take(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_outlives_a_lost_device() {
        for (is_lost, left) in [(false, 1), (true, 2)] {
            let resource = Arc::new(());
            let sink = Arc::new(is_lost);
            drop(Destination::new(sink, Arc::clone(&resource), |lost| *lost));
            assert_eq!(Arc::strong_count(&resource), left);
        }
    }
}
