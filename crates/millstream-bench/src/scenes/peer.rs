//! The rival `gltf-import`: the crate `gltf`, with all its images.

use millstream_gltf::model::Model;

use crate::case::Work;
use crate::clock::span_of;
use crate::error::{Error, Result};
use crate::scenes::digest::Digest;
use crate::scenes::generate::Scene;

pub(super) fn import(scene: &Scene) -> Result<Work> {
    let (imported, span) = span_of(|| gltf::import(&scene.gltf));
    let (_, buffers, images) = imported?;
    let model = Model::parse(&std::fs::read(&scene.gltf)?)?;
    let mut digest = Digest::default();
    for image in images {
        let rgba: Vec<u8> = match image.format {
            gltf::image::Format::R8G8B8A8 => image.pixels.clone(),
            gltf::image::Format::R8G8B8 => {
                let widen = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2], 255];
                image.pixels.chunks_exact(3).flat_map(widen).collect()
            }
            other => return Err(Error::new(format!("an image of format {other:?}"))),
        };
        digest.image(image.width, image.height, &rgba);
    }
    digest.views(&model, |buffer| &buffers[buffer].0);
    Ok(Work::default().took(span).with_digest(digest.finish()))
}
