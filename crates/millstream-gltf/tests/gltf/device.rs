//! Scenes in the memory of a device, which here is a vector: the bytes are those that land in
//! memory without one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use millstream::{Backend, DevicePart, DeviceSink, Error, ErrorKind, PartForm};
use millstream_gltf::cook::{SceneCook, Target};
use millstream_gltf::image::Layout;
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{DeviceMemory, Loader, LoaderOptions, Scene, SceneDevice};
use millstream_pak::{Links, PackOptions, Package, walk, write_file};

struct Memory(Mutex<Vec<u8>>);

impl DeviceSink for Memory {
    fn room(&self) -> u64 {
        self.0.lock().expect("no panic").len() as u64
    }

    fn take(&self, part: DevicePart) {
        assert_eq!(part.form(), PartForm::Raw);
        let range = part.range().start as usize..part.range().end as usize;
        self.0.lock().expect("no panic")[range].copy_from_slice(part.bytes());
        part.finish(Ok(()));
    }
}

/// Makes vectors; images only if it `has_images`.
#[derive(Debug)]
struct Vectors {
    has_images: bool,
}

impl Vectors {
    fn memory(len: u64) -> Arc<dyn DeviceSink> {
        Arc::new(Memory(Mutex::new(vec![0; len as usize])))
    }
}

impl SceneDevice for Vectors {
    fn buffer(&self, len: u64) -> Result<Arc<dyn DeviceSink>, Error> {
        assert!(len > 0);
        Ok(Vectors::memory(len))
    }

    fn image(&self, layout: &Layout) -> Result<Arc<dyn DeviceSink>, Error> {
        match self.has_images {
            true => Ok(Vectors::memory(layout.bytes() as u64)),
            false => Err(Error::new(ErrorKind::Limit, "the device has no images")),
        }
    }
}

fn bytes(memory: &DeviceMemory) -> Vec<u8> {
    let memory = memory.get::<Memory>().expect("its type is known");
    memory.0.lock().expect("no panic").clone()
}

fn options(device: Option<Vectors>) -> LoaderOptions {
    let mut options = LoaderOptions::default();
    options.device = device.map(|device| Arc::new(device) as _);
    options
}

/// Loads a scene, loose or the one of a name in a package; also how many batches it took.
fn load(path: &Path, entry: Option<&str>, options: LoaderOptions) -> (Scene, u32) {
    let storage = crate::support::storage(Backend::Auto);
    let loader = Loader::new(&storage, options).expect("a loader");
    let mut load = match entry {
        None => loader.open(path).expect("there"),
        Some(name) => {
            let package = Package::open(&storage, path).expect("opened");
            loader
                .open_from(Arc::new(package), name.as_bytes())
                .expect("there")
        }
    };
    load.wait();
    let batches = load.progress().batches;
    (load.finish_partial().expect("a scene"), batches)
}

/// Compares what landed on a device with what landed in memory.
fn compare(path: &Path, entry: Option<&str>) {
    let (host, host_batches) = load(path, entry, options(None));
    let (device, batches) = load(path, entry, options(Some(Vectors { has_images: true })));
    assert_eq!(crate::support::problems(&device), [""; 0]);
    assert_eq!(batches, host_batches);
    let mut compared = 0;
    for (ours, theirs) in device.buffers().iter().zip(host.buffers()) {
        let ours = ours.get().expect("loaded");
        for (range, memory) in ours.ranges() {
            let mut landed = bytes(memory.expect("it is on the device"));
            let expected = theirs.get().expect("loaded");
            let expected = expected.get(range.start, range.end - range.start);
            // Of a predicted entry that is longer than the buffer all is there.
            landed.truncate((range.end - range.start) as usize);
            assert!(landed == expected.expect("loaded"), "{range:?} of {path:?}");
            assert!(ours.get(range.start, 1).is_none());
            compared += 1;
        }
    }
    for (ours, theirs) in device.images().iter().zip(host.images()) {
        let (ours, theirs) = (ours.get().expect("loaded"), theirs.get().expect("loaded"));
        let landed = bytes(ours.device().expect("it is on the device"));
        let layout = ours.layout();
        assert_eq!(layout, theirs.layout());
        for level in layout.first_level()..layout.levels() {
            let place = layout.level(level).expect("present");
            let expected = theirs.level(level).expect("in memory");
            assert!(&landed[place] == expected, "level {level} of {path:?}");
            assert!(ours.level(level).is_none());
            compared += 1;
        }
    }
    assert!(compared >= 5, "{compared}");
    let refused = device.view(0).expect_err("not in memory");
    assert_eq!(refused.cause(), "lies on a device");
}

/// Appends to a file what its scene does not use.
fn lengthen(path: &Path) {
    let mut bytes = std::fs::read(path).expect("read");
    bytes.extend([9; 100]);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn of_a_file_that_is_longer_than_its_buffer_a_package_gives_no_more_than_loose_files() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir_all(&folder).expect("made");
    let made = crate::support::make(35, 2, 1, 20);
    made.write_loose(&folder);
    let len = std::fs::metadata(folder.join("data.bin"))
        .expect("there")
        .len();
    lengthen(&folder.join("data.bin"));
    let path = base.path().join("scene.mpak");
    let packing = PackOptions {
        describers: vec![&SceneDescriber],
        ..PackOptions::default()
    };
    write_file(walk(&folder, Links::Refuse).0, &packing, &path).expect("packed");
    for (path, entry, expected) in [
        (&folder.join("scene.gltf"), None, 2),
        (&path, Some("scene.gltf"), 1),
    ] {
        for device in [None, Some(Vectors { has_images: true })] {
            let (scene, batches) = load(path, entry, options(device));
            assert_eq!(batches, expected);
            let buffer = scene.buffers()[0].get().expect("loaded");
            let ends: Vec<_> = buffer.ranges().map(|(range, _)| range.end).collect();
            assert_eq!(ends, [len]);
        }
    }
}

