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

use crate::case::Work;
use crate::cases::Instance;
use crate::clock::span_of;
use crate::error::{Context, Error, Result, ensure};
use crate::files::{list, make_ready};
use crate::scenes::digest::Digest;
use crate::scenes::generate::Scene;
use crate::scenes::memory::{KeptHeap, Recycled};
use crate::session::Session;

pub(crate) mod digest;
pub(crate) mod generate;
pub(crate) mod memory;
pub(crate) mod ours;
#[cfg(feature = "peers")]
pub(crate) mod peer;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let _heap = KeptHeap::new();
    let memory = Recycled::new();
    let folder = session.corpus.folder().to_owned();
    for instance in session.cases("scenes", "made") {
        let scene = generate::scene(&folder, instance.get("images"), instance.get("side"))?;
        one(session, &instance, &scene, &memory)?;
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    instance: &Instance,
    scene: &Scene,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let expected = Loaded::new(scene)?.digest();
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        match name {
            "serial" => {
                case.add(name, |_| serial(scene));
            }
            "gltf-import" => {
                #[cfg(feature = "peers")]
                case.add(name, |_| peer::import(scene));
            }
            _ => ours::add(
                &mut case,
                name,
                scene,
                session.corpus.folder(),
                memory,
                expected,
            ),
        }
    }
    case.check(0, move |_, work| {
        let right = work.digest.is_none_or(|digest| digest == expected);
        ensure(right, "other pixels or vertices than the serial reader has")
    });
    let is_cold = instance.get::<String>("state") == "cold";
    let paths = list(&scene.folder)?;
    case.prepare(move || make_ready(&paths, is_cold));
    session.run(case)
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
        let json = std::fs::read(&scene.gltf)?;
        let model = Model::parse(&json)?;
        let (mut buffers, mut images) = (Vec::new(), Vec::new());
        for buffer in &model.buffers {
            buffers.push(match &buffer.as_ref()?.place {
                BufferPlace::Name(name) => read(name)?,
                _ => return Err(Error::new("a buffer is in no file")),
            });
        }
        for image in &model.images {
            let ImagePlace::Name(name) = &image.as_ref()?.place else {
                return Err(Error::new("an image is in no file"));
            };
            let stored = read(name)?;
            let decoded = decode_vec(&stored, ImageLimits::default());
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
        digest.finish()
    }
}
