//! The digest with which loaded scenes are compared.

use millstream_gltf::model::Model;
use xxhash_rust::xxh3::Xxh3;

#[derive(Default)]
pub(crate) struct Digest(Xxh3);

impl Digest {
    pub(crate) fn image(&mut self, width: u32, height: u32, rgba: &[u8]) {
        self.0.update(&width.to_le_bytes());
        self.0.update(&height.to_le_bytes());
        self.0.update(rgba);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the bytes of all views, out of whole buffers.
    pub(crate) fn views<'a>(&mut self, model: &Model, buffer: impl Fn(usize) -> &'a [u8]) {
        for view in model.views.iter().flatten() {
            let start = usize::try_from(view.offset).unwrap_or(usize::MAX);
            let rest = buffer(view.buffer).get(start..).unwrap_or(&[]);
            let len = usize::try_from(view.len).unwrap_or(usize::MAX);
            self.bytes(rest.get(..len).unwrap_or(&[]));
        }
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.digest()
    }
}
