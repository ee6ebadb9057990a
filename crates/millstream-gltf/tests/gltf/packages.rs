//! Scenes out of packages, and how many batches of reads they take: counted by a device that
//! completes nothing before nothing more is asked of it, over files of which nothing is read but
//! by the device.

#![expect(unsafe_code, reason = "a device that hands operations on to another")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::uncached::Uncached;
use millstream::{Access, Backend, DeviceKind, DeviceMaker, Read, Storage, StorageOptions};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{Loader, LoaderOptions, image};
use millstream_io::device::Abandoned;
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::{Completion, Device, Doorbell, IoError, Operation, Region};
use millstream_pak::{Links, PackOptions, Package, PackageOptions, walk, write_file};

/// No push for so long means that all that is asked for now waits for what is held. A machine that
/// stalls longer makes it count too many rounds, never too few: the least of several counts is it.
const QUIET: Duration = Duration::from_millis(120);
const ATTEMPTS: usize = 5;

/// Holds completions back until no more operations come, and counts how often it let them go.
struct Rounds {
    inner: Box<dyn Device>,
    held: Vec<Completion>,
    last_push: Instant,
    rounds: Arc<AtomicU64>,
}

impl Device for Rounds {
    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }

    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        self.last_push = Instant::now();
        // SAFETY: the caller's promise holds for the inner device, whose completions are returned
        // unchanged.
        unsafe { self.inner.push(operations) }
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.inner.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.inner.reap(&mut self.held);
        let quiet = self.inner.in_flight() == 0 && self.last_push.elapsed() > QUIET;
        if self.held.is_empty() || !quiet {
            return 0;
        }
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let count = self.held.len();
        completions.append(&mut self.held);
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        let soon = Duration::from_millis(5);
        let busy = !self.held.is_empty() || self.inner.in_flight() > 0;
        let timeout = if busy {
            Some(timeout.map_or(soon, |it| it.min(soon)))
        } else {
            timeout
        };
        self.inner.wait(timeout, awake)
    }

    fn doorbell(&self) -> Doorbell {
        self.inner.doorbell()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        self.inner.register(region)
    }

    fn shutdown(mut self: Box<Self>, deadline: Instant, into: &mut Vec<Completion>) -> Abandoned {
        into.append(&mut self.held);
        self.inner.shutdown(deadline, into)
    }
}

fn counted() -> (Storage, Arc<AtomicU64>) {
    let rounds = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&rounds);
    let maker = DeviceMaker::new(move || {
        Ok(Box::new(Rounds {
            inner: Box::new(Threads::new(ThreadsOptions::default())?),
            held: Vec::new(),
            last_push: Instant::now(),
            rounds: shared,
        }))
    });
    let mut options = StorageOptions::default();
    options.backend = Backend::Custom(maker, Arc::new(Uncached::new()));
    // One operation for each small range, whatever its alignment.
    options.access = Access::Buffered;
    image::register(&mut options, image::ImageLimits::default());
    (Storage::new(options).expect("a storage"), rounds)
}

fn pack(folder: &Path) -> std::path::PathBuf {
    let package = folder.with_extension("mpak");
    let options = PackOptions {
        describers: vec![&SceneDescriber],
        ..PackOptions::default()
    };
    let (items, errors) = walk(folder, Links::Refuse);
    assert!(errors.is_empty(), "{errors:?}");
    write_file(items, &options, &package).expect("packed");
    package
}

/// The least number of rounds over several attempts; stops at `expected`, for fewer are impossible.
fn least(expected: u64, mut attempt: impl FnMut() -> u64) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..ATTEMPTS {
        least = least.min(attempt());
        if least <= expected {
            break;
        }
    }
    least
}

#[test]
fn loose_files_take_two_batches_and_a_package_one() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir(&folder).expect("made");
    let made = crate::support::make(7, 20, 6, 500);
    made.write_loose(&folder);
    std::fs::write(folder.join("one.glb"), made.glb()).expect("written");
    let package = pack(&folder);
    for name in ["scene.gltf", "one.glb"] {
        let rounds = least(2, || {
            let (storage, rounds) = counted();
            let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
            let mut load = loader.open(folder.join(name)).expect("found");
            load.wait();
            assert_eq!(load.progress().batches, 2);
            crate::support::check(&load.finish().expect("sound"), &made);
            rounds.load(Ordering::Relaxed)
        });
        assert_eq!(rounds, 2, "{name}");
        let rounds = least(1, || {
            let (storage, rounds) = counted();
            // Blocks that are verified come in windows of staging, which look like rounds.
            let options = PackageOptions {
                verify: false,
                ..PackageOptions::default()
            };
            let opened = Package::open_with(&storage, &package, options).expect("opened");
            opened.preload().expect("tables");
            let before = rounds.load(Ordering::Relaxed);
            let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
            let mut load = loader
                .open_from(Arc::new(opened), name.as_bytes())
                .expect("found");
            load.wait();
            assert_eq!(load.progress().batches, 1);
            crate::support::check(&load.finish().expect("sound"), &made);
            rounds.load(Ordering::Relaxed) - before
        });
        assert_eq!(rounds, 1, "{name} in a package");
    }
}

