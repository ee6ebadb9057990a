//! Whatever comes first, fails first or is canceled first, a scene is the same in the end.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::support::gated::{Gated, OnStorage};
use millstream::{Backend, Priority, Storage};
use millstream_gltf::image::{Format, ImageLimits, Layout, decoded_bytes};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{Error, ErrorKind, Load, Loader, LoaderOptions, Scene, State};
use millstream_pak::{Describe as _, Head};
use millstream_testing::wait_for;

const SIDE: u32 = 256;
const JSON: &str = "scene.gltf";
const IMAGE: &str = "image";
const BUFFER: &str = "data.bin";

fn layout(side: u32) -> Layout {
    Layout::new(Format::Rgba8, side, side, Layout::full_levels(side)).expect("right")
}

/// An image in the form of this crate.
fn image(side: u32) -> Vec<u8> {
    let layout = layout(side);
    let mut bytes = vec![0x5a; layout.bytes()];
    layout.write_header(&mut bytes);
    for level in 0..layout.levels() {
        bytes[layout.level(level).expect("there")].fill(level as u8);
    }
    bytes
}

/// Where the large levels begin: behind those of 64 pixels.
fn large_start() -> u64 {
    let layout = layout(SIDE);
    layout
        .prefix_bytes(layout.level_within(64))
        .next_multiple_of(64) as u64
}

fn record(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let head = Head {
        name: name.as_bytes(),
        bytes,
        raw_bytes: bytes.len() as u64,
    };
    Some(SceneDescriber.describe(&head).expect("known").encode())
}

