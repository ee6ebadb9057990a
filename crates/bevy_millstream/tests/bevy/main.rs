//! Bevy apps without windows that load from packages, archives and folders.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{SeekFrom, Write as _};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bevy_app::{App, TaskPoolPlugin};
use bevy_asset::io::Reader;
use bevy_asset::{
    Asset, AssetApp as _, AssetLoader, AssetPlugin, AssetServer, Assets, AsyncReadExt as _,
    AsyncSeekExt as _, Handle, LoadContext, LoadState, LoadedFolder,
};
use bevy_diagnostic::{DiagnosticPath, DiagnosticsPlugin, DiagnosticsStore};
use bevy_millstream::{Millstream, MillstreamAssetPlugin, Priority};
use bevy_reflect::TypePath;
use millstream::{Storage, StorageOptions};
use millstream_pak::{Item, Mounts, PackOptions, write_file};
use millstream_testing::wait_for;
use tempfile::TempDir;

millstream_testing::watch!();

mod control;
mod reload;

/// The bytes of a file.
#[derive(Asset, TypePath, Debug, PartialEq)]
struct Bytes(Vec<u8>);

/// How a loader reads, by the extension of the file.
#[derive(TypePath)]
enum Loader {
    /// To the end, at once.
    Whole,
    /// In pieces of odd lengths.
    Pieces,
    /// The second half first, then the first, then to the end from the middle of the first.
    Seeks,
    /// To the end, once it has begun to, and read another file meanwhile, which comes first.
    Nested,
}

impl AssetLoader for Loader {
    type Asset = Bytes;
    type Settings = ();
    type Error = std::io::Error;

    async fn load(
        &self,
        reader: &mut dyn Reader,
        _: &(),
        context: &mut LoadContext<'_>,
    ) -> Result<Bytes, std::io::Error> {
        let mut bytes = Vec::new();
        match self {
            Loader::Whole => {
                let count = reader.read_to_end(&mut bytes).await?;
                assert_eq!(count, bytes.len());
                assert_eq!(bytes.capacity(), bytes.len(), "one allocation");
            }
            Loader::Pieces => {
                let mut piece = [0; 12_345];
                loop {
                    match reader.read(&mut piece).await? {
                        0 => break,
                        count => bytes.extend_from_slice(&piece[..count]),
                    }
                }
            }
            Loader::Nested => {
                let mut first = [0];
                let begin = |cx: &mut Context<'_>| {
                    let is_ready = pin!(reader.read(&mut first)).poll(cx).is_ready();
                    assert!(!is_ready, "nothing has been pumped");
                    Poll::Ready(())
                };
                poll_fn(begin).await;
                let other = context.read_asset_bytes("1.whole").await;
                bytes.extend(other.map_err(std::io::Error::other)?);
                reader.read_to_end(&mut bytes).await?;
            }
            Loader::Seeks => {
                let reader = reader.seekable().expect("entries can be sought");
                let end = reader.seek(SeekFrom::End(0)).await?;
                let half = end / 2;
                let back = i64::try_from(end - half).expect("small");
                assert_eq!(reader.seek(SeekFrom::Current(-back)).await?, half);
                assert!(reader.seek(SeekFrom::Current(-1 << 40)).await.is_err());
                let mut second = Vec::new();
                reader.read_to_end(&mut second).await?;
                reader.seek(SeekFrom::Start(0)).await?;
                bytes.resize(usize::try_from(half).expect("small") / 2, 0);
                reader.read_exact(&mut bytes).await?;
                let before = bytes.len();
                let count = reader.read_to_end(&mut bytes).await?;
                assert_eq!(count, bytes.len() - before, "what was there is not counted");
                assert_eq!(second, bytes[usize::try_from(half).expect("small")..]);
            }
        }
        Ok(Bytes(bytes))
    }

    fn extensions(&self) -> &[&str] {
        match self {
            Loader::Whole => &["whole"],
            Loader::Pieces => &["pieces"],
            Loader::Seeks => &["seeks"],
            Loader::Nested => &["nested"],
        }
    }
}

/// An app with the loaders above.
fn app(plugin: MillstreamAssetPlugin, watch: bool) -> App {
    let mut app = App::new();
    let assets = AssetPlugin {
        watch_for_changes_override: Some(watch),
        ..AssetPlugin::default()
    };
    app.add_plugins((TaskPoolPlugin::default(), DiagnosticsPlugin, plugin, assets))
        .init_asset::<Bytes>()
        // Metadata names the type alone, and so means the last one.
        .register_asset_loader(Loader::Nested)
        .register_asset_loader(Loader::Whole)
        .register_asset_loader(Loader::Pieces)
        .register_asset_loader(Loader::Seeks);
    app
}

fn load(app: &App, path: &str) -> Handle<Bytes> {
    app.world().resource::<AssetServer>().load(path.to_owned())
}

fn state(app: &App, handle: &Handle<Bytes>) -> LoadState {
    app.world().resource::<AssetServer>().load_state(handle)
}

