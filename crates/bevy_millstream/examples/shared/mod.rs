//! What the examples share: files in three forms, an asset of bytes, apps for each reader.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bevy_app::{App, TaskPoolPlugin};
use bevy_asset::io::memory::{Dir, MemoryAssetReader};
use bevy_asset::io::{AssetSourceBuilder, AssetSourceId, ErasedAssetReader, Reader};
use bevy_asset::{Asset, AssetApp as _, AssetLoader, AssetPlugin, LoadContext};
use bevy_millstream::MillstreamAssetPlugin;
use bevy_reflect::TypePath;
use millstream_io::fs::evict;
use millstream_pak::{Links, PackOptions, walk, write_file};
use tempfile::TempDir;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Who reads the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Bevy's `FileAssetReader`.
    BevyFile,
    /// Bevy's `MemoryAssetReader`, with all bytes in memory.
    BevyMemory,
    Package,
    Archive,
    Loose,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::BevyFile => "Bevy, files",
            Contender::BevyMemory => "Bevy, memory",
            Contender::Package => "package",
            Contender::Archive => "archive",
            Contender::Loose => "loose files",
        }
    }
}

/// A file's bytes.
#[derive(Asset, TypePath)]
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
}

/// Loads blobs, and records when each had its bytes if it is the awaited one.
#[derive(TypePath)]
pub(crate) struct BlobLoader(pub(crate) Arc<Arrival>);

/// When the bytes of one asset arrived.
pub(crate) struct Arrival {
    pub(crate) path: PathBuf,
    start: Instant,
    nanoseconds: AtomicU64,
}

impl Arrival {
    pub(crate) fn of(path: impl Into<PathBuf>) -> Arc<Arrival> {
        Arc::new(Arrival {
            path: path.into(),
            start: Instant::now(),
            nanoseconds: AtomicU64::new(0),
        })
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        let after = self.nanoseconds.load(Ordering::Acquire);
        (after > 0).then(|| self.start + Duration::from_nanos(after))
    }
}

impl AssetLoader for BlobLoader {
    type Asset = Blob;
    type Settings = ();
    type Error = std::io::Error;

    async fn load(
        &self,
        reader: &mut dyn Reader,
        _: &(),
        context: &mut LoadContext<'_>,
    ) -> std::io::Result<Blob> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).await?;
        if context.path().path() == self.0.path {
            let after = self.0.start.elapsed().as_nanos();
            let after = u64::try_from(after).unwrap_or(u64::MAX);
            self.0.nanoseconds.store(after, Ordering::Release);
        }
        Ok(Blob { bytes })
    }

    fn extensions(&self) -> &[&str] {
        &["bin"]
    }
}

/// The same files loose, in a package, in an archive and in memory.
pub(crate) struct Files {
    folder: TempDir,
    pub(crate) names: Vec<String>,
    memory: Dir,
    pub(crate) bytes: u64,
}

impl Files {
    /// Writes files; half of their bytes compress well.
    pub(crate) fn write(files: BTreeMap<String, usize>) -> Result<Files> {
        let folder = tempfile::tempdir_in(std::env::temp_dir())?;
        let loose = folder.path().join("loose");
        let mut random = fastrand::Rng::with_seed(11);
        let (memory, mut bytes, mut made) = (Dir::default(), 0, None);
        for (name, len) in &files {
            let path = loose.join(name);
            let parent = path.parent().ok_or("a file has a folder")?;
            if made.as_deref() != Some(parent) {
                fs::create_dir_all(parent)?;
                made = Some(parent.to_owned());
            }
            let noise = std::iter::repeat_with(|| random.u8(..)).take(len / 2);
            let text = (0..len.div_ceil(2)).map(|at| b'a' + (at / 9 % 7) as u8);
            let content: Vec<u8> = noise.chain(text).collect();
            fs::write(&path, &content)?;
            bytes += content.len() as u64;
            memory.insert_asset(Path::new(name), content);
        }
        let written = Files {
            folder,
            names: files.into_keys().collect(),
            memory,
            bytes,
        };
        written.pack(&loose)?;
        written.archive(&loose)?;
        Ok(written)
    }

    pub(crate) fn path(&self, contender: Contender) -> PathBuf {
        self.folder.path().join(match contender {
            Contender::Package => "files.mpak",
            Contender::Archive => "files.zip",
            Contender::BevyFile | Contender::BevyMemory | Contender::Loose => "loose",
        })
    }

    fn pack(&self, loose: &Path) -> Result<()> {
        let (items, errors) = walk(loose, Links::Follow);
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        write_file(
            items,
            &PackOptions::default(),
            self.path(Contender::Package),
        )?;
        Ok(())
    }

    fn archive(&self, loose: &Path) -> Result<()> {
        let mut zip = zip::ZipWriter::new(File::create(self.path(Contender::Archive))?);
        for name in &self.names {
            zip.start_file(name, zip::write::SimpleFileOptions::default())?;
            zip.write_all(&fs::read(loose.join(name))?)?;
        }
        zip.finish()?;
        Ok(())
    }

    /// Drops what a contender reads from the page cache.
    pub(crate) fn evict(&self, contender: Contender) -> Result<()> {
        let path = self.path(contender);
        if path.is_file() {
            return Ok(evict(&File::open(path)?)?);
        }
        for name in &self.names {
            evict(&File::open(path.join(name))?)?;
        }
        Ok(())
    }

    /// An app that loads through a contender. `tune` sets options of Millstream's plugin.
    pub(crate) fn app(
        &self,
        contender: Contender,
        arrival: &Arc<Arrival>,
        tune: impl FnOnce(MillstreamAssetPlugin) -> MillstreamAssetPlugin,
    ) -> Result<App> {
        let mut app = App::new();
        app.add_plugins(TaskPoolPlugin::default());
        let path = self.path(contender);
        match contender {
            Contender::BevyFile => {}
            Contender::BevyMemory => {
                let root = self.memory.clone();
                let reader = move || -> Box<dyn ErasedAssetReader> {
                    Box::new(MemoryAssetReader { root: root.clone() })
                };
                let source = AssetSourceBuilder::new(reader);
                app.register_asset_source(AssetSourceId::Default, source);
            }
            Contender::Package | Contender::Archive | Contender::Loose => {
                app.add_plugins(tune(MillstreamAssetPlugin::open([&path])?));
            }
        }
        app.add_plugins(AssetPlugin {
            file_path: path.to_string_lossy().into_owned(),
            ..AssetPlugin::default()
        });
        app.init_asset::<Blob>();
        app.register_asset_loader(BlobLoader(Arc::clone(arrival)));
        Ok(app)
    }
}

/// The value of an option of the command line, such as `--rounds 5`.
pub(crate) fn option(name: &str, default: usize) -> Result<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (Some(_), Some(value)) => Ok(value.parse()?),
        (Some(_), None) => Err(format!("{name} needs a number").into()),
        (None, _) => Ok(default),
    }
}
