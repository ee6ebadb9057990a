//! The rival `gltf-import`: the crate `gltf`, with all its images.

use std::sync::Arc;

use millstream_gltf::model::Model;

use super::{Digest, Files};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;

pub(super) struct Import(pub(super) Arc<Files>);

impl Contender for Import {
    fn name(&self) -> String {
        "gltf-import".into()
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let imported = gltf::import(&self.0.gltf);
        let span = start.elapsed();
        let (_, buffers, images) = imported.map_err(|error| Error::new(error.to_string()))?;
        let timed = Work {
            span: Some(span),
            ..Work::default()
        };
        if !self.0.is_exact {
            return Ok(timed);
        }
        let json = std::fs::read(&self.0.gltf).map_err(|error| Error::new(error.to_string()))?;
        let model = Model::parse(&json).map_err(|error| Error::new(error.to_string()))?;
        let mut digest = Digest::default();
        for image in &images {
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
        Ok(Work {
            digest: Some(digest.finish()),
            ..timed
        })
    }
}
