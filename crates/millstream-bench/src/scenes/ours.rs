//! Millstream's own contenders: loose, out of packages, and many at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::{Priority, Storage, StorageOptions};
use millstream_gltf::cook::{SceneCook, Target};
use millstream_gltf::image::{Format, register};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{ErrorKind, Load, Loader, LoaderOptions, Scene, wait_all};
use millstream_pak::{PackOptions, Package, walk, write_file};

use super::{CORES_IDLE, DEVICE_IDLE, DRAWABLE, Digest, Files, Recycled};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::workload::Field;

/// What a program keeps that loads one scene after another: so much as one takes.
const RETAINED_BYTES: usize = 512 << 20;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}

/// A storage with nothing open, on memory that was used before.
fn storage(memory: &Arc<Recycled>) -> Result<Storage> {
    let mut options = StorageOptions::default();
    options.retained_bytes = RETAINED_BYTES;
    options.allocator = Some(Arc::clone(memory) as _);
    register(&mut options, Default::default());
    Ok(Storage::new(options)?)
}

/// In which form the scene is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Loose,
    Package(Option<Target>),
}

pub(super) fn contenders(
    field: &mut Field,
    files: &Arc<Files>,
    packages: &Path,
    memory: &Arc<Recycled>,
    expected: u64,
) {
    for (name, form) in [
        ("millstream", Form::Loose),
        ("millstream-package", Form::Package(None)),
        ("millstream-cooked", Form::Package(Some(Target::Rgba8))),
        ("millstream-bc7", Form::Package(Some(Target::Bc7))),
    ] {
        let made = package(files, packages, name, form).map(|package| OneScene {
            name,
            form,
            urgent: false,
            files: Arc::clone(files),
            expected,
            package,
            memory: Arc::clone(memory),
            storage: None,
        });
        field.try_add(name, made);
    }
    let (name, form) = (URGENT, Form::Package(Some(Target::Bc7)));
    let made = package(files, packages, "millstream-bc7", form).map(|package| OneScene {
        name,
        form,
        urgent: true,
        files: Arc::clone(files),
        expected,
        package,
        memory: Arc::clone(memory),
        storage: None,
    });
    field.try_add(name, made);
}

/// The scene of BC7 for a program that wants to draw soon: what it draws first goes before all
/// else, and bulk in flight is kept short for it.
pub(crate) const URGENT: &str = "millstream-bc7-urgent";

struct OneScene {
    name: &'static str,
    form: Form,
    /// Geometry and small levels have priority realtime.
    urgent: bool,
    files: Arc<Files>,
    expected: u64,
    package: PathBuf,
    memory: Arc<Recycled>,
    storage: Option<Storage>,
}

/// The package of a scene in one form, unless it is there.
fn package(files: &Files, folder: &Path, name: &str, form: Form) -> Result<PathBuf> {
    let scene = files
        .folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let stem = files.gltf.file_stem().unwrap_or_default().to_string_lossy();
    let path = folder.join(format!("{scene}-{stem}.{name}.mpak"));
    let Form::Package(target) = form else {
        return Ok(path);
    };
    if path.exists() {
        return Ok(path);
    }
    let cook = target.map(SceneCook::new);
    let options = PackOptions {
        describers: vec![&SceneDescriber],
        cooks: cook.iter().map(|cook| cook as _).collect(),
        ..PackOptions::default()
    };
    let (mut items, _) = walk(&files.folder);
    items.retain(|item| files.holds(item.name()));
    write_file(items, &options, &path).map_err(failed)?;
    Ok(path)
}

impl OneScene {
    fn digest(&self, scene: &Scene) -> Result<u64> {
        let mut digest = Digest::default();
        let wanted = scene.images().iter().zip(scene.model().wanted_images());
        for (image, _) in wanted.filter(|(_, wanted)| *wanted) {
            let image = image
                .get()
                .ok_or_else(|| Error::new("an image is missing"))?;
            let layout = image.layout();
            if layout.format() != Format::Rgba8 {
                // Lossy: only that every level is there can be said.
                let all = (0..layout.levels()).all(|level| image.level(level).is_some());
                return if all {
                    Ok(self.expected)
                } else {
                    Err(Error::new("a level is missing"))
                };
            }
            let (width, height) = layout.size(0);
            let pixels = image
                .level(0)
                .ok_or_else(|| Error::new("a level is missing"))?;
            digest.image(width, height, pixels);
        }
        for view in (0..scene.model().views.len()).filter(|&view| scene.model().views[view].is_ok())
        {
            digest.bytes(scene.view(view).map_err(failed)?);
        }
        Ok(digest.finish())
    }
}

