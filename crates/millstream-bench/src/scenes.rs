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

mod files;
mod generate;
mod memory;
mod ours;
#[cfg(feature = "peers")]
mod peer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_gltf::image::{ImageLimits, Layout, decode_vec};
use millstream_gltf::model::{BufferPlace, ImagePlace, Model};
use xxhash_rust::xxh3::Xxh3;

use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::rows::Metric;
use crate::workload::{Field, Session};
use files::Files;
use memory::{KeptHeap, Recycled};
pub(crate) use ours::URGENT;

pub(crate) const WORKLOAD: &str = "scenes";
/// From the first look at the scene's name to the last decoded image.
pub(crate) const TOTAL: Metric = Metric::lower("total", "ms");
/// Processor time of the whole process.
pub(crate) const CPU: Metric = Metric::lower("cpu", "ms");
/// Share of the load in which the two workers did not decode: 1 - decoding / (2 x time).
pub(crate) const CORES_IDLE: Metric = Metric::lower("cores idle", "part");
/// Share of the load in which nothing was in flight although requests waited.
pub(crate) const DEVICE_IDLE: Metric = Metric::lower("device idle", "part");
/// Until all buffers and the small levels of all images that have levels are there, as a share of
/// the load. Of an image without levels nothing can be drawn before all of it is decoded.
pub(crate) const DRAWABLE: Metric = Metric::lower("first drawable", "part");

/// GLBs of the case with many.
const GLB_COUNT: usize = 82;
const QUICK_GLB_COUNT: usize = 12;

/// Counted rounds with a large scene: a round takes seconds.
const LARGE_RUNS_MAX: usize = 5;
/// Images of a scene that is large.
const LARGE_IMAGES: usize = 15;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let _heap = KeptHeap::new();
    let memory = Recycled::new();
    let sizes: &[(&str, usize, u32)] = match session.size(false, true) {
        false => &[
            ("small", 4, 256),
            ("medium", 8, 1024),
            ("large", LARGE_IMAGES, 2048),
        ],
        true => &[("small", 4, 256), ("medium", 6, 512)],
    };
    for (name, images, side) in sizes {
        if !STATES
            .iter()
            .any(|state| session.wants(&format!("{name} {state}")))
        {
            continue;
        }
        session.say(&format!("corpus: scene {name}"));
        let gltf = generate::scene(session.corpus.folder(), *images, *side)?;
        scene_cases(session, name, Files::of(gltf)?, &memory)?;
    }
    let count = session.size(GLB_COUNT, QUICK_GLB_COUNT);
    let case = format!("{count} GLBs warm");
    if session.wants(&case) {
        session.say("corpus: GLBs");
        let paths = Arc::new(generate::glbs(session.corpus.folder(), count)?);
        many(session, &case, &paths, &memory)?;
    }
    if let Some(folder) = session.options.corpus.clone() {
        found(session, &folder, &memory)?;
    }
    Ok(())
}

/// Scenes in the application's own corpus.
fn found(session: &mut Session<'_>, folder: &Path, memory: &Arc<Recycled>) -> Result<()> {
    let found = files::find(folder)?;
    for files in found.loose {
        let name = files.gltf.file_stem().unwrap_or_default();
        let name = format!("corpus {}", name.to_string_lossy());
        scene_cases(session, &name, files, memory)?;
    }
    let case = format!("corpus {} GLBs warm", found.glbs.len());
    if !found.glbs.is_empty() && session.wants(&case) {
        many(session, &case, &Arc::new(found.glbs), memory)?;
    }
    Ok(())
}

/// Cold and warm.
const STATES: [&str; 2] = ["cold", "warm"];

fn scene_cases(
    session: &mut Session<'_>,
    name: &str,
    files: Files,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let files = Arc::new(files);
    for state in STATES {
        let case = format!("{name} {state}");
        if session.wants(&case) {
            scene(session, &case, &files, memory)?;
        }
    }
    Ok(())
}

