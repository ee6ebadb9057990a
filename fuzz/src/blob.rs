//! A blob of hostile bytes: refused, or every reference leads to bytes of the blob.

use millstream_stream::blob::{self, AlignedBytes, HEADER_BYTES};

#[expect(dead_code, reason = "scenes are built by the tests alone")]
#[path = "../../crates/millstream-stream/tests/support/mod.rs"]
mod scene;

use scene::{Scene, walk};

/// A blob, viewed.
pub fn view(data: &[u8]) {
    // The header is made right, so that what follows is what is tried; half of the time.
    let mut bytes = AlignedBytes::from_slice(data);
    let fixes = data.last().is_some_and(|last| last % 2 == 0);
    if fixes && data.len() >= HEADER_BYTES {
        let header = bytes.as_mut_slice();
        header[..4].copy_from_slice(&blob::MAGIC);
        header[4..8].copy_from_slice(&u32::from(blob::VERSION).to_le_bytes());
        header[8..16].copy_from_slice(&blob::schema_hash::<Scene>().to_le_bytes());
        header[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[24..32].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
    }
    if let Ok(scene) = blob::view::<Scene>(&bytes) {
        std::hint::black_box((walk(&scene.root), scene.bounds));
    }
}