impl Contender for OneScene {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        self.storage = Some(storage(&self.memory)?);
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let storage = self.storage.take();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let mut options = LoaderOptions::default();
        if self.urgent {
            options.geometry = Priority::Realtime;
            options.small_levels = Priority::Realtime;
        }
        let loader = Loader::new(&storage, options).map_err(failed)?;
        let package = match self.form {
            Form::Loose => None,
            // A package is open as long as the program runs.
            Form::Package(_) => {
                let opened = Package::open(&storage, &self.package).map_err(failed)?;
                opened.preload().map_err(failed)?;
                if cold::cached_of(&self.files.gltf)? {
                    cold::warm_path(&self.package)?;
                } else {
                    cold::drop_path(&self.package)?;
                }
                Some(opened)
            }
        };
        let before = storage.stats();
        let start = Moment::now();
        let mut load = match package {
            None => loader.open(&self.files.gltf),
            Some(package) => loader.open_from(Arc::new(package), self.files.name()),
        }
        .map_err(failed)?;
        load.wait();
        let span = start.elapsed();
        let after = storage.stats();
        let drawable = load.first_drawable();
        let scene = load.finish().map_err(failed)?;
        let part = |now: u64, then: u64| (now - then) as f64 / 1e9 / span.wall;
        let mut extra = vec![(
            DEVICE_IDLE,
            part(after.device_idle_ns, before.device_idle_ns),
        )];
        let decoding = part(after.decode_ns, before.decode_ns);
        if matches!(self.form, Form::Loose | Form::Package(None)) {
            extra.push((CORES_IDLE, 1.0 - decoding / 2.0));
        }
        if let Some(drawable) = drawable {
            extra.push((DRAWABLE, drawable.as_secs_f64() / span.wall));
        }
        Ok(Work {
            digest: Some(self.digest(&scene)?),
            span: Some(span),
            extra,
            ..Work::default()
        })
    }
}

pub(super) fn many_contenders(
    field: &mut Field,
    paths: &Arc<Vec<PathBuf>>,
    memory: &Arc<Recycled>,
) {
    for (name, at_once) in [("millstream", true), ("millstream-serial", false)] {
        field.add(Many {
            name,
            at_once,
            paths: Arc::clone(paths),
            memory: Arc::clone(memory),
            storage: None,
        });
    }
}

struct Many {
    name: &'static str,
    at_once: bool,
    paths: Arc<Vec<PathBuf>>,
    memory: Arc<Recycled>,
    storage: Option<Storage>,
}

impl Contender for Many {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        self.storage = Some(storage(&self.memory)?);
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let storage = self.storage.take();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let loader = Loader::new(&storage, LoaderOptions::default()).map_err(failed)?;
        let start = Moment::now();
        let mut loads: Vec<Load> = Vec::new();
        for path in self.paths.iter() {
            let mut load = loader.open(path).map_err(failed)?;
            if !self.at_once {
                load.wait();
            }
            loads.push(load);
        }
        wait_all(&mut loads, None);
        let span = start.elapsed();
        for load in loads {
            let scene = load.finish_partial().map_err(failed)?;
            if !is_sound_where_loaded(&scene) {
                let first = scene.problems().next().map(ToString::to_string);
                return Err(Error::new(first.unwrap_or_default()));
            }
        }
        Ok(Work {
            requests: self.paths.len() as u64,
            span: Some(span),
            ..Work::default()
        })
    }
}

/// Whether all that is wrong with a scene is that it holds what is not decoded.
fn is_sound_where_loaded(scene: &Scene) -> bool {
    scene
        .problems()
        .all(|error| error.kind() == ErrorKind::Unsupported)
}