fn bytes<'a>(app: &'a App, handle: &Handle<Bytes>) -> Option<&'a [u8]> {
    let loaded = app.world().resource::<Assets<Bytes>>().get(handle);
    loaded.map(|bytes| &bytes.0[..])
}

/// Runs frames until `condition` holds.
fn run_until(app: &mut App, mut condition: impl FnMut(&App) -> bool) {
    let met = wait_for(|| {
        app.update();
        condition(app)
    });
    let stats = app.world().resource::<Millstream>().load_stats();
    assert!(met, "the condition is not met: {stats:?}");
}

fn run_until_settled(app: &mut App, handle: &Handle<Bytes>) -> LoadState {
    run_until(app, |app| !state(app, handle).is_loading());
    state(app, handle)
}

fn message_of_failure(state: &LoadState) -> String {
    match state {
        LoadState::Failed(error) => error.to_string(),
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Files of all kinds: empty, small, larger than a window, compressible or not.
fn files() -> BTreeMap<String, Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut files = BTreeMap::new();
    for extension in ["whole", "pieces", "seeks"] {
        for len in [0, 1, 1000, 65_536, 300_000, 1_000_001] {
            let noise = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            files.insert(format!("noise/{len}.{extension}"), noise);
            let text = (0..len).map(|at| b'a' + (at / 7 % 13) as u8).collect();
            files.insert(format!("text/deep/{len}.{extension}"), text);
        }
    }
    files
}

fn write_folder(root: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("created");
        fs::write(path, bytes).expect("written");
    }
}

fn write_package(path: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let items = files
        .iter()
        .map(|(name, bytes)| Item::from_bytes(name.as_str(), &bytes[..]));
    write_file(items.collect(), &PackOptions::default(), path).expect("packed");
}

fn write_zip(path: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let mut zip = zip::ZipWriter::new(File::create(path).expect("created"));
    for (nth, (name, bytes)) in files.iter().enumerate() {
        let method = match nth % 2 {
            0 => zip::CompressionMethod::Deflated,
            _ => zip::CompressionMethod::Stored,
        };
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        zip.start_file(name.as_str(), options).expect("started");
        zip.write_all(bytes).expect("written");
    }
    zip.finish().expect("finished");
}

/// The same files as a folder, a package and an archive.
fn write_all(files: &BTreeMap<String, Vec<u8>>) -> (TempDir, [std::path::PathBuf; 3]) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["loose", "files.mpak", "files.zip"].map(|name| folder.path().join(name));
    write_folder(&paths[0], files);
    write_package(&paths[1], files);
    write_zip(&paths[2], files);
    (folder, paths)
}

fn open(path: &Path) -> MillstreamAssetPlugin {
    MillstreamAssetPlugin::open([path]).expect("opened")
}

#[test]
fn folder_package_and_archive_give_the_same_bytes() {
    let files = files();
    let (_folder, paths) = write_all(&files);
    for path in &paths {
        let mut app = app(open(path), false);
        let handles: Vec<_> = files.keys().map(|name| load(&app, name)).collect();
        for (handle, (name, expected)) in handles.iter().zip(&files) {
            let state = run_until_settled(&mut app, handle);
            assert!(state.is_loaded(), "{name} of {path:?}: {state:?}");
            assert!(bytes(&app, handle) == Some(expected), "{name} of {path:?}");
        }
        let stats = app.world().resource::<Millstream>().load_stats();
        assert_eq!(
            (stats.waiting, stats.in_flight, stats.bytes_in_flight),
            (0, 0, 0)
        );
        assert_eq!((stats.failed, stats.canceled), (0, 0));
    }
}

