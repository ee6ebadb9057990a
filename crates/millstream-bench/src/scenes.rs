//! Workload `scenes`: glTF scenes into memory, every image decoded.
//!
//! A generated scene is a `.gltf`, a buffer and PNGs with the filters of an ordinary encoder. It
//! is loaded loose, out of a package as it is, out of a cooked package (RGBA8, pixel for pixel) and
//! out of one cooked to BC7 (lossy: its pixels are not compared). The rival `serial` reads the same
//! files one after the other with the standard library and decodes them with the same decoders;
//! `gltf-import` is the crate `gltf` (feature `peers`). What everyone delivers is compared by a
//! digest of all pixels and of all bytes of accessors, taken after the clock has stopped.
//!
//! Many small GLBs at once beside one after another are a case of their own. With `--corpus DIR`
//! the GLBs found there, and the largest loose scenes, are cases too.
//!
//! Everyone's memory is recycled (see [`memory`]).

use std::path::PathBuf;
use std::sync::Arc;

use millstream_gltf::image::{ImageLimits, Layout, decode_vec};
use millstream_gltf::model::{BufferPlace, ImagePlace, Model};

use crate::case::Work;
use crate::cases::Instance;
use crate::clock::Moment;
use crate::error::{Error, Result, ensure};
use crate::files::make_ready;
use crate::memory::Destination;
use crate::scenes::digest::Digest;
use crate::scenes::files::Files;
use crate::scenes::memory::{KeptHeap, Recycled};
use crate::session::Session;

pub(crate) mod digest;
pub(crate) mod files;
pub(crate) mod generate;
pub(crate) mod memory;
pub(crate) mod ours;
#[cfg(feature = "peers")]
pub(crate) mod peer;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let _heap = KeptHeap::new();
    let memory = Recycled::new();
    let folder = session.corpus.folder().to_owned();
    for instance in session.cases("scenes", "made") {
        let gltf = generate::scene(&folder, instance.get("images"), instance.get("side"))?;
        one(session, &instance, &Files::of(gltf)?, &memory)?;
    }
    for instance in session.cases("scenes", "many") {
        let paths = generate::glbs(&folder, instance.get("count"))?;
        many(session, &instance, &paths, &memory)?;
    }
    // Scenes in the application's own corpus.
    let Some(folder) = session.options.corpus.clone() else {
        return Ok(());
    };
    let found = files::find(&folder)?;
    for files in found.loose {
        let name = files.gltf.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        for instance in session.cases_with("scenes", "corpus", "name", [name]) {
            one(session, &instance, &files, &memory)?;
        }
    }
    let count = Some(found.glbs.len() as i64).filter(|count| *count > 0);
    for instance in session.cases_with("scenes", "corpus-many", "count", count) {
        many(session, &instance, &found.glbs, &memory)?;
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    instance: &Instance,
    files: &Files,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let expected = Loaded::new(files)?.digest();
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        match name {
            "serial" => {
                case.add(name, |_| serial(files));
            }
            "gltf-import" => {
                #[cfg(feature = "peers")]
                case.add(name, |_| peer::import(files));
            }
            _ => ours::add(
                &mut case,
                name,
                files,
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
    let paths = files.all();
    case.prepare(move || make_ready(&paths, is_cold));
    session.run(case, &mut Destination::new(0)?).map(drop)
}

fn many(
    session: &mut Session<'_>,
    instance: &Instance,
    paths: &[PathBuf],
    memory: &Arc<Recycled>,
) -> Result<()> {
    let mut case = session.begin(instance);
    let all = instance.contenders();
    all.for_each(|name| ours::add_many(&mut case, name, paths, memory));
    case.prepare(|| make_ready(paths, false));
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// One file after the other, one image after the other.
fn serial(files: &Files) -> Result<Work> {
    let start = Moment::now();
    let loaded = Loaded::new(files)?;
    let span = start.elapsed();
    Ok(Work::default().took(span).with_digest(loaded.digest()))
}

struct Loaded {
    model: Model,
    buffers: Vec<Vec<u8>>,
    /// Of each that is wanted.
    images: Vec<Vec<u8>>,
}

impl Loaded {
    fn new(files: &Files) -> Result<Loaded> {
        let read = |name: &[u8]| {
            let path = files.folder.join(String::from_utf8_lossy(name).as_ref());
            std::fs::read(path).map_err(Error::from)
        };
        let json = std::fs::read(&files.gltf)?;
        let model = Model::parse(&json)?;
        let (mut buffers, mut images) = (Vec::new(), Vec::new());
        for buffer in &model.buffers {
            let buffer = buffer.as_ref()?;
            buffers.push(match &buffer.place {
                BufferPlace::Name(name) => read(name)?,
                BufferPlace::Data(bytes) => bytes.to_vec(),
                _ => return Err(Error::new("a buffer is in no file")),
            });
        }
        let wanted = model.images.iter().zip(model.wanted_images());
        for (image, _) in wanted.filter(|(_, wanted)| *wanted) {
            let image = image.as_ref()?;
            let stored = match &image.place {
                ImagePlace::Name(name) => read(name)?,
                ImagePlace::Data(bytes) => bytes.to_vec(),
                _ => return Err(Error::new("an image is in no file")),
            };
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
