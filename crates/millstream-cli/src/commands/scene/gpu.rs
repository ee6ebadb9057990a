//! The Vulkan device that scenes are loaded into.

use std::sync::Arc;

use millstream::{Error, ErrorKind, Storage};
use millstream_gltf::DeviceMemory;
use millstream_vulkan::{Gpu, GpuBuffer, GpuImage, GpuOptions};
use serde_json::{Value, json};

use crate::failure::{Ending, Failure};

/// Opens the device with a number, or the best one, for requests of `storage`.
pub(super) fn open(number: Option<usize>, storage: &Storage) -> Result<Arc<Gpu>, Ending> {
    let mut options = GpuOptions::default();
    options.device = number;
    let opened = Gpu::create(options);
    let gpu = opened.map_err(|error| Failure::new("the GPU", error.cause()))?;
    // If the device cannot read staging memory itself, bytes are copied once more.
    let _ = gpu.import_staging(storage);
    Ok(Arc::new(gpu))
}

/// Returns the device's report and statistics as a JSON document.
pub(super) fn document(gpu: &Gpu) -> Value {
    let (report, stats) = (gpu.report(), gpu.stats());
    json!({
        "device": report.device,
        "tier": format!("{:?}", report.tier).to_lowercase(),
        "reason": report.reason,
        "batches": stats.batches,
        "uploaded_bytes": stats.uploaded_bytes,
        "tiles": stats.tiles,
    })
}

/// Returns the bytes of device memory, copied back to the host.
pub(super) fn read_back(memory: &DeviceMemory) -> Result<Vec<u8>, Error> {
    if let Some(buffer) = memory.get::<GpuBuffer>() {
        return buffer.read_back(0..memory.room());
    }
    match memory.get::<GpuImage>() {
        Some(image) => image.read_back(),
        None => Err(Error::new(ErrorKind::InvalidArgument, "no memory of a GPU")),
    }
}
