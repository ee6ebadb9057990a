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

use crate::case::{Case, Contender, Work};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result, ensure};
use crate::memory::Destination;
use crate::rows::Metric;
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

const WORKLOAD: &str = "scenes";
/// From the first look at the scene's name to the last decoded image.
const TOTAL: Metric = Metric::lower("total", "ms");
/// Processor time of the whole process.
const CPU: Metric = Metric::lower("cpu", "ms");
/// GLBs of the case with many.
const GLB_COUNT: usize = 82;
const QUICK_GLB_COUNT: usize = 6;
/// Counted rounds with a large scene: a round takes seconds.
const LARGE_RUNS_MAX: usize = 5;
/// Images of a scene that is large.
const LARGE_IMAGES: usize = 15;

/// Generated scenes: name, images, side of an image.
const SCENES: [(&str, usize, u32); 3] = [
    ("small", 4, 256),
    ("medium", 8, 1024),
    ("large", LARGE_IMAGES, 2048),
];
const QUICK_SCENES: [(&str, usize, u32); 2] = [("small", 4, 256), ("medium", 4, 512)];

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let _heap = KeptHeap::new();
    let memory = Recycled::new();
    let scenes = session.size(&SCENES[..], &QUICK_SCENES[..]);
    for (name, images, side) in scenes {
        if ["cold", "warm"]
            .iter()
            .any(|state| session.wants(&format!("{name} {state}")))
        {
            session.say(&format!("corpus: scene {name}"));
            let gltf = generate::scene(session.corpus.folder(), *images, *side)?;
            scene(session, name, Files::of(gltf)?, &memory)?;
        }
    }
    let count = session.size(GLB_COUNT, QUICK_GLB_COUNT);
    if let Some(case) = session.begin(WORKLOAD, format!("{count} GLBs warm")) {
        let paths = generate::glbs(session.corpus.folder(), count)?;
        many(session, case, paths, &memory)?;
    }
    // Scenes in the application's own corpus.
    let Some(folder) = session.options.corpus.clone() else {
        return Ok(());
    };
    let found = files::find(&folder)?;
    for files in found.loose {
        let name = files.gltf.file_stem().unwrap_or_default();
        let name = format!("corpus {}", name.to_string_lossy());
        scene(session, &name, files, &memory)?;
    }
    let name = format!("corpus {} GLBs warm", found.glbs.len());
    if found.glbs.is_empty() {
        return Ok(());
    }
    session
        .begin(WORKLOAD, name)
        .map_or(Ok(()), |case| many(session, case, found.glbs, &memory))
}

/// One scene, cold and warm.
fn scene(
    session: &mut Session<'_>,
    name: &str,
    files: Files,
    memory: &Arc<Recycled>,
) -> Result<()> {
    let files = Arc::new(files);
    for state in ["cold", "warm"] {
        let Some(mut case) = session.begin(WORKLOAD, format!("{name} {state}")) else {
            continue;
        };
        let expected = Loaded::new(&files)?.digest();
        case.push(serial(&files));
        #[cfg(feature = "peers")]
        case.push(peer::import(&files));
        let packages = session.corpus.folder();
        ours::add(&mut case, &files, packages, memory, expected);
        if name == "large" {
            case.runs = case.runs.min(LARGE_RUNS_MAX);
        }
        case.check(0, move |_, work| {
            let right = work.digest.is_none_or(|digest| digest == expected);
            ensure(right, "other pixels or vertices than the serial reader has")
        });
        measure(session, case, files.all(), state == "cold")?;
    }
    Ok(())
}

fn many(
    session: &mut Session<'_>,
    mut case: Case<'_>,
    paths: Vec<PathBuf>,
    memory: &Arc<Recycled>,
) -> Result<()> {
    ours::add_many(&mut case, &paths, memory);
    case.runs = case.runs.min(LARGE_RUNS_MAX);
    measure(session, case, paths, false)
}

fn measure(
    session: &mut Session<'_>,
    mut case: Case<'_>,
    paths: Vec<PathBuf>,
    is_cold: bool,
) -> Result<()> {
    case.prepare(move || match is_cold {
        true => cold::drop_all(&paths),
        false => paths.iter().try_for_each(|path| cold::warm_path(path)),
    });
    case.figures(|span, _| vec![(TOTAL, span.wall * 1e3), (CPU, span.cpu * 1e3)]);
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// One file after the other, one image after the other.
fn serial(files: &Arc<Files>) -> Contender {
    let files = Arc::clone(files);
    Contender::new("serial", move |_| {
        let start = Moment::now();
        let loaded = Loaded::new(&files)?;
        let span = start.elapsed();
        Ok(Work::default().took(span).with_digest(loaded.digest()))
    })
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