#[test]
fn the_counting_device_sees_reads_that_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let len = 100_000;
    std::fs::write(&path, vec![1; len]).expect("written");
    let rounds = least(3, || {
        let (storage, rounds) = counted();
        let queue = storage.queue(Default::default()).expect("a queue");
        let file = storage.open(&path, Default::default());
        for _ in 0..3 {
            let mut ticket = queue
                .submit(Read::range(file, 0, len as u64))
                .expect("room");
            assert_eq!(ticket.wait().expect("read").len(), len);
        }
        rounds.load(Ordering::Relaxed)
    });
    assert_eq!(rounds, 3);
}

#[test]
fn a_record_that_lies_costs_a_batch_and_changes_nothing() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir(&folder).expect("made");
    let made = crate::support::make(8, 3, 4, 64);
    made.write_loose(&folder);
    let other = crate::support::make(9, 3, 2, 64);
    std::fs::write(folder.join("b.glb"), other.glb()).expect("written");
    // Records of other scenes, and of none.
    let record = |name: &[u8], bytes: &[u8]| {
        use millstream_pak::{Describe as _, Head};
        let raw_bytes = bytes.len() as u64;
        let head = Head {
            name,
            bytes,
            raw_bytes,
        };
        SceneDescriber.describe(&head).expect("a scene")
    };
    let json = std::fs::read(folder.join("scene.gltf")).expect("read");
    let wrong = record(b"b.glb", &other.glb());
    let mut missing = record(b"scene.gltf", &json);
    for dependency in &mut missing.dependencies {
        dependency.name.push('x');
    }
    for lie in [wrong, missing] {
        let package = base.path().join("lie.mpak");
        let (items, _) = walk(&folder, Links::Refuse);
        let items = items
            .into_iter()
            .map(|item| match item.name() {
                b"scene.gltf" => item.metadata(lie.clone()),
                _ => item,
            })
            .collect();
        write_file(items, &PackOptions::default(), &package).expect("packed");
        let storage = crate::support::storage(Backend::Auto);
        let opened = Package::open(&storage, &package).expect("opened");
        let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
        let load = loader.open_from(Arc::new(opened), b"scene.gltf");
        let mut load = load.expect("found");
        load.wait();
        assert!(load.progress().batches > 1);
        crate::support::check(&load.finish().expect("sound"), &made);
    }
}

#[test]
fn a_texture_of_a_package_shows_its_other_image_where_the_preferred_one_fails() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir(&folder).expect("made");
    let sound = crate::support::png(png::ColorType::Rgb, 1, 1, &[1, 2, 3]);
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("written");
    };
    write("0.webp", &sound[..40]);
    write("1.png", &sound);
    let json = |inside: &str| {
        format!(
            r#"{{"asset":{{"version":"2.0"}},"textures":[{{"source":1,"extensions":
            {{"EXT_texture_webp":{{"source":0}}}}}}],{inside}}}"#
        )
    };
    let named = json(r#""images":[{"uri":"0.webp"},{"uri":"1.png"}]"#);
    write("a.gltf", named.as_bytes());
    let len = sound.len();
    let inside = json(&format!(
        r#""images":[{{"bufferView":0}},{{"bufferView":1}}],"buffers":[{{"byteLength":{len}}}],
        "bufferViews":[{{"buffer":0,"byteLength":40}},{{"buffer":0,"byteLength":{len}}}]"#
    ));
    write(
        "b.glb",
        &crate::support::glb(inside.as_bytes(), Some(&sound)),
    );
    let package = pack(&folder);
    let storage = crate::support::storage(Backend::Auto);
    let opened = Arc::new(Package::open(&storage, &package).expect("opened"));
    let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
    for name in ["a.gltf", "b.glb"] {
        let load = loader.open_from(Arc::clone(&opened) as _, name.as_bytes());
        let scene = load.expect("found").finish().expect("sound");
        let image = scene.texture_image(0).expect("the other one");
        assert_eq!(image.pixels(), [1, 2, 3, 0xff], "{name}");
        assert!(scene.images()[0].error().is_some(), "{name}");
    }
}