#[test]
fn layers_hide_those_below_and_sources_have_names() {
    let files = |text: &str| BTreeMap::from([("a.whole".to_owned(), text.as_bytes().to_vec())]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write_package(&path("base.mpak"), &files("package"));
    write_folder(&path("mod"), &files("loose"));
    write_zip(&path("dlc.zip"), &files("archive"));
    let both = MillstreamAssetPlugin::open([path("base.mpak"), path("mod")]).expect("opened");
    let mut app = App::new();
    app.add_plugins((
        TaskPoolPlugin::default(),
        both,
        open(&path("dlc.zip")).source("dlc"),
    ))
    .add_plugins(AssetPlugin::default())
    .init_asset::<Bytes>()
    .register_asset_loader(Loader::Whole);
    let upper = load(&app, "a.whole");
    let named = load(&app, "dlc://a.whole");
    run_until(&mut app, |app| {
        bytes(app, &upper) == Some(b"loose") && bytes(app, &named) == Some(b"archive")
    });
    let millstream = app.world().resource::<Millstream>();
    assert!(millstream.reprioritize(named.clone(), Priority::High, None));
}

#[test]
fn metadata_chooses_the_loader() {
    let meta = |loader: &str| {
        format!("(meta_format_version: \"1.0\", asset: Load(loader: \"{loader}\", settings: ()))")
    };
    let files = BTreeMap::from([
        ("a.other".to_owned(), b"bytes".to_vec()),
        ("a.other.meta".to_owned(), meta("bevy::Loader").into_bytes()),
        ("b.other".to_owned(), b"bytes".to_vec()),
        ("b.other.meta".to_owned(), b"not RON".to_vec()),
    ]);
    let name = <Loader as TypePath>::type_path();
    let mut files = files;
    files.insert("a.other.meta".to_owned(), meta(name).into_bytes());
    let (_folder, paths) = write_all(&files);
    for path in &paths {
        let mut app = app(open(path), false);
        let (good, bad) = (load(&app, "a.other"), load(&app, "b.other"));
        assert!(run_until_settled(&mut app, &good).is_loaded(), "{path:?}");
        assert_eq!(bytes(&app, &good), Some(&b"bytes"[..]));
        let failure = message_of_failure(&run_until_settled(&mut app, &bad));
        assert!(failure.contains("b.other"), "{failure}");
    }
}

#[test]
fn folders_are_listed_without_metadata_and_hidden_files() {
    let names = [
        "a.whole",
        "sub/b.whole",
        "sub/deep/c.whole",
        "sub/.hidden.whole",
        "d/e.whole",
    ];
    let mut files: BTreeMap<_, _> = names
        .iter()
        .map(|name| (String::from(*name), name.as_bytes().to_vec()))
        .collect();
    let meta = "(meta_format_version: \"1.0\", asset: Ignore)";
    files.insert("sub/gone.whole.meta".to_owned(), meta.as_bytes().to_vec());
    let (_folder, paths) = write_all(&files);
    for path in &paths {
        let mut app = app(open(path), false);
        let server = app.world().resource::<AssetServer>().clone();
        let sub = server.load_folder("sub");
        let none = server.load_folder("none");
        run_until(&mut app, |app| {
            app.world().resource::<AssetServer>().is_loaded(&sub)
        });
        run_until(&mut app, |_| server.load_state(&none).is_failed());
        let folders = app.world().resource::<Assets<LoadedFolder>>();
        let handles = &folders.get(&sub).expect("loaded").handles;
        let mut listed: Vec<_> = handles
            .iter()
            .map(|handle| handle.path().expect("of a file").to_string())
            .collect();
        listed.sort();
        assert_eq!(listed, ["sub/b.whole", "sub/deep/c.whole"], "{path:?}");
    }
}

#[test]
fn missing_and_damaged_files_fail_with_the_reason() {
    let files = BTreeMap::from([("a.whole".to_owned(), vec![7; 100_000])]);
    let (_folder, paths) = write_all(&files);
    for path in &paths {
        let mut app = app(open(path), false);
        let missing = load(&app, "none.whole");
        let failure = message_of_failure(&run_until_settled(&mut app, &missing));
        assert!(
            failure.contains("not found") && failure.contains("none.whole"),
            "{failure}"
        );
        let server = app.world().resource::<AssetServer>().clone();
        let outside: Handle<Bytes> = server
            .load_builder()
            .override_unapproved()
            .load("../a.whole");
        run_until(&mut app, |app| !state(app, &outside).is_loading());
        assert!(!state(&app, &outside).is_loaded());
    }
    let mut noise: Vec<u8> = fs::read(&paths[1]).expect("read");
    let middle = noise.len() / 2;
    noise[64..middle].fill(0xaa);
    fs::write(&paths[1], &noise).expect("written");
    let broken = MillstreamAssetPlugin::open([&paths[1]]).map(|_| ());
    assert!(broken.is_err(), "its tables are damaged");
    let text = MillstreamAssetPlugin::open([paths[0].join("a.whole")]).map(|_| ());
    let error = text.expect_err("it is no archive").to_string();
    assert!(error.contains("a.whole"), "{error}");
    assert!(MillstreamAssetPlugin::open([paths[0].join("none")]).is_err());
}

#[test]
fn a_damaged_entry_fails_alone() {
    let mut random = fastrand::Rng::with_seed(3);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(100_000)
        .collect();
    let files = BTreeMap::from([
        ("bad.whole".to_owned(), noise.clone()),
        ("good.whole".to_owned(), vec![7; 100_000]),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.mpak");
    write_package(&path, &files);
    let mut package = fs::read(&path).expect("read");
    let found = package
        .windows(64)
        .position(|window| window == &noise[500..564]);
    package[found.expect("noise is stored as it is")] ^= 1;
    fs::write(&path, package).expect("written");
    let mut app = app(open(&path), false);
    let (bad, good) = (load(&app, "bad.whole"), load(&app, "good.whole"));
    let failure = message_of_failure(&run_until_settled(&mut app, &bad));
    assert!(failure.contains("bad.whole"), "{failure}");
    assert!(run_until_settled(&mut app, &good).is_loaded());
    assert_eq!(app.world().resource::<Millstream>().load_stats().failed, 1);
}
