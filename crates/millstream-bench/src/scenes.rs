//! Workload `scenes`: glTF scenes into memory, every image decoded.
//!
//! A generated scene is a `.gltf`, a buffer and PNGs with the filters of an ordinary encoder. It
//! is loaded loose, out of a package as it is, out of a cooked package (RGBA8, pixel for pixel) and
//! out of one cooked to BC7 (lossy: its pixels are not compared). The rival `serial` reads the same
//! files one after the other with the standard library and decodes them with the same decoders;
//! `gltf-import` is the crate `gltf` (feature `peers`). What everyone delivers is compared by a
//! digest of all pixels and of all bytes of accessors, taken after the clock has stopped.
//!
//! Many small GLBs at once beside one after another are a case of their own.

mod generate;
mod ours;
#[cfg(feature = "peers")]
mod peer;

use std::path::PathBuf;
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
pub(crate) use generate::Files;

pub(crate) const WORKLOAD: &str = "scenes";
/// From the first look at the scene's name to the last decoded image.
pub(crate) const TOTAL: Metric = Metric::lower("total", "ms");
/// Processor time of the whole process.
pub(crate) const CPU: Metric = Metric::lower("cpu", "ms");
/// Share of the load in which the two workers did not decode: 1 - decoding / (2 x time).
pub(crate) const CORES_IDLE: Metric = Metric::lower("cores idle", "part");
/// Share of the load in which nothing was in flight although requests waited.
pub(crate) const DEVICE_IDLE: Metric = Metric::lower("device idle", "part");
/// Until all buffers and the small levels of all images are there, as a share of the load.
pub(crate) const DRAWABLE: Metric = Metric::lower("first drawable", "part");

/// GLBs of the case with many.
const GLB_COUNT: usize = 82;
const QUICK_GLB_COUNT: usize = 12;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let sizes: &[(&str, usize, u32)] = match session.size(false, true) {
        false => &[("small", 4, 256), ("medium", 8, 1024), ("large", 15, 2048)],
        true => &[("small", 4, 256), ("medium", 6, 512)],
    };
    for (name, images, side) in sizes {
        if !["cold", "warm"]
            .iter()
            .any(|state| session.wants(&format!("{name} {state}")))
        {
            continue;
        }
        session.say(&format!("corpus: scene {name}"));
        let files = Arc::new(generate::scene(
            session.corpus.folder(),
            name,
            *images,
            *side,
        )?);
        for cold in [true, false] {
            let case = format!("{name} {}", if cold { "cold" } else { "warm" });
            if session.wants(&case) {
                scene(session, &case, &files, cold)?;
            }
        }
    }
    let count = session.size(GLB_COUNT, QUICK_GLB_COUNT);
    let case = format!("{count} GLBs warm");
    if session.wants(&case) {
        session.say("corpus: GLBs");
        let paths = Arc::new(generate::glbs(session.corpus.folder(), count)?);
        many(session, &case, &paths)?;
    }
    Ok(())
}

fn scene(session: &mut Session<'_>, name: &str, files: &Arc<Files>, cold: bool) -> Result<()> {
    let expected = Serial::load(files)?.digest();
    let mut field = Field::new(WORKLOAD, name);
    field.add(Serial(Arc::clone(files)));
    #[cfg(feature = "peers")]
    field.add(peer::Import(Arc::clone(files)));
    ours::contenders(&mut field, files, expected);
    let paths = files.all();
    measure(session, name, field, &paths, cold, Some(expected))
}

fn many(session: &mut Session<'_>, name: &str, paths: &Arc<Vec<PathBuf>>) -> Result<()> {
    let mut field = Field::new(WORKLOAD, name);
    ours::many_contenders(&mut field, paths);
    measure(session, name, field, paths, false, None)
}

fn measure(
    session: &mut Session<'_>,
    name: &str,
    field: Field,
    paths: &[PathBuf],
    cold: bool,
    expected: Option<u64>,
) -> Result<()> {
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs: session.runs(),
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
    // Everyone takes memory of their own: how a loader does that is part of what is compared.
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

    pub(crate) fn finish(&self) -> u64 {
        self.0.digest()
    }
}

/// One file after the other, one image after the other.
struct Serial(Arc<Files>);

struct Loaded {
    buffers: Vec<Vec<u8>>,
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
        let mut loaded = Loaded {
            buffers: Vec::new(),
            images: Vec::new(),
        };
        for buffer in model.buffers.iter().flatten() {
            if let BufferPlace::Name(name) = &buffer.place {
                loaded.buffers.push(read(name)?);
            }
        }
        for image in model.images.iter().flatten() {
            if let ImagePlace::Name(name) = &image.place {
                let stored = read(name)?;
                let decoded = decode_vec(&stored, ImageLimits::default());
                loaded.images.push(decoded.map_err(|cause| wrong(&cause))?);
            }
        }
        Ok(loaded)
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
        for buffer in &self.buffers {
            digest.bytes(buffer);
        }
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
