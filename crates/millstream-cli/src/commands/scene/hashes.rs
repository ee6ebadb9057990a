//! Hashes of a loaded scene's data, which do not depend on the memory it was loaded into.

use millstream::Error;
use millstream_gltf::Scene;
use millstream_gltf::image::Image;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::loader::Hashed;

/// Adds a hash for each loaded range of a buffer and each loaded image.
pub(super) fn add(hashes: &mut Vec<Hashed>, scene: &Scene) -> Result<(), Error> {
    for (nth, state) in scene.buffers().iter().enumerate() {
        for (range, memory) in state.get().iter().flat_map(|bytes| bytes.ranges()) {
            let len = range.end - range.start;
            let in_memory = state.get().and_then(|bytes| bytes.get(range.start, len));
            let hash = match (memory, in_memory) {
                // A predicted entry may be longer than the buffer in it.
                (Some(memory), _) => xxh3_64(&read_back(memory)?[..len as usize]),
                (None, Some(bytes)) => xxh3_64(bytes),
                // An empty range, which another range begins with, too.
                (None, None) => continue,
            };
            let name = format!("buffers[{nth}] {}..{}", range.start, range.end);
            hashes.push(Hashed::new(hash, name.as_bytes()));
        }
    }
    for (nth, state) in scene.images().iter().enumerate() {
        if let Some(image) = state.get() {
            let name = format!("images[{nth}]");
            hashes.push(Hashed::new(hash_of(image)?, name.as_bytes()));
        }
    }
    Ok(())
}

/// Hashes all levels of an image, the largest first.
fn hash_of(image: &Image) -> Result<u64, Error> {
    let back = image.device().map(read_back).transpose()?;
    let layout = image.layout();
    let mut hasher = Xxh3Default::new();
    for level in layout.first_level()..layout.levels() {
        let bytes = match &back {
            Some(back) => &back[layout.level(level).expect("it is present")],
            None => image.level(level).expect("it is present"),
        };
        hasher.update(bytes);
    }
    Ok(hasher.digest())
}

#[cfg(feature = "gpu")]
use super::gpu::read_back;

#[cfg(not(feature = "gpu"))]
fn read_back(_: &millstream_gltf::DeviceMemory) -> Result<Vec<u8>, Error> {
    unreachable!("this build has no GPU")
}
