//! Millstream's own contenders: from loose files, and from packages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::{Stats, Storage};
use millstream_gltf::cook::{SceneCook, Target};
use millstream_gltf::image::{Format, register};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{Loader, LoaderOptions, Scene};
use millstream_pak::{Links, PackOptions, Package, walk, write_file};

use crate::ours::defaults;
use crate::packages::MADE;
use crate::prelude::*;
use crate::scenes::Digest;
use crate::scenes::generate::{NAME, Scene as Source};
use crate::scenes::memory::Recycled;

/// Idle share of the workers, assuming that there are two: 1 - decoding / (2 x time).
const CORES_IDLE: &str = "cores idle part";
/// Share of the load in which nothing was in flight although requests waited.
const DEVICE_IDLE: &str = "device idle part";
/// Time until all buffers and the small levels of all images that have levels are loaded, as a
/// share of the load. An image without levels cannot be drawn before all of it is decoded.
const DRAWABLE: &str = "first drawable part";
/// Memory retained by a program that loads one scene after another: as much as one takes.
const RETAINED_BYTES: usize = 512 << 20;

fn storage(memory: &Arc<Recycled>) -> Result<Storage> {
    let mut options = defaults()?;
    options.retained_bytes = RETAINED_BYTES;
    options.allocator = Some(Arc::clone(memory) as _);
    register(&mut options, Default::default());
    Ok(Storage::new(options)?)
}

pub(super) fn add<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    source: &'a Source,
    packages: &Path,
    memory: &'a Arc<Recycled>,
    expected: u64,
) {
    let target = match name {
        "millstream-cooked" => Some(Target::Rgba8),
        "millstream-bc7" => Some(Target::Bc7),
        _ => None,
    };
    let package = match name {
        "millstream" => Ok(None),
        _ => package(source, packages, name, target).map(Some),
    };
    let method = package.map(|package| {
        let scene = OneScene {
            source,
            expected,
            package,
            shows_cores: target.is_none(),
        };
        let run = move |kept: &mut Option<Storage>, _: &mut Destination| {
            // Dropped at the end of the run: the next run's storage gets its memory.
            let storage = kept.take().ok_or_else(|| Error::new("run twice"))?;
            scene.load(&storage)
        };
        fresh(move || storage(memory).map(Some), run)
    });
    case.try_push(name, method);
}

struct OneScene<'a> {
    source: &'a Source,
    expected: u64,
    /// The package to load from; `None` for loose files.
    package: Option<PathBuf>,
    /// Whether to report idle cores: not if nothing is to be decoded.
    shows_cores: bool,
}

fn package(source: &Source, folder: &Path, name: &str, target: Option<Target>) -> Result<PathBuf> {
    let scene = source.folder.file_name().unwrap_or_default();
    let path = folder.join(format!("{}.{name}-{MADE}.mpak", scene.display()));
    if path.exists() {
        return Ok(path);
    }
    let cook = target.map(SceneCook::new);
    let options = PackOptions {
        describers: vec![&SceneDescriber],
        cooks: cook.iter().map(|cook| cook as _).collect(),
        ..PackOptions::default()
    };
    let (items, _) = walk(&source.folder, Links::Refuse);
    write_file(items, &options, &path)?;
    Ok(path)
}

impl OneScene<'_> {
    fn load(&self, storage: &Storage) -> Result<Work> {
        let loader = Loader::new(storage, LoaderOptions::default())?;
        // Opened outside the timed part: a program keeps its package open.
        let open = |path| self.open_package(storage, path);
        let package = self.package.as_deref().map(open).transpose()?;
        let before = storage.stats();
        let start = Moment::now();
        let mut load = match package {
            None => loader.open(&self.source.gltf),
            Some(package) => loader.open_from(Arc::new(package), NAME.as_bytes()),
        }?;
        load.wait();
        let span = start.elapsed();
        let after = storage.stats();
        let drawable = load.first_drawable();
        let scene = load.finish()?;
        let part = |of: fn(&Stats) -> u64| (of(&after) - of(&before)) as f64 / 1e9 / span.wall;
        let cores = 1.0 - part(|it| it.decode_ns) / 2.0;
        let extra = [
            (DEVICE_IDLE, Some(part(|it| it.device_idle_ns))),
            (CORES_IDLE, self.shows_cores.then_some(cores)),
            (DRAWABLE, drawable.map(|it| it.as_secs_f64() / span.wall)),
        ];
        let extra = extra.into_iter();
        let extra = extra.filter_map(|(text, share)| Some((Metric::of(text), share?)));
        let work = Work::figures(extra.collect()).took(span);
        Ok(work.with_digest(self.digest(&scene)?))
    }

    /// Opens a package, and makes it as cold or as warm as the scene's files.
    fn open_package(&self, storage: &Storage, path: &Path) -> Result<Package> {
        let package = Package::open(storage, path)?;
        package.preload()?;
        make_ready(&[path.to_owned()], !is_cached(&self.source.gltf)?)?;
        Ok(package)
    }

    fn digest(&self, scene: &Scene) -> Result<u64> {
        let missing = || Error::new("an image or a level is missing");
        let mut digest = Digest::default();
        let wanted = scene.images().iter().zip(scene.model().wanted_images());
        for (image, _) in wanted.filter(|(_, wanted)| *wanted) {
            let image = image.get().ok_or_else(missing)?;
            let layout = image.layout();
            if layout.format() != Format::Rgba8 {
                // Lossy: it can only be checked that every level is there.
                let all = (0..layout.levels()).all(|level| image.level(level).is_some());
                ensure(all, "a level is missing")?;
                return Ok(self.expected);
            }
            let (width, height) = layout.size(0);
            digest.image(width, height, image.level(0).ok_or_else(missing)?);
        }
        let views = &scene.model().views;
        for view in (0..views.len()).filter(|&view| views[view].is_ok()) {
            digest.0.update(scene.view(view)?);
        }
        Ok(digest.0.digest())
    }
}
