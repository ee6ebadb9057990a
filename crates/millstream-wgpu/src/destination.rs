//! Destinations that keep what they are made of.

use std::sync::Arc;

use millstream::{CodecId, DevicePart, DeviceSink};
use millstream_vulkan::{GpuBuffer, GpuImage};

use super::wgpu;

/// A range of a buffer, to be passed to [`Read::into_device`](millstream::Read::into_device).
pub type BufferDestination = Destination<wgpu::Buffer, GpuBuffer>;

/// Regions of a texture, to be passed to [`Read::into_device`](millstream::Read::into_device). A
/// request must bring all their bytes; one request at a time lands in them.
pub type TextureDestination = Destination<wgpu::Texture, GpuImage>;

/// A resource of wgpu as a destination of requests, which keep it.
#[derive(Debug)]
pub struct Destination<R, S> {
    // Dropped before the resource, which keeps the device.
    sink: Arc<S>,
    resource: R,
}

impl<R, S> Destination<R, S> {
    pub(super) fn new(sink: Arc<S>, resource: R) -> Arc<Destination<R, S>> {
        Arc::new(Destination { sink, resource })
    }

    /// Returns the buffer or texture.
    #[must_use]
    pub fn resource(&self) -> &R {
        &self.resource
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
