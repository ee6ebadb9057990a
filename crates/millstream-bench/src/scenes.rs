//! Workload `scenes`: glTF scenes into memory, every image decoded.
//!
//! A generated scene is a `.gltf`, a buffer and PNGs with the filters of an ordinary encoder. It is
//! loaded from loose files, from a package as it is, from a cooked package (RGBA8, pixel for pixel)
//! and from one cooked to BC7 (lossy: its pixels are not compared). The rival `serial` reads the
//! same files one after the other with the standard library and decodes them with the same
//! decoders; `gltf-import` is the crate `gltf` (feature `peers`). Results are compared by a digest
//! of all pixels and of all bytes of accessors, taken after the clock has stopped.
//!
//! Every contender's memory is recycled (see [`memory`]).

use std::sync::Arc;

use millstream_gltf::image::{ImageLimits, Layout, decode_vec};
use millstream_gltf::model::{BufferPlace, ImagePlace, Model};
use xxhash_rust::xxh3::Xxh3;

use crate::prelude::*;
use crate::scenes::generate::Scene;
use crate::scenes::memory::{KeptHeap, Recycled};

mod generate;
mod memory;
mod ours;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let _heap = KeptHeap::new();
    let memory: Arc<Recycled> = Arc::default();
    for instance in session.cases("scenes", "made") {
        let folder = session.corpus.folder();
        let scene = generate::scene(folder, instance.get("images"), instance.get("side"))?;
        let expected = Loaded::new(&scene)?.digest();
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            match name {
                "serial" => {
                    case.add(name, |_| serial(&scene));
                }
                "gltf-import" => {
                    #[cfg(feature = "peers")]
                    case.add(name, |_| gltf_import(&scene));
                }
                _ => ours::add(&mut case, name, &scene, folder, &memory, expected),
            }
        }
        case.check(0, move |_, work| {
            let right = work.digest.is_none_or(|digest| digest == expected);
            ensure(right, "other pixels or vertices than the serial reader has")
        });
        let is_cold = instance.get::<String>("state") == "cold";
        let paths = list(&scene.folder)?;
        case.prepare(move || make_ready(&paths, is_cold));
        session.run(case)?;
    }
    Ok(())
}

#[derive(Default)]
struct Digest(Xxh3);

impl Digest {
    fn image(&mut self, width: u32, height: u32, rgba: &[u8]) {
        self.0.update(&width.to_le_bytes());
        self.0.update(&height.to_le_bytes());
        self.0.update(rgba);
    }

    /// Adds the bytes of all views, out of whole buffers.
    fn views<'a>(&mut self, model: &Model, buffer: impl Fn(usize) -> &'a [u8]) {
        for view in model.views.iter().flatten() {
            let start = view.offset as usize;
            self.0
                .update(&buffer(view.buffer)[start..start + view.len as usize]);
        }
    }
}

/// Loads one file after the other and one image after the other.
fn serial(scene: &Scene) -> Result<Work> {
    let (loaded, span) = span_of(|| Loaded::new(scene));
    Ok(Work::default().took(span).with_digest(loaded?.digest()))
}

struct Loaded {
    model: Model,
    buffers: Vec<Vec<u8>>,
    images: Vec<Vec<u8>>,
}

impl Loaded {
    fn new(scene: &Scene) -> Result<Loaded> {
        let read = |name: &[u8]| {
            let path = scene.folder.join(String::from_utf8_lossy(name).as_ref());
            std::fs::read(&path).on("read", &path)
        };
        let model = Model::parse(&std::fs::read(&scene.gltf)?)?;
        let (mut buffers, mut images) = (Vec::new(), Vec::new());
        for buffer in &model.buffers {
            let BufferPlace::Name(name) = &buffer.as_ref()?.place else {
                return Err(Error::new("a buffer is in no file"));
            };
            buffers.push(read(name)?);
        }
        for image in &model.images {
            let ImagePlace::Name(name) = &image.as_ref()?.place else {
                return Err(Error::new("an image is in no file"));
            };
            let decoded = decode_vec(&read(name)?, ImageLimits::default());
            images.push(decoded.map_err(Error::new)?);
        }
        Ok(Loaded {
            model,
            buffers,
            images,
        })
    }

    fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for image in &self.images {
            let layout = Layout::parse(image).expect("just decoded");
            let (width, height) = layout.size(0);
            digest.image(width, height, &image[layout.level(0).expect("there")]);
        }
        digest.views(&self.model, |buffer| &self.buffers[buffer]);
        digest.0.digest()
    }
}

#[cfg(feature = "peers")]
fn gltf_import(scene: &Scene) -> Result<Work> {
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
    Ok(Work::default().took(span).with_digest(digest.0.digest()))
}
