//! Millstream's own contenders: loose, out of packages, and many at once.

use std::path::PathBuf;
use std::sync::Arc;

use millstream::{Storage, StorageOptions};
use millstream_gltf::cook::{SceneCook, Target};
use millstream_gltf::image::{Format, register};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{Load, Loader, LoaderOptions, Scene, wait_all};
use millstream_pak::{PackOptions, Package, walk, write_file};

use super::{CORES_IDLE, DEVICE_IDLE, DRAWABLE, Digest, Files};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::workload::Field;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}

fn storage() -> Result<Storage> {
    let mut options = StorageOptions::default();
    register(&mut options.codecs, Default::default());
    Storage::new(options).map_err(failed)
}

/// In which form the scene is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Loose,
    Package(Option<Target>),
}

pub(super) fn contenders(field: &mut Field, files: &Arc<Files>, expected: u64) {
    for (name, form) in [
        ("millstream", Form::Loose),
        ("millstream-package", Form::Package(None)),
        ("millstream-cooked", Form::Package(Some(Target::Rgba8))),
        ("millstream-bc7", Form::Package(Some(Target::Bc7))),
    ] {
        let made = OneScene::new(name, form, files, expected);
        field.try_add(name, made);
    }
}

struct OneScene {
    name: &'static str,
    form: Form,
    files: Arc<Files>,
    expected: u64,
    package: PathBuf,
    storage: Option<Storage>,
}

impl OneScene {
    fn new(name: &'static str, form: Form, files: &Arc<Files>, expected: u64) -> Result<OneScene> {
        let package = files.folder.with_extension(format!("{name}.mpak"));
        if let Form::Package(target) = form
            && !package.exists()
        {
            let cook = target.map(SceneCook::new);
            let options = PackOptions {
                describers: vec![&SceneDescriber],
                cooks: cook.iter().map(|cook| cook as _).collect(),
                ..PackOptions::default()
            };
            let (items, _) = walk(&files.folder);
            write_file(items, &options, &package).map_err(failed)?;
        }
        Ok(OneScene {
            name,
            form,
            files: Arc::clone(files),
            expected,
            package,
            storage: None,
        })
    }

    fn digest(&self, scene: &Scene) -> Result<u64> {
        let mut digest = Digest::default();
        for image in scene.images() {
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
        for view in 0..scene.model().views.len() {
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
        self.storage = Some(storage()?);
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let storage = self.storage.take();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let loader = Loader::new(&storage, LoaderOptions::default()).map_err(failed)?;
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
            Some(package) => loader.open_from(Arc::new(package), b"scene.gltf"),
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

pub(super) fn many_contenders(field: &mut Field, paths: &Arc<Vec<PathBuf>>) {
    for (name, at_once) in [("millstream", true), ("millstream-serial", false)] {
        field.add(Many {
            name,
            at_once,
            paths: Arc::clone(paths),
            storage: None,
        });
    }
}

struct Many {
    name: &'static str,
    at_once: bool,
    paths: Arc<Vec<PathBuf>>,
    storage: Option<Storage>,
}

impl Contender for Many {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        self.storage = Some(storage()?);
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let storage = self.storage.take();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let loader = Loader::new(&storage, LoaderOptions::default()).map_err(failed)?;
        let start = Moment::now();
        let mut loads: Vec<Load<'_>> = Vec::new();
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
            load.finish().map_err(failed)?;
        }
        Ok(Work {
            requests: self.paths.len() as u64,
            span: Some(span),
            ..Work::default()
        })
    }
}