fn json(buffer_bytes: usize, images: &[&str]) -> String {
    let uris: Vec<String> = images
        .iter()
        .map(|uri| format!(r#"{{"uri":"{uri}"}}"#))
        .collect();
    let textures: Vec<String> = (0..images.len())
        .map(|image| format!(r#"{{"source":{image}}}"#))
        .collect();
    format!(
        r#"{{"asset":{{"version":"2.0"}},
        "buffers":[{{"uri":"{BUFFER}","byteLength":{buffer_bytes}}}],
        "bufferViews":[{{"buffer":0,"byteLength":{buffer_bytes}}}],
        "images":[{}],"textures":[{}]}}"#,
        uris.join(","),
        textures.join(",")
    )
}

/// A scene of a buffer and an image with halves, all of it promised by its record.
fn gated() -> Gated {
    let text = json(24, &[IMAGE]);
    let bytes = image(SIDE);
    Gated::new()
        .with(JSON, text.as_bytes(), record(JSON, text.as_bytes()))
        .with(BUFFER, &[7; 24], None)
        .with(IMAGE, &bytes, record(IMAGE, &bytes))
}

fn parts() -> [(&'static str, u64); 4] {
    [(JSON, 0), (BUFFER, 0), (IMAGE, 0), (IMAGE, large_start())]
}

/// All orders of four.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for code in 0..256usize {
        let order: [usize; 4] = std::array::from_fn(|at| code >> (2 * at) & 3);
        if (0..4).all(|part| order.contains(&part)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    orders
}

fn loader(storage: &Storage, memory_max: u64) -> Loader {
    let mut options = LoaderOptions::default();
    options.memory_max = Some(memory_max);
    Loader::new(storage, options).expect("a loader")
}

fn open(loader: &Loader, storage: &Storage, gated: &Arc<Gated>) -> Load {
    let source = OnStorage(storage, Arc::clone(gated)).source();
    loader.open_from(source, JSON.as_bytes()).expect("found")
}

fn poll(load: &mut Load) {
    let _ = load.poll(Waker::noop());
}

/// Loads it with the parts coming in each order, looked at after each of them.
fn in_all_orders(make: impl Fn() -> Gated, check: impl Fn(Scene, &[usize; 4])) {
    let storage = crate::support::storage(Backend::Auto);
    for order in orders() {
        let gated = Arc::new(make());
        let loader = loader(&storage, 1 << 30);
        let mut load = open(&loader, &storage, &gated);
        for part in order {
            let (name, offset) = parts()[part];
            gated.open(name, offset);
            // Mostly long enough for it to land; if not, this order is another one.
            std::thread::sleep(std::time::Duration::from_micros(300));
            poll(&mut load);
        }
        load.wait();
        assert!(load.is_drawable() && load.first_drawable().is_some());
        check(load.finish_partial().expect("a scene"), &order);
    }
}

#[test]
fn every_order_gives_the_same_scene() {
    in_all_orders(gated, |scene, order| {
        assert_eq!(crate::support::problems(&scene), [""; 0], "{order:?}");
        assert_eq!(scene.view(0).expect("loaded"), [7; 24]);
        let image = scene.images()[0].get().expect("loaded");
        assert!(matches!(scene.images()[0], State::Ready(_)));
        for level in 0..image.layout().levels() {
            let pixels = image.level(level).expect("there");
            assert!(pixels.iter().all(|&byte| byte == level as u8), "{order:?}");
        }
    });
}

#[test]
fn an_image_has_failed_whichever_of_its_halves_does_and_whenever() {
    for offset in [0, large_start()] {
        in_all_orders(
            || gated().broken(IMAGE, offset),
            |scene, order| {
                let error = scene.images()[0].error();
                let error = error.unwrap_or_else(|| panic!("{offset} {order:?}"));
                assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
                assert_eq!(scene.view(0).expect("loaded"), [7; 24]);
            },
        );
    }
}

#[test]
fn the_record_of_another_image_is_noticed() {
    let other = image(2 * SIDE);
    let make = || {
        let text = json(24, &[IMAGE]);
        let mut bytes = image(SIDE);
        bytes.resize(other.len(), 0);
        Gated::new()
            .with(JSON, text.as_bytes(), record(JSON, text.as_bytes()))
            .with(BUFFER, &[7; 24], None)
            .with(IMAGE, &bytes, record(IMAGE, &other))
    };
    in_all_orders(make, |scene, order| {
        let error = scene.images()[0].error();
        let error = error.unwrap_or_else(|| panic!("{order:?}"));
        assert_eq!(
            (error.kind(), error.place()),
            (ErrorKind::Image, "images[0]")
        );
    });
}

#[test]
fn a_promise_that_the_json_does_not_confirm_leaves_nothing_behind() {
    let storage = crate::support::storage(Backend::Auto);
    let promised = json(24, &[IMAGE]);
    for before in [false, true] {
        let text = json(24, &[]);
        let bytes = image(SIDE);
        let gated = Gated::new()
            .with(JSON, text.as_bytes(), {
                // Promises the image, and says rightly how long the JSON is.
                let padded = format!("{promised:<1000}");
                let record = record(JSON, padded[..].as_bytes()).expect("made");
                Some(record)
            })
            .with(BUFFER, &[7; 24], None)
            .with(IMAGE, &bytes, record(IMAGE, &bytes));
        let gated = Arc::new(gated);
        let loader = loader(&storage, 1 << 30);
        let mut load = open(&loader, &storage, &gated);
        gated.land(&storage, BUFFER, 0);
        if before {
            gated.land(&storage, IMAGE, 0);
            poll(&mut load);
        }
        gated.open(JSON, 0);
        load.wait();
        assert!(load.is_drawable() && load.first_drawable().is_some());
        assert_eq!(
            crate::support::problems(&load.finish_partial().expect("a scene")),
            [""; 0]
        );
    }
}

#[test]
fn a_promised_buffer_that_is_shorter_than_the_json_says_is_cut() {
    let storage = crate::support::storage(Backend::Auto);
    let text = json(24, &[]);
    let gated = Gated::new()
        .with(JSON, text.as_bytes(), record(JSON, text.as_bytes()))
        .with(BUFFER, &[7; 20], None);
    let gated = Arc::new(gated);
    let loader = loader(&storage, 1 << 30);
    let mut load = open(&loader, &storage, &gated);
    gated.land(&storage, BUFFER, 0);
    poll(&mut load);
    gated.open(JSON, 0);
    load.wait();
    let scene = load.finish_partial().expect("a scene");
    let error = scene.buffers()[0].error().expect("cut");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Read, "buffers[0]")
    );
}

#[test]
fn what_landed_before_a_cancellation_starts_nothing_after_it() {
    let storage = crate::support::storage(Backend::Auto);
    let text = json(24, &["a.png"]);
    let stored = crate::support::png(png::ColorType::Rgb, 8, 8, &[9; 192]);
    let make = || {
        Arc::new(
            Gated::new()
                .with(JSON, text.as_bytes(), None)
                .with(BUFFER, &[7; 24], None)
                .with("a.png", &stored, None),
        )
    };
    let canceled = |scene: &Scene| {
        let error = scene.images()[0].error().expect("canceled");
        assert_eq!(error.kind(), ErrorKind::Canceled, "{error}");
    };
    // The JSON is there, and nobody has looked at it.
    let (gated, loader) = (make(), loader(&storage, 1 << 30));
    let mut load = open(&loader, &storage, &gated);
    gated.land(&storage, JSON, 0);
    load.cancel();
    load.wait();
    assert_eq!(load.progress().requests, 1);
    canceled(&load.finish_partial().expect("a scene"));
    // The stored image is there; decoding it would be a request of its own.
    for whole in [true, false] {
        let gated = make();
        let mut load = open(&loader, &storage, &gated);
        gated.land(&storage, JSON, 0);
        poll(&mut load);
        assert_eq!(gated.requests(), 3);
        gated.land(&storage, BUFFER, 0);
        gated.land(&storage, "a.png", 0);
        if whole {
            load.cancel();
        } else {
            load.cancel_image(0);
        }
        load.wait();
        assert_eq!(load.progress().requests, 3);
        let scene = load.finish_partial().expect("a scene");
        canceled(&scene);
        assert_eq!(scene.view(0).expect("it had landed"), [7; 24]);
    }
}

#[test]
fn images_are_requested_by_their_priority() {
    // More than are requested at once, of one size: the first one comes last.
    let names: Vec<String> = (0..1100).map(|image| format!("{image}.image")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = json(24, &names);
    for images in [Priority::Low, Priority::Realtime] {
        let storage = crate::support::storage(Backend::Auto);
        let mut gated = Gated::new().with(JSON, text.as_bytes(), None);
        for name in &names {
            gated = gated.with(name, &image(1), None);
        }
        let gated = Arc::new(gated.with(BUFFER, &[7; 24], None));
        let mut options = LoaderOptions::default();
        options.images = images;
        let loader = Loader::new(&storage, options).expect("a loader");
        let mut load = open(&loader, &storage, &gated);
        gated.land(&storage, JSON, 0);
        poll(&mut load);
        // Geometry has high priority.
        assert_eq!(gated.is_requested(BUFFER, 0), images == Priority::Low);
        assert!(gated.is_requested(names[1099], 0) && !gated.is_requested(names[0], 0));
        load.set_image_priority(0, Priority::Realtime);
        load.set_image_priority(1, Priority::Low);
        gated.land(&storage, names[1099], 0);
        poll(&mut load);
        assert_eq!(gated.is_requested(names[0], 0), images == Priority::Low);
        assert!(!gated.is_requested(names[1], 0));
    }
}

#[test]
fn small_levels_stay_when_the_large_ones_are_canceled() {
    let storage = crate::support::storage(Backend::Auto);
    let loader = loader(&storage, 1 << 30);
    for whole in [true, false] {
        let gated = Arc::new(gated());
        let mut load = open(&loader, &storage, &gated);
        for (name, offset) in &parts()[..3] {
            gated.land(&storage, name, *offset);
        }
        poll(&mut load);
        assert!(matches!(
            load.scene().expect("there").images()[0],
            State::Part(_)
        ));
        if whole {
            load.cancel();
        } else {
            load.cancel_image(0);
        }
        load.wait();
        let scene = load.finish_partial().expect("a scene");
        let State::Ready(image) = &scene.images()[0] else {
            panic!("{:?}", scene.images()[0])
        };
        let first = image.layout().first_level();
        assert_eq!(image.layout().size(first), (64, 64));
        assert!(
            image.level(first - 1).is_none() && image.memory_bytes() < large_start() as usize + 1
        );
    }
}

#[test]
fn memory_of_what_fails_is_there_for_what_comes_later() {
    let storage = crate::support::storage(Backend::Auto);
    let side = 64;
    let raw = vec![9; (side * side * 3) as usize];
    let sound = crate::support::png(png::ColorType::Rgb, side, side, &raw);
    let mut damaged = sound.clone();
    // The checksum of the zlib stream, before its chunk's CRC and the last chunk.
    let at = damaged.len() - 12 - 8;
    damaged[at] ^= 0x55;
    let decoded = decoded_bytes(&sound, ImageLimits::default()).expect("sound") as u64;
    let names = ["0.png", "1.png", "2.png", "3.png"];
    let text = json(24, &names);
    let mut gated = Gated::new()
        .with(JSON, text.as_bytes(), None)
        .with(BUFFER, &[7; 24], None);
    for name in &names[..3] {
        gated = gated.with(name, &damaged, None);
    }
    let gated = Arc::new(gated.with(names[3], &sound, None));
    // Room for the buffer, all stored images and one that is decoded.
    let stored = (3 * damaged.len() + sound.len()) as u64;
    let loader = loader(&storage, 24 + stored + decoded + 100);
    let mut load = open(&loader, &storage, &gated);
    gated.land(&storage, JSON, 0);
    poll(&mut load);
    gated.land(&storage, BUFFER, 0);
    for (index, name) in names.iter().enumerate() {
        gated.open(name, 0);
        assert!(wait_for(|| {
            poll(&mut load);
            load.scene().expect("there").images()[index].is_settled()
        }));
    }
    load.wait();
    let scene = load.finish_partial().expect("a scene");
    for image in &scene.images()[..3] {
        assert_eq!(image.error().expect("damaged").kind(), ErrorKind::Image);
    }
    let image = scene.images()[3].get();
    let image = image.unwrap_or_else(|| panic!("{:?}", scene.images()[3].error()));
    assert_eq!(image.layout().size(0), (side, side));
}

#[test]
fn a_buffer_in_the_head_of_a_binary_scene_is_aligned_wherever_the_head_landed() {
    // A source that lands bytes at odd addresses: the view of a larger buffer.
    let storage = crate::support::storage(Backend::Auto);
    let made = crate::support::make(41, 2, 1, 16);
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scenes");
    std::fs::create_dir(&folder).expect("made");
    for (index, first) in [1, 2, 3].into_iter().enumerate() {
        // Small entries lie one after the other in a package, so the GLBs begin anywhere.
        std::fs::write(folder.join(format!("{index}a")), vec![b'x'; first]).expect("written");
        std::fs::write(folder.join(format!("{index}b.glb")), made.glb()).expect("written");
    }
    let package = base.path().join("scenes.mpak");
    let (items, _) = millstream_pak::walk(&folder, millstream_pak::Links::Refuse);
    millstream_pak::write_file(items, &Default::default(), &package).expect("packed");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&package);
    let file = file.expect("opened");
    file.sync_all().expect("on the disk");
    let opened = millstream_pak::Package::open(&storage, &package).expect("opened");
    let opened: Arc<dyn millstream_source::Source> = Arc::new(opened);
    let loader = loader(&storage, 1 << 30);
    for index in 0..3 {
        // On a file system in memory it stays, and the test shows less.
        let _ = millstream_io::fs::evict(&file);
        let name = format!("{index}b.glb");
        let load = loader.open_from(Arc::clone(&opened), name.as_bytes());
        crate::support::check(&load.expect("found").finish().expect("sound"), &made);
    }
}

/// Finishes a load on the thread of the storage that wakes it.
struct Finish {
    load: Mutex<Option<Load>>,
    sender: Sender<Result<Scene, Error>>,
}

impl Wake for Finish {
    fn wake(self: Arc<Self>) {
        let load = self.load.lock().expect("no panic").take();
        if let Some(load) = load {
            self.sender.send(load.finish()).expect("the test waits");
        }
    }
}

#[test]
fn a_load_that_cannot_be_waited_for_is_no_scene() {
    let storage = crate::support::storage(Backend::Auto);
    let gated = Arc::new(gated());
    let loader = loader(&storage, 1 << 30);
    let mut load = open(&loader, &storage, &gated);
    gated.land(&storage, JSON, 0);
    poll(&mut load);
    assert!(load.scene().is_some());
    let (sender, results) = channel();
    let finish = Arc::new(Finish {
        load: Mutex::new(None),
        sender,
    });
    let waker = Waker::from(Arc::clone(&finish));
    assert!(load.poll(&waker).is_pending());
    *finish.load.lock().expect("no panic") = Some(load);
    // The image does not come.
    gated.open(BUFFER, 0);
    let error = results.recv().expect("the waker was woken");
    let error = error.expect_err("not all has landed");
    assert_eq!((error.kind(), error.file()), (ErrorKind::Read, Some(JSON)));
    assert!(error.cause().contains("a thread of its storage"), "{error}");
}

/// The memory limit is some 37 MiB, a head is in memory, and the model of its JSON takes as much at
/// least.
#[test]
fn a_head_that_is_longer_than_predicted_takes_no_budget_twice() {
    const NAME: &str = "a.glb";
    let glb = |mib: usize| {
        let json = r#"{"asset":{"version":"2.0"}}"#.to_owned() + &" ".repeat(mib << 20);
        crate::support::glb(json.as_bytes(), None)
    };
    let storage = crate::support::storage(Backend::Auto);
    let gated = Gated::new().with(NAME, &glb(14), record(NAME, &glb(13)));
    let gated = Arc::new(gated);
    gated.open(NAME, 0);
    let source = OnStorage(&storage, gated).source();
    let load = crate::support::loader(&storage).open_from(source, NAME.as_bytes());
    let mut load = load.expect("found");
    load.wait();
    assert_eq!(load.progress().batches, 2);
    load.finish().expect("sound");
}