#[test]
fn the_bytes_on_a_device_are_those_in_memory() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir_all(&folder).expect("made");
    let made = crate::support::make(31, 3, 4, 200);
    made.write_loose(&folder);
    std::fs::write(folder.join("one.glb"), made.glb()).expect("written");
    lengthen(&folder.join("data.bin"));
    compare(&folder.join("scene.gltf"), None);
    compare(&folder.join("one.glb"), None);
    let path = base.path().join("scene.mpak");
    let cook = SceneCook::new(Target::Rgba8Levels);
    for (cooks, gpu) in [(vec![], None), (vec![&cook as _], Some(10_000.0))] {
        let options = PackOptions {
            describers: vec![&SceneDescriber],
            cooks,
            gpu_megabytes_per_second: gpu,
            ..PackOptions::default()
        };
        write_file(walk(&folder, Links::Refuse).0, &options, &path).expect("packed");
        compare(&path, Some("scene.gltf"));
        compare(&path, Some("one.glb"));
    }
}

#[test]
fn bytes_of_data_uris_are_uploaded() {
    let base = tempfile::tempdir().expect("a folder");
    let raw = [7, 1, 2, 3, 4, 5, 6, 8];
    let uri = crate::support::base64(&raw);
    let json = format!(
        r#"{{"asset":{{"version":"2.0"}},
            "buffers":[{{"byteLength":8,"uri":"data:application/octet-stream;base64,{uri}"}}],
            "bufferViews":[{{"buffer":0,"byteLength":8}}]}}"#
    );
    let path = base.path().join("data.gltf");
    std::fs::write(&path, json).expect("written");
    let (scene, _) = load(&path, None, options(Some(Vectors { has_images: true })));
    let ranges: Vec<_> = scene.buffers()[0].get().expect("loaded").ranges().collect();
    assert_eq!(ranges.len(), 1);
    assert_eq!(bytes(ranges[0].1.expect("on the device")), raw);
}

#[test]
fn what_a_device_has_no_room_for_fails_and_the_rest_lands() {
    let base = tempfile::tempdir().expect("a folder");
    crate::support::make(32, 2, 3, 100).write_loose(base.path());
    let path = base.path().join("scene.gltf");
    let (scene, _) = load(&path, None, options(Some(Vectors { has_images: false })));
    assert!(scene.buffers().iter().all(|buffer| buffer.get().is_some()));
    for image in scene.images() {
        let error = image.error().expect("refused");
        assert!(
            error.to_string().contains("the device has no images"),
            "{error}"
        );
    }

    let mut limited = options(Some(Vectors { has_images: true }));
    let buffer = std::fs::metadata(base.path().join("data.bin")).expect("there");
    let (host, _) = load(&path, None, options(None));
    let images = host.images().iter().filter_map(|image| image.get());
    let bytes: usize = images.map(|image| image.memory_bytes()).sum();
    limited.memory_max = Some(buffer.len() + bytes as u64 - 1);
    let (scene, _) = load(&path, None, limited);
    let failed = scene.images().iter().filter_map(|image| image.error());
    let causes: Vec<String> = failed.map(|error| error.cause().into()).collect();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(causes[0].contains("memory_max"), "{causes:?}");
}

/// A device that nothing is to be asked of.
#[derive(Debug)]
struct Untouched;

impl SceneDevice for Untouched {
    fn buffer(&self, len: u64) -> Result<Arc<dyn DeviceSink>, Error> {
        unreachable!("{len} bytes are beyond the limit")
    }

    fn image(&self, layout: &Layout) -> Result<Arc<dyn DeviceSink>, Error> {
        unreachable!("{layout:?} is beyond the limit")
    }
}

#[test]
fn a_device_is_asked_for_no_more_than_the_limit() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir_all(&folder).expect("made");
    crate::support::make(33, 1, 2, 100).write_loose(&folder);
    let path = base.path().join("scene.mpak");
    let cook = SceneCook::new(Target::Rgba8Levels);
    let packing = PackOptions {
        describers: vec![&SceneDescriber],
        cooks: vec![&cook],
        ..PackOptions::default()
    };
    write_file(walk(&folder, Links::Refuse).0, &packing, &path).expect("packed");
    for (path, entry) in [
        (&folder.join("scene.gltf"), None),
        (&path, Some("scene.gltf")),
    ] {
        let mut limited = options(None);
        limited.device = Some(Arc::new(Untouched));
        limited.memory_max = Some(10);
        let (scene, _) = load(path, entry, limited);
        let problems = crate::support::problems(&scene);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(
            problems.iter().all(|it| it.contains("memory_max")),
            "{problems:?}"
        );
    }
}