fn scene(
    session: &mut Session<'_>,
    name: &str,
    files: &Arc<Files>,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let expected = Serial::load(files)?.digest();
    let mut field = Field::new(WORKLOAD, name);
    field.add(Serial(Arc::clone(files)));
    #[cfg(feature = "peers")]
    field.add(peer::Import(Arc::clone(files)));
    let packages = session.corpus.folder().to_owned();
    ours::contenders(&mut field, files, &packages, memory, expected);
    measure(session, name, field, &files.all(), Some(expected))
}

fn many(
    session: &mut Session<'_>,
    name: &str,
    paths: &Arc<Vec<PathBuf>>,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let mut field = Field::new(WORKLOAD, name);
    ours::many_contenders(&mut field, paths, memory);
    measure(session, name, field, paths, None)
}

fn measure(
    session: &mut Session<'_>,
    name: &str,
    field: Field,
    paths: &[PathBuf],
    expected: Option<u64>,
) -> Result<()> {
    let cold = name.ends_with(" cold");
    let runs = match expected.is_none() || name.starts_with("large ") {
        true => session.runs().min(LARGE_RUNS_MAX),
        false => session.runs(),
    };
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs,
        warm_up: true,
        destination_len: 0,
        prepare: &|| {
            let each = if cold {
                cold::drop_path
            } else {
                cold::warm_path
            };
            paths.iter().try_for_each(|path| each(path))
        },
        check: &|_, work| match (work.digest, expected) {
            (Some(digest), Some(expected)) if digest != expected => Err(Error::new(
                "other pixels or vertices than the serial reader has",
            )),
            _ => Ok(()),
        },
        figures: &|span, work| {
            let mut figures = vec![(TOTAL, span.wall * 1e3), (CPU, span.cpu * 1e3)];
            figures.extend(work.extra.iter().copied());
            figures
        },
        limit_by: None,
    };
    let mut destination = Destination::new(4096)?;
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, &mut destination)
}

/// A digest of what a scene consists of.
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

    /// The bytes of all views, out of buffers that are there as a whole.
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

/// One file after the other, one image after the other.
struct Serial(Arc<Files>);

struct Loaded {
    model: Model,
    buffers: Vec<Vec<u8>>,
    /// Of each that is wanted.
    images: Vec<Vec<u8>>,
}

impl Serial {
    fn load(files: &Files) -> Result<Loaded> {
        let wrong = |error: &dyn std::fmt::Display| Error::new(error.to_string());
        let read = |name: &[u8]| {
            let path = files.folder.join(String::from_utf8_lossy(name).as_ref());
            std::fs::read(path).map_err(|error| wrong(&error))
        };
        let json = std::fs::read(&files.gltf).map_err(|error| wrong(&error))?;
        let model = Model::parse(&json).map_err(|error| wrong(&error))?;
        let (mut buffers, mut images) = (Vec::new(), Vec::new());
        for buffer in &model.buffers {
            let buffer = buffer.as_ref().map_err(|error| wrong(error))?;
            buffers.push(match &buffer.place {
                BufferPlace::Name(name) => read(name)?,
                BufferPlace::Data(bytes) => bytes.to_vec(),
                _ => return Err(Error::new("a buffer is in no file")),
            });
        }
        let wanted = model.images.iter().zip(model.wanted_images());
        for (image, _) in wanted.filter(|(_, wanted)| *wanted) {
            let image = image.as_ref().map_err(|error| wrong(error))?;
            let stored = match &image.place {
                ImagePlace::Name(name) => read(name)?,
                ImagePlace::Data(bytes) => bytes.to_vec(),
                _ => return Err(Error::new("an image is in no file")),
            };
            let decoded = decode_vec(&stored, ImageLimits::default());
            images.push(decoded.map_err(|cause| wrong(&cause))?);
        }
        Ok(Loaded {
            model,
            buffers,
            images,
        })
    }
}

impl Loaded {
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

impl Contender for Serial {
    fn name(&self) -> String {
        "serial".into()
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let loaded = Serial::load(&self.0)?;
        let span = start.elapsed();
        Ok(Work {
            digest: Some(loaded.digest()),
            span: Some(span),
            ..Work::default()
        })
    }
}
